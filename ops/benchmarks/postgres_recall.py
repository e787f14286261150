"""Speed of a whole recall on Postgres under forced row security, beside hand-written SQL for the same candidates in the same minute."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import psycopg
from corpus import memories, questions
from figures import percentile, ratio, row

from remit.pipeline import Principal, Request, open_engine
from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.storage.postgres.batch import word_key
from remit.pipeline.storage.postgres.server import started

LIMIT = 20
IN_FLIGHT = 8

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
SELECT passage, (embedding <=> %(probe)s::vector) + 0 AS distance FROM remit.vector_local
WHERE org = %(org)s AND NOT superseded ORDER BY distance LIMIT 500
"""
ROWS = """
SELECT m.source, m.id, m.version, m.title, coalesce(p.text, m.text), m.stated FROM remit.passage AS p
JOIN remit.memory AS m ON m.org = p.org AND m.key = p.memory WHERE p.org = %(org)s AND p.key = ANY(%(keys)s)
"""


async def against_hand_written_sql(folder: Path, *, orgs: int = 200, rows: int = 500, asked: int = 200) -> list[dict[str, Any]]:
    """500 own of 100,000 rows, 200 orgs, 128 dimensions, the restricted role, five stages, spans on; at one client and at eight."""
    directory = folder / f"postgres-{orgs}x{rows}"
    await _made(directory, orgs, rows)
    settings = load()
    server = await started(directory, settings.embedded)
    try:
        return await _measured(directory, server.dsn(), orgs // 2, rows, asked)
    finally:
        await server.close()


async def _made(directory: Path, orgs: int, rows: int) -> None:
    done = directory.with_suffix(".made")
    if done.exists():
        return
    async with open_engine(f"embedded:{directory}") as engine:
        for number in range(orgs):
            writer = Principal(actor="bench", org=f"org{number}", scopes="*")
            async for _ in engine.remember_stream(memories(f"org{number}", rows, number), writer):
                pass
    settings = load()
    server = await started(directory, settings.embedded)
    try:
        async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as owner:
            await owner.execute("VACUUM ANALYZE")
    finally:
        await server.close()
    done.touch()


async def _measured(directory: Path, dsn: str, own: int, rows: int, asked: int) -> list[dict[str, Any]]:
    org = f"org{own}"
    reader = Principal(actor="bench", org=org, scopes=())
    hand = await ByHand.connected(dsn, org)
    whole, by_hand, stages = [], [], {}
    everything = questions(asked + 20, 1, rows, own)
    async with open_engine(f"embedded:{directory}") as engine:
        for number, question in enumerate(everything):
            began = perf_counter()
            answer = await engine.recall(Request(query=question, limit=LIMIT), reader)
            between = perf_counter()
            await hand.recall(question)
            if number >= 20:
                whole.append(between - began)
                by_hand.append(perf_counter() - between)
                for stage in answer.meta.stages:
                    stages.setdefault(stage.stage, []).append(stage.seconds)
        many = await _throughput(everything, lambda question: engine.recall(Request(query=question, limit=LIMIT), reader))
    hands = [await ByHand.connected(dsn, org) for _ in range(IN_FLIGHT)]
    free = list(hands)

    async def one(question: str) -> None:
        mine = free.pop()
        try:
            await mine.recall(question)
        finally:
            free.append(mine)

    floor = await _throughput(everything, one)
    for each in (hand, *hands):
        await each.close()
    return [
        row("whole recall", whole),
        row("hand-written SQL", by_hand),
        {"name": "whole / by hand", "p50": ratio(whole, by_hand, 50), "p95": ratio(whole, by_hand, 95), "target": "1.5"},
        {"name": f"{IN_FLIGHT} clients: recalls a second", "p50": round(many), "target": ""},
        {"name": f"{IN_FLIGHT} clients: by hand", "p50": round(floor)},
        {"name": "throughput, whole / by hand", "p50": round(many / floor, 2), "target": "0.6"},
        {"name": "stages, p50 ms", **{name: round(percentile(values, 50) * 1000, 3) for name, values in stages.items()}},
    ]


async def _throughput(everything: list[str], ask: Any) -> float:
    """Questions a second, eight at a time."""
    waiting = list(everything)

    async def client() -> None:
        while waiting:
            await ask(waiting.pop())

    began = perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(IN_FLIGHT):
            tasks.start_soon(client)
    return len(everything) / (perf_counter() - began)


class ByHand:
    """What somebody would write who knows the tables: both searches in one pipelined round trip, then the best twenty rows."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], org: str) -> None:
        self._connection, self._org = connection, org
        self._analyser = Analyser("english")
        self._hash = LocalHash(self._analyser)

    @classmethod
    async def connected(cls, dsn: str, org: str) -> ByHand:
        return cls(await psycopg.AsyncConnection.connect(dsn, autocommit=True), org)

    async def close(self) -> None:
        await self._connection.close()

    async def recall(self, question: str) -> list[Any]:
        words = [word_key(word) for word in self._analyser.content(question)]
        probe = "[" + ",".join(map(str, self._hash.vector_of(question))) + "]"
        async with self._connection.pipeline(), self._connection.transaction():
            for setting in ("ROLE remit_app", f"app.org = '{self._org}'", "app.scopes = 'global'"):
                await self._connection.execute(f"SET LOCAL {setting}")
            by_words = await self._connection.execute(WORDS, {"org": self._org, "words": words}, prepare=True)
            nearest = await self._connection.execute(NEAREST, {"org": self._org, "probe": probe}, prepare=True)
            ranked: dict[int, float] = {}
            for lane in (await by_words.fetchall(), await nearest.fetchall()):
                for place, (key, *_) in enumerate(lane):
                    ranked[key] = ranked.get(key, 0.0) + 1 / (60 + place)
            best = sorted(ranked, key=lambda key: (-ranked[key], key))[:LIMIT]
            found = await self._connection.execute(ROWS, {"org": self._org, "keys": best}, prepare=True)
            return await found.fetchall()
