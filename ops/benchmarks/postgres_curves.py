"""Curves: a recall as its own rows and as foreign rows grow, what its searches miss, and how an index of vectors is best scanned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import psycopg
from corpus import questions
from figures import ratio, row
from numpy.typing import NDArray
from postgres_by_hand import LIMIT, ByHand
from postgres_made import LANES, WordSums, embedders, made, multiplied

from remit.pipeline import Engine, Principal, Request, open_engine
from remit.pipeline.analysis import Analyser
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.storage.postgres.server import EmbeddedServer
from remit.stages.access import Access
from remit.stages.ports import Probe, Wanted
from remit.stages.request import Filters
from remit.stages.selection import similarities

OWN = (1_000, 10_000, 100_000)
FOREIGN = (10_000, 100_000, 1_000_000)
ASKED, WARMING = 40, 8
NO_CEILING = {
    "recall": {"deadlineSeconds": 60, "profiles": {"memory": {"generate": {"postings": 10**8, "seconds": 60}}}},
    "postgres": {"statementSeconds": 60},
    "embedding": {"provider": "none"},
}
SCANS = {
    "as shipped": {},
    "relaxed order, index alone": {"iterativeScan": "relaxed_order", "exactRows": 0, "exactMost": 0},
    "strict order, index alone": {"iterativeScan": "strict_order", "exactRows": 0, "exactMost": 0},
    "relaxed order, then exactly": {"iterativeScan": "relaxed_order", "exactRows": 0},
}

RECALL = "recall@20 of vectors"

Rows = list[dict[str, Any]]


async def as_own_rows_grow(server: EmbeddedServer) -> Rows:
    """1,000, 10,000 and 100,000 own rows: time beside hand-written SQL, and what is found of what searching everything would find."""
    rows: Rows = []
    for dimensions in (128, 768):
        dsn = await made(server, f"own{dimensions}", {f"own{size}": (size, size) for size in OWN}, dimensions)
        for size in OWN:
            asked = _questions(size)
            rows.append(await _timed(dsn, dimensions, f"own{size}", asked, f"{size:,} own rows, {dimensions} dimensions"))
            rows[-1][RECALL] = (await _of_vectors(dsn, dimensions, f"own{size}", asked, {}, ""))[RECALL]
            if dimensions == 128:
                rows[-1]["recall@20 of words"] = await _of_words(dsn, f"own{size}", asked)
        for name, settings in SCANS.items():
            named = f"vectors of {OWN[-1]:,} own rows, {dimensions} dimensions: {name}"
            rows.append(await _of_vectors(dsn, dimensions, f"own{OWN[-1]}", asked, settings, named))
    return rows


async def as_foreign_rows_grow(server: EmbeddedServer) -> Rows:
    """500 own rows among 10,000, 100,000 and 1,000,000 of others: each question asked of all three in turn."""
    orgs = {"own": (500, 0)} | {f"org{number}": (500, number) for number in range(1, FOREIGN[0] // 500 + 1)}
    smallest = await made(server, f"foreign{FOREIGN[0]}", orgs, 128, length=20)
    dsns = [smallest] + [await multiplied(server, smallest, f"foreign{size}", size // FOREIGN[0], keep="own") for size in FOREIGN[1:]]
    times: list[list[float]] = [[] for _ in dsns]
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(open_engine(dsn)) for dsn in dsns]
        for number, question in enumerate(questions(5 * ASKED + WARMING, 1, 500, 0, length=20)):
            for engine, taken in zip(engines, times, strict=True):
                began = perf_counter()
                await _recall(engine, "own", question)
                if number >= WARMING:
                    taken.append(perf_counter() - began)
    rows = [row(f"500 own rows, {size:,} foreign", taken) for size, taken in zip(FOREIGN, times, strict=True)]
    return [
        *rows,
        {
            "name": "most / fewest foreign rows",
            "p50": ratio(times[-1], times[0], 50),
            "p95": ratio(times[-1], times[0], 95),
            "target": "1.3",
        },
    ]


@cache
def _questions(size: int) -> list[str]:
    return questions(ASKED + WARMING, 2, size, size)


async def _timed(dsn: str, dimensions: int, org: str, asked: Sequence[str], name: str) -> dict[str, Any]:
    whole, by_hand = [], []
    hand = await ByHand.connected(dsn, org, dimensions)
    async with open_engine(dsn, **embedders(dimensions)) as engine:
        for number, question in enumerate(asked):
            began = perf_counter()
            await _recall(engine, org, question)
            between = perf_counter()
            await hand.recall(question)
            if number >= WARMING:
                whole.append(between - began)
                by_hand.append(perf_counter() - between)
    await hand.close()
    return {**row(name, whole), "by hand": ratio(whole, by_hand, 50)}


async def _recall(engine: Engine, org: str, question: str) -> Any:
    return await engine.recall(Request(query=question, limit=LIMIT), Principal(actor="bench", org=org, scopes=()))


async def _of_words(dsn: str, org: str, asked: Sequence[str]) -> float:
    """Of the twenty that words alone find without any ceiling, the part that is found inside the ceilings."""
    async with (
        open_engine(dsn, config={"embedding": {"provider": "none"}}) as within,
        open_engine(dsn, config=NO_CEILING) as without,
    ):
        parts = [
            _part(
                {card.id for card in (await _recall(within, org, each)).data},
                {card.id for card in (await _recall(without, org, each)).data},
            )
            for each in asked
        ]
    return round(float(np.mean(parts)), 4)


async def _of_vectors(dsn: str, dimensions: int, org: str, asked: Sequence[str], settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Of the twenty nearest there are, the part that a search finds, and how long it takes."""
    keys, vectors = await _all(dsn, dimensions, org)
    embedder: Any = WordSums(dimensions) if dimensions != 128 else LocalHash(Analyser("english"))
    access = Access(actor="bench", org=org, granted=frozenset(), as_of=datetime.now(UTC))
    parts, seconds = [], []
    async with open_engine(dsn, config={"postgres": dict(settings)}, **embedders(dimensions)) as engine:
        for question in asked:
            probe = Probe(lane=LANES[dimensions], space=embedder.space, vector=embedder.vector_of(question))
            wanted = Wanted(words=(), probes=(probe,), filters=Filters(), rows=500, postings=20_000, seconds=2.0)
            began = perf_counter()
            answer = await engine.store.find(wanted, access)
            seconds.append(perf_counter() - began)
            found = np.concatenate([each.keys for each in answer.neighbours])
            near = np.concatenate([similarities(probe.vector, each.vectors) for each in answer.neighbours])
            exact = np.argpartition(-(vectors @ probe.vector), LIMIT)[:LIMIT]
            parts.append(_part(set(found[np.argsort(-near)[:LIMIT]].tolist()), set(keys[exact].tolist())))
    return {**row(name, seconds[WARMING:]), RECALL: round(float(np.mean(parts)), 4)}


def _part(found: set[Any], wanted: set[Any]) -> float:
    return len(found & wanted) / len(wanted) if wanted else 1.0


async def _all(dsn: str, dimensions: int, org: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """All vectors of an org, as its owner sees them, with length 1."""
    column, kind = ("exact", "<f4") if dimensions == 128 else ("substr(halfvec_send(embedding), 5)", ">f2")
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        table = LANES[dimensions].value
        query = f"SELECT passage, {column} FROM remit.vector_{table} WHERE org = %s ORDER BY passage"
        rows = await (await connection.execute(query.encode(), [org], binary=True)).fetchall()
    vectors = np.frombuffer(b"".join(packed for _, packed in rows), dtype=kind).reshape(len(rows), -1).astype(np.float32)
    return np.array([key for key, _ in rows], dtype=np.int64), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
