"""Telling of writes, whatever the store: who saw something before is told once a transaction, before anybody has a receipt of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from faults.broken import over
from stories.world import engine_at

from remit.pipeline import Engine, Fact, Principal
from remit.pipeline.errors import StorageUnavailable

ALL = Principal(actor="writer", org="acme", scopes="*")
FACTS = [Fact(id=f"f{n}", text="the deploy key rotates") for n in range(5)]
BY_TWO = {"remember": {"batchItems": 2}}


class Told:
    """A watch that says in a list when it is told that anything may have changed."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def forget_all(self) -> None:
        self._told.append("told")


def watched(engine: Engine) -> tuple[Engine, list[str]]:
    told: list[str] = []
    watch: Any = Told(told)
    return replace(engine, watch=watch), told


async def test_of_what_is_taken_in_each_batch_is_told_once_before_its_first_receipt() -> None:
    async with engine_at("memory:", config=BY_TWO) as opened:
        engine, events = watched(opened)
        async for receipt in engine.remember_stream(FACTS, ALL):
            events.append(receipt.id)

    assert events == ["told", "fact:f0", "fact:f1", "told", "fact:f2", "fact:f3", "told", "fact:f4"]


async def test_of_what_moves_house_each_batch_is_told_once_before_its_first_receipt() -> None:
    async with engine_at("memory:", *FACTS[:3]) as left:
        wholes = [whole async for whole in left.export(ALL)]
    async with engine_at("memory:", config=BY_TWO) as opened:
        engine, events = watched(opened)
        async for receipt in engine.import_stream(wholes, ALL):
            events.append(receipt.id)

    assert events == ["told", "fact:f0", "fact:f1", "told", "fact:f2"]


CHANGES: dict[str, Callable[[Engine], Awaitable[Any]]] = {
    "approve": lambda engine: engine.approve(["fact:f0"], ALL),
    "reject": lambda engine: engine.reject(["fact:f0"], ALL),
    "restore": lambda engine: engine.restore(["fact:f0"], ALL),
    "supersede": lambda engine: engine.supersede("fact:f0", "fact:f1", ALL),
    "dispute": lambda engine: engine.dispute("fact:f0", "fact:f1", ALL),
    "forget": lambda engine: engine.forget(["fact:f0"], ALL),
    "grant": lambda engine: engine.grant("bob", ["project:x"], ALL),
    "revoke": lambda engine: engine.revoke("bob", ["project:x"], ALL),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_every_change_is_told_once(name: str) -> None:
    async with engine_at("memory:", *FACTS[:2]) as opened:
        engine, told = watched(opened)
        await CHANGES[name](engine)

    assert told == ["told"]


async def test_a_write_that_failed_or_was_cancelled_is_told_too_for_it_may_stand() -> None:
    class Failing:
        def __init__(self, store: Any) -> None:
            self.granted = store.granted

        async def put(self, *_: Any) -> Any:
            raise StorageUnavailable("gone")

        async def change(self, *_: Any) -> Any:
            await anyio.sleep_forever()

        async def wholes(self, *_: Any) -> Any:
            return {}

    async with engine_at("memory:") as opened:
        engine, told = watched(over(opened, Failing))
        with pytest.raises(StorageUnavailable):
            await engine.remember(FACTS, ALL)
        assert told == ["told"]
        with anyio.move_on_after(0):
            await engine.reject(["fact:f0"], ALL)

    assert told == ["told", "told"]
