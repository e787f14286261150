"""Making and opening a store in a database: once and for all, by an owner, with one clear line when it cannot be. B1.6, B1.7, B1.13."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import psycopg
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory, wanting
from databases import APP, OWNER, login
from psycopg import conninfo, sql
from servers import Postgres

from remit.pipeline.config import load
from remit.pipeline.crews import Overloaded
from remit.pipeline.errors import ConfigError, RemitError, StorageUnavailable
from remit.pipeline.storage import migrations, queries
from remit.pipeline.storage.postgres import Made, made, making, open_postgres

pytestmark = pytest.mark.anyio

SETTINGS = load().postgres
make = partial(made, settings=SETTINGS, signature=SIGNATURE, semantic_dimensions=768)
CANARY = "c4nary"
MIGRATIONS = tuple(each.name for each in migrations.read(Path(making.__file__).parent / "migrations"))


@pytest.fixture
def empty(postgres_server: Postgres) -> Iterator[str]:
    """The superuser's DSN of a database in which nothing is yet."""
    dsn = postgres_server.create()
    try:
        yield dsn
    finally:
        postgres_server.drop(dsn)


def _do(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def test_a_store_is_made_once_and_made_again_without_harm(empty: str) -> None:
    assert await make(empty) == Made(migrations=MIGRATIONS, for_dba="")
    async with await open_postgres(empty, SETTINGS, SIGNATURE) as store:
        await store.put([memory("one", "red")], EVERYTHING)

    assert await make(empty) == Made(migrations=(), for_dba="")
    async with await open_postgres(empty, SETTINGS, SIGNATURE) as store:
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1


async def test_several_may_make_it_at_once(empty: str) -> None:
    done: list[Made] = []

    async def one() -> None:
        done.append(await make(empty))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(one)

    assert sorted(len(each.migrations) for each in done) == [0, 0, 0, len(MIGRATIONS)]


async def test_an_owner_that_may_not_make_roles_is_told_what_a_dba_must_run(postgres_server: Postgres, empty: str) -> None:
    name = conninfo.conninfo_to_dict(empty)["dbname"]
    _do(empty, f'CREATE ROLE remit_plain LOGIN; GRANT CREATE ON DATABASE "{name}" TO remit_plain')
    settings = replace(SETTINGS, role="remit_elsewhere")
    try:
        first = await made(login(empty, "remit_plain"), settings, SIGNATURE, semantic_dimensions=768)
        with pytest.raises(StorageUnavailable, match="remit init"):
            await open_postgres(login(empty, "remit_plain"), settings, SIGNATURE)
        _do(empty, *first.for_dba.splitlines())
        second = await made(login(empty, "remit_plain"), settings, SIGNATURE, semantic_dimensions=768)
        async with await open_postgres(login(empty, "remit_plain"), settings, SIGNATURE) as store:
            await store.put([memory("one", "red", degrees=0)], EVERYTHING)
            assert await store.faults() == []
    finally:
        _do(empty, "DROP OWNED BY remit_plain, remit_elsewhere CASCADE", "DROP ROLE remit_plain, remit_elsewhere")

    assert [line.split()[0] for line in first.for_dba.splitlines()] == ["CREATE", "CREATE", "GRANT"]
    assert second == Made(migrations=(), for_dba="")


def test_the_file_for_a_dba_says_what_init_does() -> None:
    text = (Path(making.__file__).parents[3] / "ops" / "postgres" / "roles.sql").read_text()
    names = {"role": f'"{SETTINGS.role}"', "login": '"remit_service"'}
    for statement in queries.load(Path(making.__file__).parent / "roles.sql").values():
        assert f"{statement.format(**names)};" in text


async def test_a_database_without_a_store_says_how_to_make_one(empty: str) -> None:
    with pytest.raises(StorageUnavailable, match="remit init"):
        await open_postgres(empty, SETTINGS, SIGNATURE)


async def test_a_store_of_a_newer_remit_is_left_alone(empty: str) -> None:
    await make(empty)
    _do(empty, "INSERT INTO remit.migration VALUES (99, 'later', '0')")

    for attempt in (make(empty), open_postgres(empty, SETTINGS, SIGNATURE)):
        with pytest.raises(StorageUnavailable, match="newer Remit"):
            await attempt


async def test_a_store_of_another_schema_is_left_alone(empty: str) -> None:
    await make(empty)
    _do(empty, "UPDATE remit.migration SET checksum = '0'")

    for attempt in (make(empty), open_postgres(empty, SETTINGS, SIGNATURE)):
        with pytest.raises(StorageUnavailable, match="did not come from this Remit"):
            await attempt


async def test_a_store_of_another_analyser_opens_only_to_be_indexed_anew(store_database: str) -> None:
    owner = login(store_database, OWNER)
    with pytest.raises(ConfigError, match="another analyser"):
        await open_postgres(owner, SETTINGS, "another")

    async with await open_postgres(owner, SETTINGS, "another", rebuild=True) as store:
        assert [fault.code for fault in await store.faults()] == ["other_analyser"]
        await store.signed()
        assert await store.faults() == []
    async with await open_postgres(owner, SETTINGS, "another") as store:
        await store.close()
    async with await open_postgres(owner, SETTINGS, SIGNATURE, rebuild=True) as store:
        await store.signed()


async def test_only_the_owner_looks_after_all_orgs(store_database: str) -> None:
    _do(store_database, f"CREATE ROLE remit_service LOGIN; GRANT {APP} TO remit_service")
    try:
        async with await open_postgres(login(store_database, "remit_service"), SETTINGS, SIGNATURE) as store:
            await store.put([memory("one", "red", degrees=0)], EVERYTHING)
            assert (await store.find(wanting("red"), EVERYTHING)).passages == 1
            assert await store.faults() == []
            for maintenance in (store.records(None, 9), store.signed()):
                with pytest.raises(StorageUnavailable, match="owner"):
                    await maintenance
    finally:
        _do(store_database, "DROP OWNED BY remit_service", "DROP ROLE remit_service")


@pytest.mark.parametrize(
    "dsn, told",
    [
        (f"postgresql://{CANARY}:{CANARY}@127.0.0.1:1/{CANARY}", "Nothing answers"),
        (f"postgresql://{CANARY}:{CANARY}@no-such-host.invalid/{CANARY}", "host is not known"),
        (f"postgresql:///{CANARY}?host=/no/such/{CANARY}", "Nothing answers"),
    ],
    ids=["refused", "no such name", "no such socket"],
)
async def test_what_cannot_be_reached_says_so_without_its_address(dsn: str, told: str) -> None:
    for attempt in (open_postgres(dsn, SETTINGS, SIGNATURE), make(dsn)):
        with pytest.raises(StorageUnavailable) as raised:
            await attempt
        assert told in raised.value.fact or raised.value.fact.startswith("Nothing answers")
        _tells_nothing(raised.value)


@pytest.mark.parametrize("dsn", [f"postgresql://{CANARY}@/x?nosuch={CANARY}", f"host={CANARY} {CANARY}", f"postgresql://[{CANARY}"])
async def test_an_address_that_cannot_be_read_is_refused_without_repeating_it(dsn: str) -> None:
    for attempt in (open_postgres(dsn, SETTINGS, SIGNATURE), make(dsn)):
        with pytest.raises(ConfigError) as raised:
            await attempt
        _tells_nothing(raised.value)


async def test_a_database_or_a_role_that_is_not_there_is_told_plainly(postgres_server: Postgres, store_database: str) -> None:
    for dsn, told in (
        (postgres_server.at(f"no_{CANARY}"), "The database is not there"),
        (login(store_database, f"no_{CANARY}"), "refused the login"),
        (login(store_database, APP), "refused the login"),
    ):
        for attempt in (open_postgres(dsn, SETTINGS, SIGNATURE), make(dsn)):
            with pytest.raises(StorageUnavailable) as raised:
                await attempt
            assert told in raised.value.fact
            _tells_nothing(raised.value)


async def test_a_server_without_a_place_left_is_overloaded_and_not_empty(store_database: str) -> None:
    _do(store_database, "CREATE ROLE remit_few LOGIN CONNECTION LIMIT 1", f"GRANT {APP} TO remit_few")
    try:
        async with await open_postgres(login(store_database, "remit_few"), replace(SETTINGS, connections=2), SIGNATURE) as store:
            async with store._desk.pool.line(anyio.current_time() + 5):
                with pytest.raises(Overloaded):
                    await store.find(wanting("red"), EVERYTHING)
            assert (await store.find(wanting("red"), EVERYTHING)).passages == 0
    finally:
        _do(store_database, "DROP OWNED BY remit_few", "DROP ROLE remit_few")


async def test_after_the_server_ended_a_connection_the_next_question_has_another(store_database: str) -> None:
    async with await open_postgres(login(store_database, OWNER), SETTINGS, SIGNATURE) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        _do(
            store_database,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'remit_owner' AND pid <> pg_backend_pid()",
        )
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1


async def test_a_connection_that_ends_under_a_question_is_unavailable_and_then_forgotten(store_database: str) -> None:
    async with await open_postgres(login(store_database, OWNER), SETTINGS, SIGNATURE) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        failed: list[RemitError] = []

        async def asked() -> None:
            try:
                await store.find(wanting("red"), EVERYTHING)
            except RemitError as error:
                failed.append(error)

        with psycopg.connect(store_database) as lock:
            lock.execute("LOCK TABLE remit.posting IN ACCESS EXCLUSIVE MODE")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(asked)
                ended = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = {} AND wait_event_type = 'Lock'")
                with psycopg.connect(store_database, autocommit=True) as other:
                    while not other.execute(ended.format(sql.Literal(OWNER))).fetchall():  # noqa: ASYNC110 - the server waits
                        await anyio.sleep(0.01)
        assert [type(error) for error in failed] == [StorageUnavailable]
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1
        assert store._desk.pool.lent == 0


async def test_a_closed_store_says_that_it_was_closed(store_database: str) -> None:
    store = await open_postgres(login(store_database, OWNER), SETTINGS, SIGNATURE)
    await store.close()

    with pytest.raises(StorageUnavailable, match="closed"):
        await store.find(wanting("red"), EVERYTHING)


def _tells_nothing(error: BaseException) -> None:
    seen: BaseException | None = error
    while seen is not None:
        assert CANARY not in str(seen)
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
