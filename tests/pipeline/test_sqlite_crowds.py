"""Many at once on one SQLite store: writers of several processes, readers who wait, callers who leave, time that runs out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import apsw
import pytest
from conformance.answers import found
from conformance.worlds import EVERYTHING, NOW, SIGNATURE, memory, wanting

from remit.pipeline.config import Sqlite, load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import Written
from remit.pipeline.storage.sqlite import SqliteStore, open_sqlite
from remit.pipeline.storage.sqlite.finding import find
from remit.pipeline.storage.sqlite.line import Line, OutOfTime
from remit.pipeline.storage.sqlite.searching import Means
from remit.pipeline.storage.store import OUT_OF_TIME, RAN
from remit.stages.ceiling import Limit
from remit.stages.evidence import Route
from remit.stages.ports import Found

pytestmark = pytest.mark.anyio

SETTINGS = replace(load().sqlite, check_steps=100)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
WAIT = 30
"""Seconds after which a test that should have gone on gives up."""


async def opened(path: Path, settings: Sqlite = SETTINGS) -> SqliteStore:
    return await open_sqlite(str(path / "store.db"), settings, SIGNATURE)


def line_of(store: SqliteStore) -> Line:
    return store._readers._lines[0]


WRITER = """
import sys
import anyio
from conformance.worlds import EVERYTHING, SIGNATURE, memory
from remit.pipeline.config import load
from remit.pipeline.storage.sqlite import open_sqlite

async def main(path, name, times):
    async with await open_sqlite(path, load().sqlite, SIGNATURE) as store:
        for at in range(int(times)):
            (receipt,) = await store.put([memory(f"{name}-{at}", "red fox", degrees=at, key=f"{name}-{at}")], EVERYTHING)
            print(receipt.id, receipt.written, flush=True)

