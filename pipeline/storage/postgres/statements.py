"""Statements: the named blocks of a file of queries, made ready to be sent with their parameters in Postgres's binary form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remit.pipeline.storage import queries
from remit.pipeline.storage.postgres.wire import encoded

_PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")

Values = list[bytes | None]


@dataclass(frozen=True, slots=True)
class Statement:
    """One block. `name` is also what a connection prepares it under; `parameters` are its named ones in the order of $1, $2 …"""

    name: str
    sql: bytes
    parameters: tuple[str, ...]

    def given(self, values: Mapping[str, Any]) -> Command:
        """The statement with its parameters out of `values`, which may hold others as well."""
        return Command(self, [encoded(values[name]) for name in self.parameters])


@dataclass(frozen=True, slots=True)
class Command:
    """A statement and what it is given."""

    statement: Statement
    values: Values


def load(path: Path) -> Mapping[str, Statement]:
    """Name → statement. Raises `queries.Malformed` as that does."""
    return {name: statement(name, sql) for name, sql in queries.load(path).items()}


def statement(name: str, sql: str) -> Statement:
    """Makes `:name` the numbered parameter that Postgres wants; the same name is the same parameter."""
    numbers: dict[str, int] = {}

    def numbered(named: re.Match[str]) -> str:
        return f"${numbers.setdefault(named[1], len(numbers) + 1)}"

    text = _PARAMETER.sub(numbered, sql)
    return Statement(name, text.encode(), tuple(numbers))


def plain(sql: str) -> Command:
    """A statement without parameters that changes from call to call: what sets a transaction up and ends it."""
    return Command(Statement("", sql.encode(), ()), [])
