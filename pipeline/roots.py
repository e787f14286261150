"""Roots: the folders and files in which the `file:` origins of an org may be read, from the config and from the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from remit.pipeline.storage.store import Store

KNOWN_SECONDS = 1.0
"""A root that another process adds is seen after this long; asking the store at every look would cost a search each."""

MOST_KNOWN = 1_000
"""Orgs whose roots are remembered for that long at once."""


class Roots:
    """The allowed roots of one open store. Those of the config are every org's, the others the org's that named them."""

    def __init__(self, store: Store, configured: Sequence[str]) -> None:
        self._store = store
        self._configured = tuple(configured)
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._lent: Counter[tuple[str, str]] = Counter()

    async def __call__(self, org: str) -> Sequence[str]:
        until, own = self._known.get(org, (0.0, ()))
        if monotonic() >= until:
            own = tuple(await self._store.roots(org))
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[org] = monotonic() + KNOWN_SECONDS, own
        return (*self._configured, *own, *(path for of, path in self._lent if of == org))

    async def add(self, org: str, path: str) -> None:
        """Allows a folder or file to an org for good. Only the host's own command line does this."""
        await self._store.add_root(org, path)
        self._known.pop(org, None)

    async def drop(self, org: str, path: str) -> bool:
        """Allows it no longer; whether it was allowed by `add`."""
        known = await self._store.drop_root(org, path)
        self._known.pop(org, None)
        return known

    @contextmanager
    def lent(self, org: str, paths: Sequence[str]) -> Iterator[None]:
        """Allows folders or files to an org while something of them is taken in, for this process alone."""
        each = [(org, path) for path in paths]
        self._lent.update(each)
        try:
            yield
        finally:
            self._lent -= Counter(each)
