"""C13: a lane that is missing is said, and nonsense finds nothing. Rules 11 and 12; what a failing provider does is in faults/."""

from __future__ import annotations

import random

import pytest
from stories.world import ADA, NewStore, codes, engine_at, ids

from remit.pipeline import Fact, Request

ROWS = [
    Fact(id="a", text="The deploy key rotates every month."),
    Fact(id="b", text="Queue workers crash after a deploy."),
    Fact(id="c", text="Gateway timeouts are doubled on Fridays."),
]


@pytest.mark.parametrize("query", ["blarghnizophorpquix", "zzyzx qwertzuiop", "東京タワー", "what is the airspeed of an unladen swallow"])
@pytest.mark.parametrize("copies", [1, 40])
async def test_c13_14_a_question_that_the_memory_knows_nothing_about_is_nothing_found(new_store: NewStore, query: str, copies: int) -> None:
    rows = [Fact(id=f"{row.id}{n}", text=f"{row.text} Case {n}.") for row in ROWS for n in range(copies)]
    async with engine_at(new_store(), *rows) as engine:
        answer = await engine.recall(Request(query=query), ADA)

    assert (answer.outcome, ids(answer)) == ("nothing_found", [])
    assert set(codes(answer)) <= {"no_match", "too_weak"}


@pytest.mark.parametrize("seed", range(3))
async def test_c13_14_no_accident_of_a_hash_answers_nonsense(new_store: NewStore, seed: int) -> None:
    letters = random.Random(seed)
    rows = [Fact(id=f"f{n}", text=f"note {n} of word{n % 97} and word{n % 89}x on page{n % 71}") for n in range(300)]
    async with engine_at(new_store(), *rows) as engine:
        for _ in range(10):
            nonsense = "".join(letters.choices("bcdfgklmnprstvzxqw", k=13))
            answer = await engine.recall(Request(query=nonsense), ADA)
            assert (answer.outcome, ids(answer)) == ("nothing_found", [])


async def test_c13_14_commonplace_words_beside_an_unknown_one_do_not_answer_it(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ROWS, config={"embedding": {"provider": "none"}}) as engine:
        answer = await engine.recall(Request(query="when does the blarghnizophor phlogiston transmogrify a deploy"), ADA)

    assert (answer.outcome, ids(answer)) == ("nothing_found", [])


async def test_c13_9_without_vectors_the_words_answer_and_the_mode_says_so(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ROWS, config={"embedding": {"provider": "none"}}) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert answer.outcome == "enough"
    assert {card.matchedBy for card in answer.data} == {"lexical"}
    assert answer.meta.mode.degraded == ["embeddings_off"]
    assert "local.exact" not in answer.meta.mode.routes


async def test_c13_10_the_local_hash_is_called_by_its_name_and_never_semantic(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ROWS) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert answer.meta.mode.embedding["local"]["space"].startswith("local-feature-hash-v1")
    assert answer.meta.mode.embedding["semantic"] == {"space": None, "coverage": None, "state": "not_configured"}
    assert all("semantic" not in str(value) for value in (answer.meta.mode.routes, answer.data[0].ranks, answer.data[0].matchedBy))


@pytest.mark.parametrize("typo, meant", [("deplyo", "deploy"), ("gatewya", "gateway"), ("timeuots", "timeout"), ("workrs", "worker")])
async def test_a_typing_error_finds_the_callers_own_near_word_and_says_so(new_store: NewStore, typo: str, meant: str) -> None:
    async with engine_at(new_store(), *ROWS) as engine:
        answer = await engine.recall(Request(query=typo), ADA)

    assert answer.outcome == "enough"
    assert list(answer.meta.mode.near) == [typo]
    assert "near_words" in answer.meta.mode.degraded
    assert answer.meta.mode.near[typo] == [meant]


async def test_nobody_elses_words_are_near(new_store: NewStore) -> None:
    hidden = [Fact(id="h1", text="the zanzibar project", scope="project:beta"), Fact(id="h2", text="the zanzibar project", org="rival")]
    proposed = Fact(id="h3", text="the zanzibar project", approval="proposed")
    async with engine_at(new_store(), *ROWS, *hidden, proposed) as engine:
        answer = await engine.recall(Request(query="zanzibra"), ADA)

    assert (answer.outcome, answer.meta.mode.near) == ("nothing_found", {})


async def test_the_beginning_of_a_word_is_not_taken_for_it(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ROWS) as engine:
        answer = await engine.recall(Request(query="gatew"), ADA)

    assert answer.meta.mode.near == {}


async def test_another_name_finds_its_memory_whole_and_its_pieces_do_not(new_store: NewStore) -> None:
    named = Fact(id="it", text="The night deploy is run by Ada.", aliases=("Operation Blue Heron",))
    async with engine_at(new_store(), *ROWS, named) as engine:
        whole = await engine.recall(Request(query="who runs operation blue heron?"), ADA)
        piece = await engine.recall(Request(query="a heron"), ADA)

    assert ids(whole)[:1] == ["it"]
    assert ids(piece) == []
