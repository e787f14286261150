"""A line: one SQLite connection on a thread of its own, and the pool of lines that read side by side."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from math import inf
from typing import Any, TypeVar, cast
from weakref import WeakSet

import anyio
import apsw
import apsw.aio

from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.operations import UNKNOWN, Operation
from remit.pipeline.storage.sqlite.holding import Note
from remit.pipeline.trail import log

T = TypeVar("T")

_NAPS = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025)
"""How long a writer sleeps before it asks for the lock again, in seconds; SQLite's own steps, without its long last ones."""


ROLLBACKS = 10
"""Tries at one; the second succeeds."""


class OutOfTime(Exception):
    """A statement passed the deadline of its call and was stopped."""


class _Call:
    """One call to a line: until when it may run, whether its caller has left, how long it waited to write, and for whom."""

    __slots__ = ("holder", "left", "until", "waited")

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.left = False
        self.waited = 0.0
        self.holder = UNKNOWN


class Line:
    """Runs whole pieces of work on its connection, one after the other, each in one hop.

    A caller that is cancelled leaves at once; its work stops at SQLite's next look at the clock, and is rolled back.
    """

    def __init__(self, connection: apsw.AsyncConnection, busy_seconds: float, slow_seconds: float, note: Note | None) -> None:
        self._connection = connection
        self._busy_seconds = busy_seconds
        self._slow_seconds = slow_seconds
        self._note = note
        self._call = _Call(inf)
        self._waiting_since = self._waiting_until = 0.0
        self._beginning = False

    @classmethod
    async def opened(
        cls, path: str, *, flags: int, busy_seconds: float, check_steps: int, slow_seconds: float = inf, note: Note | None = None
    ) -> Line:
        """With a `note`, a line that writes: it notes there what it does, and tells who it waited for longer than `slow_seconds`."""
        with told_plainly(), _having(apsw.async_controller, _controller()), _having(apsw.aio.check_progress_steps, check_steps):
            connection = await apsw.Connection.as_async(path, flags)
        line = cls(connection, busy_seconds, slow_seconds, note)
        _threads.add(connection.async_controller)
        _let_the_process_end()
        await line.run(lambda db: line._attend(db, check_steps))
        return line

    async def run(self, work: Callable[[apsw.Connection], T], seconds: float = inf) -> T:
        """The result of `work`. Raises `OutOfTime` past `seconds`, `StorageUnavailable` for what SQLite reports."""
        call = _Call(seconds)
        try:
            with told_plainly(call), _having(apsw.aio.deadline, inf):
                return cast(T, await self._connection.async_run(self._run, work, call))
        finally:
            call.left = True
            if call.waited >= self._slow_seconds:
                values: dict[str, str | float] = {"remit.waited_seconds": round(call.waited, 1), "remit.holder": call.holder}
                log.warning("lock_waited", **values)

    @contextmanager
    def writing(self, db: apsw.Connection, operation: Operation) -> Iterator[None]:
        """All of it or nothing, and nobody else writes meanwhile; those who wait are told what this is."""
        self._beginning = True
        try:
            db.execute("BEGIN IMMEDIATE")
            self._beginning = False
            if self._note:
                self._note.put(operation)
            yield
            db.execute("COMMIT")
        finally:
            self._beginning = False
            rolled_back(db)
            if self._note:
                self._note.clear(operation)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True), told_plainly():
            await self._connection.aclose()
        if self._note:
            self._note.close()

    def _run(self, work: Callable[[apsw.Connection], T], call: _Call) -> T:
        self._call = call
        self._look_at_the_clock()
        # On its own thread the connection answers at once, as one that is not asynchronous does.
        return work(cast(apsw.Connection, self._connection))

    def _attend(self, db: apsw.Connection, check_steps: int) -> None:
        db.set_progress_handler(self._look_at_the_clock, check_steps, id="deadline")
        db.set_busy_handler(self._keep_waiting)

    def _look_at_the_clock(self) -> bool:
        if time.monotonic() >= self._call.until:
            raise OutOfTime
        return False

    def _keep_waiting(self, times: int) -> bool:
        now = time.monotonic()
        if times == 0:
            self._waiting_since = now
            self._waiting_until = min(now + self._busy_seconds, self._call.until)
        over = self._call.left or now >= self._waiting_until
        if self._beginning and (over or now - self._waiting_since >= self._slow_seconds):
            self._see_who_holds(now)
        if over:
            return False
        time.sleep(_NAPS[min(times, len(_NAPS) - 1)])
        return True

    def _see_who_holds(self, now: float) -> None:
        self._call.waited = now - self._waiting_since
        if self._note and self._call.holder == UNKNOWN:
            self._call.holder = self._note.holder()


