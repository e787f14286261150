"""A line: one connection to Postgres that carries many statements in one round trip and never outlives its caller's patience.

It works on psycopg's wrapper of libpq, so that waiting, deadlines and cancelling are ours: psycopg's own connections leave a query running
and throw the connection away when their task is cancelled, and know asyncio alone.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any
from urllib.parse import quote

import anyio
import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PollingStatus, TransactionStatus
from psycopg.pq.abc import PGcancelConn, PGconn, PGresult

from remit.pipeline.errors import ConfigError, StorageUnavailable
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.statements import Command, Statement, plain

BINARY = 1
OK = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
PATIENCE = 0.005
"""Seconds an interrupted exchange is given to end by itself: most do, and need no cancel request, which is a connection of its own."""

ROLLBACK = plain("ROLLBACK")
KEPT, IGNORED = True, False
_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


@dataclass(frozen=True, slots=True)
class Failure:
    """What the server refused: SQLSTATE, and nothing of its text, which may hold statements and rows."""

    sqlstate: str

    @property
    def out_of_time(self) -> bool:
        return self.sqlstate == failures.CANCELED


@dataclass(frozen=True, slots=True)
class Watch:
    """What is done, once an exchange, when it has taken `seconds`. The exchange goes on, whatever comes of that."""

    seconds: float
    look: Callable[[], Awaitable[None]]


OUT_OF_TIME = Failure(failures.CANCELED)


@dataclass(slots=True)
class Answers:
    """The results of the statements in order, up to the first that failed."""

    results: list[PGresult] = field(default_factory=list)
    failure: Failure | None = None

    def value(self, place: int) -> bytes | None:
        """The first column of the first row of a result; the place counts from the end when negative."""
        return self.results[place].get_value(0, 0)

    def row(self, place: int) -> list[bytes | None]:
        result = self.results[place]
        return [result.get_value(0, column) for column in range(result.nfields)]

    def rows(self, place: int) -> list[list[bytes | None]]:
        result = self.results[place]
        return [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]


class Line:
    """An open connection; one caller at a time. `prepare` says whether statements are prepared, which not every pooler between bears."""

    def __init__(self, connection: PGconn, *, prepare: bool, cancel_seconds: float) -> None:
        self._pg = connection
        self._prepare = prepare
        self._cancel_seconds = cancel_seconds
        self._prepared: set[str] = set()
        self._expected: deque[Statement | bool | None] = deque()
        self._escaping = pq.Escaping(connection)
        self.checked = -inf
        self.watch: Watch | None = None

    @property
    def closed(self) -> bool:
        return self._pg.status != ConnStatus.OK

    @property
    def pid(self) -> int:
        return self._pg.backend_pid

    @property
    def server_version(self) -> int:
        return self._pg.server_version

    @property
    def left(self) -> bool:
        """Whether it is open, and outside any transaction or on its way out of one."""
        return not self.closed and (self._parting if self._expected else self._pg.transaction_status == TransactionStatus.IDLE)

    @property
    def usable(self) -> bool:
        """Whether it may be lent: left, and silent, for a server speaks unasked only to say goodbye."""
        try:
            self._take_what_came()
        except psycopg.Error:
            self.close()
        if self._expected or not self.left:
            return self.left
        poll = select.poll()
        poll.register(self._pg.socket, select.POLLIN)
        return not poll.poll(0)

    @property
    def inside(self) -> bool:
        """Whether it is inside a transaction that goes on."""
        return not self.closed and self._pg.transaction_status == TransactionStatus.INTRANS

    def literal(self, text: str) -> str:
        """A text as SQL may hold it."""
        return bytes(self._escaping.escape_literal(text.encode())).decode()

    def close(self) -> None:
        self._expected.clear()
        self._pg.finish()

    async def exchange(self, commands: Sequence[Command], *, until: float) -> Answers:
        """Sends all statements and gives their results, in one round trip. After a statement that fails none is carried out.

        `until` is on the clock of the event loop; what runs then is stopped, and failed. Raises `StorageUnavailable` when the connection is
        lost. However it ends, the line is idle or inside its transaction afterwards, or closed; who is cancelled waits for that a moment.
        """
        answers, waiting = Answers(), anyio.CancelScope(deadline=until)
        try:
            with waiting:
                if not self._prepare:
                    # A pooler may lend the server to another as soon as a transaction has ended, whatever was sent after it.
                    await self._receive(Answers())
                self._send(commands)
                await self._receive_watched(answers)
        except psycopg.Error:
            self.close()
        except BaseException:
            await self._settle()
            raise
        if waiting.cancelled_caught:
            await self._settle()
            answers.failure = answers.failure or OUT_OF_TIME
            return answers
        if self.closed and answers.failure is None:
            raise StorageUnavailable(failures.LOST)
        return answers

    def part(self) -> None:
        """Ends the transaction, if one is open, without waiting for the answer: the next exchange takes it in first."""
        if self._pg.status == ConnStatus.OK and self._pg.transaction_status in _OPEN:
            try:
                self._send_one(ROLLBACK, IGNORED)
                self._sync()
                self._pg.flush()
            except psycopg.Error:
                self.close()

    def _send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._send_one(command, KEPT)
        self._sync()

    def _send_one(self, command: Command, kept: bool) -> None:
        statement = command.statement
        if not (self._prepare and statement.name):
            self._pg.send_query_params(statement.sql, command.values, None, _formats(command), BINARY)
        else:
            name = statement.name.encode()
            if statement.name not in self._prepared:
                self._pg.send_prepare(name, statement.sql)
                self._prepared.add(statement.name)
                self._expected.append(statement)
            self._pg.send_query_prepared(name, command.values, _formats(command), BINARY)
        self._expected.append(kept)

    def _sync(self) -> None:
        self._pg.pipeline_sync()
        self._expected.append(None)

    @property
    def _parting(self) -> bool:
        """Whether all that is still to come is the answer to the end of a transaction."""
        return len(self._expected) in (1, 2) and self._expected[-1] is None and KEPT not in self._expected

    def _take_what_came(self) -> None:
        while self._expected and not self.closed:
            self._pg.consume_input()
            if self._pg.is_busy():
                return
            if (result := self._pg.get_result()) is not None:
                self._take(result, Answers())

    async def _receive(self, answers: Answers) -> None:
        """Takes in all results that are expected."""
        pg = self._pg
        while self._expected and pg.flush():
            await self._readable_or_writable()
            pg.consume_input()
        while self._expected:
            if pg.is_busy():
                await anyio.wait_readable(pg.socket)
                pg.consume_input()
            elif (result := pg.get_result()) is not None:
                self._take(result, answers)
            elif self.closed:
                self._expected.clear()

    async def _receive_watched(self, answers: Answers) -> None:
        """The same, looked at when it takes long: what is cut short takes up again where it was."""
        if self.watch is not None:
            with anyio.move_on_after(self.watch.seconds):
                return await self._receive(answers)
            await self.watch.look()
        return await self._receive(answers)

    def _take(self, result: PGresult, answers: Answers) -> None:
        expected, good = self._expected.popleft(), result.status in OK
        if not good and result.status == ExecStatus.FATAL_ERROR and answers.failure is None:
            sqlstate = result.error_field(DiagnosticField.SQLSTATE)
            answers.failure = Failure(sqlstate.decode() if sqlstate else "")
        if isinstance(expected, Statement):
            if not good:
                self._prepared.discard(expected.name)
        elif expected is KEPT and good:
            answers.results.append(result)

    async def _readable_or_writable(self) -> None:
        async def until_ready(wait: Any) -> None:
            await wait(self._pg.socket)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_ready, anyio.wait_readable)
            tasks.start_soon(until_ready, anyio.wait_writable)

    async def _settle(self) -> None:
        """Brings an interrupted exchange to its end: waits a moment, asks the server to stop, rolls back; else closes the connection."""
        settled = False
        try:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + self._cancel_seconds):
                with anyio.move_on_after(PATIENCE):
                    await self._receive(Answers())
                if self._expected:
                    await self._ask_to_stop()
                    await self._receive(Answers())
                if self._pg.transaction_status != TransactionStatus.IDLE:
                    self._send([ROLLBACK])
                    await self._receive(Answers())
                settled = True
        except psycopg.Error:
            settled = False
        finally:
            if not settled:
                self.close()

    async def _ask_to_stop(self) -> None:
        request = self._pg.cancel_conn()
        try:
            request.start()
            await _polled(request, request.poll)
        finally:
            request.finish()


async def connected(address: Mapping[str, Any], *, until: float, prepare: bool, cancel_seconds: float) -> Line:
    """A new line to the server at `address`, libpq's parameters by name.

    Raises `StorageUnavailable` with what to look at, or `Overloaded` when the server has no place left; never with the address.
    """
    request: PGconn | None = None
    line = None
    try:
        with anyio.CancelScope(deadline=until):
            resolved = await _resolved(address)
            request = pq.PGconn.connect_start(make_conninfo(**resolved).encode())
            await _polled(request, request.connect_poll)
            request.nonblocking = 1
            request.enter_pipeline_mode()
            line = Line(request, prepare=prepare, cancel_seconds=cancel_seconds)
            return line
    except psycopg.Error as error:
        raise failures.not_connected(str(error)) from None
    except OSError:
        raise StorageUnavailable("The name of its host is not known.") from None
    finally:
        if request is not None and line is None:
            request.finish()
    raise StorageUnavailable("It does not answer: is it running, and can it be reached from here?")


def address_of(dsn: str) -> Mapping[str, Any]:
    """The parameters of a DSN. Raises `ConfigError` when it cannot be read, without repeating it: it may hold a password."""
    try:
        return {"fallback_application_name": "remit", **conninfo_to_dict(dsn), "client_encoding": "UTF8"}
    except psycopg.Error:
        raise ConfigError("The address of the database cannot be read: it should look like postgresql://user@host/database.") from None


def shown(dsn: str) -> str:
    """A DSN as it may be printed and logged: who, where and which database, and nothing else that it holds, as a password."""
    address = address_of(dsn)
    user, host, port, database = (quote(str(address.get(name) or ""), safe=",") for name in ("user", "host", "port", "dbname"))
    return f"postgresql://{user and user + '@'}{host}{port and ':' + port}/{database}"


async def _resolved(address: Mapping[str, Any]) -> Mapping[str, Any]:
    """The address with numbers for the name of its host: libpq would look it up in a way that stops the event loop."""
    host = str(address.get("host") or "")
    if not host or host.startswith(("/", "@")) or "," in host or address.get("hostaddr"):
        return address
    found = list(dict.fromkeys(str(entry[4][0]) for entry in await anyio.getaddrinfo(host, None, proto=6)))
    ports = ",".join([str(address["port"])] * len(found)) if address.get("port") else None
    return {**address, "host": ",".join([host] * len(found)), "hostaddr": ",".join(found), **({"port": ports} if ports else {})}


async def _polled(request: PGconn | PGcancelConn, poll: Callable[[], int]) -> None:
    """Drives libpq's connecting to its end. Raises `psycopg.OperationalError` when it fails."""
    while (state := poll()) != PollingStatus.OK:
        if state == PollingStatus.READING:
            await anyio.wait_readable(request.socket)
        elif state == PollingStatus.WRITING:
            await anyio.wait_writable(request.socket)
        else:
            raise psycopg.OperationalError(request.get_error_message())


def _formats(command: Command) -> list[int] | None:
    return [BINARY] * len(command.values) if command.values else None
