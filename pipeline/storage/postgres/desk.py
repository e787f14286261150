"""The desk: where transactions are begun, each on a lent line, on somebody's behalf and inside a time, and where safety is looked at."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import anyio
from psycopg.pq.abc import PGresult

from remit.pipeline.config import Postgres
from remit.pipeline.errors import RemitError, StorageUnavailable, UnsafeStorage
from remit.pipeline.storage.operations import UNKNOWN, Operation
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.identity import (
    AT_ONCE,
    BECOMING,
    NAMED,
    NOBODY,
    OF_ORG,
    READING,
    WRITING,
    Identity,
    Regranted,
    Terms,
    confirmed,
    lock_of_grants,
    named,
    opening,
    opening_at_once,
    paths,
    scopes_as,
)
from remit.pipeline.storage.postgres.line import OUT_OF_TIME, ROLLBACK, Answers, Failure, Line, Watch
from remit.pipeline.storage.postgres.means import Means
from remit.pipeline.storage.postgres.pool import Pool
from remit.pipeline.storage.postgres.rows import unspelled
from remit.pipeline.storage.postgres.statements import Command, Statement
from remit.pipeline.trail import log

REFUSED = Failure(failures.NO_RIGHT)

GRACE = 0.1
"""Seconds the server has to end a statement that reached its limit before we end it."""


class Desk:
    """What the parts of a store share: the pool, the statements, the settings, and what the database was last seen to be."""

    def __init__(self, pool: Pool, sql: Mapping[str, Statement], settings: Postgres) -> None:
        self.pool = pool
        self.sql = sql
        self.settings = settings
        self.means = Means()

    def command(self, name: str, **values: Any) -> Command:
        return self.sql[name].given(values)

    @property
    def role(self) -> str | None:
        return self.settings.role if self.settings.profile == "plain" else None

    def reading(self, identity: Identity, *, until: float | None = None, host: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """One moment of the store, until a moment on the clock of the event loop or else for `statementSeconds`.

        `host` leaves the role that logged in, for what only the owner may do. Raises `Overloaded` when no line comes free.
        """
        return self._transaction(READING, identity, until or anyio.current_time() + self.settings.statement_seconds, host)

    async def asked(self, identity: Identity, commands: Sequence[Command]) -> Answers:
        """The answers of statements that are all there is to ask at that moment: in one round trip, with the end of the transaction."""
        async with self.reading(identity) as transaction:
            return await transaction.ask([*commands, ROLLBACK])

    def writing(
        self, identity: Identity, operation: Operation | None = None, *, host: bool = False
    ) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that is rolled back unless its last statement was COMMIT. Who waits for it is told of its operation."""
        return self._transaction(WRITING, identity, anyio.current_time() + self.settings.write_seconds, host, operation)

    @asynccontextmanager
    async def _transaction(
        self, begin: str, identity: Identity, until: float, host: bool, operation: Operation | None = None
    ) -> AsyncIterator[Transaction]:
        async with self.pool.line(until) as line:
            # Behind a pooler nobody here knows which of the server's processes works for a line.
            if begin == WRITING and self.settings.prepare:
                line.watch = Watch(self.settings.slow_lock_seconds, partial(self._look_who_holds, line.pid))
            try:
                yield Transaction(self, line, begin, identity, until, host, operation)
            finally:
                line.watch = None
                line.part()

    async def _look_who_holds(self, waiting: int) -> None:
        """Logs whom a write waits for, if it waits for somebody and a line is free to ask."""
        if not self.pool.free:
            return
        until = anyio.current_time() + self.settings.slow_lock_seconds
        with suppress(RemitError):
            async with self.reading(NOBODY, until=until) as transaction:
                told = (await transaction.ask([self.command("holder", pid=waiting), ROLLBACK])).rows(0)
            for (name,) in told:
                waited = round(self.settings.slow_lock_seconds, 1)
                values: dict[str, str | float] = {"remit.waited_seconds": waited, "remit.holder": _operation((name or b"").decode())}
                log.warning("lock_waited", **values)


def _becomes(statement: Statement) -> bool:
    """Whether the transaction becomes the restricted role by it."""
    return statement.name == AT_ONCE or statement.sql.startswith(BECOMING)


def _operation(application: str) -> str:
    """The operation in the name of an application, which anybody may have chosen."""
    name = application.removeprefix(NAMED)
    return name if application.startswith(NAMED) and name in set(Operation) else UNKNOWN


