"""The embedded Postgres: one for all who open its folder, gone after the last of them however they end, in folders of its own only.

Run as root, every promise about processes is also tried as an ordinary user.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psycopg
import pytest

from remit.pipeline.config import Embedded, load
from remit.pipeline.errors import ConfigError, StorageUnavailable
from remit.pipeline.storage.postgres.binaries import installed
from remit.pipeline.storage.postgres.housing import SERVER_UID, fits, may_enter
from remit.pipeline.storage.postgres.keeper import DATA, KEEPER, LOG, MARK, SERVER, SOCKETS, plain
from remit.pipeline.storage.postgres.server import EmbeddedServer, started

SETTINGS: Embedded = load().embedded
ROOT = os.geteuid() == 0
NOBODY, NAMELESS = (65534, 65534), (60999, 60999)
CHECKOUT = Path(__file__).parents[2]
MAJORS = [binaries.major for binaries in installed()]

KEEP = "SELECT lo_from_bytea(0, 'kept')"
USER = """
import sys, anyio
from remit.pipeline.config import load
from remit.pipeline.storage.postgres.server import started

async def main():
    try:
        server = await started(sys.argv[1], load().embedded, durable=False)
    except Exception as error:
        sys.exit(print(error))
    print(server.dsn(), flush=True)
    await anyio.to_thread.run_sync(sys.stdin.read)
    await server.close()

anyio.run(main)
"""


both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def anyio_backend() -> str:
    """What is said about processes and folders is said once; what waits in an event loop, for both."""
    return "asyncio"


class User:
    """A process of its own that opens a folder, and leaves when it is told to or killed."""

    def __init__(self, folder: Path, become: tuple[int, int] | None) -> None:
        manner = {"user": become[0], "group": become[1], "extra_groups": []} if become else {}
        manner |= {"env": {"PYTHONPATH": os.pathsep.join([*sys.path, str(CHECKOUT / ".dev")])}, "cwd": "/", "text": True}
        line = [str(python_for(become)), "-P", "-c", USER, str(folder)]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **manner)  # type: ignore[call-overload]

    def dsn(self) -> str:
        """Waits until the server is there."""
        return str(self.process.stdout.readline()).strip()

    def leaves(self) -> None:
        self.process.communicate()

    def is_killed(self) -> None:
        self.process.kill()
        self.process.communicate()


def python_for(become: tuple[int, int] | None) -> Path | None:
    """A Python of our version that a user can run, and import this checkout with; None where there is none."""
    if become is None:
        return Path(sys.executable)
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    if not ROOT or not may_enter(CHECKOUT, become):
        return None
    return next((each for each in (Path(sys.executable), system) if each.exists() and may_enter(each.resolve().parent, become)), None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose server has been started, and has stopped. Tests that do more than that work on copies."""
    folder = tmp_path_factory.mktemp("embedded") / "made"

    async def once() -> None:
        server = await started(folder, SETTINGS, durable=False)
        await server.close()

    anyio.run(once)
    return folder


@pytest.fixture(
    scope="module", params=[pytest.param(None, id="ourselves"), *([pytest.param(NOBODY, id="nobody")] if python_for(NOBODY) else [])]
)
def become(request: pytest.FixtureRequest) -> tuple[int, int] | None:
    become: tuple[int, int] | None = request.param
    return become


@pytest.fixture(scope="module")
def folder(made: Path, become: tuple[int, int] | None) -> Iterator[Path]:
    """A copy of `made`, as of a backup, below the temporary folder, which every user can enter."""
    with temporary(become) as place:
        yield copied(made, place / "db", become)


