"""Roots: the folders and files in which `file:` origins may be read, from the config and from the store."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from remit.pipeline.storage.store import Store

KNOWN_SECONDS = 1.0
"""A root that another process adds is seen after this long; asking the store at every look would cost a search each."""


class Roots:
    """The allowed roots of one open store."""

    def __init__(self, store: Store, configured: Sequence[str]) -> None:
        self._store = store
        self._configured = tuple(configured)
        self._known: tuple[str, ...] = ()
        self._until = 0.0

    async def __call__(self) -> Sequence[str]:
        if monotonic() >= self._until:
            self._known = (*self._configured, *await self._store.roots())
            self._until = monotonic() + KNOWN_SECONDS
        return self._known

    async def add(self, path: str) -> None:
        """Allows a folder or file for good. Only the host's own command line does this."""
        await self._store.add_root(path)
        self._until = 0.0
