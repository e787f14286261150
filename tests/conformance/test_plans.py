"""How the databases go about the statements of a search: by an index, and within the org that asks."""

from __future__ import annotations

import pytest
from conformance.answers import filled
from conformance.worlds import memory

from remit.pipeline.storage.memory import MemoryStore
from remit.pipeline.storage.store import Bound, Plan, Store

pytestmark = pytest.mark.anyio

SCANNED = {"shelf", "passage", "posting", "memory", "vocabulary"}


async def planned(store: Store) -> dict[str, Plan]:
    await filled(store, [memory("one", "the word xyzzy", org="acme", scope="project:plugh")])
    return {plan.statement: plan for plan in await store.plans()}


async def test_every_statement_of_a_search_goes_by_an_index_and_within_the_org(store: Store) -> None:
    plans = await planned(store)
    scans = [(plan.statement, scan) for plan in plans.values() for scan in plan.scans]

    assert [(name, scan) for name, scan in scans if scan.index is None or scan.within is Bound.NOTHING] == []
    if not isinstance(store, MemoryStore):
        assert [name for name, plan in plans.items() if not plan.scans] == []
        assert {scan.table for _, scan in scans} >= SCANNED
        assert {"find_words", "outlines", "vocabulary", "read", "around", "eligible"} <= plans.keys()


async def test_a_plan_tells_nothing_of_what_is_stored(store: Store) -> None:
    told = " ".join(plan.text for plan in (await planned(store)).values())
    assert [word for word in ("xyzzy", "plugh", "acme", "cost=", "rows=") if word in told] == []
