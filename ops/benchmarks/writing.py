"""Speed of taking in: short facts in batches and one by one, beside the same rows put into the same tables by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import apsw
import psycopg
from corpus import texts
from figures import percentile, row
from psycopg import sql

from remit.pipeline import Fact, Principal, open_engine
from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.engine import Engine
from remit.pipeline.opening import made_for
from remit.pipeline.storage.postgres.server import started

ORG, WORDS, BATCH, SINGLE, ROUNDS = "local", 12, 256, 200, 3
WRITER = Principal(actor="bench", org=ORG, scopes="*")

SQLITE, POSTGRES = ("memory", "passage", "posting", "vector"), ("memory", "passage", "posting", "vector_local", "phrase")
KEYS = {"memory": "key", "passage": "memory", "posting": "passage", "vector": "passage", "vector_local": "passage", "phrase": "passage"}
"""What one memory puts into a store, and the column that says whose a row is."""

VOCABULARY = """
INSERT INTO vocabulary (org, shelf, letters, word, uses) VALUES (?, 1, ?, ?, ?)
ON CONFLICT (org, shelf, letters, word) DO UPDATE SET uses = uses + excluded.uses
"""
KNOWN = """
INSERT INTO remit.vocabulary (org, shelf, word, letters) SELECT %s, %s, word, length(word) FROM unnest(%s::text[]) AS word
ON CONFLICT DO NOTHING
"""

COUNTED = (
    "UPDATE shelf SET passages = passages + ?1, words = words + ?2 WHERE org = ?3 AND id = 1",
    """INSERT INTO embedded (org, space, shelf, vectors) VALUES (?3, 'by hand', 1, ?1)
    ON CONFLICT DO UPDATE SET vectors = vectors + ?1 + 0 * ?2""",
)
"""What belongs to the tables besides: the counts of what stands on the shelf."""

COUNTED_TOO = "UPDATE remit.shelf SET passages = passages + %s, words = words + %s WHERE org = %s AND id = %s"

Rows = list[tuple[Any, ...]]
Tables = dict[str, Rows]
Put = Callable[[Tables, list[str]], None]
"""Writes what belongs to some memories, and the words of their texts, in one durable transaction."""


class Taken(NamedTuple):
    """Facts a second in batches, microseconds of CPU time for each of them, and seconds of each single write after them."""

    rate: float
    cpu: float
    single: list[float]


async def against_bare_writes(folder: Path, *, facts: int = 10_000) -> list[dict[str, Any]]:
    """Taking in by Remit, and by hand: the same analyser and hash called directly, then the rows themselves, batch by batch."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = await _on_sqlite(folder / "writing-sqlite", facts)
    return lines + await _on_postgres(folder / "writing-postgres", facts)


