"""A recall may be cancelled wherever it waits: the cancellation arrives, nothing is left behind, and the engine works on."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
import sniffio
import trio
from stories.world import ADA, NewStore, bytes_of, engine_at

from remit.pipeline import Doc, Engine, Fact, Memory, Origin, Request, Verdict
from remit.stages.evidence import Lane

REQUEST = Request(query="deplyo key rotates", ceilings={"generate": {"items": 2}})
"""Near words, two rounds, a checker and files: as many places to wait at as a recall has."""


class Interrupting:
    """Awaits something, and calls `interrupt` when it waits for the `at`-th time; `waits` counts how often it did."""

    def __init__(self, awaited: Awaitable[Any], at: int, interrupt: Callable[[], Any]) -> None:
        self._steps = awaited.__await__()
        self._at, self._interrupt = at, interrupt
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = lambda: self._steps.send(None)  # noqa: E731 - the next step is what the loop last said
        while True:
            try:
                waiting_for = step()
            except StopIteration as done:
                return done.value
            self.waits += 1
            if self.waits == self._at:
                self._interrupt()
            try:
                value = yield waiting_for
                step = lambda value=value: self._steps.send(value)  # noqa: E731
            except BaseException as error:  # noqa: BLE001 - passed on to what is awaited
                step = lambda error=error: self._steps.throw(error)  # noqa: E731


def tasks_alive() -> int:
    """Tasks of the event loop that were not ended."""
    if sniffio.current_async_library() == "trio":
        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


async def crm(memory: Memory, _access: object) -> Verdict:
    await anyio.lowlevel.checkpoint()
    return Verdict.CHANGED if memory.id.id < "f2" else Verdict.FRESH


def items(folder: Path) -> list[Fact | Doc]:
    file = folder / "note.md"
    file.write_text("the deploy key rotates")
    origin = Origin(uri=file.as_uri(), sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    facts = [Fact(id=f"f{n}", text="the deploy key rotates", origin=Origin(uri=f"crm:{n}")) for n in range(4)]
    return [*facts, Doc(id="note", text="the deploy key rotates", origin=origin)]


async def test_a_recall_cancelled_at_any_of_its_awaits_is_cancelled_and_leaves_nothing_behind(new_store: NewStore, tmp_path: Path) -> None:
    config = {"freshness": {"roots": [str(tmp_path)]}, "recall": {"crews": {"generate": 1, "rank": 1, "verify": 1, "pack": 1, "perOrg": 1}}}
    async with engine_at(new_store(), *items(tmp_path), config=config, checkers={"crm": crm}) as engine:
        whole = await engine.recall(REQUEST, ADA)
        assert [card.id for card in whole.data] == ["note", "f2", "f3"]
        alive = tasks_alive()
        at = 0
        while True:
            at += 1
            arrived, waits = await cancelled_at(at, engine)
            assert arrived == (waits >= at), f"await {at} swallowed the cancellation"
            assert tasks_alive() == alive, f"a task was left behind at await {at}"
            assert bytes_of(await engine.recall(REQUEST, ADA)) == bytes_of(whole), f"not the same engine after await {at}"
            if waits < at:
                break
        assert at > 1


async def cancelled_at(at: int, engine: Engine) -> tuple[bool, int]:
    """Cancels a recall at one of its awaits, if it has as many: whether the cancellation arrived, and how often it waited."""
    with anyio.CancelScope() as scope:
        running = Interrupting(engine.recall(REQUEST, ADA), at, scope.cancel)
        await running
        if running.waits >= at:
            await anyio.lowlevel.checkpoint()  # the last of its awaits may be one that may not be cut short
    return scope.cancelled_caught, running.waits


@pytest.mark.parametrize("part", ["check", "embed", "count", "resolve"])
async def test_a_recall_cancelled_from_within_a_part_of_the_host_is_cancelled(new_store: NewStore, part: str) -> None:
    scope = anyio.CancelScope()

    armed = False

    async def cancelling(name: str) -> None:
        if name == part and armed:
            scope.cancel()
            await anyio.sleep_forever()

    async def check(_memory: Memory, _access: object) -> Verdict:
        await cancelling("check")
        return Verdict.FRESH

    async def count(text: str) -> int:
        await cancelling("count")
        return len(text)

    class Authority:
        async def resolve(self, principal: Any) -> Any:
            await cancelling("resolve")
            return principal

    class Embedder:
        lane, space, dimensions = Lane.SEMANTIC, "axes/1", 1

        async def embed(self, texts: Any) -> Any:
            await cancelling("embed")
            return np.ones((len(texts), 1), dtype=np.float32)

    fact = Fact(id="key", text="the deploy key rotates", origin=Origin(uri="crm:7"))
    parts: dict[str, Any] = {"checkers": {"crm": check}, "counter": count, "authority": Authority(), "embedder": Embedder()}
    async with engine_at(new_store(), fact, **parts) as engine:
        whole = await engine.recall(REQUEST, ADA)
        armed = True
        with scope:
            await engine.recall(REQUEST, ADA)
        armed = False
        again = await engine.recall(REQUEST, ADA)

    assert scope.cancelled_caught
    assert bytes_of(again) == bytes_of(whole)


async def test_a_storm_of_cancelled_recalls_takes_no_place_away(new_store: NewStore) -> None:
    config = {"recall": {"crews": {"generate": 2, "rank": 1, "verify": 2, "pack": 1, "perOrg": 3}}}
    facts = [Fact(id=f"f{n}", text="the deploy key rotates", origin=Origin(uri=f"crm:{n}")) for n in range(4)]
    async with engine_at(new_store(), *facts, config=config, checkers={"crm": crm}) as engine:
        whole = bytes_of(await engine.recall(REQUEST, ADA))
        alive = tasks_alive()

        async def one(at: int) -> None:
            with anyio.CancelScope() as scope:
                await Interrupting(engine.recall(REQUEST, ADA), at, scope.cancel)

        async with anyio.create_task_group() as tasks:
            for n in range(60):
                tasks.start_soon(one, 1 + n % 7)

        assert tasks_alive() == alive
        answers: list[str] = []

        async def asked() -> None:
            answers.append(bytes_of(await engine.recall(REQUEST, ADA)))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(asked)

    assert answers == [whole] * 8
