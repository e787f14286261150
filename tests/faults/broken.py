"""Parts that do not work, and an engine that has to live with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from remit.pipeline import Engine
from remit.stages.access import Access
from remit.stages.ports import Found, Wanted


class Apart:
    """A store that brings no outlines with what it finds, so that it is asked for them by themselves; the rest is the real one's."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found: Found = await self._store.find(replace(wanted, likely=None), access)
        return found


class Broken:
    """A store of which some methods raise, or never answer; the rest is the real one's."""

    def __init__(self, store: Any, faults: Mapping[str, Exception | None]) -> None:
        self._store, self._faults = Apart(store) if "outlines" in faults else store, faults

    def __getattr__(self, name: str) -> Any:
        if name not in self._faults:
            return getattr(self._store, name)
        fault = self._faults[name]

        async def failing(*_: Any, **__: Any) -> None:
            if fault is None:
                await anyio.sleep_forever()
            else:
                raise fault

        return failing


class Late(Broken):
    """A store of which one method works a number of times and then raises."""

    def __init__(self, store: Any, method: str, *, works: int, fault: Exception) -> None:
        super().__init__(Apart(store) if method == "outlines" else store, {})
        self._method, self._works, self._fault = method, works, fault

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._store, name)

        async def failing_later(*given: Any, **named: Any) -> Any:
            self._works -= 1
            if self._works < 0:
                raise self._fault
            return await getattr(self._store, name)(*given, **named)

        return failing_later


class Interfered(Broken):
    """A store to which something is done right before the first call of one method, which is then the real one's.

    What that gives, if anything, is called when the call is over.
    """

    def __init__(self, store: Any, method: str, interfere: Callable[[], Callable[[], object] | None]) -> None:
        super().__init__(Apart(store) if method == "outlines" else store, {})
        self._method, self._interfere = method, interfere

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._store, name)
        self._method = ""
        return partial(self._call, getattr(self._store, name))

    async def _call(self, method: Callable[..., Awaitable[Any]], *asked: Any) -> Any:
        undo = self._interfere()
        try:
            return await method(*asked)
        finally:
            if undo is not None:
                undo()


def over(engine: Engine, broken: Callable[[Any], Any]) -> Engine:
    """The engine with something laid over its store."""
    store = broken(engine.store)
    return replace(engine, store=store, kit=replace(engine.kit, finder=store, reader=store))
