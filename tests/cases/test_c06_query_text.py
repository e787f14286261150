"""C6: what a user types is words, never syntax, and is never lost. Rule 6."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stories.world import ADA, NewStore, balanced, engine_at, ids

from remit.pipeline import Engine, Fact, Request

PAIRS: dict[str, tuple[str, str]] = {
    "C6.1 a hyphen": ("policy POL-358 applies", "POL-358"),
    "C6.2 an apostrophe": ("what's the plan for the harbour", "what's the plan"),
    "C6.2 apostrophes of several kinds": ("l’archive de l'année", "l'archive d’année"),
    "C6.3 a double colon": ("see grammar::fa for it", "grammar::fa"),
    "C6.3 a colon": ("text: hidden", "text:hidden"),
    "C6.4 dots": ("clause 38.101 of the standard", "38.101"),
    "C6.4 a version": ("release v1.2.3 is out", "v1.2.3"),
    "C6.5 a flag in quotes": ("run it with --error-on-warnings", '"--error-on-warnings"'),
    "C6.6 AND": ("run lint AND commit", "AND"),
    "C6.6 OR": ("run lint OR commit", "OR"),
    "C6.6 NOT": ("do NOT commit", "NOT"),
    "C6.6 NEAR": ("somewhere NEAR the office", "NEAR"),
    "a column filter": ("the body of it", "body : it"),
    "brackets": ("array[0] is empty", "array[0]"),
    "a caret and a star": ("x^2 * y", "x^2 * y"),
    "a negation": ("bar foo", "-bar"),
    "parentheses": ("f(x) is odd", "((((f(x)"),
    "a semicolon and a comment": ("robert drop table memories", "Robert'); DROP TABLE memories;--"),
    "a tsquery": ("fat cat rat", "fat & !cat <-> rat:*"),
    "a backslash": (r"C:\Users\ada", r"C:\Users\ada"),
    "a percent sign": ("a discount of 50% on it", "50%"),
    "an unfinished quote": ("the quick fox", '"the quick fox'),
    "a NUL": ("the quick fox", "quick\0fox"),
    "braces": ("${name} and {{name}}", "${name}"),
}


@pytest.mark.parametrize("what", PAIRS)
async def test_c6_it_means_itself(new_store: NewStore, what: str) -> None:
    text, query = PAIRS[what]
    async with engine_at(new_store(), Fact(id="it", text=text), Fact(id="other", text="an unrelated remark")) as engine:
        answer = await engine.recall(Request(query=query), ADA)
        phrase = await engine.recall(Request(query=text, phrases=(query.strip("-\"('"),)), ADA)

    assert (answer.outcome, ids(answer)) == ("enough", ["it"])
    assert phrase.outcome in ("enough", "nothing_found")
    balanced(answer)


async def test_c6_9_more_of_the_words_is_a_better_place(new_store: NewStore) -> None:
    rows = [
        Fact(id="one", text="harbour crane winch zebra"),
        Fact(id="two", text="harbour crane yak xylophone"),
        Fact(id="three", text="harbour lamp yak zebra"),
        Fact(id="four", text="none of them at all here"),
    ]
    every_match = {"embedding": {"provider": "none"}, "recall": {"selection": {"lexicalOfBest": 0.0, "wordsFall": 0.0}}}
    async with engine_at(new_store(), *rows, config=every_match) as engine:
        answer = await engine.recall(Request(query="harbour crane winch"), ADA)

    assert [(card.id, card.ranks["lexical"]) for card in answer.data[:3]] == [("one", 0), ("two", 1), ("three", 2)]


async def test_c6_a_long_ramble_of_a_query_is_answered(new_store: NewStore) -> None:
    async with engine_at(new_store(), Fact(id="it", text="the harbour crane")) as engine:
        for query in (
            "harbour " * 2000,
            "(" * 3000 + "harbour",
            " ".join(f"w{n}" for n in range(2500)) + " harbour",
            "h" * 3000 + " harbour",
        ):
            answer = await engine.recall(Request(query=query[:19_990] if "harbour" in query[:19_990] else query[-19_990:]), ADA)
            assert answer.outcome in ("enough", "nothing_found")
            balanced(answer)


several = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
fragments = st.sampled_from(
    [
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        '"',
        "'",
        "*",
        "(",
        ")",
        "-",
        "^",
        ":",
        "{",
        "}",
        "+",
        "|",
        "&",
        "!",
        "<->",
        "%",
        "_",
        "\\",
        ";--",
        "\0",
        "\ud800",
        "harbour",
        " ",
    ]
)


@several
@given(query=st.lists(fragments | st.text(max_size=5), min_size=1, max_size=8).map("".join).map(lambda text: text + " crane"))
async def test_c6_any_text_is_an_answer_and_never_an_error(new_store: NewStore, query: str) -> None:
    async with engine_at(new_store(), Fact(id="it", text="the crane"), Fact(id="hidden", text="the crane", scope="project:beta")) as engine:
        answer = await asked(engine, query)

    assert answer[0] in ("enough", "nothing_found")
    assert set(answer[1]) <= {"it"}


async def asked(engine: Engine, query: str) -> tuple[str, list[str]]:
    plain = await engine.recall(Request(query=query), ADA)
    phrase = await engine.recall(Request(query="crane", phrases=(query,)), ADA)
    assert phrase.outcome in ("enough", "nothing_found")
    return plain.outcome.value, ids(plain) + ids(phrase)
