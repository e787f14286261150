"""A grant that is revoked after the authority was asked and before the store is: nothing goes by it any more. C19.3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from stories.world import NewStore, engine_at, ids

from remit.pipeline import Engine, Fact, Principal, Request
from remit.pipeline.authority import Authority, FromStore
from remit.pipeline.storage.store import Store

EVE = Principal(actor="eve", org="acme")
SECRET = Fact(id="plan", text="the acquisition plan", scope="project:secret")
PUBLIC = Fact(id="note", text="the acquisition note")
BY_STORE = {"authority": {"grants": "store"}}


class RevokedBehind(FromStore):
    """The store's own authority, and somebody who revokes the grant in the moment after its last answer."""

    def __init__(self, store: Store, answers: int) -> None:
        super().__init__(store)
        self._revoking, self._answers = store, answers

    async def resolve(self, principal: Principal) -> Principal:
        resolved = await super().resolve(principal)
        self._answers -= 1
        if self._answers == 0:
            await self._revoking.revoke(principal.actor, principal.org, "project:secret")
        return resolved


class HostsOwn:
    """The same as a host might write it, who asks the table and has the last word: the control."""

    def __init__(self, store: Store, answers: int) -> None:
        self._inner = RevokedBehind(store, answers)

    async def resolve(self, principal: Principal) -> Principal:
        return await self._inner.resolve(principal)


async def granted(engine: Engine, authority: Callable[[Store, int], Authority], *, until: int) -> Engine:
    """The engine whose eve is granted the secret project, until the authority has said so for the last time."""
    await engine.store.grant("eve", "acme", "project:secret")
    return replace(engine, authority=authority(engine.store, until))


@pytest.mark.parametrize("authority, shown", [(RevokedBehind, ["note"]), (HostsOwn, ["note", "plan"])], ids=["the store's", "a host's"])
async def test_a_recall_finds_nothing_by_a_grant_that_was_revoked_after_it_was_looked_up(
    new_store: NewStore, authority: Callable[[Store, int], Authority], shown: list[str]
) -> None:
    async with engine_at(new_store(), SECRET, PUBLIC) as engine:
        answer = await (await granted(engine, authority, until=1)).recall(Request(query="acquisition"), EVE)

    assert (answer.outcome, sorted(ids(answer))) == ("enough", shown)
    assert answer.meta.by_source["fact"].matched == len(shown)


@pytest.mark.parametrize("authority, code", [(RevokedBehind, "not_authorised"), (HostsOwn, None)], ids=["the store's", "a host's"])
async def test_a_write_is_refused_by_a_grant_that_was_revoked_after_it_was_looked_up(
    new_store: NewStore, authority: Callable[[Store, int], Authority], code: str | None
) -> None:
    async with engine_at(new_store()) as engine:
        receipts = await (await granted(engine, authority, until=2)).remember([SECRET, PUBLIC], EVE)

    assert [receipt.code for receipt in receipts] == [code, None]


async def test_a_grant_of_everything_is_a_grant_of_every_scope(new_store: NewStore) -> None:
    async with engine_at(new_store(), config=BY_STORE) as engine:
        assert [receipt.code for receipt in await engine.remember([SECRET], EVE)] == ["not_authorised"]
        assert await engine.grant("eve", ["*"], EVE) == ["*"]
        assert [receipt.code for receipt in await engine.remember([SECRET], EVE)] == [None]
        before = await engine.recall(Request(query="acquisition"), EVE)
        assert await engine.revoke("eve", ["*"], EVE) == []
        after = await engine.recall(Request(query="acquisition"), EVE)

    assert (ids(before), ids(after)) == (["plan"], [])
