"""Making: brings a database to the schema this code knows, with its authority and its restricted role, as an owner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio.to_thread
import psycopg
from psycopg import sql

from remit.pipeline.config import Postgres
from remit.pipeline.errors import ConfigError, StorageUnavailable
from remit.pipeline.storage import migrations, queries
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.line import address_of

SIGNATURE = "analyser"
IDENTITY = "identity"

FIRST = "memories"
"""The migration that every store begins with."""

_HERE = Path(__file__).parent
_LOCK = 0x52656D6974
"""The number of the lock that one `remit init` at a time holds: "Remit"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was done: the migrations that were carried out; and what a DBA must run because this login may not, if anything.

    `usable` says whether this login can open the store now: it may become the restricted role, or is it where that logs in itself.
    """

    migrations: tuple[str, ...]
    for_dba: str
    usable: bool = True

    @property
    def new(self) -> bool:
        """Whether there was no store before."""
        return FIRST in self.migrations


_NO_OWNER = "This login may not do all of it: use one that may create in the database and owns all that is in its schema remit."

_BROKEN = """
    SELECT x.relname FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE x.relnamespace = 'remit'::regnamespace AND NOT (i.indisvalid AND i.indisready)
        AND NOT EXISTS (SELECT 1 FROM pg_constraint AS c WHERE c.conindid = x.oid)