_threads: WeakSet[Any] = WeakSet()
"""The controllers of all connections; a running thread keeps its own alive."""


@cache
def _let_the_process_end() -> None:
    """Python waits for threads before it ends: those of a store that nobody closed, after a crash say, are told to stop."""

    def stop() -> None:
        threading.main_thread().join()
        for controller in list(_threads):
            controller.close()

    threading.Thread(target=stop, name="remit sqlite end", daemon=True).start()


class Readers:
    """Lines that read side by side, each call on one of them; a call waits for a free one, but not for ever."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._idle = list(lines)
        self._lines = tuple(lines)
        self._free = anyio.Semaphore(len(lines), max_value=len(lines))

    async def run(self, work: Callable[[apsw.Connection], T], *, wait: float, seconds: float = inf) -> T:
        """The result of `work`. Raises `OutOfTime` when no line is free within `wait` seconds or the work passes `seconds` in all."""
        until = time.monotonic() + seconds
        await self._taken(min(wait, seconds))
        line = self._idle.pop()
        try:
            return await line.run(work, until - time.monotonic())
        finally:
            self._idle.append(line)
            self._free.release()

    async def close(self) -> None:
        for line in self._lines:
            await line.close()

    async def _taken(self, wait: float) -> None:
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(wait) as waiting:
                await self._free.acquire()
                return
            if waiting.cancelled_caught:
                raise OutOfTime from None


@contextmanager
def reading(db: apsw.Connection) -> Iterator[None]:
    """One moment of the store for all statements inside."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        rolled_back(db)


def rolled_back(db: apsw.Connection) -> None:
    """Ends a transaction that was not committed.

    A call that is left or late is stopped at every so many steps of a statement, and SQLite goes on counting where the same
    prepared ROLLBACK left off the last time: now and then the rollback itself is what is stopped. Begun again, it is not.
    """
    for _ in range(ROLLBACKS):
        if not db.in_transaction:
            return
        with suppress(BaseException):  # what stops a call is raised here as well; the call's own exception goes on after this
            db.execute("ROLLBACK")


def emptied_log(db: apsw.Connection) -> None:
    """Brings the write-ahead log into the file and empties it, so that nothing which was deleted is left there.

    Waits for whoever reads, but not longer than for a lock; then the log is emptied another time.
    """
    with suppress(apsw.BusyError, apsw.LockedError):
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def told_plainly(call: _Call | None = None) -> Iterator[None]:
    """What SQLite reports, without its text: that may hold statements, paths and rows. Of a `call`, who it waited for as well."""
    try:
        yield
    except apsw.Error as error:
        raise StorageUnavailable(_plain(error, call.holder if call else UNKNOWN)) from None


def _plain(error: apsw.Error, holder: str) -> str:
    if isinstance(error, (apsw.BusyError, apsw.LockedError)) and holder != UNKNOWN:
        return f"It is locked by another writer ({holder}): try again."
    for kinds, sentence in _SENTENCES:
        if isinstance(error, kinds):
            return sentence
    return f"SQLite reported {type(error).__name__}."


_SENTENCES: tuple[tuple[tuple[type[apsw.Error], ...], str], ...] = (
    ((apsw.BusyError, apsw.LockedError), "It is locked by another writer: try again."),
    ((apsw.FullError,), "The disk is full: make room and try again."),
    ((apsw.CorruptError, apsw.NotADBError), "The file is damaged: put a copy of it in its place."),
    ((apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError), "The file may not be written by this user."),
    ((apsw.CantOpenError,), "The file cannot be opened: look at the folder and who may read and write there."),
    ((apsw.IOError,), "Reading or writing the disk failed."),
    ((apsw.ConnectionClosedError,), "It was closed."),
)


def rows(db: apsw.Connection, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """All rows of a statement; its author knows what is in them."""
    return cast(list[tuple[Any, ...]], db.execute(statement, parameters).fetchall())


def value(db: apsw.Connection, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
    """The one value of a statement that answers with one; None when it answers with nothing."""
    return db.execute(statement, parameters).get


@contextmanager
def _having(variable: ContextVar[Any], setting: Any) -> Iterator[None]:
    token = variable.set(setting)
    try:
        yield
    finally:
        variable.reset(token)


def _controller() -> Callable[[], Any]:
    """Asyncio's or trio's own, which are a third faster than the one for both."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return apsw.aio.Trio
    return apsw.aio.AsyncIO
