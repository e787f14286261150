"""Opening a SQLite store: refuses what is not ours without touching it, makes or upgrades what is, and readies the connections."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote

import anyio.to_thread
import apsw

from remit.pipeline.config import Sqlite
from remit.pipeline.errors import ConfigError, StorageUnavailable
from remit.pipeline.storage import held, migrations, queries
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.sqlite.checking import IDENTITY, SIGNATURE
from remit.pipeline.storage.sqlite.holding import Note
from remit.pipeline.storage.sqlite.line import Line, Readers, rows, told_plainly, value

APPLICATION = 0x524D4954
"""What SQLite's header says of a store of ours: RMIT."""

AGAIN_SECONDS = 0.01

_HERE = Path(__file__).parent
_HEADER = b"SQLite format 3\x00"
_NOTE = "CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT"
_OPEN = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A store's connections, the file they hold, its statements, and why vectors cannot be compared, if they cannot."""

    file: held.Inode
    writer: Line
    readers: Readers
    sql: Mapping[str, str]
    no_vectors: str | None


async def opened(path: str, settings: Sqlite, signature: str, *, rebuild: bool) -> Opened:
    """Opens, makes or upgrades the store at `path`. Raises as `open_sqlite` does, with nothing left open."""
    if path.startswith(":") or not path:
        raise ConfigError("store: a SQLite store is a file; for one in memory say memory:")
    await anyio.to_thread.run_sync(_refuse_others, Path(path))
    sql = queries.load(_HERE / "queries.sql")
    name, flags = await anyio.to_thread.run_sync(_way_in, Path(path))
    lines: list[Line] = []
    try:
        waits = {"busy_seconds": settings.busy_seconds, "slow_seconds": settings.slow_lock_seconds}
        for at in range(1 + settings.readers):
            note = Note(path) if at == 0 and flags == _OPEN else None
            lines.append(await Line.opened(name, flags=flags, check_steps=settings.check_steps, note=note, **waits))
            if len(lines) == 1:
                ready = partial(_made_ready, writer=lines[0], sql=sql, signature=signature, rebuild=rebuild, settings=settings)
                await lines[0].run(ready)
        reasons = [await line.run(partial(_settled, kilobytes=settings.cache_kilobytes)) for line in lines]
    except BaseException:
        for line in lines:
            await line.close()
        raise
    return Opened(
        file=held.hold(Path(path)), writer=lines[0], readers=Readers(lines[1:]), sql=sql, no_vectors=next(filter(None, reasons), None)
    )


def _refuse_others(path: Path) -> None:
    """Looks at the file without SQLite's locks and side files, so that nothing of another program is touched."""
    try:
        str(path).encode()  # SQLite takes names in UTF-8 only
        if held.is_held(path.stat()):
            return  # one of ours, open already: to open and close it here would drop the locks of those who use it
        header = _header(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError):  # a name that no file can have is a ValueError
        raise StorageUnavailable("The file cannot be read: look at who may read it, and whether it is a file.") from None
    if header and not header.startswith(_HEADER):
        raise ConfigError("It is not an SQLite file: choose another path. Nothing was changed.")
    application = int.from_bytes(header[68:72], "big")
    if header and (application not in (0, APPLICATION) or (application == 0 and _holds_tables(path))):
        raise ConfigError("It is an SQLite file of another program: choose another path. Nothing was changed.")


def _way_in(path: Path) -> tuple[str, int]:
    """The name and flags a file is opened with: for reading only where this user may not write it.

    On a file system that nobody writes to there can be no log, and SQLite must be told that none is needed. Where only this user may not
    write, somebody else may, so there it is not told that.
    """
    if not path.exists() or os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return str(path), _OPEN
    frozen = os.statvfs(path).f_flag & os.ST_RDONLY and not path.with_name(f"{path.name}-wal").exists()
    return f"file:{quote(str(path.absolute()))}?{'immutable=1' if frozen else 'mode=ro'}", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def _header(path: Path) -> bytes:
    """The first bytes of a regular file. Nothing else is opened at all: nobody could call off the wait at a pipe."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError
    with path.open("rb") as file:
        return file.read(100)


def _holds_tables(path: Path) -> bool:
    """Whether a file without a mark has tables of its own; a store that is just being made by another process has none yet."""
    with told_plainly():
        db = apsw.Connection(f"file:{quote(str(path.absolute()))}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            return bool(value(db, "SELECT count(*) FROM sqlite_schema"))
        finally:
            db.close()


def _made_ready(db: apsw.Connection, *, writer: Line, sql: Mapping[str, str], signature: str, rebuild: bool, settings: Sqlite) -> None:
    """Brings the file to this schema, in a transaction a migration, and sees that its words are of this analyser."""
    files = migrations.read(_HERE / "migrations")
    if _pending(db, sql, files):
        _keep_a_log(db, settings.busy_seconds)
    while _pending(db, sql, files):
        with writer.writing(db, Operation.MIGRATE):
            todo = _pending(db, sql, files)  # somebody else may have come first
            if todo:
                _migrate(db, sql, todo[0], signature)
    bound_to = value(db, sql["setting"], {"name": SIGNATURE})
    if bound_to != signature and not rebuild:
        raise ConfigError("The store's words were made by another analyser: run `remit init`, which makes the indexes again.")


def _pending(db: apsw.Connection, sql: Mapping[str, str], files: tuple[migrations.Migration, ...]) -> tuple[migrations.Migration, ...]:
    if not value(db, "SELECT count(*) FROM sqlite_schema"):
        return files
    if value(db, "PRAGMA application_id") != APPLICATION:
        raise ConfigError("It is an SQLite file of another program: choose another path. Nothing was changed.")
    return migrations.pending(files, {row[0]: row[1] for row in rows(db, sql["applied"])})


def _migrate(db: apsw.Connection, sql: Mapping[str, str], migration: migrations.Migration, signature: str) -> None:
    if migration.number == 1:
        db.execute(_NOTE)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(migration.sql)
    if migration.number == 1:
        db.execute(sql["set"], {"name": SIGNATURE, "value": signature})
        db.execute(sql["set"], {"name": IDENTITY, "value": token_hex(16)})
    db.execute(sql["add_migration"], {"number": migration.number, "name": migration.name, "checksum": migration.checksum})


def _keep_a_log(db: apsw.Connection, busy_seconds: float) -> None:
    """Readers go on while somebody writes; the mode stays with the file.

    While others open the same new file, SQLite refuses the change of mode at once instead of waiting: it is asked again.
    """
    until = time.monotonic() + busy_seconds
    while value(db, "PRAGMA journal_mode") != "wal":
        try:
            if value(db, "PRAGMA journal_mode = wal") != "wal":
                raise StorageUnavailable("The file system cannot keep a write-ahead log: choose a local disk.")
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() >= until:
                raise
            time.sleep(AGAIN_SECONDS)


def _settled(db: apsw.Connection, *, kilobytes: int) -> str | None:
    """Settings of a connection; what is acknowledged has reached the disk, and what is deleted is overwritten there.

    Plans do not go by what is bound to a statement: where they may, SQLite prepares joins anew each time they run, which takes longer
    than to run them. Says why vectors cannot be compared, if so.
    """
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA secure_delete = ON")
    db.execute(f"PRAGMA cache_size = {-kilobytes}")
    try:
        import sqlite_vec

        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        db.enable_load_extension(False)
    except (ImportError, AttributeError, OSError, apsw.Error):
        return "sqlite_vec_not_loaded"
    return None
