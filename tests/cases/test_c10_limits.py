"""C10: limits, shares and growing pages are exact. Rule 8."""

from __future__ import annotations

from typing import Any

import pytest
from stories.world import ADA, Item, NewStore, balanced, engine_at, entry, ids

from remit.pipeline import Doc, Fact, Request, Session
from remit.pipeline.errors import ConfigError, InvalidRequest

TEXT = "the deploy failed"
QUERY = "deploy failed"


def of_each(count: int) -> list[Item]:
    items: list[Item] = []
    for n in range(count):
        items += [Fact(id=f"f{n:03}", text=TEXT), Session(id=f"s{n:03}", text=TEXT), Doc(id=f"d{n:03}", text=TEXT)]
    return items


@pytest.mark.parametrize("limit", [0, -1, -100, 2.5, True, "5", float("nan"), 10**30, 501])
async def test_c10_1_a_limit_that_is_none_is_refused(new_store: NewStore, limit: Any) -> None:
    async with engine_at(new_store()) as engine:
        with pytest.raises(InvalidRequest, match="limit"):
            await engine.recall(Request(query=QUERY, limit=limit), ADA)


async def test_c10_2_growing_limits_only_add_and_never_repeat_or_skip(new_store: NewStore) -> None:
    tied = [Session(id=f"s{n:03}", text=TEXT, ended_at="2026-11-30T12:00:00Z") for n in range(250)]
    pages: list[list[str]] = []
    async with engine_at(new_store(), *tied) as engine:
        for limit in (20, 40, 60, 250):
            answer = await engine.recall(Request(query=QUERY, limit=limit, sources=("session",)), ADA)
            pages.append(ids(answer))

    assert pages[-1] == [f"s{n:03}" for n in range(250)]
    assert all(page == pages[-1][: len(page)] for page in pages)
    assert [len(page) for page in pages] == [20, 40, 60, 250]


async def test_c10_4_a_crowd_of_facts_does_not_keep_the_documents_from_being_asked(new_store: NewStore) -> None:
    items = [*(Fact(id=f"f{n}", text=TEXT, importance=1.0) for n in range(30)), *(Doc(id=f"d{n}", text=TEXT) for n in range(3))]
    async with engine_at(new_store(), *items) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=20), ADA)

    assert [name for name in sorted(ids(answer)) if name.startswith("d")] == ["d0", "d1", "d2"]
    assert answer.meta.by_source == {
        "fact": {"returned": 5, "matched": 30},
        "session": {"returned": 0, "matched": 0},
        "doc": {"returned": 3, "matched": 3},
    }


@pytest.mark.parametrize("limit, facts, sessions", [(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 2), (5, 1, 2), (10, 2, 5), (20, 5, 10)])
async def test_c10_5_shares_are_rounded_down_and_never_to_nothing(new_store: NewStore, limit: int, facts: int, sessions: int) -> None:
    items = [item for item in of_each(25) if not isinstance(item, Doc)]
    async with engine_at(new_store(), *items) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=limit), ADA)

    by_source = {source: counts["returned"] for source, counts in answer.meta.by_source.items()}
    assert by_source["fact"] <= facts
    assert by_source["session"] <= sessions
    assert sum(by_source.values()) == min(limit, facts + sessions)
    balanced(answer)


async def test_c10_5_every_source_may_fill_its_share_and_no_more(new_store: NewStore) -> None:
    async with engine_at(new_store(), *of_each(25)) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=20), ADA)

    returned = {source: counts["returned"] for source, counts in answer.meta.by_source.items()}
    assert sum(returned.values()) == 20
    assert returned["fact"] <= 5
    assert returned["session"] <= 10
    assert answer.meta.truncated
    assert sum(entry(answer, "verify").rejected.values()) == 75 - 20


@pytest.mark.parametrize("source", ["fact", "session", "doc"])
async def test_c10_5_a_recall_of_one_source_is_not_capped(new_store: NewStore, source: str) -> None:
    async with engine_at(new_store(), *of_each(25)) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=20, sources=(source,)), ADA)

    assert len(ids(answer)) == 20


async def test_c10_5_a_share_of_one_switches_it_off(new_store: NewStore) -> None:
    level = {"recall": {"laneShare": {"fact": 1.0}, "boosts": {"factImportance": 9.0}}}
    items = [*(Fact(id=f"f{n:02}", text=TEXT, importance=1.0) for n in range(25)), *of_each(3)]
    async with engine_at(new_store(), *items, config=level) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=20), ADA)

    assert answer.meta.by_source["fact"]["returned"] == 20


@pytest.mark.parametrize("share", [0, -1, 2, float("nan"), "0.5"])
async def test_c10_5_a_share_that_is_none_is_refused_when_the_config_is_read(new_store: NewStore, share: Any) -> None:
    with pytest.raises(ConfigError, match=r"laneShare\.fact"):
        async with engine_at(new_store(), config={"recall": {"laneShare": {"fact": share}}}):
            pass


async def test_stale_memories_take_no_place_of_a_share(new_store: NewStore) -> None:
    from remit.pipeline import Memory, Origin, Verdict

    async def crm(memory: Memory, _access: object) -> Verdict:
        return Verdict.CHANGED if memory.id.id < "f010" else Verdict.FRESH

    facts = [Fact(id=f"f{n:03}", text=TEXT, origin=Origin(uri="crm:1")) for n in range(15)]
    async with engine_at(new_store(), *facts, Session(id="s", text=TEXT), checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=20), ADA)

    assert [name for name in sorted(ids(answer)) if name.startswith("f")] == [f"f{n:03}" for n in range(10, 15)]
