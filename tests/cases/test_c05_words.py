"""C5: words are found whatever script, form or company they stand in, alike on every store. Rules 6 and 7."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories.world import ADA, Item, NewStore, codes, engine_at, ids, taken_in

from remit.pipeline import Doc, Fact, Request
from remit.pipeline.errors import ConfigError

FOUND: dict[str, tuple[str, str]] = {
    "a word inside a Japanese run": ("今月の売上レポート", "売上"),
    "a Korean word with its ending": ("번역을 부탁해", "번역"),
    "a Chinese word of two characters": ("我们昨天讨论了数据库的迁移", "数据库"),
    "a single character": ("猫が好き", "猫"),
    "a natural question": ("deploy restarts crash the queue workers", "why do workers crash right after a deploy"),
    "stop words beside a cue": ("deploy restarts crash the queue workers", "why do the workers crash"),
    "an identifier": ("DEC-0054 approved getUserById for apply_secrets", "DEC-0054"),
    "an identifier in quotes": ("DEC-0054 approved getUserById for apply_secrets", '"DEC-0054"'),
    "the number of an identifier": ("DEC-0054 approved getUserById for apply_secrets", "0054"),
    "a camel-case name": ("DEC-0054 approved getUserById for apply_secrets", "getUserById"),
    "a snake-case name": ("DEC-0054 approved getUserById for apply_secrets", "apply_secrets"),
    "a camel-case name in words": ("DEC-0054 approved getUserById for apply_secrets", "user by id"),
    "composed and decomposed": ("imp\u00f4t sur le revenu", "impo\u0302t"),
    "decomposed and composed": ("impo\u0302t sur le revenu", "imp\u00f4t"),
    "final sigma": ("ΣΑΣ", "σας"),
    "a ligature": ("the ﬁle", "file"),
    "fullwidth digits": ("room ４２", "room 42"),
    "sharp s": ("STRASSE", "straße"),
    "another form of the word": ("the migrations were running", "migration run"),
    "only stop words": ("to be or not to be", "to be or not to be"),
    "C++ is a word": ("written in C++", "c++"),
    "an address": ("see https://example.org/a-b?c=d for more", "https://example.org/a-b?c=d"),
    "a path": ("/etc/nginx/nginx.conf was changed", "nginx.conf"),
    "a version": ("upgraded to v1.2.3", "v1.2.3"),
}


@pytest.mark.parametrize("how", FOUND)
async def test_c5_1_5_6_5_8_5_11_it_is_found(new_store: NewStore, how: str) -> None:
    text, query = FOUND[how]
    others = [Fact(id=f"other-{n}", text=f"quite another matter of the day, number {n + 100}") for n in range(3)]
    async with engine_at(new_store(), Fact(id="it", text=text), *others) as engine:
        answer = await engine.recall(Request(query=query), ADA)

    assert ids(answer)[:1] == ["it"]
    assert answer.data[0].matchedBy in ("lexical", "both")


@pytest.mark.parametrize("query", ["the of and", "what's going on?", "i", "or", "the", "?", "…", "-", '"', "''", "AND", "NOT", "* ( )"])
async def test_c5_2_and_5_3_a_query_of_nothing_but_stop_words_or_marks_is_an_honest_answer(new_store: NewStore, query: str) -> None:
    items = [Fact(id="a", text="deploy restarts crash the queue workers"), Fact(id="b", text="gateway timeouts")]
    async with engine_at(new_store(), *items) as engine:
        answer = await engine.recall(Request(query=query), ADA)

    assert answer.outcome in ("enough", "nothing_found")
    assert set(ids(answer)) <= {"a"}, "b has no word of any of them"
    assert [code for code in codes(answer) if code not in ("no_match", "too_weak")] == []


async def test_c5_6_adding_a_word_never_turns_hits_into_none(new_store: NewStore) -> None:
    query = "why do workers crash right after a deploy"
    async with engine_at(new_store(), Fact(id="it", text="deploy restarts crash the queue workers")) as engine:
        for end in range(3, len(query.split()) + 1):
            answer = await engine.recall(Request(query=" ".join(query.split()[:end])), ADA)
            assert ids(answer) == ["it"]


async def test_c5_7_two_rows_that_share_no_word_are_both_found_and_in_the_order_of_score_then_tie(new_store: NewStore) -> None:
    async with engine_at(new_store(), Fact(id="b", text="ACB report"), Fact(id="a", text="science fair")) as engine:
        answers = [await engine.recall(Request(query=query), ADA) for query in ("science", "ACB", "science ACB", "ACB science")]

    assert [ids(answer) for answer in answers] == [["a"], ["b"], ["a", "b"], ["a", "b"]]


async def test_c5_9_a_document_of_very_many_distinct_words_is_stored_and_found_by_its_first_and_last(new_store: NewStore) -> None:
    doc = Doc(id="huge", text=" ".join(f"w{n:06}x." for n in range(20_000)))
    async with engine_at(new_store(), doc) as engine:
        first = await engine.recall(Request(query="w000000x"), ADA)
        last = await engine.recall(Request(query="w019999x"), ADA)

    assert (ids(first), ids(last)) == (["huge"], ["huge"])


async def test_c5_12_one_nul_loses_neither_its_memory_nor_the_batch(new_store: NewStore) -> None:
    items: list[Item] = [Fact(id="a", text="first note"), Fact(id="b", text="sec\0ond note"), Fact(id="c", text="third note")]
    async with engine_at(new_store()) as engine:
        receipts = await taken_in(engine, items)
        answer = await engine.recall(Request(query="second note"), ADA)

    assert [receipt.written for receipt in receipts] == ["stored"] * 3
    assert "cannot be stored" in receipts[1].detail
    assert answer.data[0].text == "second note"


async def test_c5_14_half_a_character_is_replaced_and_costs_nothing_else(new_store: NewStore) -> None:
    async with engine_at(new_store(), Fact(id="a", text="ok note \ud83d"), Fact(id="b", text="another note")) as engine:
        answer = await engine.recall(Request(query="ok note \ud83d"), ADA)

    assert answer.data[0].text == "ok note \ufffd"


async def test_c5_15_a_store_whose_words_were_made_in_another_language_is_refused_with_what_to_do(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/bound.db"
    async with engine_at(url, Fact(id="a", text="the cat ran")):
        pass
    with pytest.raises(ConfigError, match="remit init"):
        async with engine_at(url, config={"analysis": {"language": "none"}}):
            pass
    async with engine_at(url) as engine:
        answer = await engine.recall(Request(query="the cats running"), ADA)

    assert ids(answer) == ["a"]