"""
_INDEX = re.compile(r"^CREATE INDEX (\w+) ON [^;]*;", re.MULTILINE)


def indexes_made() -> Mapping[str, str]:
    """The indexes that migrations make, beside those of keys and of vectors, each with its statement."""
    texts = (each.sql for each in migrations.read(_HERE / "migrations"))
    return {found[1]: found[0] for text in texts for found in _INDEX.finditer(text)}


async def made(dsn: str, settings: Postgres, signature: str, *, semantic_dimensions: int) -> Made:
    """Makes or upgrades the store at `dsn`, all of it or nothing; may be run again at any time, and by several at once.

    A new store is bound to the analyser that `signature` names. Raises `StorageUnavailable` when the database cannot be reached, and for a
    schema that is newer or not ours; `ConfigError` for an address that cannot be read.
    """
    address_of(dsn)
    work = partial(_made, dsn, settings, signature, semantic_dimensions)
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=False)


def _made(dsn: str, settings: Postgres, signature: str, semantic_dimensions: int) -> Made:
    with _told_plainly(), psycopg.connect(dsn, connect_timeout=max(2, round(settings.connect_seconds)), client_encoding="UTF8") as db:
        making = _Making(db, settings)
        db.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        db.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        if db.info.parameter_status("server_encoding") != "UTF8":
            raise ConfigError("The database does not hold all texts: make one with the encoding UTF8.")
        for_dba = making.prepared()
        done = making.migrated(signature)
        making.indexes()
        making.vectors(semantic_dimensions)
        making.authority()
        usable = making.usable()
        db.commit()
    return Made(migrations=done, for_dba="\n".join(for_dba), usable=usable)


class _Making:
    """The steps, on a connection of an owner, inside one transaction."""

    def __init__(self, db: psycopg.Connection, settings: Postgres) -> None:
        self._db = db
        self._settings = settings
        self._roles = queries.load(_HERE / "roles.sql")

    def prepared(self) -> list[str]:
        """Sees to the extension, the role and its membership; gives the statements that this login may not run."""
        wanted = []
        if not self._one("SELECT count(*) FROM pg_extension WHERE extname = 'vector'"):
            wanted.append(self._role_statement("extension"))
        if not self._one("SELECT count(*) FROM pg_roles WHERE rolname = %s", self._settings.role):
            wanted.append(self._role_statement("role" if self._settings.profile == "plain" else "role_of_cluster"))
        failed = [each for each in wanted if not self._run(each)]
        if not failed or self._there():
            member = self._role_statement("member")
            if self._settings.profile == "plain" and not self._member() and not self._run(member):
                failed.append(member)
        elif self._settings.profile == "plain":
            failed.append(self._role_statement("member"))
        return [f"{each};" for each in failed]

    def migrated(self, signature: str) -> tuple[str, ...]:
        files = migrations.read(_HERE / "migrations")
        applied: dict[int, str] = {}
        if self._one("SELECT count(*) FROM pg_tables WHERE schemaname = 'remit' AND tablename = 'migration'"):
            applied = dict(self._db.execute("SELECT number, checksum FROM remit.migration").fetchall())
        done = migrations.pending(files, applied)
        for each in done:
            self._script(each.sql)
            self._db.execute("INSERT INTO remit.migration VALUES (%s, %s, %s)", [each.number, each.name, each.checksum])
        if not applied:
            settings = [(SIGNATURE, signature), (IDENTITY, token_hex(16))]
            self._db.cursor().executemany("INSERT INTO remit.setting VALUES (%s, %s)", settings)
        return tuple(each.name for each in done)

    def indexes(self) -> None:
        """Indexes that are gone, and those that were left half made, are made again."""
        for (name,) in self._db.execute(_BROKEN).fetchall():
            self._db.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier("remit", name)))
        there = {name for (name,) in self._db.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'remit'").fetchall()}
        for name, statement in indexes_made().items():
            if name not in there:
                self._script(statement)

    def vectors(self, semantic_dimensions: int) -> None:
        """The tables of vectors, when the extension is there. Longer ones than before get a new table while the old is empty."""
        schema = self._one(
            "SELECT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
        )
        if schema is None:
            return
        self._db.execute(sql.SQL("SET LOCAL search_path = pg_catalog, {}, pg_temp").format(sql.Identifier(schema)))
        self._db.execute(sql.SQL("SET LOCAL remit.dimensions = {}").format(sql.Literal(semantic_dimensions)))
        for statement in queries.load(_HERE / "vectors.sql").values():
            self._script(statement)
        self._db.execute("SET LOCAL search_path = pg_catalog, pg_temp")

    def authority(self) -> None:
        """Policies and grants, always made anew."""
        statements = dict(queries.load(_HERE / "policies.sql"))
        grant = statements.pop("grant")
        for statement in statements.values():
            self._script(statement)
        if self._there():
            self._db.execute(sql.SQL("SET LOCAL remit.role = {}").format(sql.Literal(self._settings.role)))
            self._script(grant)

    def usable(self) -> bool:
        """Whether this login can open the store now."""
        if self._settings.profile == "cluster":
            return bool(self._one("SELECT current_user = %s", self._settings.role))
        return self._there() and self._member()

    def _there(self) -> bool:
        return bool(self._one("SELECT count(*) FROM pg_roles WHERE rolname = %s", self._settings.role))

    def _member(self) -> bool:
        how = "SET" if self._db.info.server_version >= 160000 else "MEMBER"
        return bool(self._one("SELECT pg_has_role(current_user, %s, %s)", self._settings.role, how))

    def _role_statement(self, name: str) -> str:
        login = self._one("SELECT current_user")
        names = {"role": sql.Identifier(self._settings.role), "login": sql.Identifier(login)}
        return sql.SQL(self._roles[name]).format(**names).as_string(self._db)

    def _run(self, statement: str) -> bool:
        """Whether it could be run by this login; what it did not do is as it was."""
        try:
            with self._db.transaction():
                self._script(statement)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported):
            return False
        return True

    def _script(self, text: str) -> None:
        self._db.execute(text.encode())

    def _one(self, statement: str, *values: object) -> Any:
        row = self._db.execute(statement.encode(), values).fetchone()
        return row[0] if row else None


@contextmanager
def _told_plainly() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise failures.not_connected(str(error)) from None
        if error.sqlstate == failures.NO_RIGHT:
            raise StorageUnavailable(f"{_NO_OWNER} Nothing was changed.") from None
        raise StorageUnavailable(f"{failures.told(error.sqlstate).fact} Nothing was changed.") from None
