"""What a server does to those who are using it: it ends, is started again, ends a connection, or has no room left. B1.3, B1.4, B1.11."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import anyio
import psycopg
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory, wanting
from databases import OWNER, Stock, login, template_with_store
from disturbing import disturbed
from psycopg import sql
from servers import OWN, Postgres
from stories.world import codes, engine_at, ids

from remit.pipeline import Answer, Engine, Fact, Principal, Request
from remit.pipeline.config import load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import Written
from remit.pipeline.storage.postgres import open_postgres
from remit.pipeline.storage.postgres.housing import SERVER_UID
from remit.pipeline.storage.postgres.keeper import DATA
from remit.pipeline.storage.postgres.server import started

ADA = Principal(actor="ada", org="acme", scopes="*")
QUESTION = Request(query="lighthouse")
FACTS = [Fact(id="keeper", text="Mara keeps the lighthouse"), Fact(id="coat", text="The lighthouse is white")]
SETTINGS = load().postgres


def gone_or_whole(answer: Answer) -> None:
    """All there is, or a fault that says so and may be tried again; never that there is nothing."""
    if answer.outcome == "unavailable":
        assert codes(answer) == ["store_unavailable"]
        assert all(because.retryable for because in answer.meta.because)
    else:
        assert (answer.outcome, sorted(ids(answer))) == ("enough", ["coat", "keeper"])


# A server of its own, which is stopped and started.


async def until_it_answers(engine: Engine) -> Answer:
    with anyio.fail_after(30):
        while (answer := await engine.recall(QUESTION, ADA)).outcome == "unavailable":
            assert codes(answer) == ["store_unavailable"]
            await anyio.sleep(0.02)
    return answer


def postmaster(folder: Path) -> int:
    return int((folder / DATA / "postmaster.pid").read_text().split()[0])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGQUIT], ids=["stopped fast", "stopped at once"])
async def test_a_server_that_is_restarted_under_a_recall_costs_that_recall_alone(tmp_path: Path, kind: signal.Signals) -> None:
    server = await started(tmp_path / "own", load().embedded)
    try:
        async with engine_at(f"embedded:{tmp_path}/own", *FACTS) as engine:
            answers: list[Answer] = []

            async def asked() -> None:
                answers.append(await engine.recall(QUESTION, ADA))

            before = await engine.recall(QUESTION, ADA)
            with closing(psycopg.connect(server.dsn())) as lock:
                lock.execute("LOCK TABLE remit.posting IN ACCESS EXCLUSIVE MODE")
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(asked)
                    with closing(psycopg.connect(server.dsn(), autocommit=True)) as other:
                        while not other.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():  # noqa: ASYNC110
                            await anyio.sleep(0.01)
                    os.kill(postmaster(tmp_path / "own"), kind)
            after = await until_it_answers(engine)
    finally:
        await server.close()

    (during,) = answers
    assert (during.outcome, codes(during), during.data) == ("unavailable", ["store_unavailable"], [])
    assert during.meta.because[0].retryable
    assert ids(before) == ids(after)


# Connections that are ended.


def ended(dsn: str) -> None:
    """Ends every connection of ours, and comes back when it is gone."""
    ending = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s AND datname = current_database()"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(ending, [OWNER])


async def test_a_connection_that_is_ended_wherever_a_recall_waits_costs_that_recall_at_most(stock_of_english: Stock) -> None:
    outcomes = set()
    with stock_of_english.database() as dsn:
        async with engine_at(login(dsn, OWNER), *FACTS) as engine:
            for place in range(1, 500):
                came_to_it, answer = await disturbed(engine.recall(QUESTION, ADA), place, lambda: ended(dsn))
                gone_or_whole(answer)
                outcomes.add(answer.outcome)
                assert (await engine.recall(QUESTION, ADA)).outcome == "enough", "on another connection"
                if not came_to_it:
                    break
    assert outcomes == {"enough", "unavailable"}


async def test_a_connection_that_is_ended_wherever_a_write_waits_loses_nothing_and_doubles_nothing(store_database: str) -> None:
    async with await open_postgres(login(store_database, OWNER), SETTINGS, SIGNATURE) as store:
        for place in range(1, 500):
            entry = memory(f"m{place}", "red", key=f"k{place}")
            try:
                came_to_it, told = await disturbed(store.put([entry], EVERYTHING), place, lambda: ended(store_database))
            except StorageUnavailable:
                came_to_it, told = True, []
            (again,) = await store.put([entry], EVERYTHING)
            assert (again.written, again.version, *told) == (Written.STORED, 1, *([again] if told else []))
            assert (await store.find(wanting("red"), EVERYTHING)).passages == place
            if not came_to_it:
                break
        assert await store.faults() == []


# A disk without room. Only who may mount can make one that is small.


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def may_mount() -> bool:
    if os.geteuid() != 0 or OWN is not None:
        return False
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


@pytest.fixture
def on_a_small_disk(postgres_server: Postgres, tmp_path: Path) -> Iterator[str]:
    """The superuser's DSN of a store that lies on a disk of 24 MB."""
    place = Path("/tmp") / f"{postgres_server.run}_disk"  # noqa: S108 - where the server's user may go
    place.mkdir()
    with small_disk(place):
        os.chown(place, SERVER_UID, SERVER_UID)
        name = f"{postgres_server.run}_small"
        template = template_with_store(postgres_server, SIGNATURE)
        with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE TABLESPACE remit_small LOCATION {}").format(sql.Literal(str(place))))
            made = sql.SQL("CREATE DATABASE {} TEMPLATE {} TABLESPACE remit_small")
            connection.execute(made.format(sql.Identifier(name), sql.Identifier(template)))
            try:
                yield postgres_server.at(name)
            finally:
                postgres_server.drop(postgres_server.at(name))
                connection.execute("DROP TABLESPACE remit_small")
    place.rmdir()


def fill_up(dsn: str) -> None:
    """Takes the last room of the disk."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE public.ballast (bytes bytea STORAGE PLAIN)")
        for rows in (500, 50, 1):
            with suppress(psycopg.errors.DiskFull):
                while True:
                    connection.execute("INSERT INTO public.ballast SELECT repeat('x', 7000)::bytea FROM generate_series(1, %s)", [rows])


if may_mount():

    async def test_on_a_full_disk_nothing_is_acknowledged_reading_goes_on_and_the_same_key_succeeds_later(on_a_small_disk: str) -> None:
        batch = [memory(f"m{at}", " ".join(f"w{at}x{word}" for word in range(2000)), key=f"k{at}") for at in range(10)]
        async with await open_postgres(login(on_a_small_disk, OWNER), SETTINGS, SIGNATURE) as store:
            await store.put([memory("before", "red", degrees=0)], EVERYTHING)
            fill_up(on_a_small_disk)

            with pytest.raises(StorageUnavailable, match="disk is full") as raised:
                await store.put(batch, EVERYTHING)
            assert "Nothing was written" in raised.value.fact
            assert (await store.find(wanting("red", near=0), EVERYTHING)).passages == 1

            with psycopg.connect(on_a_small_disk, autocommit=True) as connection:
                connection.execute("DROP TABLE public.ballast")
            assert [each.written for each in await store.put(batch, EVERYTHING)] == [Written.STORED] * 10
            assert await store.faults() == []
