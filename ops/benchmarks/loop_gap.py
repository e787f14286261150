"""How long the event loop is held while SQLite, a tokenizer or an embedding works: the largest gap a ticking task sees."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
from corpus import memories, questions, texts
from sqlite_recall import made

from remit.pipeline import Doc, Fact, Principal, Request, open_engine

TICK = 0.001


@asynccontextmanager
async def ticking() -> AsyncIterator[list[float]]:
    """Collects how much later than asked each tick came, in seconds."""
    late: list[float] = [0.0]

    async def tick() -> None:
        while True:
            began = perf_counter()
            await anyio.sleep(TICK)
            late.append(perf_counter() - began - TICK)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        yield late
        tasks.cancel_scope.cancel()


async def largest_gaps(folder: Path) -> list[dict[str, Any]]:
    """The largest gaps of recalls over a large own scope, of taking in many small and one large document, and of a long context."""
    path = await made(folder / "loop-1x30000.db", 1, 30_000)
    principal = Principal(actor="bench", org="org0", scopes="*")
    async with ticking() as late:
        await anyio.sleep(3)
    rows = [told("nothing at all: the machine's own gaps", late)]
    async with open_engine(f"sqlite:{path}") as engine:
        async with ticking() as late:
            for question in questions(40, 3, 500, 0):
                await engine.recall(Request(query=question), principal)
        rows.append(told("40 recalls, 30,000 own rows", late))
    gc.collect()
    scratch = folder / "loop-scratch.db"
    scratch.unlink(missing_ok=True)
    async with open_engine(f"sqlite:{scratch}") as engine:
        async with ticking() as late:
            await engine.remember(list(memories("org0", 2000, 5)), principal)
        rows.append(told("2,000 memories taken in", late))
        async with ticking() as late:
            await engine.remember([Doc(id="large", text="\n\n".join(texts(3000, 6)))], principal)
        rows.append(told("one document of 1 MB taken in", late))
        long = [Fact(id=f"long{number}", text=f"lighthouse {number} " + " ".join(texts(120, number))) for number in range(20)]
        await engine.remember(long, principal)
        async with ticking() as late:
            await engine.recall(Request(query="lighthouse"), principal)
        rows.append(told("a context of 20 memories of 40 kB each", late))
    return rows


def told(name: str, late: list[float]) -> dict[str, Any]:
    return {"name": name, "ticks": len(late) - 1, "largest gap": round(max(late) * 1000, 1), "target": "50"}