async def _on_sqlite(folder: Path, facts: int) -> list[dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    taken = []
    for _ in range(ROUNDS):
        for file in folder.glob("*.db*"):
            file.unlink()
        async with open_engine(f"sqlite:{folder / 'whole.db'}") as engine:
            mine = await _taken_in(engine, facts)
        async with open_engine(f"sqlite:{folder / 'hand.db'}"):
            pass
        with ExitStack() as closing:
            whole, hand = (apsw.Connection(str(folder / name)) for name in ("whole.db", "hand.db"))
            closing.callback(whole.close)
            closing.callback(hand.close)
            hand.execute("PRAGMA synchronous = FULL")
            rows = list(whole.execute("SELECT * FROM shelf"))
            hand.executemany(f"INSERT INTO shelf VALUES ({_marks(rows)})", rows)
            tables = {table: list(whole.execute(f"SELECT {key}, * FROM {table}")) for table, key in KEYS.items() if table in SQLITE}
            taken.append((mine, _by_hand(tables, facts, _sqlite_put(hand, tables))))
    lines, ratios = _lines("SQLite", facts, taken), [hand.cpu / mine.cpu for mine, hand in taken]
    cpu = {"name": "the same, CPU time", "p50": round(median(ratios), 2), "spread": f"{min(ratios):.2f}-{max(ratios):.2f}"}
    return [*lines[:3], cpu, *lines[3:]]


def _sqlite_put(hand: apsw.Connection, tables: Tables) -> Put:
    statements = {table: f"INSERT INTO {table} VALUES ({_marks(rows, but=1)})" for table, rows in tables.items()}

    def put(of: Tables, plain: list[str]) -> None:
        hand.execute("BEGIN IMMEDIATE")
        for table, rows in of.items():
            hand.executemany(statements[table], rows)
        keys = [key for key, *_ in of["passage"]]
        hand.executemany("INSERT INTO phrase (rowid, org, words) VALUES (?, ?, ?)", zip(keys, [ORG] * len(keys), plain, strict=True))
        uses = Counter(word for words in plain for word in words.split())
        hand.executemany(VOCABULARY, [(ORG, len(word), word, count) for word, count in sorted(uses.items())])
        for statement in COUNTED:
            hand.execute(statement, (len(plain), sum(uses.values()), ORG))
        hand.execute("COMMIT")

    return put


async def _on_postgres(folder: Path, facts: int) -> list[dict[str, Any]]:
    server, taken = await started(folder, load().embedded), []
    try:
        for _ in range(ROUNDS):
            with psycopg.connect(server.dsn(), autocommit=True) as owner:
                for name in ("whole", "hand"):
                    owner.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
                    owner.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
                    await made_for(server.dsn(name), load())
            async with open_engine(server.dsn("whole")) as engine:
                mine = await _taken_in(engine, facts)
            with psycopg.connect(server.dsn("whole")) as whole, psycopg.connect(server.dsn("hand"), autocommit=True) as hand:
                for table in ("tenant", "shelf"):
                    _copied(hand, table, _all(whole, table))
                tables = {table: _all(whole, table, key) for table, key in KEYS.items() if table in POSTGRES}
                taken.append((mine, _by_hand(tables, facts, _postgres_put(hand))))
    finally:
        await server.close()
    return _lines("Postgres", facts, taken)


def _postgres_put(hand: psycopg.Connection[Any]) -> Put:
    def put(of: Tables, plain: list[str]) -> None:
        with hand.transaction():
            words = sorted({word for words in plain for word in words.split()})
            hand.execute(KNOWN, (ORG, of["passage"][0][4], words))
            for table, rows in of.items():
                _copied(hand, table, rows)
            hand.execute(COUNTED_TOO, (len(plain), sum(len(each.split()) for each in plain), ORG, of["passage"][0][4]))

    return put


def _all(whole: psycopg.Connection[Any], table: str, *key: str) -> Rows:
    columns = sql.SQL(", ").join([*map(sql.Identifier, key), sql.SQL("*")])
    return whole.execute(sql.SQL("SELECT {} FROM remit.{}").format(columns, sql.Identifier(table))).fetchall()


def _copied(hand: psycopg.Connection[Any], table: str, rows: Rows) -> None:
    with hand.cursor() as cursor, cursor.copy(sql.SQL("COPY remit.{} FROM STDIN").format(sql.Identifier(table))) as copy:
        for each in rows:
            copy.write_row(each)


async def _taken_in(engine: Engine, facts: int) -> Taken:
    every, single = list(_facts(facts + SINGLE)), []
    began, used = perf_counter(), process_time()
    async for receipt in engine.remember_stream(every[:facts], WRITER):
        assert receipt.code is None
    rate, cpu = facts / (perf_counter() - began), (process_time() - used) / facts * 1e6
    for fact in every[facts:]:
        began = perf_counter()
        await engine.remember([fact], WRITER)
        single.append(perf_counter() - began)
    return Taken(rate, cpu, single)


def _by_hand(tables: Tables, facts: int, put: Put) -> Taken:
    """The same, of the rows that Remit made. Words and vectors are made again and thrown away, for by hand they are needed too."""
    analyser = Analyser(load().analysis.language)
    local = LocalHash(analyser)
    every = [fact.text for fact in _facts(facts + SINGLE)]
    sizes = [min(BATCH, facts - first) for first in range(0, facts, BATCH)] + [1] * SINGLE
    rate, cpu, single, done = 0.0, 0.0, [], 0
    shared = list(_shared_out(tables, sizes))
    began, used = perf_counter(), process_time()
    for size, of in zip(sizes, shared, strict=True):
        begun = perf_counter()
        plain = []
        for text in every[done : done + size]:
            words, _ = analyser.indexed(text)
            local.vector_of_words(words)
            plain.append(" ".join(analyser.plain(text)))
        put(of, plain)
        done += size
        if done == facts:
            rate, cpu = facts / (perf_counter() - began), (process_time() - used) / facts * 1e6
        elif done > facts:
            single.append(perf_counter() - begun)
    return Taken(rate, cpu, single)


def _shared_out(tables: Tables, sizes: Sequence[int]) -> Iterator[Tables]:
    """Batch by batch, the rows that belong to so many memories, in the order in which they were taken in. Keys ascend in that order."""
    memory_of = {key: memory for memory, key in _passages(tables["passage"])}
    grouped: dict[str, dict[int, Rows]] = {table: defaultdict(list) for table in tables}
    for table, rows in tables.items():
        for whose, *columns in rows:
            grouped[table][whose if table in ("memory", "passage") else memory_of[whose]].append(tuple(columns))
    memories = iter(sorted(grouped["memory"]))
    for size in sizes:
        ours = list(islice(memories, size))
        yield {
            table: sorted(each for key in ours for each in of[key]) if table == "posting" else _joined(of, ours)
            for table, of in grouped.items()
        }


def _joined(of: dict[int, Rows], keys: Sequence[int]) -> Rows:
    return [each for key in keys for each in of[key]]


def _passages(rows: Rows) -> list[tuple[int, int]]:
    """Memory and passage keys. The key is the first integer column after the org on Postgres, the very first one on SQLite."""
    return [(memory, next(each for each in columns if isinstance(each, int))) for memory, *columns in rows]


def _facts(count: int) -> Iterator[Fact]:
    for number, text in enumerate(texts(count, 3, WORDS)):
        yield Fact(id=f"m{number:06}", text=text)


def _marks(rows: Rows, *, but: int = 0) -> str:
    return ", ".join("?" * (len(rows[0]) - but))


def _lines(store: str, facts: int, taken: Sequence[tuple[Taken, Taken]]) -> list[dict[str, Any]]:
    """Rates of all rounds side by side, and how the rounds spread."""
    ratios = [mine.rate / hand.rate for mine, hand in taken]
    mine, hand = ([second for each in taken for second in each[which].single] for which in (0, 1))
    return [
        {"name": f"{store}: {facts} facts in batches, a second", "p50": round(median(mine.rate for mine, _ in taken))},
        {"name": f"{store}: the same rows by hand", "p50": round(median(hand.rate for _, hand in taken))},
        {"name": "whole / by hand", "p50": round(median(ratios), 2), "spread": f"{min(ratios):.2f}-{max(ratios):.2f}", "target": "0.7"},
        row(f"{store}: one fact, ms", mine),
        row(f"{store}: its bare transaction, ms", hand),
        {"name": "whole / bare", "p50": round(percentile(mine, 50) / percentile(hand, 50), 2), "target": "1.5"},
    ]
