"""A Postgres for tests: one server for the whole run, and databases that are cloned from a template in a tenth of a second."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote, urlencode

import anyio
import psycopg
import pytest
from psycopg import conninfo, sql

from remit.pipeline.config import load
from remit.pipeline.errors import ConfigError
from remit.pipeline.storage.postgres.server import started

OWN = os.environ.get("REMIT_TEST_POSTGRES")
"""A superuser's DSN of a server with pgvector, to be used in place of one of our own. Databases are made there, and dropped again."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A running server. `dsn` is a superuser's; databases that a test makes have names that no other run gives."""

    dsn: str
    major: int
    run: str = field(default_factory=lambda: f"remit_test_{token_hex(4)}")
    templates: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def at(self, database: str, user: str | None = None) -> str:
        """The DSN of a database, as the superuser or as another role that may log in."""
        changed = {"dbname": database, **({"user": user} if user else {})}
        return f"postgresql:///?{urlencode(conninfo.conninfo_to_dict(self.dsn, **changed), quote_via=quote)}"

    def template(self, name: str, make: Callable[[str], None]) -> str:
        """The database that `make`, given its DSN, has filled; made once a run. `make` must leave no connection open."""
        if name not in self.templates:
            database = f"{self.run}_{name}"
            self._does("CREATE DATABASE {} TEMPLATE template0", database)
            make(self.at(database))
            self.templates[name] = database
        return self.templates[name]

    def create(self, template: str = "template0") -> str:
        """The DSN of a new database, a clone of the database called `template`."""
        database = f"{self.run}_{next(self.numbers)}"
        self._does("CREATE DATABASE {} TEMPLATE {}", database, template)
        return self.at(database)

    def drop(self, dsn: str) -> None:
        """Drops a database, whoever is still connected."""
        self._does("DROP DATABASE IF EXISTS {} WITH (FORCE)", str(conninfo.conninfo_to_dict(dsn)["dbname"]))

    @contextmanager
    def clone(self, template: str) -> Iterator[str]:
        dsn = self.create(template)
        try:
            yield dsn
        finally:
            self.drop(dsn)

    def close(self) -> None:
        for database in self.templates.values():
            self.drop(self.at(database))

    def _does(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def running(folder: Path) -> Iterator[Postgres]:
    """The server of $REMIT_TEST_POSTGRES, else one of our own in `folder`, which gives up durability for speed."""
    server = None
    dsn = OWN
    if dsn is None:
        try:
            server = anyio.run(lambda: started(folder, load().embedded, durable=False))
        except ConfigError as error:
            pytest.skip(str(error))
        dsn = server.dsn()
    try:
        with psycopg.connect(dsn) as connection:
            postgres = Postgres(dsn=dsn, major=connection.info.server_version // 10000)
        yield postgres
        postgres.close()
    finally:
        if server is not None:
            anyio.run(server.close)


def with_vectors(dsn: str) -> None:
    """Makes an empty database that knows vectors."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
