"""The store in a SQLite file: one line that writes, a few that read, each piece of work in one hop to a thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.config import Sqlite
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage import held
from remit.pipeline.storage.entry import Change, Dropped, Entry, Forgetting, Forgotten, Lent, Receipt, Whole
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.sqlite import checking, finding, plans, reading
from remit.pipeline.storage.sqlite.line import OutOfTime, emptied_log, rows, value
from remit.pipeline.storage.sqlite.living import Living
from remit.pipeline.storage.sqlite.loans import Loans
from remit.pipeline.storage.sqlite.opening import Opened, opened
from remit.pipeline.storage.sqlite.searching import Means
from remit.pipeline.storage.sqlite.shelves import still
from remit.pipeline.storage.sqlite.writing import Writing
from remit.pipeline.storage.store import Capabilities, Fault, Plan
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, Outline, PassageId
from remit.stages.ports import Found, Wanted

T = TypeVar("T")


async def open_sqlite(path: str, settings: Sqlite, signature: str, *, rebuild: bool = False) -> SqliteStore:
    """The store in the file `path`, made when it is missing. `signature` names the analyser whose words it holds.

    With `rebuild`, a store of another analyser is opened all the same, to be reindexed and then `signed`. Raises `ConfigError` for a file
    that is not ours or of another analyser, `StorageUnavailable` for one that is newer, damaged, locked or out of reach; its bytes stay.
    """
    return SqliteStore(await opened(path, settings, signature, rebuild=rebuild), settings, signature)


class SqliteStore:
    """Made by `open_sqlite`; close it, or use it as an async context manager."""

    def __init__(self, opened: Opened, settings: Sqlite, signature: str) -> None:
        self._file, self._writer, self._readers, self._sql = opened.file, opened.writer, opened.readers, opened.sql
        self._settings = settings
        self._signature = signature
        self._means = Means(
            sql=opened.sql,
            seek_shelves=settings.seek_shelves,
            whole_vectors=settings.whole_vectors,
            vector_slack=settings.vector_slack,
            no_vectors=opened.no_vectors,
        )

    async def __aenter__(self) -> SqliteStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self._readers.close()
        await self._writer.close()
        held.release(self._file)

    async def find(self, wanted: Wanted, access: Access) -> Found:
        if wanted.seconds <= 0:
            return finding.out_of_time(wanted)
        search = partial(finding.find, wanted=wanted, access=access, means=self._means)
        try:
            return await self._readers.run(search, wait=wanted.seconds, seconds=wanted.seconds)
        except OutOfTime:
            return finding.out_of_time(wanted)

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        return await self._read(lambda db: reading.outlines(db, self._sql, keys, access))

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        return await self._read(lambda db: reading.around(db, self._sql, keys, reach, within, access))

    async def vocabulary(self, shortest: int, longest: int, access: Access) -> Sequence[str]:
        return await self._read(lambda db: reading.vocabulary(db, self._sql, shortest, longest, access))

    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        return await self._read(lambda db: reading.read(db, self._sql, passages, access))

    async def passages_of(self, memory: MemoryId, access: Access) -> Sequence[PassageId]:
        return await self._read(lambda db: reading.passages_of(db, self._sql, memory, access))

    async def brief(self, access: Access, *, pinned: int, important: int, recent: int) -> Sequence[Memory]:
        return await self._read(lambda db: reading.brief(db, self._sql, access, pinned, important, recent))

    async def coverage(self, space: str, access: Access) -> tuple[int, int]:
        return await self._read(lambda db: reading.coverage(db, self._sql, space, access))

    async def lend_passages(self, space: str, after: int, most: int, until: datetime, access: Access) -> Lent:
        return await self._write(Operation.EMBED, lambda db: Loans(db, self._sql, access.org).lend(space, after, most, until, access))

    async def keep_vectors(self, space: str, vectors: Mapping[int, NDArray[np.float32] | None], access: Access) -> int:
        return await self._write(Operation.EMBED, lambda db: Loans(db, self._sql, access.org).keep(space, vectors, access))

    async def spaces(self, access: Access) -> Mapping[str, int]:
        return await self._read(lambda db: reading.spaces(db, self._sql, access))

    async def drop_vectors(self, keep: Collection[str], after: int, access: Access) -> Dropped:
        return await self._write(Operation.PRUNE, lambda db: Loans(db, self._sql, access.org).drop(keep, after, access))

    async def roots(self, org: str) -> Sequence[str]:
        return await self._read(lambda db: [path for (path,) in rows(db, self._sql["roots"], {"org": org})])

    async def add_root(self, org: str, path: str) -> None:
        await self._write(Operation.ROOTS, lambda db: rows(db, self._sql["add_root"], {"org": org, "path": path}))

    async def drop_root(self, org: str, path: str) -> bool:
        return bool(await self._write(Operation.ROOTS, lambda db: rows(db, self._sql["drop_root"], {"org": org, "path": path})))

    async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
        def work(db: apsw.Connection) -> list[Receipt]:
            write, held = Writing(db, self._sql, access.org), still(db, self._sql, access)
            write.expect(entry.record.id for entry in entries)
            receipts = [write.put(entry, held) for entry in entries]
            write.finish()
            return receipts

        return await self._write(Operation.PUT, work) if entries else []

    async def change(self, changes: Sequence[Change], access: Access) -> list[Receipt]:
        def work(db: apsw.Connection) -> list[Receipt]:
            life, held = Living(db, self._sql, access.org), still(db, self._sql, access)
            receipts = [life.change(each, held) for each in changes]
            life.finish()
            return receipts

        return await self._write(Operation.CHANGE, work) if changes else []

    async def forget(self, what: Forgetting, access: Access, *, dry_run: bool = False) -> Forgotten:
        def work(db: apsw.Connection) -> Forgotten:
            return Living(db, self._sql, access.org).forget(what, still(db, self._sql, access), dry_run=dry_run)

        done = await self._write(Operation.FORGET, work)
        if not dry_run and any(done.counts.values()):
            await self._writer.run(emptied_log)
        return done

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]:
        return await self._read(lambda db: reading.wholes(db, self._sql, names, access))

    async def exported(self, after: MemoryId | None, most: int, access: Access) -> Sequence[Whole]:
        return await self._read(lambda db: reading.exported(db, self._sql, after, most, access))

    async def imported(self, wholes: Sequence[Whole], access: Access) -> list[Receipt]:
        def work(db: apsw.Connection) -> list[Receipt]:
            life, held = Living(db, self._sql, access.org), still(db, self._sql, access)
            life.expect(each.entry.record.id for each in wholes)
            receipts = [life.imported(each, held) for each in wholes]
            life.finish()
            return receipts

        return await self._write(Operation.IMPORT, work) if wholes else []

    async def reindexed(self, entries: Sequence[Entry]) -> None:
        def work(db: apsw.Connection) -> None:
            for org in sorted({entry.record.label.shelf.org for entry in entries}):
                write = Writing(db, self._sql, org)
                for entry in entries:
                    if entry.record.label.shelf.org == org:
                        write.reindex(entry)
                write.finish()

        await self._write(Operation.REINDEX, work)

    async def signed(self) -> None:
        setting = {"name": checking.SIGNATURE, "value": self._signature}
        await self._write(Operation.REINDEX, lambda db: rows(db, self._sql["set"], setting))

    async def records(self, after: tuple[str, MemoryId] | None, most: int) -> Sequence[tuple[str, Entry]]:
        return await self._read(lambda db: reading.records(db, self._sql, after, most))

    async def grant(self, actor: str, org: str, scope: str) -> None:
        await self._write(Operation.GRANT, lambda db: rows(db, self._sql["grant"], {"org": org, "actor": actor, "scope": scope}))

    async def revoke(self, actor: str, org: str, scope: str) -> bool:
        return bool(
            await self._write(Operation.REVOKE, lambda db: rows(db, self._sql["revoke"], {"org": org, "actor": actor, "scope": scope}))
        )

    async def granted(self, actor: str, org: str) -> Sequence[str]:
        return await self._read(lambda db: [scope for (scope,) in rows(db, self._sql["granted"], {"org": org, "actor": actor})])

    async def identity(self) -> str:
        return str(await self._read(lambda db: value(db, self._sql["setting"], {"name": checking.IDENTITY})))

    async def capabilities(self) -> Capabilities:
        facts = await self._read(lambda db: checking.facts(db, self._sql))
        vectors = version("sqlite-vec") if self._means.no_vectors is None else "not loaded"
        fix = "install the sqlite-vec package for this Python, or set embedding.provider to none"
        return Capabilities(vectors=self._means.no_vectors, fix=fix, facts={**facts, "sqlite_vec": vectors})

    async def plans(self) -> Sequence[Plan]:
        return await self._read(lambda db: plans.plans(db, self._sql))

    async def faults(self) -> Sequence[Fault]:
        return await self._writer.run(lambda db: checking.faults(db, self._sql, self._signature))

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            return await self._readers.run(work, wait=self._settings.busy_seconds)
        except OutOfTime:
            raise StorageUnavailable("Its readers are all busy: try again.") from None

    async def _write(self, operation: Operation, work: Callable[[apsw.Connection], T]) -> T:
        def whole(db: apsw.Connection) -> T:
            with self._writer.writing(db, operation):
                return work(db)

        return await self._writer.run(whole)
