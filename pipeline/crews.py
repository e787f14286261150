"""Crews: how many recalls of an engine may be in a stage at once, altogether and for one org, and how long they wait for it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from weakref import WeakValueDictionary

import anyio

from remit.pipeline.config import CrewSizes
from remit.pipeline.errors import RemitError
from remit.stages.report import StageName


class Overloaded(RemitError):
    """No place came free in the time a recall may wait for one."""


class Crews:
    """The places of one engine. A place is held for as long as the block runs and given back however it ends.

    The block is told whether its place had to be waited for.
    """

    def __init__(self, sizes: CrewSizes) -> None:
        self._wait_seconds = sizes.wait_seconds
        self._per_org = sizes.per_org
        self._stages = {
            StageName.GENERATE: anyio.CapacityLimiter(sizes.generate),
            StageName.DEDUPE: anyio.CapacityLimiter(sizes.rank),
            StageName.RANK: anyio.CapacityLimiter(sizes.rank),
            StageName.VERIFY: anyio.CapacityLimiter(sizes.verify),
            StageName.PACK: anyio.CapacityLimiter(sizes.pack),
        }
        self._orgs: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()
        """Of the orgs that somebody recalls for: who has a place there, or waits for one, keeps the others' count alive."""

    def admitted(self, org: str, *, within: float) -> AbstractAsyncContextManager[bool]:
        """One of the org's places for a whole recall. Raises `Overloaded` when none comes free in time, at most `within` seconds."""
        limiter = self._orgs.get(org)
        if limiter is None:
            limiter = self._orgs[org] = anyio.CapacityLimiter(self._per_org)
        return _Place(limiter, min(self._wait_seconds, within))

    def at(self, stage: StageName, *, within: float) -> AbstractAsyncContextManager[bool]:
        """One of the stage's places. Raises `Overloaded` when none comes free in time, at most `within` seconds."""
        return _Place(self._stages[stage], min(self._wait_seconds, within))


class _Place(AbstractAsyncContextManager[bool]):
    """A place of its own; six are taken by each recall, and generators would cost three times as much."""

    __slots__ = ("_limiter", "_wait_seconds")

    def __init__(self, limiter: anyio.CapacityLimiter, wait_seconds: float) -> None:
        self._limiter, self._wait_seconds = limiter, wait_seconds

    async def __aenter__(self) -> bool:
        try:
            self._limiter.acquire_on_behalf_of_nowait(self)
        except anyio.WouldBlock:
            with anyio.move_on_after(self._wait_seconds) as waiting:
                await self._limiter.acquire_on_behalf_of(self)
            if waiting.cancelled_caught:
                raise Overloaded from None
            return True
        return False

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release_on_behalf_of(self)
