"""A wait for SQLite's write lock names who holds it: in the log and in the error, from a closed list of words, never content."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import apsw
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory
from hearing import logged

from remit.pipeline.config import load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.sqlite import SqliteStore, open_sqlite
from remit.pipeline.storage.sqlite.holding import SIZE, SUFFIX, Note

pytestmark = pytest.mark.anyio

SETTINGS = replace(load().sqlite, busy_seconds=0.2, slow_lock_seconds=0.05)
TEXT = "the red fox sleeps in the barn"

HOLDER = """
import sys
import anyio
from conformance.worlds import SIGNATURE
from remit.pipeline.config import load
from remit.pipeline.storage.sqlite import open_sqlite
from remit.pipeline.storage.operations import Operation

def hold(db):
    print("held", flush=True)
    sys.stdin.readline()

async def main(path):
    async with await open_sqlite(path, load().sqlite, SIGNATURE) as store:
        await store._write(Operation.IMPORT, hold)

anyio.run(main, sys.argv[1])
"""
"""A process that holds the lock until it is told to let go, or killed."""


async def opened(folder: Path, **settings: float) -> SqliteStore:
    return await open_sqlite(str(folder / "store.db"), replace(SETTINGS, **settings), SIGNATURE)  # type: ignore[arg-type]


@contextmanager
def importing(folder: Path) -> Iterator[subprocess.Popen[str]]:
    search = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-P", "-c", HOLDER, str(folder / "store.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=search) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def locked(folder: Path, note: bytes) -> Iterator[None]:
    """The lock in the hands of another program, and whatever stands in the note."""
    db = apsw.Connection(str(folder / "store.db"))
    db.execute("BEGIN IMMEDIATE")
    (folder / f"store.db{SUFFIX}").write_bytes(note)
    yield
    db.execute("ROLLBACK")
    db.close()


async def test_who_gives_up_is_told_what_the_other_process_does(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        with importing(tmp_path), logged() as lines, pytest.raises(StorageUnavailable, match=r"another writer \(import\): try again"):
            await store.put([memory("one", TEXT)], EVERYTHING)

    assert [(line["event"], line["log_level"], line["remit.holder"]) for line in lines] == [("lock_waited", "warning", "import")]
    assert lines[0].keys() == {"event", "log_level", "remit.holder", "remit.waited_seconds"}
    assert lines[0]["remit.waited_seconds"] >= SETTINGS.slow_lock_seconds


async def test_who_gets_the_lock_after_long_logs_who_had_it(tmp_path: Path) -> None:
    async with await opened(tmp_path, busy_seconds=30.0) as store, anyio.create_task_group() as tasks:
        with importing(tmp_path) as holder, logged() as lines:
            done = anyio.Event()

            async def put() -> None:
                await store.put([memory("one", TEXT)], EVERYTHING)
                done.set()

            tasks.start_soon(put)
            while store._writer._call.holder != "import":
                await anyio.lowlevel.checkpoint()
            holder.stdin.write("\n")  # type: ignore[union-attr]
            holder.stdin.flush()  # type: ignore[union-attr]
            await done.wait()

    assert [line["remit.holder"] for line in lines] == ["import"]


async def test_below_the_threshold_nothing_is_logged(tmp_path: Path) -> None:
    async with await opened(tmp_path, slow_lock_seconds=60.0) as store:
        with logged() as lines:
            await store.put([memory("one", TEXT)], EVERYTHING)
            with importing(tmp_path), pytest.raises(StorageUnavailable, match=r"\(import\)"):
                await store.put([memory("two", TEXT)], EVERYTHING)

    assert lines == []


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b" " * SIZE,
        os.urandom(SIZE),
        f"{TEXT} {os.getpid()} x".encode().ljust(SIZE),
        f"import x {TEXT}".encode().ljust(SIZE),
        b"import 0 x".ljust(SIZE),
        b"import 99999999999999999999999 x".ljust(SIZE),
        b"import",
        f"import {os.getpid()} x".encode() * 10,
    ],
    ids=["nothing", "blank", "noise", "no operation", "no process", "nobody", "no such process", "short", "another's file"],
)
async def test_what_is_no_note_of_ours_is_unknown_and_never_repeated(tmp_path: Path, note: bytes) -> None:
    async with await opened(tmp_path) as store:
        with locked(tmp_path, note), logged() as lines, pytest.raises(StorageUnavailable, match="by another writer: try again"):
            await store.put([memory("one", TEXT)], EVERYTHING)
        (receipt,) = await store.put([memory("one", TEXT)], EVERYTHING)

    assert [line["remit.holder"] for line in lines] == ["unknown"]
    assert receipt.written == "stored"


async def test_a_writer_that_was_killed_is_not_blamed(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        with importing(tmp_path):
            note = (tmp_path / f"store.db{SUFFIX}").read_bytes()
        assert note.startswith(b"import ")
        with locked(tmp_path, note), logged() as lines, pytest.raises(StorageUnavailable):
            await store.put([memory("one", TEXT)], EVERYTHING)

    assert [line["remit.holder"] for line in lines] == ["unknown"]


async def test_a_note_is_taken_back_and_holds_no_content(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.put([memory("one", TEXT)], EVERYTHING)
        assert (tmp_path / f"store.db{SUFFIX}").read_bytes() == b" " * SIZE


def test_a_note_is_taken_back_by_its_own_writer_only(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    first, second = Note(str(tmp_path / "store.db")), Note(str(tmp_path / "store.db"))
    first.put(Operation.PUT)
    second.put(Operation.PUT)
    first.clear(Operation.PUT)
    assert second.holder() == "put"
    second.clear(Operation.PUT)
    assert second.holder() == "unknown"
    first.close()
    second.close()


@pytest.mark.parametrize("way", ["folder", "link", "second name", "longer"])
async def test_where_no_note_can_be_kept_writing_goes_on(tmp_path: Path, way: str) -> None:
    (tmp_path / "mine").write_bytes(b"x" * SIZE)
    note = tmp_path / f"store.db{SUFFIX}"
    if way == "folder":
        note.mkdir()
    elif way == "link":
        note.symlink_to("mine")
    elif way == "second name":
        note.hardlink_to(tmp_path / "mine")
    else:
        note.write_bytes(b"x" * (SIZE + 1))
    async with await opened(tmp_path) as store:
        (receipt,) = await store.put([memory("one", TEXT)], EVERYTHING)

    assert receipt.written == "stored"
    assert (tmp_path / "mine").read_bytes() == b"x" * SIZE
    assert way != "longer" or note.read_bytes() == b"x" * (SIZE + 1)