class Transaction:
    """A transaction on its line; it begins with the first question."""

    def __init__(
        self, desk: Desk, line: Line, begin: str, identity: Identity, until: float, host: bool, operation: Operation | None = None
    ) -> None:
        self._desk = desk
        self._line = line
        self._begin = begin
        self._identity = identity
        self._until = until
        self._host = host
        self._operation = operation
        self._begun = False
        self._looking_since = -inf

    @property
    def line(self) -> Line:
        return self._line

    async def ask(self, commands: Sequence[Command]) -> Answers:
        """All answers, in one round trip. Raises what a statement ran into as `StorageUnavailable`, `UnsafeStorage` for what is unsafe."""
        answers = await self.tried(commands)
        if answers.failure is not None:
            raise failures.told(answers.failure.sqlstate)
        return answers

    async def owned(self) -> None:
        """Raises `StorageUnavailable` unless who logged in owns the store."""
        if (await self.ask([self._desk.command("owned")])).value(0) != b"\1":
            raise StorageUnavailable("Only the owner may look after all orgs: use an owner's DSN for it.")

    async def tried(self, commands: Sequence[Command]) -> Answers:
        """The answers up to the first failure, which is told beside them; after that nothing more may be asked."""
        if self._until <= (now := anyio.current_time()):
            return Answers(failure=OUT_OF_TIME)
        if self._begun:
            return await self._go_on(commands)
        self._begun = True
        first = self._first(now)
        if self._begin == WRITING and any(name not in ("", "who") for name, _ in first):
            # Before anything is written it must be known to be safe, and granted.
            begun = await self._begin_with(first, [])
            return begun if begun.failure is not None else await self._go_on(commands)
        return await self._begin_with(first, commands)

    async def _go_on(self, commands: Sequence[Command]) -> Answers:
        """Outside its transaction there is no identity, and nothing may be asked."""
        if not self._line.inside:
            raise StorageUnavailable(failures.LOST)
        return await self._line.exchange(commands, until=self._until + GRACE)

    async def _begin_with(self, first: Sequence[tuple[str, Command]], commands: Sequence[Command]) -> Answers:
        answers = await self._line.exchange([*(command for _, command in first), *commands], until=self._until + GRACE)
        begun, answers.results = answers.results[: len(first)], answers.results[len(first) :]
        for (name, _), result in zip(first, begun, strict=False):
            self._look(name, result)
        if len(begun) < len(first) and answers.failure is None:
            raise StorageUnavailable(failures.LOST)
        if answers.failure == REFUSED and any(_becomes(command.statement) for _, command in first[len(begun) :][:1]):
            raise StorageUnavailable(failures.NO_MEMBER)
        return answers

    def _first(self, now: float) -> list[tuple[str, Command]]:
        """The statements it begins with, each under the name of what its answer is looked at for, if anything."""
        desk = self._desk
        self._terms = Terms(role=None if self._host else desk.role, vectors_in=desk.means.schema)
        looks = {"who": desk.command("who")}
        if not self._host and now - self._line.checked >= desk.settings.safety_seconds:
            self._looking_since = now
            looks["hazards"] = desk.command("hazards", may_log_in=desk.settings.profile == "cluster")
            looks |= {name: desk.command(name) for name in ("changed_policies", "means")}
        # What looks for hazards must not find functions of strangers itself.
        terms = self._terms if "hazards" not in looks else replace(self._terms, vectors_in=None)
        if self._begin == READING and terms.role is not None:
            begin = opening_at_once(self._identity, terms, self._until - now, desk.sql[AT_ONCE])
        else:
            begin = opening(self._line, self._begin, self._identity, terms, self._until - now)
        begin += [named(self._operation)] if self._operation is not None else []
        after = [("", paths(self._terms))] if terms != self._terms else []
        return [*(("", each) for each in begin), *self._grants(), *looks.items(), *after]

    def _grants(self) -> list[tuple[str, Command]]:
        """What looks up again what the actor is granted, where the store keeps that: for a moment as all of the org, which alone may.

        Who writes keeps it from being revoked until the end; who reads does so at the one moment of the whole transaction.
        """
        desk, identity = self._desk, self._identity
        if identity.actor is None:
            return []
        number = lock_of_grants(identity.org, identity.actor)
        lock = [("", desk.command("lock_shared", number=number))] if self._begin == WRITING else []
        left = desk.command("left_of_grants", org=identity.org, actor=identity.actor, granted=list(identity.granted))
        return [("", OF_ORG), *lock, ("grants", left), ("", scopes_as(self._line, identity.scopes))]

    def _look(self, name: str, told: PGresult) -> None:
        """Sees on whose behalf this is, whether that is still granted, and whether it is safe when that was asked."""
        if name == "who":
            confirmed([told.get_value(0, column) for column in range(3)], self._identity, self._terms)
        elif name == "grants" and (left := told.get_value(0, 0)) is not None:
            raise Regranted([unspelled(scope) for scope in json.loads(left)])
        elif name == "means":
            self._desk.means = Means.told(told.get_value(0, 0))
            self._line.checked = self._looking_since
        elif name in ("hazards", "changed_policies") and (hazards := told.get_value(0, 0)) is not None:
            raise UnsafeStorage("; ".join(json.loads(hazards)) + ".")
