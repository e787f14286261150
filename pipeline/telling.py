"""Telling: whoever has seen something before a write is told of it before anybody has the receipt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from remit.pipeline.storage.entry import Change, Entry, Forgetting, Forgotten, Receipt, Whole
from remit.pipeline.storage.store import Store
from remit.stages.access import Access
from remit.stages.evidence import MemoryId

T = TypeVar("T")


class Telling:
    """What is written to a store, with `tell` called once for each of its transactions; also for one that failed, for it may stand."""

    def __init__(self, store: Store, tell: Callable[[], None]) -> None:
        self._store, self._tell = store, tell

    async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
        return await self._told(self._store.put(entries, access))

    async def imported(self, wholes: Sequence[Whole], access: Access) -> list[Receipt]:
        return await self._told(self._store.imported(wholes, access))

    async def change(self, changes: Sequence[Change], access: Access) -> list[Receipt]:
        return await self._told(self._store.change(changes, access))

    async def forget(self, what: Forgetting, access: Access, *, dry_run: bool = False) -> Forgotten:
        return await self._told(self._store.forget(what, access, dry_run=dry_run))

    async def exported(self, after: MemoryId | None, most: int, access: Access) -> Sequence[Whole]:
        return await self._store.exported(after, most, access)

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]:
        return await self._store.wholes(names, access)

    async def _told(self, writing: Awaitable[T]) -> T:
        try:
            return await writing
        finally:
            self._tell()
