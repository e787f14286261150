"""What a recall on SQLite is measured against: the same candidates by hand-written SQL, by somebody who knows the tables."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import apsw.aio
import numpy as np
import sqlite_vec
from numpy.typing import NDArray

from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.embedding.local import LocalHash

LIMIT = 20
MOST = 500

ENTRY = np.dtype([("passage", "<i8"), ("count", "<u4"), ("length", "<u4"), ("source", "u1")])

AVERAGE = "SELECT sum(passages), 1.0 * sum(words) / sum(passages) FROM shelf WHERE org = :org"
WORDS = """
SELECT json_group_array(places), CAST(group_concat(entries, '') AS BLOB) FROM (
    SELECT count(*) AS places, CAST(group_concat(p.entry, '') AS BLOB) AS entries
    FROM json_each(:words) AS w CROSS JOIN posting AS p
    WHERE p.org = :org AND p.word = w.value AND p.superseded = 0 GROUP BY w.key
)
"""
VECTORS = """
SELECT group_concat(passage, ' '), CAST(group_concat(embedding, '') AS BLOB) FROM (
    SELECT passage, embedding FROM vector WHERE org = :org AND space = :space AND superseded = 0
)
"""
ROWS = """
SELECT m.source, m.id, m.version, m.title, ifnull(p.text, m.text), m.trust, m.created_at
FROM json_each(:keys) AS k CROSS JOIN passage AS p ON p.key = k.value CROSS JOIN memory AS m ON m.key = p.memory
WHERE p.org = :org
"""


class ByHand:
    """Both searches and the best twenty rows in one hop to the thread of one connection, as an async program must.

    BM25 is worked out by numpy over the postings, which SQL cannot take apart, and so are distances, for which sqlite-vec takes two and a
    half times as long. Settings are those of Remit's readers.
    """

    def __init__(self, connection: apsw.AsyncConnection, org: str) -> None:
        self._connection, self._org = connection, org
        self._analyser = Analyser("english")
        self._embedder = LocalHash(self._analyser)

    @classmethod
    async def connected(cls, path: Path, org: str) -> ByHand:
        with apsw.aio.contextvar_set(apsw.async_controller, apsw.aio.AsyncIO):
            connection = await apsw.Connection.as_async(str(path), apsw.SQLITE_OPEN_READWRITE)
        await connection.async_run(_settled, connection)
        return cls(connection, org)

    async def close(self) -> None:
        await self._connection.aclose()

    async def recall(self, question: str) -> list[Any]:
        """The best rows, best first."""
        words, probe = sorted(self._analyser.content(question)), self._embedder.vector_of(question)
        return await self._connection.async_run(self._found, words, probe)

    def _found(self, words: Sequence[str], probe: NDArray[np.float32]) -> list[Any]:
        db, org = self._connection, {"org": self._org}
        db.execute("BEGIN")
        passages, average = db.execute(AVERAGE, org).get
        places, packed = db.execute(WORDS, org | {"words": json.dumps(words)}).get
        keys, vectors = db.execute(VECTORS, org | {"space": self._embedder.space}).get
        best = _fused(_by_words(json.loads(places), packed, passages, average), _nearest(keys, vectors, probe))
        rows = db.execute(ROWS, org | {"keys": json.dumps(best)}).fetchall()
        db.execute("ROLLBACK")
        return rows


def _settled(db: Any) -> None:
    db.execute(f"PRAGMA cache_size = {-load().sqlite.cache_kilobytes}")
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())


def _by_words(places: Sequence[int], packed: bytes, passages: int, average: float) -> NDArray[np.int64]:
    """The passages with the highest BM25, of postings that come word by word, so many of each."""
    entries = np.frombuffer(packed or b"", dtype=ENTRY)
    holding = np.array(places, dtype=np.float64)
    idf = np.repeat(np.log(1 + (passages - holding + 0.5) / (holding + 0.5)), places)
    counts = entries["count"].astype(np.float64)
    weights = idf * 2.2 * counts / (counts + 1.2 * (0.25 + 0.75 * entries["length"] / average))
    return _best(entries["passage"], weights, MOST)


def _nearest(joined: str, packed: bytes, probe: NDArray[np.float32]) -> NDArray[np.int64]:
    keys = np.fromstring(joined, dtype=np.int64, sep=" ")
    likeness = np.vecdot(np.frombuffer(packed, dtype="<f4").reshape(-1, probe.size), probe)
    return keys[np.argsort(-likeness, kind="stable")[:MOST]]


def _fused(*lanes: NDArray[np.int64]) -> list[int]:
    votes = [1 / (60 + np.arange(lane.size)) for lane in lanes]
    best: list[int] = _best(np.concatenate(lanes), np.concatenate(votes), LIMIT).tolist()
    return best


def _best(keys: NDArray[np.int64], weights: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Of each key the weights together; the heaviest first, equal ones by key."""
    known, which = np.unique(keys, return_inverse=True)
    best: NDArray[np.int64] = known[np.argsort(-np.bincount(which, weights), kind="stable")[:most]]
    return best


@asynccontextmanager
async def by_hand(path: Path, org: str) -> AsyncIterator[ByHand]:
    hand = await ByHand.connected(path, org)
    try:
        yield hand
    finally:
        await hand.close()
