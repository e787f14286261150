"""Grants that the store keeps: what an access says of them is looked at again in the transaction of every answer and every write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from conformance.answers import accesses, everything_told, filled, grants, names_of, populations, searches
from conformance.conftest import Open
from conformance.worlds import EVERYTHING, memory, seen_from, wanting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.pipeline.storage.entry import Change, Entry, Forgetting, Receipt, Whole, Written
from remit.pipeline.storage.store import Store
from remit.stages.access import Access
from remit.stages.evidence import MemoryId, PassageId
from remit.stages.ports import Wanted
from remit.stages.request import Source

pytestmark = pytest.mark.anyio
several = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

Write = Callable[[Store, Access], Awaitable[Sequence[Receipt]]]

PLAN = MemoryId(Source.FACT, "plan")
ONCE = replace(seen_from(granted=["project:secret"]), kept=True)
"""What ada was granted a moment ago, by a table that has it no more."""


@several
@given(entries=populations, access=accesses, held=st.just(["*"]) | grants, wanted=searches)
async def test_an_access_is_worth_what_is_granted_at_the_moment_of_its_use(
    open_store: Open, entries: list[Entry], access: Access, held: Sequence[str], wanted: Wanted
) -> None:
    async with open_store() as store:
        await filled(store, entries)
        for scope in held:
            await store.grant(access.actor, access.org, scope)
        await store.grant("somebody else", access.org, "*")
        await store.grant(access.actor, "another org", "*")

        told = await everything_told(store, replace(access, kept=True), names_of(entries), wanted)

        assert told == await everything_told(store, access.left(held), names_of(entries), wanted)


async def test_nothing_that_was_revoked_meanwhile_is_shown_by_any_question(store: Store) -> None:
    await store.put([memory("plan", "red plan", scope="project:secret", degrees=0)], EVERYTHING)
    await store.grant("ada", "acme", "project:secret")
    before = await everything_told(store, ONCE, [PassageId(PLAN, 0)], wanting("red", near=0))
    whole = (await store.wholes([PLAN], ONCE), await store.exported(None, 9, ONCE))

    await store.revoke("ada", "acme", "project:secret")

    after = await everything_told(store, ONCE, [PassageId(PLAN, 0)], wanting("red", near=0))
    assert (before["found"]["passages"], after["found"]["passages"]) == ((1, 2), (0, 0))
    assert (len(before["read"]), after["read"]) == (1, {})
    assert (before["vocabulary"], after["vocabulary"]) == (["plan", "red"], [])
    assert (len(whole[0]), len(whole[1])) == (1, 1)
    assert (await store.wholes([PLAN], ONCE), await store.exported(None, 9, ONCE)) == ({}, [])


async def _put(store: Store, access: Access) -> Sequence[Receipt]:
    return await store.put([memory("new", "red", scope="project:secret")], access)


async def _change(store: Store, access: Access) -> Sequence[Receipt]:
    return await store.change([Change(id=PLAN, what=Written.REJECTED)], access)


async def _forget(store: Store, access: Access) -> Sequence[Receipt]:
    return (await store.forget(Forgetting(names=(PLAN,)), access)).receipts


async def _import(store: Store, access: Access) -> Sequence[Receipt]:
    entry = memory("carried", "red", scope="project:secret")
    return await store.imported([Whole(entry=entry, version=1, written_at=access.as_of, past=(), keys=())], access)


@pytest.mark.parametrize("write", [_put, _change, _forget, _import])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "stated by the host"])
async def test_no_write_goes_by_a_grant_that_was_revoked_meanwhile(store: Store, write: Write, kept: bool) -> None:
    """The host's own word is its own affair: in that control the same write is done."""
    await store.put([memory("plan", "red plan", scope="project:secret", degrees=0)], EVERYTHING)
    await store.grant("ada", "acme", "project:secret")
    await store.revoke("ada", "acme", "project:secret")

    receipts = await write(store, replace(ONCE, kept=kept))

    refused = "not_authorised" if write in (_put, _import) else "unknown_memory"
    assert [receipt.code for receipt in receipts] == [refused if kept else None]
    assert [whole.past for whole in await store.exported(None, 9, EVERYTHING)] == [()] or not kept


async def test_all_of_an_org_is_granted_until_it_is_revoked(store: Store) -> None:
    await store.put([memory("plan", "red plan", scope="project:secret")], EVERYTHING)
    every = replace(EVERYTHING, kept=True)
    await store.grant("ada", "acme", "*")
    assert (await store.find(wanting("red"), every)).passages == 1

    await store.grant("ada", "acme", "project:other")
    await store.revoke("ada", "acme", "*")

    assert (await store.find(wanting("red"), every)).passages == 0
