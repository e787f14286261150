"""Deadlines and cancelling on a real server: nothing is lost, nothing runs on, and who was cancelled is told so. C3, C4, B1.8, B1.9, B2."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import anyio
import psycopg
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory, seen_from, wanting
from databases import OWNER, login
from disturbing import disturbed
from hearing import logged

from remit.pipeline.config import load
from remit.pipeline.crews import Overloaded
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.postgres import PostgresStore, open_postgres
from remit.pipeline.storage.postgres.identity import NOBODY, Identity
from remit.pipeline.storage.postgres.line import Line
from remit.pipeline.storage.postgres.statements import plain
from remit.pipeline.storage.store import OUT_OF_TIME
from remit.stages.ceiling import Limit
from remit.stages.evidence import PassageId, Route

pytestmark = pytest.mark.anyio

SETTINGS = load().postgres
WORLD = [memory("one", "red fox", degrees=0), memory("two", "red", degrees=20)]


@asynccontextmanager
async def opened(dsn: str, **changed: Any) -> AsyncIterator[PostgresStore]:
    async with await open_postgres(login(dsn, OWNER), replace(SETTINGS, **changed), SIGNATURE) as store:
        await store.put(WORLD, EVERYTHING)
        yield store


@contextmanager
def locked(dsn: str, table: str) -> Iterator[None]:
    """Whoever looks into the table waits as long as this lasts."""
    with psycopg.connect(dsn) as connection:
        connection.execute(f"LOCK TABLE remit.{table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


async def running(dsn: str) -> list[str]:
    """The statements of ours that the server is carrying out half a second from now at the latest."""
    until = anyio.current_time() + 0.5
    while True:
        with psycopg.connect(dsn, autocommit=True) as connection:
            found = connection.execute(
                "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND usename = %s AND state <> 'idle'", [OWNER]
            ).fetchall()
        if not found or anyio.current_time() > until:
            return [query for (query,) in found]
        await anyio.sleep(0.01)


async def as_found(line: Line) -> list[str]:
    """What a bare checkout sees of time limit, identity and role."""
    names = ("statement_timeout", "app.org", "app.scopes", "role", "search_path", "hnsw.ef_search", "enable_sort")
    shown = [plain(f"SELECT current_setting('{name}', true)") for name in names]
    return [(value or b"").decode() for value in await _values(line, shown)]


async def _values(line: Line, commands: list[Any]) -> list[bytes | None]:
    answers = await line.exchange(commands, until=anyio.current_time() + 5)
    return [answers.value(place) for place in range(len(commands))]


async def every_line_as_new(store: PostgresStore, dsn: str) -> None:
    """Nothing lent, nothing running, nothing left set on any connection of the pool."""
    pool = store._desk.pool
    assert pool.lent == 0
    assert await running(dsn) == []
    fresh = ["0", "", "", "none", '"$user", public', "", "on"]
    idle = pool.idle
    async with AsyncExitStack() as lent:
        for _ in range(idle):
            line = await lent.enter_async_context(pool.line(anyio.current_time() + 5))
            assert await as_found(line) in (fresh, [*fresh[:5], "40", "on"]), "as on a new connection"
    assert pool.idle == idle


async def test_cancelled_wherever_it_waits_a_search_leaves_nothing_behind(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await _cancelled_at_every_wait(store, store_database, lambda: store.find(wanting("red", near=0), EVERYTHING))
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 2


async def test_cancelled_wherever_it_waits_a_first_search_leaves_nothing_behind(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:

        async def on_a_new_connection() -> object:
            for line in store._desk.pool._idle:
                line.close()
            return await store.find(wanting("red", near=0), seen_from())

        await _cancelled_at_every_wait(store, store_database, on_a_new_connection)


async def test_cancelled_wherever_it_waits_a_write_is_there_as_a_whole_or_not_at_all(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        names = count()

        async def write() -> object:
            name = f"n{next(names)}"
            return await store.put([memory(name, "blue", degrees=0, key=name)], EVERYTHING)

        await _cancelled_at_every_wait(store, store_database, write)
        found = await store.find(wanting("blue", near=0), EVERYTHING)
        assert found.passages - 2 == found.postings["blue"].keys.size
        assert await store.faults() == []


async def _cancelled_at_every_wait(store: PostgresStore, dsn: str, work: Callable[[], Awaitable[object]]) -> None:
    for place in range(1, 200):
        with anyio.CancelScope() as scope:
            came_to_it, _ = await disturbed(work(), place, scope.cancel)
            if not came_to_it:
                return
        assert scope.cancelled_caught or scope.cancel_called
        await every_line_as_new(store, dsn)
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_cancelled_by_its_loop_is_told_so_and_leaves_nothing_behind(store_database: str) -> None:
    import asyncio

    async with opened(store_database, connections=1) as store:
        for place in range(1, 200):
            tasks: list[asyncio.Task[tuple[bool, object]]] = []
            search = disturbed(store.find(wanting("red", near=0), EVERYTHING), place, lambda tasks=tasks: tasks[0].cancel())
            tasks.append(asyncio.ensure_future(search))
            (ended,) = await asyncio.gather(*tasks, return_exceptions=True)
            await every_line_as_new(store, store_database)
            if isinstance(ended, tuple) and not ended[0]:
                return
            assert isinstance(ended, asyncio.CancelledError)


async def test_a_thousand_searches_cancelled_at_random_lose_no_connection(store_database: str) -> None:
    patient = 5  # a machine with much else to do may take longer than `cancelSeconds`, and that closes a connection rightly
    async with opened(store_database, connections=2, cancel_seconds=patient) as store:
        random, before = Random(7), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def searched(seconds: float) -> None:
            with anyio.move_on_after(seconds):
                await store.find(wanting("red", "fox", near=0), EVERYTHING)

        with logged() as lines:
            for _ in range(20):
                async with anyio.create_task_group() as tasks:
                    for _ in range(50):
                        tasks.start_soon(searched, random.random() * 0.02)

        assert lines == [], "what cleans up has nothing to say"
        await every_line_as_new(store, store_database)
        assert (store._desk.pool.dropped, store._desk.pool.idle) == (0, 2)
        for _ in range(100):
            assert (await store.find(wanting("red"), EVERYTHING)).exhausted is None
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000, "in kilobytes"


async def test_c2_7_a_connection_whose_transaction_cannot_be_ended_is_closed_and_counted(
    store_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store_database, connections=1) as store:
        pool = store._desk.pool
        with locked(store_database, "posting"), monkeypatch.context() as broken:
            broken.setattr("remit.pipeline.storage.postgres.line.ROLLBACK", plain("ROLLBACK TO SAVEPOINT nowhere"))
            found = await store.find(wanting("red", seconds=0.2), EVERYTHING)
        assert (found.exhausted, pool.dropped) == (Limit.SECONDS, 0)
        await running(store_database)  # until the answer to it has come

        assert (await store.find(wanting("red"), EVERYTHING)).exhausted is None
        assert (pool.lent, pool.idle, pool.dropped) == (0, 1, 1)
        await every_line_as_new(store, store_database)


async def test_a_search_that_waits_for_a_lock_ends_in_its_time_and_keeps_what_had_come(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.find(wanting("red", near=0), EVERYTHING)
        with locked(store_database, "vector_local"):
            started = anyio.current_time()
            found = await store.find(wanting("red", near=0, seconds=0.3), EVERYTHING)
            took = anyio.current_time() - started

        assert 0.25 < took < 0.55
        assert (found.exhausted, found.routes[Route.LOCAL_EXACT]) == (Limit.SECONDS, OUT_OF_TIME)
        assert (found.passages, found.postings["red"].keys.size) == (2, 2)
        await every_line_as_new(store, store_database)
        assert store._desk.pool.dropped == 0


async def test_a_search_cancelled_while_it_waits_for_a_lock_stops_on_the_server_too(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.find(wanting("red", near=0), EVERYTHING)
        with locked(store_database, "posting"):
            with anyio.move_on_after(0.05) as scope:
                await store.find(wanting("red"), EVERYTHING)
            assert scope.cancelled_caught
            assert [query for query in await running(store_database) if "LOCK" not in query] == []
        await every_line_as_new(store, store_database)
        assert store._desk.pool.dropped == 0


async def test_ten_statements_that_each_keep_to_their_limit_do_not_outlast_the_search(store_database: str) -> None:
    async with opened(store_database) as store:
        until = anyio.current_time() + 0.3
        async with store._desk.reading(Identity.of(EVERYTHING), until=until) as transaction:
            answers = await transaction.tried([plain("SELECT pg_sleep(0.25)")] * 10)
            took = anyio.current_time() - until + 0.3

        assert answers.failure is not None
        assert answers.failure.out_of_time
        assert took < 0.55
        await every_line_as_new(store, store_database)


async def test_other_questions_that_take_too_long_say_so(store_database: str) -> None:
    async with opened(store_database, statement_seconds=0.2) as store:
        with locked(store_database, "passage"), pytest.raises(StorageUnavailable, match="too long"):
            await store.outlines([1], EVERYTHING)
        with locked(store_database, "memory"), pytest.raises(StorageUnavailable, match="too long"):
            await store.read([PassageId(WORLD[0].record.id, 0)], EVERYTHING)
        await every_line_as_new(store, store_database)


async def test_on_a_frozen_connection_the_search_ends_by_its_deadline(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.find(wanting("red", near=0), EVERYTHING)
        (line,) = store._desk.pool._idle
        pid = line.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            started = anyio.current_time()
            found = await store.find(wanting("red", near=0, seconds=0.3), EVERYTHING)
            took = anyio.current_time() - started
        finally:
            os.kill(pid, signal.SIGCONT)

        assert took < 0.3 + 0.25 + 0.1
        assert found.exhausted is Limit.SECONDS
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 2, "on another connection"
        assert await running(store_database) == []


async def test_a_time_limit_of_the_config_is_the_servers_own_inside_the_transaction(store_database: str) -> None:
    async with opened(store_database, statement_seconds=2.0) as store:
        async with store._desk.reading(NOBODY) as transaction:
            shown = (await transaction.ask([plain("SHOW statement_timeout")])).value(0)
        assert shown in (b"2s", b"2000ms", *(f"{each}ms".encode() for each in range(1980, 2000)))


async def test_after_an_error_of_a_statement_the_connection_is_as_new(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        for wrong in ("SELECT 1 / 0", "SELECT no_such_column", "SELECT pg_sleep(9)"):
            async with store._desk.reading(Identity.of(EVERYTHING), until=anyio.current_time() + 0.2) as transaction:
                with pytest.raises(StorageUnavailable):
                    await transaction.ask([plain(wrong)])
            await every_line_as_new(store, store_database)
        assert store._desk.pool.dropped == 0


async def test_ten_searches_take_turns_on_two_connections(store_database: str) -> None:
    async with opened(store_database, connections=2, wait_seconds=10.0) as store:
        found = []

        async def searched() -> None:
            found.append((await store.find(wanting("red", near=0), EVERYTHING)).passages)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(searched)

        assert found == [2] * 10
        assert store._desk.pool.idle == 2


async def test_waiting_for_a_connection_ends_as_overloaded_and_not_as_empty(store_database: str) -> None:
    async with opened(store_database, connections=1, wait_seconds=0.1) as store, store._desk.pool.line(anyio.current_time() + 5):
        started = anyio.current_time()
        with pytest.raises(Overloaded):
            await store.find(wanting("red"), EVERYTHING)
        assert 0.05 < anyio.current_time() - started < 0.25


async def test_who_is_cancelled_while_being_given_a_connection_gives_it_back(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        pool = store._desk.pool

        async def waiting(scope: anyio.CancelScope) -> None:
            with scope:
                async with pool.line(anyio.current_time() + 5):
                    pass

        for _ in range(20):
            scope = anyio.CancelScope()
            async with anyio.create_task_group() as tasks:
                async with pool.line(anyio.current_time() + 5):
                    tasks.start_soon(waiting, scope)
                    await anyio.wait_all_tasks_blocked()
                scope.cancel()  # in the same breath in which the connection came free
            assert (pool.lent, pool.idle) == (0, 1)


async def test_behind_a_pooler_nothing_is_sent_before_the_end_of_the_transaction_before_was_told(store_database: str) -> None:
    """One that lends by transaction would give the rest to another server, without an identity. Seen with pgbouncer 1.18."""
    async with opened(store_database, connections=1, prepare=False) as store:
        (line,) = store._desk.pool._idle
        through, pending = line._send, list[int]()

        def sent(commands: Any) -> None:
            pending.append(len(line._expected))
            through(commands)

        line._send = sent  # type: ignore[method-assign]
        for _ in range(5):
            await store.coverage("x", EVERYTHING)

    assert pending == [0] * 10
