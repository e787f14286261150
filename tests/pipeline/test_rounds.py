"""Rounds: what a recall of several searches may do is bounded as a whole, and what it did is told as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from faults.broken import over
from hypothesis import given, settings
from hypothesis import strategies as st
from stories.world import ADA, balanced, engine_at, entry, ids

from remit.pipeline import Fact, Memory, Origin, Request, Session, Verdict

MOST_ROUNDS = 4
small = st.integers(0, 6)


class Counting:
    """A store that counts how often it is searched."""

    def __init__(self, store: Any) -> None:
        self._store, self.searches = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def find(self, wanted: Any, access: Any) -> Any:
        self.searches += 1
        return await self._store.find(wanted, access)


@settings(max_examples=60)
@given(
    stale=st.lists(st.booleans(), min_size=1, max_size=24),
    items=st.integers(1, 5),
    rounds=st.integers(1, MOST_ROUNDS),
    ceilings=st.fixed_dictionaries({"dedupe": small, "rank": small, "verify": small}),
    limit=st.integers(1, 8),
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_ceilings_hold_over_all_rounds_together(
    stale: list[bool], items: int, rounds: int, ceilings: dict[str, int], limit: int
) -> None:
    looks = Counter[str]()

    async def crm(memory: Memory, _access: object) -> Verdict:
        looks[memory.id.id] += 1
        return Verdict.CHANGED if stale[int(memory.id.id[1:])] else Verdict.FRESH

    kinds = (Fact, Session)
    memories = [kinds[n % 2](id=f"m{n:02}", text=f"the harbour crane {n}", origin=Origin(uri=f"crm:{n}")) for n in range(len(stale))]
    config = {"recall": {"profiles": {"memory": {"verify": {"rounds": MOST_ROUNDS}}}}}
    stated = {stage: {"items": most} for stage, most in ceilings.items()} | {"generate": {"items": items}}
    stated["verify"] |= {"rounds": rounds}
    async with engine_at("memory:", *memories, config=config, checkers={"crm": crm}) as engine:
        counting = Counting(engine.store)
        answer = await over(engine, lambda _: counting).recall(Request(query="harbour crane", limit=limit, ceilings=stated), ADA)

    generate, dedupe, rank = (entry(answer, stage) for stage in ("generate", "dedupe", "rank"))
    lanes_and_sources = 2 * 2
    assert counting.searches <= rounds
    assert generate.ceiling["items"] == items * counting.searches
    assert generate.returned <= generate.ceiling["items"] * lanes_and_sources
    assert dedupe.returned <= ceilings["dedupe"]
    assert rank.received - rank.rejected.get("over_ceiling", 0) <= ceilings["rank"]
    assert looks.total() <= ceilings["verify"]
    assert set(looks.values()) <= {1}, "no source is looked at twice"
    assert len(set(ids(answer))) == len(answer.data) <= limit
    assert answer.outcome != "nothing_found" or all(stale)
    balanced(answer)
