"""Opening a SQLite store: made when missing, refused untouched when it is not ours, newer, damaged or of another analyser."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import apsw
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory, wanting

from remit.pipeline.config import load
from remit.pipeline.errors import ConfigError, RemitError, StorageUnavailable
from remit.pipeline.storage.sqlite import SqliteStore, open_sqlite, opening
from remit.stages.evidence import Route
from remit.stages.report import Degradation

pytestmark = pytest.mark.anyio

SETTINGS = load().sqlite
MIGRATIONS = Path(opening.__file__).parent / "migrations"


async def opened(path: Path, signature: str = SIGNATURE, *, rebuild: bool = False) -> SqliteStore:
    return await open_sqlite(str(path), SETTINGS, signature, rebuild=rebuild)


def changed(path: Path, *statements: str) -> None:
    db = apsw.Connection(str(path))
    for statement in statements:
        db.execute(statement)
    db.close()


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A closed store with one memory."""
    async with await opened(tmp_path / "store.db") as store:
        await store.put([memory("one", "red", degrees=0)], EVERYTHING)
    return tmp_path / "store.db"


async def test_what_was_written_is_there_when_it_is_opened_again(path: Path) -> None:
    async with await opened(path) as store:
        found = await store.find(wanting("red"), EVERYTHING)
        assert found.postings["red"].keys.size == 1
        assert await store.faults() == []


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()

    async with await opened(tmp_path / "empty.db") as store:
        assert (await store.capabilities()).facts["migrations"] == str(len(list(MIGRATIONS.glob("*.sql"))))


async def test_many_who_open_a_missing_store_at_once_share_one(tmp_path: Path) -> None:
    stores: list[SqliteStore] = []

    async def enter() -> None:
        stores.append(await opened(tmp_path / "store.db"))

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(enter)

    await stores[0].put([memory("one", "red")], EVERYTHING)
    for store in stores:
        assert (await store.find(wanting("red"), EVERYTHING)).postings["red"].keys.size == 1
        await store.close()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def not_sqlite(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 500)


def of_another_program(path: Path) -> None:
    path.unlink()
    changed(path, "CREATE TABLE note (text)", "INSERT INTO note VALUES ('mine')")


def of_another_program_with_a_log(path: Path) -> None:
    path.unlink()
    changed(path, "PRAGMA journal_mode = wal", "PRAGMA application_id = 7", "CREATE TABLE note (text)")


def newer(path: Path) -> None:
    changed(path, "INSERT INTO migration VALUES (999, 'the_future', 'abc')")


def of_other_files(path: Path) -> None:
    changed(path, "UPDATE migration SET checksum = 'abc'")


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + bytes(3996) + path.read_bytes()[4096:])


def of_another_analyser(path: Path) -> None:
    changed(path, "UPDATE setting SET value = 'german' WHERE name = 'analyser'")


