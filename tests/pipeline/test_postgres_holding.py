"""A write that waits long for another one of its org logs what that one does, from a closed list of words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory
from databases import OWNER, login
from hearing import logged

from remit.pipeline.config import load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import Receipt
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.postgres import PostgresStore, open_postgres
from remit.pipeline.storage.postgres.identity import Identity
from remit.pipeline.storage.postgres.statements import plain

pytestmark = pytest.mark.anyio

NUMBER = int.from_bytes(sha256(b"acme").digest()[:8], signed=True)
"""The lock that writers of the org take turns by."""

NAME = plain("SELECT current_setting('application_name')")


@asynccontextmanager
async def opened(dsn: str, **changed: Any) -> AsyncIterator[PostgresStore]:
    settings = replace(load().postgres, **{"write_seconds": 0.5, "slow_lock_seconds": 0.1} | changed)
    async with await open_postgres(login(dsn, OWNER), settings, SIGNATURE) as store:
        yield store


async def waited(holder: PostgresStore, waiting: PostgresStore, operation: Operation | None) -> list[Any]:
    async with holder._desk.writing(Identity.of_org("acme"), operation) as transaction:
        await transaction.ask([holder._desk.command("lock", number=NUMBER)])
        with logged() as lines, pytest.raises(StorageUnavailable, match="too long"):
            await waiting.put([memory("one", "red")], EVERYTHING)
    return lines


async def test_who_waits_for_long_logs_what_the_other_does(store_database: str) -> None:
    async with opened(store_database, write_seconds=30.0) as holder, opened(store_database) as store:
        lines = await waited(holder, store, Operation.IMPORT)
        (receipt,) = await store.put([memory("one", "red")], EVERYTHING)

    assert lines == [{"event": "lock_waited", "log_level": "warning", "remit.holder": "import", "remit.waited_seconds": 0.1}]
    assert receipt.written == "stored"


async def test_the_wait_goes_on_after_the_look_and_ends_well(store_database: str) -> None:
    stored: list[Receipt] = []

    async def put() -> None:
        stored.extend(await store.put([memory("one", "red")], EVERYTHING))

    async with opened(store_database, write_seconds=30.0) as store, anyio.create_task_group() as tasks:
        with logged() as lines:
            async with store._desk.writing(Identity.of_org("acme"), Operation.REINDEX) as transaction:
                await transaction.ask([store._desk.command("lock", number=NUMBER)])
                tasks.start_soon(put)
                while not lines:
                    await anyio.lowlevel.checkpoint()
            while not stored:
                await anyio.lowlevel.checkpoint()

    assert [line["remit.holder"] for line in lines] == ["reindex"]
    assert [receipt.written for receipt in stored] == ["stored"]


async def test_below_the_threshold_and_without_a_free_line_nothing_is_logged(store_database: str) -> None:
    async with opened(store_database, write_seconds=30.0) as holder:
        async with opened(store_database, slow_lock_seconds=30.0) as store:
            assert await waited(holder, store, Operation.IMPORT) == []
        async with opened(store_database, connections=1) as store:
            assert await waited(holder, store, Operation.IMPORT) == []


async def test_a_name_that_is_not_ours_is_unknown_and_never_repeated(store_database: str) -> None:
    async with opened(store_database) as store:
        for name in ("remit red fox", "import"):
            with psycopg.connect(store_database, application_name=name) as other:
                other.execute("SELECT pg_advisory_xact_lock(%s)", [NUMBER])
                with logged() as lines, pytest.raises(StorageUnavailable, match="too long"):
                    await store.put([memory("one", "red")], EVERYTHING)
            assert [line["remit.holder"] for line in lines] == ["unknown"]


async def test_an_operation_is_named_inside_its_transaction_only(store_database: str) -> None:
    async with opened(store_database) as store:
        async with store._desk.writing(Identity.of_org("acme"), Operation.FORGET) as transaction:
            assert (await transaction.ask([NAME])).value(0) == b"remit forget"
        async with store._desk.reading(Identity.of_org("acme")) as transaction:
            assert (await transaction.ask([NAME])).value(0) == b"remit"
