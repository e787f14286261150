"""Writes on a real server: acknowledged is durable and once; what goes wrong leaves nothing half done. B1.11, B1.12, B2.4, C16."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import anyio
import psycopg
import pytest
from conformance.answers import found
from conformance.worlds import EVERYTHING, SIGNATURE, memory, seen_from, wanting
from databases import OWNER, login
from psycopg import conninfo

from remit.pipeline.config import load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import Refusal, Written
from remit.pipeline.storage.postgres import PostgresStore, open_postgres
from remit.pipeline.storage.postgres.identity import Identity
from remit.pipeline.storage.postgres.line import Answers
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

pytestmark = pytest.mark.anyio

SETTINGS = load().postgres


@asynccontextmanager
async def opened(dsn: str, **changed: Any) -> AsyncIterator[PostgresStore]:
    async with await open_postgres(login(dsn, OWNER), replace(SETTINGS, **changed), SIGNATURE) as store:
        yield store


def _do(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextmanager
def failing(dsn: str, table: str, sqlstate: str) -> Iterator[None]:
    """Whatever is written to the table meanwhile fails as the server would fail for a reason of its own."""
    _do(
        dsn,
        "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'row %', NEW USING ERRCODE = '{sqlstate}'; END $$",
        f"CREATE TRIGGER fail BEFORE INSERT ON remit.{table} FOR EACH ROW EXECUTE FUNCTION public.fail()",
    )
    try:
        yield
    finally:
        _do(dsn, f"DROP TRIGGER fail ON remit.{table}", "DROP FUNCTION public.fail()")


async def test_fifty_identical_writes_with_one_key_become_one_memory_and_equal_answers(store_database: str) -> None:
    async with opened(store_database, wait_seconds=60.0) as store:
        receipts = []

        async def write() -> None:
            receipts.extend(await store.put([memory("one", "red", key="k")], EVERYTHING))

        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(write)

        assert len({(each.written, each.version, each.id) for each in receipts}) == 1
        assert len(receipts) == 50
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1


async def test_writers_side_by_side_lose_nothing(store_database: str) -> None:
    async with opened(store_database, wait_seconds=60.0) as one, opened(store_database, wait_seconds=60.0) as other:
        acknowledged = []

        async def write(store: PostgresStore, writer: int) -> None:
            for at in range(25):
                acknowledged.extend(await store.put([memory(f"w{writer}-{at}", "red x", degrees=at)], EVERYTHING))

        async with anyio.create_task_group() as tasks:
            for writer, store in enumerate((one, other, one, other)):
                tasks.start_soon(write, store, writer)

        assert [each.written for each in acknowledged] == [Written.STORED] * 100
        assert (await one.find(wanting("red", near=0), EVERYTHING)).passages == 100
        assert await one.faults() == []


@pytest.mark.parametrize(
    "table, sqlstate, told",
    [
        ("posting", "53100", "disk is full"),
        ("vector_local", "53200", "out of memory"),
        ("passage", "40001", "try again"),
        ("tag", "XX001", "damaged"),
    ],
)
async def test_what_fails_on_the_way_leaves_nothing_half_done_and_succeeds_later_with_its_key(
    store_database: str, table: str, sqlstate: str, told: str
) -> None:
    batch = [memory("one", "red", degrees=0, key="k1", tags=("t",)), memory("two", "blue", degrees=5, key="k2", tags=("t",))]
    async with opened(store_database) as store:
        await store.put([memory("before", "red", degrees=1)], EVERYTHING)
        with failing(store_database, table, sqlstate):
            with pytest.raises(StorageUnavailable, match=told) as raised:
                await store.put(batch, EVERYTHING)
            assert "Nothing was written" in raised.value.fact
            assert "row" not in raised.value.fact
            assert (await store.find(wanting("red", near=0), EVERYTHING)).passages == 1, "reading goes on"
        assert await store.faults() == []

        assert [each.written for each in await store.put(batch, EVERYTHING)] == [Written.STORED] * 2


async def test_on_a_database_that_takes_no_writes_recall_works_and_writes_say_so(store_database: str) -> None:
    name = conninfo.conninfo_to_dict(store_database)["dbname"]
    async with opened(store_database) as store:
        await store.put([memory("one", "red")], EVERYTHING)
    _do(store_database, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    try:
        async with opened(store_database) as store:
            assert (await store.find(wanting("red"), EVERYTHING)).passages == 1
            for write in (store.put([memory("two", "red")], EVERYTHING), store.grant("ada", "acme", "*"), store.add_root("acme", "/x")):
                with pytest.raises(StorageUnavailable, match="read-only"):
                    await write
            assert (await store.find(wanting("red"), EVERYTHING)).passages == 1
    finally:
        with psycopg.connect(store_database, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'.encode())


async def test_a_value_that_the_database_cannot_take_costs_its_own_memory_only(store_database: str) -> None:
    endless = Random(1).randbytes(9000).hex()
    async with opened(store_database) as store:
        receipts = await store.put([memory("one", "red"), memory("odd", "red", tags=(endless,)), memory("two", "red")], EVERYTHING)

        assert [(each.written, each.code) for each in receipts] == [
            (Written.STORED, None),
            (Written.REFUSED, Refusal.TOO_LARGE),
            (Written.STORED, None),
        ]
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 2
        assert await store.faults() == []


async def test_a_word_too_long_for_an_index_is_found_all_the_same(store_database: str) -> None:
    endless = Random(2).randbytes(5000).hex()
    async with opened(store_database) as store:
        await store.put([memory("one", f"red {endless}"), memory("two", f"red {endless[:-1]}")], EVERYTHING)

        answer = await found(store, wanting(endless), EVERYTHING)
        assert [row[0] for row in answer["postings"][endless]] == ["fact:one#0"]
        assert await store.vocabulary(10_000, 10_000, EVERYTHING) == [endless]


async def test_a_commit_whose_answer_was_lost_is_found_out_by_its_key(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        (line,) = store._desk.pool._idle
        through = line.exchange

        async def lost(commands: Any, *, until: float) -> Answers:
            answers = await through(commands, until=until)
            if commands[-1].statement.sql == b"COMMIT":
                raise StorageUnavailable("The connection was lost: try again.")
            return answers

        line.exchange = lost  # type: ignore[method-assign]  # the network, at the worst moment
        entry = memory("one", "red", key="k")
        with pytest.raises(StorageUnavailable):
            await store.put([entry], EVERYTHING)
        line.exchange = through  # type: ignore[method-assign]

        (receipt,) = await store.put([entry], EVERYTHING)
        assert (receipt.written, receipt.version) == (Written.STORED, 1)
        (conflict,) = await store.put([memory("one", "blue", key="k")], EVERYTHING)
        assert conflict.code == Refusal.KEY_CONFLICT
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1


async def test_writers_of_different_orgs_do_not_wait_for_each_other(store_database: str) -> None:
    async with opened(store_database, write_seconds=2.0) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        await store.put([memory("one", "red", org="other")], seen_from("other"))
        async with store._desk.writing(Identity.of_org("acme")) as transaction:
            await transaction.ask([store._desk.command("lock", number=_number("acme"))])
            assert [each.written for each in await store.put([memory("two", "red", org="other")], seen_from("other"))] == [Written.STORED]
            with pytest.raises(StorageUnavailable, match="too long"):
                await _impatiently(store_database)


async def _impatiently(dsn: str) -> None:
    async with opened(dsn, write_seconds=0.2) as other:
        await other.put([memory("two", "red")], EVERYTHING)


def _number(org: str) -> int:
    return int.from_bytes(sha256(org.encode()).digest()[:8], signed=True)


async def test_an_update_of_how_a_memory_stands_makes_no_new_place_in_the_graph(store_database: str) -> None:
    """What is superseded leaves the index by its condition, so that marking it never inserts the vector again."""
    async with opened(store_database) as store:
        await store.put([memory(f"m{at}", "red", degrees=at) for at in range(20)], EVERYTHING)
        with psycopg.connect(store_database, autocommit=True) as connection:
            (before,) = connection.execute("SELECT pg_relation_size('remit.vector_local_nearest')").fetchone() or (0,)
        await store.put(
            [memory("new", "red", degrees=90, supersedes=tuple(MemoryId(Source.FACT, f"m{at}") for at in range(20)))], EVERYTHING
        )
        with psycopg.connect(store_database, autocommit=True) as connection:
            (after,) = connection.execute("SELECT pg_relation_size('remit.vector_local_nearest')").fetchone() or (0,)

        assert after - before <= 8192, "one page at most, for the new one"
        assert (await store.find(wanting(near=0), EVERYTHING)).neighbours[0].keys.size == 1