anyio.run(main, *sys.argv[1:])
"""


def writer(path: Path, name: str, times: int) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path / "store.db"), name, str(times)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_four_processes_that_write_at_once_lose_nothing_and_write_nothing_twice(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()

    writers = [writer(tmp_path, name, 200) for name in "abcd"]
    told = [process.communicate(timeout=120)[0].split() for process in writers]

    assert [process.returncode for process in writers] == [0] * 4
    assert all(lines[1::2] == [Written.STORED] * 200 for lines in told)
    async with await opened(tmp_path) as store:
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 800
        assert await store.faults() == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    acknowledged = []
    for name in "abc":
        with writer(tmp_path, name, 10_000) as process:
            assert process.stdout is not None
            acknowledged += [process.stdout.readline().split()[0] for _ in range(20)]
            process.kill()

    async with await opened(tmp_path) as store:
        held = {str(entry.record.id) for _, entry in await store.records(None, 10_000)}
        assert held >= set(acknowledged)
        assert await store.faults() == []


async def test_a_writer_who_cannot_wait_any_longer_is_told_and_nothing_is_half_done(tmp_path: Path) -> None:
    async with await opened(tmp_path, replace(SETTINGS, busy_seconds=0.0)) as store:
        other = apsw.Connection(str(tmp_path / "store.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable, match="locked"):
            await store.put([memory("one", "red"), memory("two", "red")], EVERYTHING)
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 0, "readers go on"
        other.execute("ROLLBACK")
        other.close()

        (receipt,) = await store.put([memory("one", "red")], EVERYTHING)
        assert receipt.written is Written.STORED


async def test_a_writer_waits_for_another_one(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store, anyio.create_task_group() as tasks:
        other = apsw.Connection(str(tmp_path / "store.db"))
        other.execute("BEGIN IMMEDIATE")
        tasks.start_soon(store.put, [memory("one", "red")], EVERYTHING)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        other.execute("ROLLBACK")
        other.close()
    async with await opened(tmp_path) as store:
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1


async def left_after(steps: int, work: Callable[[], object]) -> bool:
    """Starts `work`, leaves it after so many steps of the event loop, and says whether it had ended by then."""
    ended = False

    async def run() -> None:
        nonlocal ended
        await work()  # type: ignore[misc]
        ended = True

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    return ended


async def test_a_search_left_at_any_point_leaves_nothing_behind(tmp_path: Path) -> None:
    async with await opened(tmp_path, replace(SETTINGS, readers=1)) as store:
        await store.put([memory(f"m{at}", "red fox", degrees=at) for at in range(50)], EVERYTHING)
        expected = await found(store, wanting("red", near=0), EVERYTHING)
        for steps in range(40):
            await left_after(steps, lambda: store.find(wanting("red", near=0), EVERYTHING))

            with anyio.fail_after(WAIT):
                assert not await line_of(store).run(lambda db: db.in_transaction)
                assert await found(store, wanting("red", near=0), EVERYTHING) == expected


async def test_a_storm_of_searches_that_are_left_costs_no_line(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.put([memory(f"m{at}", "red fox", degrees=at) for at in range(50)], EVERYTHING)
        with anyio.fail_after(WAIT):
            for steps in range(20):
                async with anyio.create_task_group() as tasks:
                    for _ in range(10):
                        tasks.start_soon(store.find, wanting("red", near=0), EVERYTHING)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
                assert store._readers._free.value == len(store._readers._idle) == SETTINGS.readers
            assert (await store.find(wanting("red"), EVERYTHING)).passages == 50


async def test_looking_writes_nothing(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.put([memory("one", "red", degrees=0)], EVERYTHING)
        before = contents(tmp_path)
        for _ in range(20):
            found_ = await store.find(wanting("red", near=0), EVERYTHING)
            await store.outlines(found_.postings["red"].keys.tolist(), EVERYTHING)
            await store.brief(EVERYTHING, pinned=1, important=1, recent=1)

        assert contents(tmp_path) == before


def contents(folder: Path) -> list[bytes]:
    """The file and its log."""
    return [(folder / name).read_bytes() for name in ("store.db", "store.db-wal")]


async def test_a_write_left_at_any_point_is_whole_or_not_there(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        for steps in range(30):
            pair = [memory(f"{half}{steps}", f"red{steps}", degrees=steps, key=f"{half}{steps}") for half in "ab"]
            ended = await left_after(steps, lambda pair=pair: store.put(pair, EVERYTHING))  # type: ignore[misc]

            passages = (await store.find(wanting(f"red{steps}"), EVERYTHING)).postings[f"red{steps}"].keys.size
            assert passages in ((2,) if ended else (0, 2))
            assert [each.written for each in await store.put(pair, EVERYTHING)] == [Written.STORED] * 2, "trying again with the key is safe"
        assert (await store.find(wanting(), EVERYTHING)).passages == 60
        assert await store.faults() == []


async def test_a_running_statement_stops_when_its_caller_leaves(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        line = line_of(store)
        started = threading.Event()

        def endless(db: apsw.Connection) -> None:
            started.set()
            db.execute(ENDLESS)

        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(line.run, endless)
                while not started.is_set():
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert await line.run(lambda db: db.execute("SELECT 1").get) == 1


async def test_a_running_statement_stops_at_its_deadline_and_the_line_goes_on(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        line = line_of(store)
        with anyio.fail_after(WAIT):
            with pytest.raises(OutOfTime):
                await line.run(lambda db: db.execute(ENDLESS), seconds=0.01)
            assert await line.run(lambda db: db.execute("SELECT 1").get) == 1


async def test_when_time_runs_out_what_had_finished_is_told(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.put([memory(f"m{at}", "red fox", degrees=at) for at in range(50)], EVERYTHING)
        complete = await store.find(wanting("red", near=0), EVERYTHING)
        means = replace(store._means, whole_vectors=0)

        def stopped_at(db: apsw.Connection, look: int) -> dict[Route, str]:
            partial = stopped(db, look, means)
            if partial.routes[Route.LEXICAL] == RAN:
                assert partial.postings["red"].keys.tolist() == complete.postings["red"].keys.tolist()
            else:
                assert partial.postings == {}
            if partial.routes[Route.LOCAL_EXACT] != RAN:
                assert partial.neighbours == ()
            assert (partial.exhausted is Limit.SECONDS) == (OUT_OF_TIME in partial.routes.values())
            assert not db.in_transaction
            return dict(partial.routes)

        seen = [await line_of(store).run(lambda db, look=look: stopped_at(db, look)) for look in range(0, 400, 5)]  # type: ignore[misc]

    assert seen[0] == {Route.LEXICAL: OUT_OF_TIME, Route.LOCAL_EXACT: OUT_OF_TIME}
    assert {Route.LEXICAL: RAN, Route.LOCAL_EXACT: OUT_OF_TIME} in seen
    assert seen[-1] == {Route.LEXICAL: RAN, Route.LOCAL_EXACT: RAN}


async def test_what_was_found_stands_when_the_time_is_up_before_its_outlines_are_read(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.put([memory("one", "red fox")], EVERYTHING)

        def late(db: apsw.Connection) -> Found:
            def clock() -> bool:
                db.set_progress_handler(None, id="test")
                raise OutOfTime

            def likely(found: Found) -> list[int]:
                db.set_progress_handler(clock, 1, id="test")
                return found.postings["red"].keys.tolist()

            return find(db, replace(wanting("red"), likely=likely), EVERYTHING, store._means)

        found_ = await line_of(store).run(late)
        assert (found_.postings["red"].keys.size, found_.outlines, found_.exhausted) == (1, None, None)
        assert not await line_of(store).run(lambda db: db.in_transaction)


def stopped(db: apsw.Connection, look: int, means: Means):  # type: ignore[no-untyped-def]
    """A search whose time is up when SQLite looks at the clock for the `look`th time."""
    looks = 0

    def clock() -> bool:
        nonlocal looks
        looks += 1
        if looks == look + 1:
            raise OutOfTime
        return False

    db.set_progress_handler(clock, 20, id="test")
    try:
        return find(db, wanting("red", near=0), EVERYTHING, means)
    finally:
        db.set_progress_handler(None, id="test")


async def test_a_reader_waits_for_a_free_line_and_no_longer_than_it_may(tmp_path: Path) -> None:
    async with await opened(tmp_path, replace(SETTINGS, readers=1, busy_seconds=0.0)) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        release, held = threading.Event(), threading.Event()

        def hold(db: apsw.Connection) -> None:
            held.set()
            release.wait(WAIT)

        async def holding() -> None:
            await store._readers.run(hold, wait=WAIT)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(holding)
            while not held.is_set():
                await anyio.lowlevel.checkpoint()
            late = await store.find(wanting("red", seconds=0.01), EVERYTHING)
            with pytest.raises(StorageUnavailable, match="busy"):
                await store.vocabulary(1, 9, EVERYTHING)
            release.set()
        assert (late.exhausted, late.routes) == (Limit.SECONDS, {Route.LEXICAL: OUT_OF_TIME})
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1


async def test_more_searches_than_readers_all_end(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        passages = []

        async def search() -> None:
            passages.append((await store.find(wanting("red"), EVERYTHING)).passages)

        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                for _ in range(30):
                    tasks.start_soon(search)

    assert passages == [1] * 30


async def test_what_sqlite_reports_is_told_without_statements_paths_or_rows(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        await store._writer.run(lambda db: db.execute("DROP TABLE posting"))
        await store._writer.run(lambda db: db.execute("CREATE TRIGGER t BEFORE INSERT ON memory BEGIN SELECT raise(ABORT, 'secret'); END"))

        for ask in (lambda: store.find(wanting("canary"), EVERYTHING), lambda: store.put([memory("canary", "canary")], EVERYTHING)):
            with pytest.raises(StorageUnavailable) as told:
                await ask()
            assert told.value.__cause__ is None
            assert told.value.__suppress_context__
            assert not any(word in str(told.value) for word in ("posting", "canary", "secret", "SELECT", str(tmp_path)))


CRASH = """
import sys
import anyio
from conformance.worlds import SIGNATURE
from remit.pipeline.config import load
from remit.pipeline.storage.sqlite import open_sqlite

async def main():
    await open_sqlite(sys.argv[1], load().sqlite, SIGNATURE)
    raise SystemExit(7)

anyio.run(main, backend=sys.argv[2])
"""


async def test_a_program_that_forgets_to_close_its_store_still_ends(tmp_path: Path, anyio_backend_name: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CRASH, str(tmp_path / "store.db"), anyio_backend_name]

    assert (await anyio.run_process(command, env=environment, check=False, stderr=None)).returncode == 7


async def test_a_search_sees_one_moment_and_the_next_one_sees_what_was_written_since(tmp_path: Path) -> None:
    async with await opened(tmp_path) as here, await opened(tmp_path) as there:
        await there.put([memory("one", "red", valid_until=NOW.replace(year=9999))], EVERYTHING)
        assert (await here.find(wanting("red"), EVERYTHING)).passages == 1
        await there.put([memory("one", "red", valid_until=NOW)], EVERYTHING)
        assert (await here.find(wanting("red"), EVERYTHING)).passages == 0
