"""Named SQL blocks, and the rule that every statement over the data of an org says which org."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.pipeline.storage import queries, sqlite

FILE = Path(sqlite.__file__).parent / "queries.sql"

NO_ORGS_DATA = {
    # the host's own: no memory of anybody
    *("setting", "set", "applied", "add_migration", "last_keys"),
    # what `remit doctor` counts over the whole store
    *("missing_postings", "orphan_postings", "missing_vectors", "orphan_vectors", "missing_phrases", "orphan_phrases", "orphan_past"),
    # what is left of deleted words in the file goes for all orgs together
    "merge_phrases",
    *("miscounted_shelves", "miscounted_vectors", "miscounted_words", "check_phrases"),
}
BY_NUMBER = {
    # the phrase index knows no org but in its words: written under the number of a passage, found by the org's own word
    "drop_phrases": "rowid = ?1",
    # rows in bulk: their first value is the org
    **dict.fromkeys(("add_passage", "add_posting", "add_vector", "add_phrases", "add_tag", "use_word", "count_vectors"), "org"),
    **dict.fromkeys(("add_loan", "add_memory"), "org"),
    **dict.fromkeys(("drop_posting", "drop_vector", "forget_word", "set_spaces", "end_loan"), "org = ?1"),
    **dict.fromkeys(("mark_posting", "mark_vector", "drop_receipt"), "org = ?1"),
    **dict.fromkeys(("add_derived", "add_tombstone"), "org"),
}


def test_blocks_are_a_name_a_sentence_and_a_statement() -> None:
    text = "-- heading of the file.\n\n-- one\n-- What it is for.\nSELECT 1\n-- and why\nFROM t;\n\n-- two\n-- Another.\nSELECT 2"

    assert queries.parsed(text) == {"one": "SELECT 1\nFROM t", "two": "SELECT 2"}


@pytest.mark.parametrize(
    "text",
    ["-- one\nSELECT 1;", "-- one\n-- Nothing follows.", "-- one\n-- First.\nSELECT 1;\n-- one\n-- Again.\nSELECT 2;"],
    ids=["no sentence", "no statement", "a name twice"],
)
def test_a_malformed_file_is_refused(text: str) -> None:
    with pytest.raises(queries.Malformed, match="one"):
        queries.parsed(text)


def unscoped(statements: dict[str, str]) -> set[str]:
    """Statements over the data of an org that do not say which."""
    said = {name: ":org" in statement or BY_NUMBER.get(name, ":org") in statement for name, statement in statements.items()}
    return {name for name, so in said.items() if not so} - NO_ORGS_DATA


def test_every_statement_over_an_orgs_data_says_which_org() -> None:
    statements = dict(queries.load(FILE))

    assert unscoped(statements) == set()
    assert (NO_ORGS_DATA | BY_NUMBER.keys()) <= statements.keys(), "the exceptions are all still there"


def test_a_statement_without_an_org_would_be_noticed() -> None:
    assert unscoped({"leak": "SELECT text FROM memory WHERE shelf IN (SELECT value FROM json_each(:shelves))"}) == {"leak"}


READS = ["find_words", "find_words_on_many", "count_words", "count_words_on_many", "dead", "vectors_on_shelves", "every_vector"]
READS += [
    "find_all_words",
    "find_all_words_on_many",
    "every_eligible_vector",
    "nearest_vectors",
    "nearest_eligible_vectors",
    "eligible",
    "eligible_by_phrase",
    "outlines",
    "vocabulary",
]
READS += ["read", "passages_of", "brief_facts", "brief_sessions", "passages_in_their_time"]


@pytest.mark.parametrize("name", READS)
def test_every_reading_statement_stays_on_the_shelves_in_reach(name: str) -> None:
    statement = queries.load(FILE)[name]

    assert statement.count("IN (SELECT value FROM json_each(:shelves))") >= 1
    assert statement.count("org = :org") >= statement.count("json_each(:shelves)")
