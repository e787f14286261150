"""Databases with a store in them, for tests: made once by an owner that is no superuser, cloned, emptied and used again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import sha256
from urllib.parse import quote, urlencode

import anyio
import psycopg
from psycopg import conninfo, sql
from servers import OWN, Postgres

from remit.pipeline.config import load
from remit.pipeline.storage.postgres import made

OWNER = "remit_owner"
APP = load().postgres.role
KEPT = ("migration", "setting")
KEPT_IN_HAND = 6
"""Databases lent to one test that are left alone, although nobody is connected: it may open them again."""


def login(dsn: str, user: str) -> str:
    """The DSN of the same database for another role that may log in."""
    return f"postgresql:///?{urlencode(conninfo.conninfo_to_dict(dsn, user=user), quote_via=quote)}"


def with_store(signature: str, dsn: str) -> None:
    """Does in an empty database what a DBA and then the owner do."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        for role, kind in ((OWNER, "LOGIN NOSUPERUSER NOBYPASSRLS"), (APP, "NOLOGIN NOSUPERUSER NOBYPASSRLS")):
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {} " + kind).format(sql.Identifier(role)))
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(APP), sql.Identifier(OWNER)))
        database = sql.Identifier(str(conninfo.conninfo_to_dict(dsn)["dbname"]))
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, sql.Identifier(OWNER)))
    config = load()
    done = anyio.run(partial(made, login(dsn, OWNER), config.postgres, signature, semantic_dimensions=config.embedding.semantic_dimensions))
    assert done.for_dba == ""


def template_with_store(server: Postgres, signature: str) -> str:
    """The name of a database to be cloned, with an empty store of this analyser."""
    return server.template(f"store_{sha256(signature.encode()).hexdigest()[:8]}", partial(with_store, signature))


class Stock:
    """Databases with empty stores. What comes back is emptied and used again, which is quicker than a new clone."""

    def __init__(self, server: Postgres, signature: str) -> None:
        self._clone = partial(server.create, template_with_store(server, signature))
        self._drop: Callable[[str], None] = server.drop
        self._free: list[str] = []
        self._all: list[str] = []

    @contextmanager
    def database(self) -> Iterator[str]:
        """The superuser's DSN of a database that nobody else uses now."""
        dsn = self._free.pop() if self._free else self._clone()
        self._all.append(dsn)
        try:
            yield dsn
        finally:
            if emptied(dsn):
                self._free.append(dsn)

    def lending(self) -> Iterator[Callable[[], str]]:
        """Gives the DSN of another empty store's owner at each call. Of many, those lent long ago that nobody uses any more come again."""
        lent: deque[tuple[str, AbstractContextManager[str]]] = deque()

        def lend() -> str:
            if len(lent) > KEPT_IN_HAND and not in_use(lent[0][0]):
                lent.popleft()[1].__exit__(None, None, None)
            lending = self.database()
            lent.append((lending.__enter__(), lending))
            return login(lent[-1][0], OWNER)

        yield lend
        for _, lending in lent:
            lending.__exit__(None, None, None)

    def close(self) -> None:
        """Drops them, unless the server is gone in a moment anyway."""
        for dsn in set(self._all) if OWN else ():
            self._drop(dsn)


def in_use(dsn: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as connection:
        used = "SELECT count(*) > 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        return connection.execute(used).fetchone() == (True,)


def emptied(dsn: str) -> bool:
    """Takes everything out of a store but what says that it is one, and begins counting anew; not when there is so much that it lasts."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        if connection.execute("SELECT count(*) > 200 FROM remit.passage").fetchone() == (True,):
            return False
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'remit' AND tablename <> ALL (%s)", [list(KEPT)])
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
            for (table,) in found.fetchall():
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier("remit", table)))
            for sequence in ("memory_key_seq", "passage_key_seq", "shelf_id_seq"):
                connection.execute(sql.SQL("ALTER SEQUENCE {} RESTART").format(sql.Identifier("remit", sequence)))
    return True


def swept(dsn: str) -> str:
    """The same database without the dead rows, in tables and graphs, of whoever used it before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM")
    return dsn
