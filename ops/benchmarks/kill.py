"""Writers killed at random moments, four at once, on every store that outlives its process; and writers who wait for a lock."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from remit.pipeline import Fact, Principal, open_engine
from remit.pipeline.config import load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.opening import made_for
from remit.pipeline.storage.entry import Written
from remit.pipeline.storage.postgres.server import started

WHO = Principal(actor="writer", org="acme", scopes="*")
WRITERS = 4
PATIENCE = 60.0
"""Seconds without a word from a writer after which something is wrong."""

WRITER = """
import sys
import anyio
from remit.pipeline import Fact, Principal, open_engine

async def main(url, name, times):
    who = Principal(actor="writer", org="acme", scopes="*")
    async with open_engine(url) as engine:
        for at in range(int(times)):
            key = f"{name}-{at}"
            (receipt,) = await engine.remember([Fact(id=key, text=f"red fox {key}", key=key)], who)
            print(receipt.written, flush=True)

anyio.run(main, *sys.argv[1:])
"""


class Writer:
    """A process that writes one memory after the other; `told` is how many it was told are durable."""

    def __init__(self, url: str, name: str, times: int = 1_000_000) -> None:
        self.name = name
        self.told = 0
        self._said: SimpleQueue[str] = SimpleQueue()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        line = [sys.executable, "-c", WRITER, url, name, str(times)]
        self.process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True)
        self._listening = Thread(target=self._listen, daemon=True)
        self._listening.start()

    def hear(self, most: int) -> None:
        """Waits until it was told of so many more. Raises `Empty` when it falls silent."""
        for _ in range(most):
            assert self._said.get(timeout=PATIENCE).strip() == Written.STORED, "a key was used twice"
            self.told += 1

    def kill(self) -> None:
        """Ends it where it is; what it was told until then counts."""
        self.process.send_signal(signal.SIGKILL)
        self.gone()
        with suppress(Empty):
            while self._said.get_nowait():
                self.told += 1

    def gone(self) -> int:
        """Waits for its end; the exit status."""
        status = self.process.wait()
        self._listening.join()
        return status

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self._said.put(line)


def fought(url: str, *, rounds: int, seed: int = 1) -> list[Writer]:
    """Kills one of four writers `rounds` times at random moments while the others go on, at last all; those that were killed."""
    chance = random.Random(seed)
    running = [Writer(url, f"w{number}") for number in range(WRITERS)]
    dead = []
    for number in range(rounds):
        victim = chance.choice(running)
        victim.hear(chance.randrange(1, 40))
        time.sleep(chance.random() * 0.02)
        victim.kill()
        running[running.index(victim)] = Writer(url, f"w{WRITERS + number}")
        dead.append(victim)
    for writer in running:
        writer.hear(1)
        writer.kill()
    return dead + running


async def killed(url: str, *, rounds: int) -> dict[str, Any]:
    """What is there after writers were killed.

    Of each the write that was under way is sent again with its key, which settles it, whether it had happened or not.
    """
    dead, happened = fought(url, rounds=rounds), 0
    async with open_engine(url) as engine:
        before = {each.entry.record.id.id async for each in engine.export(WHO)}
        for writer in dead:
            key = f"{writer.name}-{writer.told}"
            happened += key in before
            (receipt,) = await engine.remember([Fact(id=key, text=f"red fox {key}", key=key)], WHO)
            assert (receipt.written, receipt.version) == (Written.STORED, 1), receipt
        after = {each.entry.record.id.id: each async for each in engine.export(WHO)}
        acknowledged = {f"{writer.name}-{number}" for writer in dead for number in range(writer.told)}
        settled = {f"{writer.name}-{writer.told}" for writer in dead}
        return {
            "killed": len(dead),
            "acknowledged": len(acknowledged),
            "lost": len(acknowledged - before),
            "unknown": len(settled),
            "of them done": happened,
            "left unsettled": len(settled - after.keys()),
            "written twice": sum(len(each.history) > 1 for each in after.values()) + len(after.keys() - acknowledged - settled),
            "faults": [fault.code for fault in (await engine.doctor()).faults],
        }


async def crowded(url: str, *, times: int) -> dict[str, Any]:
    """Four writers at once, each so many writes of one memory."""
    began = time.monotonic()
    writers = [Writer(url, f"c{number}", times) for number in range(WRITERS)]
    for writer in writers:
        writer.hear(times)
        assert writer.gone() == 0, "a writer failed"
    seconds = time.monotonic() - began
    async with open_engine(url) as engine:
        there = [each.entry.record.id.id async for each in engine.export(WHO)]
        healthy = (await engine.doctor()).healthy
    return {
        "asked": WRITERS * times,
        "there": sum(name.startswith("c") for name in there),
        "healthy": healthy,
        "seconds": round(seconds, 1),
    }


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Another process that holds the write lock of a SQLite file."""
    held = (
        f"import apsw, time; db = apsw.Connection({str(path)!r}); db.execute('BEGIN IMMEDIATE'); print(flush=True); time.sleep({seconds})"
    )
    with subprocess.Popen([sys.executable, "-c", held], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


async def waited(path: Path, seconds: float) -> dict[str, Any]:
    """What a writer is told while the file is locked for so many seconds, after how long, and that nothing of it is half done."""
    async with open_engine(f"sqlite:{path}") as engine:
        item = Fact(id=f"lock-{seconds}", text="red", key=f"lock-{seconds}")
        with locked(path, seconds):
            began = time.monotonic()
            try:
                told = (await engine.remember([item], WHO))[0].written.value
            except StorageUnavailable as error:
                told = error.fact
            took = time.monotonic() - began
        (again,) = await engine.remember([item], WHO)
    return {"told": told, "after, s": round(took, 1), "the same key then": again.written.value}


@asynccontextmanager
async def stores(folder: Path) -> AsyncIterator[dict[str, str]]:
    """The URL of a new store of each kind that outlives its process; Postgres on a server of our own."""
    for left in folder.glob("kill*"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    settings = load()
    server = await started(str(folder / "kill"), settings.embedded)
    try:
        urls = {"sqlite": f"sqlite:{folder}/kill.db", "postgres": server.dsn()}
        for url in urls.values():
            await made_for(url, settings)
            async with open_engine(url):
                """Makes a file, so that writers do not wait for one another to make it."""
        yield urls
    finally:
        await server.close()


async def killing(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with stores(folder) as urls:
        for name, url in urls.items():
            rows.append({"name": f"{name}, killed", **await killed(url, rounds=25)})
            rows.append({"name": f"{name}, 4 × 2,000", **await crowded(url, times=2_000)})
    return rows + [{"name": f"sqlite, locked {seconds} s", **await waited(folder / "kill.db", seconds)} for seconds in (3, 60)]
