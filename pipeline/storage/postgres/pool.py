"""The pool: a bounded number of lines, lent one at a time to each piece of work, made when needed and let go when broken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from remit.pipeline.crews import Overloaded
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.postgres.line import Line


class Pool:
    """Lends lines. Nothing runs in the background: what is broken is replaced by the next piece of work, inside its own deadline.

    `connect` makes a line by a moment on the clock of the event loop. `dropped` counts lines that could not be lent again.
    """

    def __init__(self, connect: Callable[[float], Awaitable[Line]], *, size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._places = anyio.CapacityLimiter(size)
        self._wait_seconds = wait_seconds
        self._idle: list[Line] = []
        self._closed = False
        self.dropped = 0

    @property
    def lent(self) -> int:
        return int(self._places.borrowed_tokens)

    @property
    def free(self) -> bool:
        """Whether a line can be lent at once."""
        return self._places.available_tokens > 0

    @property
    def idle(self) -> int:
        return len(self._idle)

    @asynccontextmanager
    async def line(self, until: float) -> AsyncIterator[Line]:
        """A line, for as long as the block runs. Raises `Overloaded` when none comes free in time, and as connecting does."""
        borrower = object()
        await self._placed(borrower, until)
        try:
            line = await self._one(until)
            try:
                yield line
            finally:
                self._take_back(line)
        finally:
            self._places.release_on_behalf_of(borrower)

    def close(self) -> None:
        """Closes what is idle now and the rest when it comes back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def _placed(self, borrower: object, until: float) -> None:
        try:
            self._places.acquire_on_behalf_of_nowait(borrower)
        except anyio.WouldBlock:
            with anyio.CancelScope(deadline=min(until, anyio.current_time() + self._wait_seconds)) as waiting:
                await self._places.acquire_on_behalf_of(borrower)
            if waiting.cancelled_caught:
                raise Overloaded from None

    async def _one(self, until: float) -> Line:
        if self._closed:
            raise StorageUnavailable("It was closed.")
        while self._idle:
            line = self._idle.pop()
            if line.usable:
                return line
            self._drop(line)
        return await self._connect(until)

    def _take_back(self, line: Line) -> None:
        if line.left and not self._closed:
            self._idle.append(line)
        else:
            self._drop(line)

    def _drop(self, line: Line) -> None:
        self.dropped += 1
        line.close()
