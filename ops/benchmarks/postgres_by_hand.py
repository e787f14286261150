"""What a recall is measured against: the same candidates by hand-written SQL, by somebody who knows the tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from postgres_made import LANES, WordSums

from remit.pipeline.analysis import Analyser
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.storage.postgres.rows import word_key

ROLE = "remit_app"
LIMIT = 20

WORDS = """
SELECT passage, sum(ln(1 + (n.n - df + 0.5) / (df + 0.5)) * 2.2 * c / (c + 1.2 * (0.25 + 0.75 * l / n.average))) AS score
FROM (
    SELECT passage, entry >> 32 AS c, (entry >> 2) & 1073741823 AS l, count(*) OVER (PARTITION BY word) AS df
    FROM remit.posting
    WHERE org = %(org)s AND word = ANY(%(words)s) AND NOT superseded
) AS p, (SELECT sum(passages)::float AS n, sum(words)::float / sum(passages) AS average FROM remit.shelf WHERE org = %(org)s) AS n
GROUP BY passage ORDER BY score DESC LIMIT 500
"""
NEAREST = """
SELECT passage, (embedding <=> %(probe)s::{type}) + 0 AS distance FROM remit.vector_{table}
WHERE org = %(org)s AND space = %(space)s AND NOT superseded ORDER BY distance LIMIT 500
"""
ROWS = """
SELECT m.source, m.id, m.version, m.title, coalesce(p.text, m.text), m.stated FROM remit.passage AS p
JOIN remit.memory AS m ON m.org = p.org AND m.key = p.memory WHERE p.org = %(org)s AND p.key = ANY(%(keys)s)
"""


class ByHand:
    """Both searches in one pipelined round trip on one connection, then the best twenty rows; under the restricted role, as a recall is."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], org: str, dimensions: int, space: str) -> None:
        self._connection, self._org = connection, org
        self._analyser = Analyser("english")
        self._embedder = LocalHash(self._analyser) if dimensions == 128 else WordSums(dimensions)
        self._space = space or self._embedder.space
        self._nearest = NEAREST.format(type="vector" if dimensions == 128 else "halfvec", table=LANES[dimensions].value)

    @classmethod
    async def connected(cls, dsn: str, org: str, dimensions: int, space: str = "") -> ByHand:
        """With vectors of a space, or of the embedder of these dimensions that the benchmarks use."""
        return cls(await psycopg.AsyncConnection.connect(dsn, autocommit=True), org, dimensions, space)

    async def close(self) -> None:
        await self._connection.close()

    async def recall(self, question: str) -> list[Any]:
        return await self.found(question, self._embedder.vector_of(question))

    async def found(self, question: str, vector: Iterable[float]) -> list[Any]:
        """The best rows, in the order in which the database gives them."""
        words = [word_key(word) for word in self._analyser.content(question)]
        probe = "[" + ",".join(map(str, vector)) + "]"
        async with self._connection.pipeline(), self._connection.transaction():
            for setting in (f"ROLE {ROLE}", f"app.org = '{self._org}'", "app.scopes = 'global'"):
                await self._connection.execute(f"SET LOCAL {setting}")
            by_words = await self._connection.execute(WORDS, {"org": self._org, "words": words}, prepare=True)
            nearest = await self._connection.execute(self._nearest, {"org": self._org, "space": self._space, "probe": probe}, prepare=True)
            ranked: dict[int, float] = {}
            for lane in (await by_words.fetchall(), await nearest.fetchall()):
                for place, (key, *_) in enumerate(lane):
                    ranked[key] = ranked.get(key, 0.0) + 1 / (60 + place)
            best = sorted(ranked, key=lambda key: (-ranked[key], key))[:LIMIT]
            found = await self._connection.execute(ROWS, {"org": self._org, "keys": best}, prepare=True)
            return await found.fetchall()


@asynccontextmanager
async def everybody(dsn: str, orgs: Sequence[str], dimensions: int) -> AsyncIterator[Mapping[str, ByHand]]:
    """A connection of their own for each org."""
    hands = {org: await ByHand.connected(dsn, org, dimensions) for org in orgs}
    try:
        yield hands
    finally:
        for hand in hands.values():
            await hand.close()


async def versions(dsn: str) -> dict[str, str]:
    """Of the server and its extension."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        query = "SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        server, vector = await (await connection.execute(query)).fetchone() or ("", "")
    return {"postgres": server, "pgvector": vector, "psycopg": psycopg.__version__, "libpq": str(psycopg.pq.version())}
