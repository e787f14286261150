"""C1: a search inside a scope finds what stands there, however much nearer or however many others stand outside. Rules 1 and 12."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from stories.world import ADA, NOW, NewStore, bytes_of, engine_at, entry, ids

from remit.pipeline import Doc, Fact, Request, Session, TagFilter

QUERY = "queue worker deploy timeout"
NEAR = "queue worker deploy timeout"
FAR = "queue worker deploy timeout of the northern gateway in the third week"
BOTH_LANES: dict[str, Any] = {"recall": {"selection": {"chance": {"local": 0.0}}}}


def foreign(count: int) -> list[Fact]:
    return [
        Fact(id=f"t2-{n}", text=NEAR, org="rival" if n % 2 else None, scope="global" if n % 2 else "project:beta") for n in range(count)
    ]


async def test_c1_1_five_own_far_away_among_many_foreign_near_ones_are_exactly_the_five(new_store: NewStore) -> None:
    own = [Fact(id=f"t1-{n}", text=FAR) for n in range(5)]
    async with engine_at(new_store(), *foreign(400), *own, config=BOTH_LANES) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=10, sources=("fact",)), ADA)

    assert (answer.outcome, ids(answer)) == ("enough", [f"t1-{n}" for n in range(5)])
    assert {card.matchedBy for card in answer.data} == {"both"}
    assert (entry(answer, "generate").received, entry(answer, "dedupe").returned) == (10, 5)


@pytest.mark.parametrize("limit", [50, 500])
async def test_c1_3_a_limit_of_own_rows_is_filled(new_store: NewStore, limit: int) -> None:
    own = [Doc(id=f"t1-{n}", text=NEAR) for n in range(600)]
    async with engine_at(new_store(), *own, config=BOTH_LANES) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=limit, sources=("doc",)), ADA)

    assert (answer.outcome, len(set(ids(answer)))) == ("enough", limit)


async def test_c1_5_a_thousand_foreign_rows_change_no_byte(new_store: NewStore) -> None:
    own = [Fact(id=f"t1-{n}", text=f"{FAR} number {n}") for n in range(20)]
    async with engine_at(new_store(), *own, config=BOTH_LANES) as engine:
        before = bytes_of(await engine.recall(Request(query=QUERY), ADA))
    async with engine_at(new_store(), *foreign(500), *own, *foreign(1000)[500:], config=BOTH_LANES) as engine:
        after = bytes_of(await engine.recall(Request(query=QUERY), ADA))

    assert after == before


async def test_c1_8_a_text_without_words_is_in_no_lane_and_costs_no_other_its_place(new_store: NewStore) -> None:
    items = [
        Fact(id="a", text="queue worker"),
        Fact(id="b", text="queue worker deploy"),
        Fact(id="empty", text="…!?"),
        Fact(id="c", text="*"),
    ]
    async with engine_at(new_store(), *items, config=BOTH_LANES) as engine:
        answer = await engine.recall(Request(query="queue worker"), ADA)
        marks = await engine.recall(Request(query="…!?"), ADA)

    assert ids(answer) == ["a", "b"]
    assert (marks.outcome, marks.data) == ("nothing_found", [])


@pytest.mark.parametrize("how", ["another org", "expired", "superseded", "out of the window", "tagged"])
async def test_c1_11_nearer_rows_that_a_filter_leaves_out_cost_the_others_nothing(new_store: NewStore, how: str) -> None:
    excluded: dict[str, dict[str, Any]] = {
        "another org": {"org": "rival"},
        "expired": {"expires_at": NOW},
        "superseded": {},
        "out of the window": {"created_at": NOW - timedelta(days=9)},
        "tagged": {"tags": ("x",)},
    }
    near = [Fact(id=f"near-{n}", text=NEAR, **excluded[how]) for n in range(300)]
    newer = [Fact(id="newer", text="unrelated", supersedes=tuple(f"fact:{fact.id}" for fact in near))] if how == "superseded" else []
    own = [Fact(id=f"own-{n}", text=FAR) for n in range(3)]
    request = Request(
        query=QUERY,
        limit=10,
        sources=("fact",),
        created_from=NOW - timedelta(days=1) if how == "out of the window" else None,
        tags=TagFilter(none=("x",)) if how == "tagged" else TagFilter(),
        ceilings={"generate": {"items": 10}},
    )
    async with engine_at(new_store(), *near, *newer, *own, config=BOTH_LANES) as engine:
        answer = await engine.recall(request, ADA)

    assert (answer.outcome, ids(answer)) == ("enough", ["own-0", "own-1", "own-2"])
    assert {card.matchedBy for card in answer.data} == {"both"}


async def test_c1_11_leaving_out_gives_the_same_as_asking_for_the_rest(new_store: NewStore) -> None:
    items = [Fact(id=f"{'xyz'[n % 3]}-{n}", text=NEAR, tags=("xyz"[n % 3],)) for n in range(90)]
    async with engine_at(new_store(), *items, config=BOTH_LANES) as engine:
        without = await engine.recall(Request(query=QUERY, limit=40, sources=("fact",), tags=TagFilter(none=("x", "y"))), ADA)
        wanted = await engine.recall(Request(query=QUERY, limit=40, sources=("fact",), tags=TagFilter(any=("z",))), ADA)

    assert without.data == wanted.data
    assert len(without.data) == 30


async def test_c1_12_more_own_chunks_than_any_database_limit_on_k_are_searched(new_store: NewStore) -> None:
    chunks = "\n\n".join(f"# Part {n}\n\nThe queue worker of part {n} has a deploy timeout." for n in range(4200))
    config = {**BOTH_LANES, "chunking": {"tokens": 16}}
    async with engine_at(new_store(), Doc(id="huge", text=chunks), Session(id="s", text=NEAR), config=config) as engine:
        answer = await engine.recall(Request(query=QUERY), ADA)

    assert answer.meta.mode.routes["local.exact"] == "ran"
    assert answer.meta.mode.embedding["local"].coverage == 1.0
    assert sorted(ids(answer)) == ["huge", "s"]
    assert {card.matchedBy for card in answer.data} == {"both"}