@pytest.mark.parametrize(
    "spoil, error, advice",
    [
        (not_sqlite, ConfigError, "choose another path"),
        (of_another_program, ConfigError, "choose another path"),
        (of_another_program_with_a_log, ConfigError, "choose another path"),
        (newer, StorageUnavailable, "upgrade Remit"),
        (of_other_files, StorageUnavailable, "export"),
        (cut_short, StorageUnavailable, "put a copy"),
        (damaged, StorageUnavailable, "put a copy"),
        (of_another_analyser, ConfigError, "remit init"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_file_that_cannot_be_ours_is_refused_with_what_to_do_and_left_as_it_is(
    path: Path, spoil: object, error: type[RemitError], advice: str
) -> None:
    assert callable(spoil)
    spoil(path)
    before = digest(path)

    with pytest.raises(error, match=advice) as told:
        await opened(path)

    assert digest(path) == before
    assert str(path) not in str(told.value)


@pytest.mark.parametrize("where", ["missing/store.db", "."], ids=["a folder that is not there", "a folder"])
async def test_a_place_that_cannot_hold_a_file_is_unavailable(tmp_path: Path, where: str) -> None:
    with pytest.raises(StorageUnavailable, match="look at"):
        await opened(tmp_path / where)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A file that is not there yet, in a folder where everybody may read and write: the log beside a file is made by readers too."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder, "store.db")


@contextmanager
def somebody_who_may_only_read(path: Path) -> Iterator[None]:
    """The file may be written by nobody, and stays as it is; root, who may write anything, is somebody else meanwhile."""
    path.chmod(0o444)
    before, was = path.read_bytes(), os.geteuid()
    os.seteuid(was or 65534)
    try:
        yield
    finally:
        os.seteuid(was)
    assert path.read_bytes() == before


async def test_a_file_that_may_only_be_read_is_read_and_never_written(open_to_all: Path) -> None:
    async with await opened(open_to_all) as store:
        await store.put([memory("one", "red", degrees=0)], EVERYTHING)
    with somebody_who_may_only_read(open_to_all):
        async with await opened(open_to_all) as store:
            found = await store.find(wanting("red"), EVERYTHING)
            faults, facts = await store.faults(), (await store.capabilities()).facts
            with pytest.raises(StorageUnavailable, match="may not be written"):
                await store.put([memory("two", "red", degrees=0)], EVERYTHING)

    assert found.postings["red"].keys.size == 1
    assert (faults, facts["writable"]) == ([], "no")


async def test_an_index_of_words_that_was_lost_is_unavailable_and_not_an_empty_answer(path: Path) -> None:
    changed(path, "DELETE FROM posting")
    async with await opened(path) as store:
        with pytest.raises(StorageUnavailable, match="remit init"):
            await store.find(wanting("red"), EVERYTHING)


async def test_a_store_of_another_analyser_opens_for_reindexing_and_is_ours_when_signed(path: Path) -> None:
    async with await opened(path, "german", rebuild=True) as store:
        assert [fault.code for fault in await store.faults()] == ["other_analyser"]
        await store.reindexed([memory("one", "red", degrees=0)])
        await store.signed()
        assert await store.faults() == []

    async with await opened(path, "german") as store:
        assert (await store.find(wanting("red"), EVERYTHING)).postings["red"].keys.size == 1


async def test_without_the_vector_extension_words_are_found_and_the_reason_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlite_vec.loadable_path", lambda: "/nowhere/vec0")

    async with await opened(path) as store:
        found = await store.find(wanting("red", near=0), EVERYTHING)
        assert (await store.capabilities()).vectors == "sqlite_vec_not_loaded"

    assert found.postings["red"].keys.size == 1
    assert (found.neighbours, found.compared, found.exhausted) == ((), {}, None)
    assert found.routes == {Route.LEXICAL: "ran", Route.LOCAL_EXACT: "sqlite_vec_not_loaded"}
    assert found.degraded == (Degradation.NO_VECTORS,)


BREAKS = {
    "missing_postings": "DELETE FROM posting WHERE word = 'red'",
    "orphan_postings": "UPDATE posting SET passage = 99 WHERE word = 'red'",
    "missing_vectors": "DELETE FROM vector",
    "orphan_vectors": "UPDATE vector SET superseded = 1",
    "missing_phrases": "DELETE FROM phrase WHERE rowid = 1",
    "orphan_phrases": "INSERT INTO phrase (rowid, org, words) VALUES (99, 'oacme', 'red')",
    "miscounted_shelves": "UPDATE shelf SET words = words + 1",
    "miscounted_vectors": "UPDATE embedded SET vectors = 7",
    "miscounted_words": "UPDATE vocabulary SET uses = 7",
}


@pytest.mark.parametrize("code", BREAKS)
async def test_an_index_out_of_step_is_a_fault_with_its_fix(path: Path, code: str) -> None:
    changed(path, BREAKS[code])

    async with await opened(path) as store:
        faults = {fault.code: fault.fix for fault in await store.faults()}

    assert "remit init" in faults[code]


async def test_a_damaged_phrase_index_is_a_fault(path: Path) -> None:
    changed(path, "UPDATE phrase_data SET block = x'00' WHERE id > 10")

    async with await opened(path) as store:
        assert "damaged_phrases" in {fault.code for fault in await store.faults()}


def scribbled_over(path: Path) -> None:
    """The pages where postings begin are noise; SQLite itself opens such a file."""
    db = apsw.Connection(str(path))
    (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'posting'").fetchall()[0]
    db.close()
    bytes_ = path.read_bytes()
    path.write_bytes(bytes_[: (page - 1) * 4096] + b"\xff" * 4096 + bytes_[page * 4096 :])


async def test_damaged_pages_are_unavailable_and_a_fault_and_never_an_empty_answer(path: Path) -> None:
    scribbled_over(path)

    async with await opened(path) as store:
        with pytest.raises(StorageUnavailable, match="put a copy"):
            await store.find(wanting("red"), EVERYTHING)
        assert "damaged_file" in {fault.code for fault in await store.faults()}


async def test_a_closed_store_says_so(path: Path) -> None:
    store = await opened(path)
    await store.close()

    with pytest.raises(StorageUnavailable, match="closed"):
        await store.find(wanting("red"), EVERYTHING)
    with pytest.raises(StorageUnavailable, match="closed"):
        await store.put([memory("two", "red")], EVERYTHING)
