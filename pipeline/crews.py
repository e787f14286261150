"""Crews: how many recalls of an engine may be in a stage at once, altogether and for one org, and how long they wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from remit.pipeline.config import CrewSizes
from remit.pipeline.errors import RemitError
from remit.stages.report import StageName


class Overloaded(RemitError):
    """No place came free in the time a recall may wait for one."""


class Crews:
    """The places of one engine. A place is held for as long as the block runs and given back however it ends."""

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
        self._orgs: dict[str, tuple[anyio.CapacityLimiter, int]] = {}

    @asynccontextmanager
    async def admitted(self, org: str, *, within: float) -> AsyncIterator[None]:
        """One of the org's places for a whole recall. Raises `Overloaded` when none comes free in time, at most `within` seconds."""
        limiter, users = self._orgs.get(org, (anyio.CapacityLimiter(self._per_org), 0))
        self._orgs[org] = (limiter, users + 1)
        try:
            async with _Place(limiter, min(self._wait_seconds, within)):
                yield
        finally:
            limiter, users = self._orgs[org]
            if users == 1:
                del self._orgs[org]
            else:
                self._orgs[org] = (limiter, users - 1)

    def at(self, stage: StageName, *, within: float) -> AbstractAsyncContextManager[None]:
        """One of the stage's places. Raises `Overloaded` when none comes free in time, at most `within` seconds."""
        return _Place(self._stages[stage], min(self._wait_seconds, within))


class _Place(AbstractAsyncContextManager[None]):
    """A place of its own; six are taken by each recall, and generators would cost three times as much."""

    __slots__ = ("_limiter", "_wait_seconds")

    def __init__(self, limiter: anyio.CapacityLimiter, wait_seconds: float) -> None:
        self._limiter, self._wait_seconds = limiter, wait_seconds

    async def __aenter__(self) -> None:
        try:
            self._limiter.acquire_on_behalf_of_nowait(self)
        except anyio.WouldBlock:
            with anyio.move_on_after(self._wait_seconds) as waiting:
                await self._limiter.acquire_on_behalf_of(self)
            if waiting.cancelled_caught:
                raise Overloaded from None

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release_on_behalf_of(self)