@contextmanager
def temporary(owner: tuple[int, int] | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as name:
        if owner:
            os.chown(name, *owner)
        yield Path(name)


def copied(made: Path, to: Path, owner: tuple[int, int] | None) -> Path:
    shutil.copytree(made, to, ignore=shutil.ignore_patterns(SOCKETS))
    for path in (to, *to.rglob("*")) if owner else ():
        os.chown(path, *owner)  # type: ignore[misc]
    return to


def value(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(statement).fetchone()[0]  # type: ignore[index]


def answers(dsn: str) -> bool:
    try:
        return value(dsn, "SELECT 1") == 1
    except psycopg.OperationalError:
        return False


def is_gone(folder: Path) -> bool:
    return all(free(folder / name) for name in (KEEPER, SERVER))


def until(so: Callable[[], bool]) -> None:
    """Waits for what other processes do by themselves; a minute is longer than any of it takes."""
    end = time.monotonic() + 60
    while not so():
        assert time.monotonic() < end
        time.sleep(0.005)


def wait_until_gone(folder: Path) -> None:
    """Comes back when the last process of the server has ended, keeper included."""
    until(lambda: is_gone(folder))


def free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def postmaster(folder: Path) -> int:
    return int((folder / DATA / "postmaster.pid").read_text().splitlines()[0])


def keeper_of(folder: Path) -> int:
    return int(Path(f"/proc/{postmaster(folder)}/stat").read_text().rpartition(")")[2].split()[1])


def user_of(process: int) -> int:
    return Path(f"/proc/{process}").stat().st_uid


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    def look() -> list[tuple[object, ...]]:
        paths = [folder, *sorted(folder.rglob("*"))] if folder.exists() else []
        return [(path, path.stat().st_mode, path.stat().st_uid, path.stat().st_mtime_ns) for path in paths]

    before = look()
    yield
    assert look() == before


# One server for all, and none after them.


def test_processes_share_a_server_and_the_last_one_stops_it(folder: Path, become: tuple[int, int] | None) -> None:
    one, two = User(folder, become), User(folder, become)
    first, second = one.dsn(), two.dsn()
    born = "SELECT pg_postmaster_start_time()"

    assert first == second
    assert value(first, born) == value(second, born)
    one.leaves()
    assert value(second, "SELECT 1") == 1
    two.leaves()
    assert is_gone(folder)


def test_no_server_outlives_a_killed_user(folder: Path, become: tuple[int, int] | None) -> None:
    user = User(folder, become)
    kept = value(user.dsn(), KEEP)

    user.is_killed()

    wait_until_gone(folder)
    again = User(folder, become)
    assert value(again.dsn(), f"SELECT lo_get({kept})") == b"kept"
    again.leaves()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next keeper stops the server")
def test_no_server_outlives_a_killed_keeper(folder: Path, become: tuple[int, int] | None) -> None:
    user = User(folder, become)
    user.dsn()

    os.kill(keeper_of(folder), signal.SIGKILL)

    wait_until_gone(folder)
    again = User(folder, become)
    assert value(again.dsn(), "SELECT 1") == 1
    user.leaves()
    again.leaves()
    assert is_gone(folder)


def test_a_killed_server_comes_back_on_the_same_socket_with_what_was_committed(folder: Path, become: tuple[int, int] | None) -> None:
    user = User(folder, become)
    dsn = user.dsn()
    kept = value(dsn, KEEP)

    os.kill(postmaster(folder), signal.SIGKILL)

    until(lambda: answers(dsn))
    assert value(dsn, f"SELECT lo_get({kept})") == b"kept"
    user.leaves()
    assert is_gone(folder)


def test_what_a_killed_machine_leaves_is_recovered(folder: Path, become: tuple[int, int] | None) -> None:
    user = User(folder, become)
    kept = value(user.dsn(), KEEP)
    keeper, server = keeper_of(folder), postmaster(folder)
    os.kill(keeper, signal.SIGSTOP)
    os.kill(server, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    user.is_killed()
    wait_until_gone(folder)
    notes = folder / DATA / "postmaster.pid"
    lines = notes.read_text().splitlines()

    # The number of the dead server has been given to another process of the same user.
    other = subprocess.Popen(["sleep", "60"], user=notes.stat().st_uid if ROOT else None, cwd="/")
    notes.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")

    again = User(folder, become)
    assert value(again.dsn(), f"SELECT lo_get({kept})") == b"kept"
    again.leaves()
    other.kill()
    other.wait()


@both_loops
async def test_many_that_open_at_once_get_one_server(made: Path) -> None:
    servers: list[EmbeddedServer] = []

    async def opens() -> None:
        servers.append(await started(made, SETTINGS, durable=False))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(opens)
    born = {value(server.dsn(), "SELECT pg_postmaster_start_time()") for server in servers}
    for server in servers[1:]:
        await server.close()

    assert len(born) == 1
    assert value(servers[0].dsn(), "SELECT 1") == 1
    await servers[0].close()
    await servers[0].close()
    assert is_gone(made)


@both_loops
async def test_one_who_is_cancelled_while_it_starts_leaves_nothing_running(made: Path) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(started, made, SETTINGS)
        await anyio.to_thread.run_sync(until, lambda: not free(made / KEEPER))
        tasks.cancel_scope.cancel()

    await anyio.to_thread.run_sync(wait_until_gone, made)


async def test_a_server_in_a_tests_manner_is_not_lent_to_one_who_wants_durability(made: Path) -> None:
    server = await started(made, SETTINGS, durable=False)
    try:
        with pytest.raises(StorageUnavailable, match="test's manner"):
            await started(server.directory, SETTINGS)
    finally:
        await server.close()


# Where it lives, and as whom.


@pytest.mark.parametrize("name", ["x" * 200, "with space, 'quotes', \"more\", 100% and ü"])
async def test_any_folder_does(tmp_path: Path, name: str) -> None:
    server = await started(tmp_path / name, SETTINGS, durable=False)
    try:
        assert value(server.dsn(), "SELECT 1") == 1
        assert fits(server.sockets)
    finally:
        await server.close()
    assert not list(server.sockets.parent.glob("sockets/.s.PGSQL*"))


async def test_only_its_own_user_reaches_it_and_only_on_this_machine(made: Path) -> None:
    server = await started(made, SETTINGS, durable=False)
    try:
        socket = next(server.sockets.glob(".s.PGSQL.*[0-9]"))
        modes = [path.stat().st_mode & 0o777 for path in (server.directory, server.sockets, socket)]
        listening = value(server.dsn(), "SHOW listen_addresses")
        owner = socket.stat().st_uid
    finally:
        await server.close()

    assert modes == [0o700, 0o700, 0o700]
    assert listening == ""
    assert owner == (SERVER_UID if ROOT else os.geteuid())


async def test_it_works_below_a_folder_that_its_user_cannot_enter_and_leaves_the_modes_alone(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    server = await started(private / "db", SETTINGS, durable=False)
    try:
        assert value(server.dsn(), "SELECT 1") == 1
        assert user_of(postmaster(server.directory)) == (SERVER_UID if ROOT else os.geteuid())
    finally:
        await server.close()

    assert private.stat().st_mode & 0o777 == 0o700
    assert private.stat().st_uid == os.geteuid()


async def test_programs_that_its_user_cannot_reach_are_copied_to_where_it_can(tmp_path: Path, made: Path) -> None:
    newest = installed()[0]
    root = tmp_path / "private"
    for part in newest.parts:
        target = root / part.relative_to(newest.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(part, target) if part.is_dir() else shutil.copy2(part, target)
    root.chmod(0o700)
    moved = type(newest)(
        major=newest.major,
        root=root,
        bin=root / newest.bin.relative_to(newest.root),
        parts=tuple(root / part.relative_to(newest.root) for part in newest.parts),
    )

    server = await started(tmp_path / "db", SETTINGS, durable=False, binaries=(moved,))
    try:
        assert value(server.dsn(), "SELECT 1") == 1
    finally:
        await server.close()


if python_for(NAMELESS):  # only root can be another user

    def test_a_user_without_a_name_can_open_a_folder_but_not_make_one(made: Path) -> None:
        with temporary(NAMELESS) as place:
            there = copied(made, place / "there", NAMELESS)
            opening, making = User(there, NAMELESS), User(place / "new", NAMELESS)

            assert value(opening.dsn(), "SELECT 1") == 1
            assert "add a line for this user to /etc/passwd" in making.dsn()
            opening.leaves()
            making.leaves()


def test_a_role_may_walk_where_the_modes_let_it(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    owner = shut.stat()

    assert may_enter(Path("/"), NAMELESS)
    assert not may_enter(shut, NAMELESS)
    assert may_enter(shut, (owner.st_uid, owner.st_gid)) or not may_enter(tmp_path, (owner.st_uid, owner.st_gid))


# What it refuses.


async def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with unchanged(tmp_path), pytest.raises(ConfigError, match="not a folder of ours"):
        await started(tmp_path, SETTINGS)


async def test_the_data_of_another_postgres_is_refused_and_left_alone(tmp_path: Path, made: Path) -> None:
    with unchanged(made / DATA), pytest.raises(ConfigError, match="not a folder of ours"):
        await started(made / DATA, SETTINGS)


async def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")

    with pytest.raises(ConfigError, match="not a folder of ours"):
        await started(tmp_path / "file", SETTINGS)


async def test_a_folder_of_a_version_that_is_not_there_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text(json.dumps({"madeBy": "remit", "postgres": 15}))

    with unchanged(tmp_path), pytest.raises(ConfigError, match="needs Postgres 15, and installed is"):
        await started(tmp_path, SETTINGS)


async def test_data_of_another_version_than_its_mark_is_refused(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text(json.dumps({"madeBy": "remit", "postgres": MAJORS[0]}))
    (tmp_path / DATA).mkdir()
    (tmp_path / DATA / "PG_VERSION").write_text("15\n")

    with pytest.raises(ConfigError, match="not of the version that its mark tells"):
        await started(tmp_path, SETTINGS)
    wait_until_gone(tmp_path)


async def test_a_folder_that_others_may_write_in_is_refused(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text(json.dumps({"madeBy": "remit", "postgres": MAJORS[0]}))
    os.chmod(tmp_path, 0o777)  # noqa: S103 - what is refused

    with unchanged(tmp_path), pytest.raises(StorageUnavailable, match="Others may write"):
        await started(tmp_path, SETTINGS)


@both_loops
async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text(json.dumps({"madeBy": "remit", "postgres": MAJORS[0]}))
    (tmp_path / DATA).mkdir(mode=0o700)
    (tmp_path / DATA / "PG_VERSION").write_text(f"{MAJORS[0]}\n")

    with pytest.raises(StorageUnavailable, match=r"did not start: .* could not access the server configuration file"):
        await started(tmp_path, SETTINGS)
    wait_until_gone(tmp_path)


@pytest.mark.parametrize(
    "told, sentence",
    [
        ("initdb: error: could not create directory: No space left on device", "The disk is full"),
        ("FATAL:  could not write lock file: Disk quota exceeded", "The disk is full"),
        ("initdb: error: could not access directory: Permission denied", "may not be used by the server's user"),
        ("LOG:  one\nFATAL:  could not map anonymous shared memory\n", "Postgres did not start: could not map anonymous shared memory"),
        ("postgres: could not find the database system\n", "Postgres did not start: postgres: could not find the database system"),
        ("", "it did not say why"),
    ],
)
def test_a_complaint_becomes_one_line(told: str, sentence: str) -> None:
    assert sentence in plain(told)
    assert "\n" not in plain(told)


# What it is.


@pytest.mark.parametrize("major", MAJORS)
async def test_every_installed_version_knows_vectors(tmp_path: Path, major: int) -> None:
    """The extension's files lie in the package's own share folder, for 18 and for 16."""
    server = await started(tmp_path / "db", SETTINGS, major=major, durable=False)
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE TABLE t AS SELECT ARRAY[n, 1]::vector(2) AS v FROM generate_series(1, 50) AS n")
            connection.execute("CREATE INDEX ON t USING hnsw (v vector_cosine_ops)")
            connection.execute("SET hnsw.iterative_scan = strict_order")
            nearest = connection.execute("SELECT v::text FROM t ORDER BY v <=> '[1,1]' LIMIT 1").fetchone()
            is_c = connection.execute("SELECT datcollate FROM pg_database WHERE datname = current_database()").fetchone()
            assert connection.info.server_version // 10000 == server.major == major
    finally:
        await server.close()

    assert nearest == ("[1,1]",)
    assert is_c == ("C",)
    again = await started(tmp_path / "db", SETTINGS, durable=False)
    assert again.major == major
    await again.close()


async def test_its_log_holds_no_statement_and_no_value(made: Path) -> None:
    server = await started(made, SETTINGS, durable=False)
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TEMPORARY TABLE t (secret text PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES ('canary')")
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute("INSERT INTO t VALUES ('canary')")
    finally:
        await server.close()

    assert "duplicate key" in (server.directory / LOG).read_text()
    assert "canary" not in (server.directory / LOG).read_text()


def test_a_database_is_cloned_with_what_is_in_its_template(database: str) -> None:
    assert value(database, "SELECT '[1,2]'::vector <-> '[1,2]'::vector") == 0
