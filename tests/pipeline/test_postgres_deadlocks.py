"""Somebody else's locks: a write that the database takes back is begun anew, a bounded number of times, and then told as not done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest
from conformance.worlds import EVERYTHING, NOW, SIGNATURE, memory, wanting
from databases import OWNER, login
from psycopg import conninfo

from remit.pipeline.config import load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import Change, Forgetting, Whole, Written
from remit.pipeline.storage.postgres import PostgresStore, open_postgres
from remit.pipeline.storage.postgres.writing import TRIES
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

pytestmark = pytest.mark.anyio

ONE = MemoryId(Source.FACT, "one")
TURN = int.from_bytes(sha256(b"acme").digest()[:8], signed=True)
WRITES: dict[str, Callable[[PostgresStore], Awaitable[Any]]] = {
    "put": lambda store: store.put([memory("one", "blue")], EVERYTHING),
    "change": lambda store: store.change([Change(what=Written.REJECTED, id=ONE)], EVERYTHING),
    "forget": lambda store: store.forget(Forgetting(names=(ONE,)), EVERYTHING),
    "import": lambda store: store.imported([Whole(entry=memory("two", "blue"), version=1, written_at=NOW)], EVERYTHING),
    "index again": lambda store: store.reindexed([memory("one", "red")]),
}


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[PostgresStore]:
    async with await open_postgres(login(dsn, OWNER), replace(load().postgres, write_seconds=60.0), SIGNATURE) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        yield store


def do(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextmanager
def quick_to_see_deadlocks(dsn: str) -> Iterator[None]:
    name = conninfo.conninfo_to_dict(dsn)["dbname"]
    do(dsn, f"ALTER DATABASE \"{name}\" SET deadlock_timeout = '20ms'")
    try:
        yield
    finally:
        do(dsn, f'ALTER DATABASE "{name}" RESET deadlock_timeout')


async def waiting(connection: psycopg.Connection[Any], number: int) -> None:
    """Until so many wait for the turn of a writer."""
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with anyio.fail_after(30):
        while connection.execute(query).fetchone() != (number,):  # noqa: ASYNC110 - a database has no event to wait for
            await anyio.sleep(0.01)


@pytest.mark.parametrize("write", WRITES)
async def test_the_victim_of_a_deadlock_begins_anew_and_is_done(store_database: str, write: str) -> None:
    with (
        quick_to_see_deadlocks(store_database),
        psycopg.connect(store_database, autocommit=True) as gate,
        psycopg.connect(store_database) as intruder,
    ):
        async with opened(store_database) as store, anyio.create_task_group() as tasks:
            gate.execute("SELECT pg_advisory_lock(%s)", [TURN])
            # Patient, so that it is the write that sees the deadlock and gives way.
            intruder.execute("SET deadlock_timeout = '1h'")
            intruder.execute("SELECT 1 FROM remit.shelf FOR UPDATE")
            tasks.start_soon(WRITES[write], store)
            await waiting(gate, 1)

            def intrude() -> None:
                intruder.execute("SELECT pg_advisory_xact_lock(%s)", [TURN])
                intruder.rollback()

            tasks.start_soon(anyio.to_thread.run_sync, intrude)
            await waiting(gate, 2)
            gate.execute("SELECT pg_advisory_unlock(%s)", [TURN])

        async with opened_as_it_is(store_database) as store:
            found = await store.find(wanting("red", "blue"), EVERYTHING)
            assert found.passages == {"put": 1, "change": 0, "forget": 0, "import": 2, "index again": 1}[write]
            assert await store.faults() == []


@asynccontextmanager
async def opened_as_it_is(dsn: str) -> AsyncIterator[PostgresStore]:
    async with await open_postgres(login(dsn, OWNER), load().postgres, SIGNATURE) as store:
        yield store


@pytest.mark.parametrize("write", WRITES)
async def test_what_is_always_in_the_way_is_told_after_a_bounded_number_of_tries(store_database: str, write: str) -> None:
    async with opened(store_database) as store:
        do(
            store_database,
            "CREATE SEQUENCE public.tries",
            "GRANT USAGE ON SEQUENCE public.tries TO PUBLIC",
            "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM nextval('public.tries'); RAISE EXCEPTION 'in the way' USING ERRCODE = '40P01'; END $$",
            "CREATE TRIGGER fail BEFORE UPDATE ON remit.shelf FOR EACH STATEMENT EXECUTE FUNCTION public.fail()",
        )
        try:
            with pytest.raises(StorageUnavailable, match="in the way: try again"):
                await WRITES[write](store)
            with psycopg.connect(store_database) as connection:
                assert connection.execute("SELECT last_value FROM public.tries").fetchone() == (TRIES,)
        finally:
            do(store_database, "DROP TRIGGER fail ON remit.shelf", "DROP FUNCTION public.fail()", "DROP SEQUENCE public.tries")
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1
        assert await store.faults() == []
