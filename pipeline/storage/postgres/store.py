"""The store on Postgres: every question one transaction on a lent connection, on behalf of who asks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from types import TracebackType

import anyio
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.config import Postgres
from remit.pipeline.errors import ConfigError, StorageUnavailable, UnsafeStorage
from remit.pipeline.storage import migrations
from remit.pipeline.storage.entry import Change, Dropped, Entry, Forgetting, Forgotten, Lent, Receipt, Whole
from remit.pipeline.storage.postgres import checking, finding, living, loans, plans, reading, statements, writing
from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.postgres.identity import NOBODY, Identity, as_granted
from remit.pipeline.storage.postgres.line import Line, address_of, connected
from remit.pipeline.storage.postgres.making import IDENTITY, SIGNATURE
from remit.pipeline.storage.postgres.pool import Pool
from remit.pipeline.storage.postgres.shelves import Remembered
from remit.pipeline.storage.store import Capabilities, Fault, Plan
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, Outline, PassageId
from remit.stages.ports import Found, Wanted

_HERE = Path(__file__).parent


async def open_postgres(dsn: str, settings: Postgres, signature: str, *, rebuild: bool = False) -> PostgresStore:
    """The store in the database at `dsn`, which `made` has made. `signature` names the analyser whose words it holds.

    With `rebuild`, a store of another analyser is opened all the same, to be reindexed and then `signed`. Raises `ConfigError` for an
    address that cannot be read and for another analyser; `UnsafeStorage` for a role or a catalogue that would let rows past their
    policies; `StorageUnavailable` and `Overloaded` when it cannot be asked.
    """
    address = address_of(dsn)

    async def connect(until: float) -> Line:
        until = min(until, anyio.current_time() + settings.connect_seconds)
        return await connected(address, until=until, prepare=settings.prepare, cancel_seconds=settings.cancel_seconds)

    pool = Pool(connect, size=settings.connections, wait_seconds=settings.wait_seconds)
    store = PostgresStore(Desk(pool, statements.load(_HERE / "queries.sql"), settings), signature)
    try:
        await store.examined(rebuild=rebuild)
    except BaseException:
        await store.close()
        raise
    return store


class PostgresStore:
    """Made by `open_postgres`; close it, or use it as an async context manager."""

    def __init__(self, desk: Desk, signature: str) -> None:
        self._desk = desk
        self._signature = signature
        self._remembered = Remembered(desk.settings.remembered_accesses)

    async def __aenter__(self) -> PostgresStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        self._desk.pool.close()

    async def examined(self, *, rebuild: bool) -> None:
        """Sees that the store is of this schema and analyser, and that an org that is made up sees nothing. Raises as `open_postgres`."""
        files = migrations.read(_HERE / "migrations")
        async with self._desk.reading(NOBODY, until=self._until()) as transaction:
            answers = await transaction.ask([self._desk.command("applied"), self._desk.command("setting", setting=SIGNATURE)])
        if migrations.pending(files, dict(json.loads(answers.value(0) or b"[]"))):
            raise StorageUnavailable("Its schema is older than this Remit: run `remit init` with an owner's DSN.")
        if answers.value(1) != self._signature.encode() and not rebuild:
            raise ConfigError("The store's words were made by another analyser: run `remit init`, which makes the indexes again.")
        for identity in (NOBODY, Identity.of_org(f"nobody {token_hex(16)}")):
            async with self._desk.reading(identity, until=self._until()) as transaction:
                if (await transaction.ask([self._desk.command("anything_seen")])).value(0) != b"\0":
                    raise UnsafeStorage("An org that is made up was shown rows.")

    async def find(self, wanted: Wanted, access: Access) -> Found:
        return await as_granted(access, lambda access: finding.find(self._desk, self._remembered, wanted, access))

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        return await as_granted(access, lambda access: reading.outlines(self._desk, keys, access))

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        return await as_granted(access, lambda access: reading.around(self._desk, keys, reach, within, access))

    async def vocabulary(self, shortest: int, longest: int, access: Access) -> Sequence[str]:
        return await as_granted(access, lambda access: reading.vocabulary(self._desk, shortest, longest, access))

    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        return await as_granted(access, lambda access: reading.read(self._desk, passages, access))

    async def passages_of(self, memory: MemoryId, access: Access) -> Sequence[PassageId]:
        return await as_granted(access, lambda access: reading.passages_of(self._desk, memory, access))

    async def brief(self, access: Access, *, pinned: int, important: int, recent: int) -> Sequence[Memory]:
        return await as_granted(access, lambda access: reading.brief(self._desk, access, pinned, important, recent))

    async def coverage(self, space: str, access: Access) -> tuple[int, int]:
        return await as_granted(access, lambda access: reading.coverage(self._desk, space, access))

    async def lend_passages(self, space: str, after: int, most: int, until: datetime, access: Access) -> Lent:
        return await as_granted(access, lambda access: writing.anew(lambda: loans.lend(self._desk, space, after, most, until, access)))

    async def keep_vectors(self, space: str, vectors: Mapping[int, NDArray[np.float32] | None], access: Access) -> int:
        return await as_granted(access, lambda access: writing.anew(lambda: loans.keep(self._desk, space, vectors, access)))

    async def spaces(self, access: Access) -> Mapping[str, int]:
        return await as_granted(access, lambda access: reading.spaces(self._desk, access))

    async def drop_vectors(self, keep: Collection[str], after: int, access: Access) -> Dropped:
        return await as_granted(access, lambda access: writing.anew(lambda: loans.drop(self._desk, keep, after, access)))

    async def roots(self, org: str) -> Sequence[str]:
        return await reading.roots(self._desk, org)

    async def add_root(self, org: str, path: str) -> None:
        await writing.add_root(self._desk, org, path)

    async def drop_root(self, org: str, path: str) -> bool:
        return await writing.drop_root(self._desk, org, path)

    async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
        return await as_granted(access, lambda access: writing.put(self._desk, entries, access)) if entries else []

    async def change(self, changes: Sequence[Change], access: Access) -> list[Receipt]:
        return await as_granted(access, lambda access: living.change(self._desk, changes, access)) if changes else []

    async def forget(self, what: Forgetting, access: Access, *, dry_run: bool = False) -> Forgotten:
        return await as_granted(access, lambda access: living.forget(self._desk, what, access, dry_run=dry_run))

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]:
        return await as_granted(access, lambda access: reading.wholes(self._desk, names, access))

    async def exported(self, after: MemoryId | None, most: int, access: Access) -> Sequence[Whole]:
        return await as_granted(access, lambda access: reading.exported(self._desk, after, most, access))

    async def imported(self, wholes: Sequence[Whole], access: Access) -> list[Receipt]:
        return await as_granted(access, lambda access: living.imported(self._desk, wholes, access)) if wholes else []

    async def reindexed(self, entries: Sequence[Entry]) -> None:
        await writing.reindexed(self._desk, entries)

    async def records(self, after: tuple[str, MemoryId] | None, most: int) -> Sequence[tuple[str, Entry]]:
        return await reading.records(self._desk, after, most)

    async def signed(self) -> None:
        await writing.signed(self._desk, SIGNATURE, self._signature)

    async def grant(self, actor: str, org: str, scope: str) -> None:
        """Grants a scope of an org to an actor, `"*"` for all of it; once is as good as twice."""
        await writing.grant(self._desk, actor, org, scope)

    async def revoke(self, actor: str, org: str, scope: str) -> bool:
        """Takes a scope back; what begins after this returned does not have it. Tells whether it was granted."""
        return await writing.revoke(self._desk, actor, org, scope)

    async def granted(self, actor: str, org: str) -> Sequence[str]:
        """The scopes of an actor in an org, in order; `"*"` stands for all."""
        return await reading.granted(self._desk, actor, org)

    async def identity(self) -> str:
        return await reading.setting(self._desk, IDENTITY)

    async def capabilities(self) -> Capabilities:
        return await checking.capabilities(self._desk)

    async def plans(self) -> Sequence[Plan]:
        return await plans.plans(self._desk)

    async def faults(self) -> Sequence[Fault]:
        return await checking.faults(self._desk, self._signature)

    def _until(self) -> float:
        return anyio.current_time() + self._desk.settings.connect_seconds
