"""Databases to be measured: made once under a folder, by way of the store, with the graphs of the nearest built when all rows are in."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psycopg
from corpus import memories
from numpy.typing import NDArray
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from remit.pipeline import Principal, open_engine
from remit.pipeline.config import load
from remit.pipeline.opening import made_for
from remit.pipeline.storage import migrations, postgres
from remit.pipeline.storage.postgres.server import EmbeddedServer, started
from remit.stages.evidence import Lane

LANES = {128: Lane.LOCAL, 768: Lane.SEMANTIC}
SIDE_BY_SIDE = 3
"""Orgs that are taken in at once: while one is analysed another is written."""

_GRAPHS = {
    "vector_local_nearest": "CREATE INDEX vector_local_nearest ON remit.vector_local USING hnsw (embedding vector_cosine_ops)",
    "vector_semantic_nearest": "CREATE INDEX vector_semantic_nearest ON remit.vector_semantic USING hnsw (embedding halfvec_cosine_ops)",
}

_LARGE = ("posting", "vector_local", "vocabulary", "phrase")
"""Tables that nothing refers to, and that are not worth a log here."""

_TABLES_OF_ORGS = """
SELECT c.table_name, array_agg(c.column_name::text) FROM information_schema.columns AS c
WHERE c.table_schema = 'remit' AND EXISTS (
    SELECT 1 FROM information_schema.columns AS o WHERE (o.table_schema, o.table_name, o.column_name) = ('remit', c.table_name, 'org')
)
GROUP BY c.table_name
"""


@dataclass(frozen=True, slots=True)
class WordSums:
    """An embedder of a host, the same on every machine: a text is the sum of its words, each a direction of its own, drawn at random."""

    dimensions: int = 768
    lane: Lane = Lane.SEMANTIC
    _known: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def space(self) -> str:
        return f"word-sums/{self.dimensions}"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self.vector_of(text) for text in texts])

    def vector_of(self, text: str) -> NDArray[np.float32]:
        words = [self._direction(word) for word in text.split()]
        total: NDArray[np.float32] = np.add.reduce(words) if words else np.zeros(self.dimensions, np.float32)
        return total / np.float32(np.linalg.norm(total) or 1.0)

    def _direction(self, word: str) -> NDArray[np.float32]:
        if word not in self._known:
            seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
            self._known[word] = np.random.default_rng(seed).standard_normal(self.dimensions).astype(np.float32)
        return self._known[word]


def embedders(dimensions: int) -> Mapping[str, Any]:
    """What `open_engine` is given for vectors of that length: nothing for the local hash, or a host's own embedder."""
    return {} if dimensions == 128 else {"embedder": WordSums(dimensions)}


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[EmbeddedServer]:
    """The one server of all these databases. What a crash would lose can be made again."""
    server = await started(folder / "postgres", load().embedded, durable=False)
    try:
        yield server
    finally:
        await server.close()


async def made(server: EmbeddedServer, name: str, orgs: Mapping[str, tuple[int, int]], dimensions: int, length: int = 60) -> str:
    """The DSN of a database in which each org, by its name, has so many memories, made from a seed, of so many words each.

    One that was made by this schema before is used again.
    """
    return await _once(server, name, None, partial(_filled, orgs=orgs, dimensions=dimensions, length=length))


async def multiplied(server: EmbeddedServer, smaller: str, name: str, times: int, *, keep: str) -> str:
    """The DSN of a copy in which there is `times` as much of every org but the one to keep, under names of their own."""
    return await _once(server, name, str(conninfo_to_dict(smaller)["dbname"]), partial(_grown, times=times, keep=keep))


async def _once(server: EmbeddedServer, name: str, template: str | None, fill: Callable[[str], Awaitable[None]]) -> str:
    files = migrations.read(Path(postgres.__file__).parent / "migrations")
    name = f"{name}_{blake2b(''.join(each.checksum for each in files).encode(), digest_size=3).hexdigest()}"
    dsn, unfinished = server.dsn(name), f"{name}_unfinished"
    async with await _owner(server.dsn()) as owner:
        if await (await owner.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])).fetchone():
            return dsn
        print(f"making {name} …")
        await owner.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(unfinished)))
        made_of = sql.Identifier(template or "template1")
        await owner.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(unfinished), made_of))
    await fill(server.dsn(unfinished))
    async with await _owner(server.dsn()) as owner:
        await owner.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(unfinished), sql.Identifier(name)))
    return dsn


async def _filled(dsn: str, *, orgs: Mapping[str, tuple[int, int]], dimensions: int, length: int) -> None:
    await made_for(dsn, load())
    await without_graphs(dsn)
    places = anyio.CapacityLimiter(SIDE_BY_SIDE)
    async with open_engine(dsn, **embedders(dimensions)) as engine, anyio.create_task_group() as tasks:

        async def take_in(org: str, rows: int, seed: int) -> None:
            async with places:
                writer = Principal(actor="bench", org=org, scopes="*")
                async for _ in engine.remember_stream(memories(org, rows, seed, length), writer):
                    pass

        for org, (rows, seed) in orgs.items():
            tasks.start_soon(partial(take_in, org, rows, seed))
    await with_graphs(dsn)


async def _grown(dsn: str, *, times: int, keep: str) -> None:
    """Copies rows inside the database, org by org under other names. Graphs stay out: a scope of this size is compared one by one."""
    await without_graphs(dsn)
    async with await _owner(dsn) as owner:
        await owner.execute("SET session_replication_role = replica")
        await owner.execute("SET work_mem = '512MB'")
        tables = await (await owner.execute(_TABLES_OF_ORGS)).fetchall()
        for name, columns in tables:
            table = sql.SQL("remit.") + sql.Identifier(name)
            if name in _LARGE:
                await owner.execute(sql.SQL("ALTER TABLE {} SET UNLOGGED").format(table))
            of_others = (sql.SQL("t.org || '~' || n") if column == "org" else sql.SQL("t.") + sql.Identifier(column) for column in columns)
            copied = "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} AS t, generate_series(2, {}) AS n WHERE t.org <> {}"
            await owner.execute(
                sql.SQL(copied).format(
                    table,
                    sql.SQL(", ").join(map(sql.Identifier, columns)),
                    sql.SQL(", ").join(of_others),
                    table,
                    sql.Literal(times),
                    sql.Literal(keep),
                )
            )
        await owner.execute("VACUUM ANALYZE")


async def without_graphs(dsn: str) -> None:
    async with await _owner(dsn) as owner:
        for name in _GRAPHS:
            await owner.execute(sql.SQL("DROP INDEX IF EXISTS remit.{}").format(sql.Identifier(name)))


async def with_graphs(dsn: str) -> None:
    """Builds the graphs of the nearest as `vectors.sql` has them, and the planner's statistics."""
    async with await _owner(dsn) as owner:
        await owner.execute("SET maintenance_work_mem = '2GB'")
        await owner.execute(f"SET max_parallel_maintenance_workers = {(os.cpu_count() or 1) - 1}".encode())
        for statement in _GRAPHS.values():
            await owner.execute(f"{statement} WHERE NOT superseded".encode())
        await owner.execute("VACUUM ANALYZE")


async def _owner(dsn: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True)
