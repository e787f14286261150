"""C1 on a real server with its index: twenty thousand nearer foreign rows, every limit, and an index under churn. Rules 1 and 12."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import apsw
import numpy as np
import psycopg
import pytest
from conformance.parity import timeless
from conformance.worlds import EVERYTHING, SIGNATURE, SPACE, memory, seen_from, wanting
from databases import OWNER, Stock, login
from numpy.typing import NDArray
from stories.world import ADA, engine_at, ids, laid, taken_in

from remit.pipeline import Answer, ContextWanted, Doc, Engine, Fact, Request
from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.storage.entry import Entry, Forgetting
from remit.pipeline.storage.postgres import PostgresStore, open_postgres
from remit.stages.access import Access
from remit.stages.evidence import Lane
from remit.stages.ports import Probe
from remit.stages.request import Source
from remit.stages.selection import similarities

QUERY = "queue worker deploy timeout"
BOTH_LANES: dict[str, Any] = {"recall": {"selection": {"chance": {"local": 0.0}}}}
BY_INDEX = {"postgres": {"exactRows": 0, "exactMost": 0}}
WAYS = {"exactly": {}, "by the index": BY_INDEX, "by an index that gives up early": laid(BY_INDEX, {"postgres": {"maxScanTuples": 1000}})}
FOREIGN = 20_000

COPIED = """
INSERT INTO remit.posting (org, word, shelf, passage, entry, valid_from, valid_until, superseded)
SELECT p.org, p.word, p.shelf, p.passage + n, p.entry, p.valid_from, p.valid_until, p.superseded
FROM remit.posting AS p CROSS JOIN generate_series(1, %(rows)s) AS n WHERE p.org = 'rival'
"""
NEARER = """
INSERT INTO remit.vector_local (org, space, source, shelf, passage, valid_from, valid_until, superseded, dimensions, embedding, exact)
SELECT v.org, v.space, v.source, v.shelf, v.passage + g.n, v.valid_from, v.valid_until, v.superseded, v.dimensions, g.embedding, v.exact
FROM remit.vector_local AS v CROSS JOIN given AS g WHERE v.org = 'rival'
"""


@pytest.fixture
def anyio_backend() -> str:
    """Postgres is driven on asyncio only."""
    return "asyncio"


@pytest.fixture
def dsn(stock_of_english: Stock) -> Iterator[str]:
    with stock_of_english.database() as dsn:
        yield dsn


async def with_nearer_foreign_rows(dsn: str, engine: Engine) -> None:
    """A foreign memory that is the question itself, and twenty thousand more around it, written as fast as the server takes them."""
    await taken_in(engine, [Fact(id="theirs", text=QUERY, org="rival")])
    probe = (await LocalHash(Analyser("english")).embed([QUERY]))[0]
    around = probe + np.random.default_rng(1).normal(0, 0.01, (FOREIGN, probe.size))
    with psycopg.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        (index,) = connection.execute("SELECT pg_get_indexdef('remit.vector_local_nearest'::regclass)").fetchone() or ("",)
        cursor.execute("DROP INDEX remit.vector_local_nearest")
        cursor.execute("CREATE TEMP TABLE given (n bigint, embedding vector(128))")
        with cursor.copy("COPY given FROM STDIN") as copy:
            for number, vector in enumerate(around.round(4).tolist(), start=1):
                copy.write_row((number, json.dumps(vector)))
        cursor.execute(NEARER.encode())
        cursor.execute(COPIED, {"rows": FOREIGN})
        cursor.execute(index.encode())
        cursor.execute("ANALYZE remit.vector_local, remit.posting")


async def asked(dsn: str, request: Request) -> AsyncIterator[Answer]:
    """The answers of a new engine for each way to search."""
    for way in WAYS.values():
        async with engine_at(login(dsn, OWNER), config=laid(BOTH_LANES, way)) as engine:
            yield await engine.recall(request, ADA)


async def test_c1_1_and_c1_5_twenty_own_rows_behind_twenty_thousand_nearer_foreign_ones_are_found_as_if_alone(dsn: str) -> None:
    own = [Fact(id=f"own-{n:02}", text=f"{QUERY} of the northern gateway in week {n}") for n in range(20)]
    request = Request(query=QUERY, limit=20, sources=("fact",))
    async with engine_at(login(dsn, OWNER), *own, config=BOTH_LANES) as engine:
        alone = [answer async for answer in asked(dsn, request)]
        await with_nearer_foreign_rows(dsn, engine)
        among = [answer async for answer in asked(dsn, request)]

    assert [sorted(ids(answer)) for answer in among] == [[f"own-{n:02}" for n in range(20)]] * len(WAYS)
    assert {card.matchedBy for answer in among for card in answer.data} == {"both"}
    assert timeless(among[0]) == timeless(alone[0])
    for one, other in zip(among, alone, strict=True):
        assert untold(one).splitlines() == untold(other).splitlines()
    assert [answer.meta.mode.routes.get("local.approximate") for answer in among] == [None, "ran", "fell_short"]


def untold(answer: Answer) -> str:
    """An answer without the routes it took: an index that gave up early because of others is followed by the exact pass, and says so."""
    told = json.loads(timeless(answer))
    del told["meta"]["mode"]["routes"]
    return json.dumps(told, indent=0)


LIMITS = (*range(1, 41), *range(41, 500, 40), 500)
"""Each of the first, and then some: all five hundred take half a minute and hold as well."""


async def test_c1_3_a_limit_gives_as_many_of_six_hundred_own_rows_and_begins_like_the_next(dsn: str) -> None:
    own = [Fact(id=f"own-{n:03}", text=f"{QUERY} {'of the gateway ' * (n % 7)}in week {n % 50}", importance=n % 3 / 2) for n in range(600)]
    theirs = [Doc(id="theirs", org="rival", text="\n\n".join([QUERY] * 600))]
    async with engine_at(login(dsn, OWNER), *theirs, *own, config=laid(BOTH_LANES, BY_INDEX)) as engine:
        pages = []
        for limit in LIMITS:
            answer = await engine.recall(Request(query=QUERY, limit=limit, sources=("fact",), context=ContextWanted(passages=0)), ADA)
            assert answer.outcome == "enough"
            pages.append(ids(answer))

    assert [len(page) for page in pages] == list(LIMITS)
    assert [page for page, longer in pairwise(pages) if longer[: len(page)] != page] == []
    assert len(set(pages[-1])) == 500


@asynccontextmanager
async def by_index_alone(dsn: str) -> AsyncIterator[PostgresStore]:
    settings = replace(load().postgres, exact_rows=0, exact_most=0)
    async with await open_postgres(login(dsn, OWNER), settings, SIGNATURE) as store:
        yield store


class Churn:
    """Memories that come and go in two orgs and are vacuumed away, while others are looked for by the index alone."""

    def __init__(self, dsn: str, store: PostgresStore, rounds: int) -> None:
        self._dsn, self._store, self._rounds = dsn, store, rounds
        self._random = np.random.default_rng(10)
        self._writing = 2
        self.found: list[float] = []

    async def run(self) -> None:
        vectors = self._directions(400)
        own = [pointing(memory(f"own{at}", "x"), vector) for at, vector in enumerate(vectors)]
        await self._store.put(own, EVERYTHING)
        async with anyio.create_task_group() as tasks:
            for writer in (seen_from("rival", None), EVERYTHING):
                tasks.start_soon(self._come_and_go, writer)
            tasks.start_soon(self._look, vectors)
            await anyio.to_thread.run_sync(self._vacuum)

    def _directions(self, many: int) -> NDArray[np.float32]:
        drawn = self._random.standard_normal((many, 128)).astype(np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    async def _come_and_go(self, access: Access) -> None:
        """Sessions, so that the facts which are looked for are the same all the time."""
        for _ in range(self._rounds):
            coming = [memory(f"s{at}", "x", source=Source.SESSION, org=access.org) for at in range(60)]
            await self._store.put([pointing(*each) for each in zip(coming, self._directions(60), strict=True)], access)
            await self._store.forget(Forgetting(names=tuple(each.record.id for each in coming)), access)
        self._writing -= 1

    async def _look(self, vectors: NDArray[np.float32]) -> None:
        while self._writing:
            probe = self._directions(1)[0]
            nearest = {f"own{at}" for at in np.argsort(-similarities(probe, vectors))[:20]}
            answer = await self._store.find(
                replace(wanting(rows=20), probes=(Probe(lane=Lane.LOCAL, space=SPACE, vector=probe),)), EVERYTHING
            )
            keys = [key for each in answer.neighbours if each.source is Source.FACT for key in each.keys.tolist()]
            names = {outline.memory.id for outline in (await self._store.outlines(keys, EVERYTHING)).values()}
            self.found.append(len(names & nearest) / 20)

    def _vacuum(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while self._writing:
                connection.execute("VACUUM remit.vector_local, remit.passage, remit.posting, remit.memory")


def pointing(entry: Entry, vector: NDArray[np.float32]) -> Entry:
    return replace(entry, passages=(replace(entry.passages[0], vectors={SPACE: vector}),))


async def test_c1_10_an_index_under_inserts_deletes_and_vacuum_loses_nothing(store_database: str) -> None:
    async with by_index_alone(store_database) as store:
        churn = Churn(store_database, store, rounds=12)
        await churn.run()
        wrong = [fault.code for fault in await store.faults() if fault.code != "dead_rows"]

    assert wrong == []
    assert len(churn.found) > 20
    assert sum(churn.found) / len(churn.found) >= 0.99


async def test_b1_13_what_a_database_can_do_is_asked_of_it_and_never_of_another(stock_of_english: Stock) -> None:
    own = [Fact(id=f"own-{n}", text=f"{QUERY} in week {n}") for n in range(5)]
    request = Request(query=QUERY, sources=("fact",))
    with stock_of_english.database() as whole, stock_of_english.database() as lacking:
        with psycopg.connect(lacking, autocommit=True) as connection:
            (index,) = connection.execute("SELECT pg_get_indexdef('remit.vector_local_nearest'::regclass)").fetchone() or ("",)
            connection.execute("DROP INDEX remit.vector_local_nearest")
        config = laid(BOTH_LANES, BY_INDEX)
        async with (
            engine_at(login(whole, OWNER), *own, config=config) as one,
            engine_at(login(lacking, OWNER), *own, config=config) as other,
        ):
            answers = [await engine.recall(request, ADA) for engine in (one, other, one, other)]
        with psycopg.connect(lacking, autocommit=True) as connection:
            connection.execute(index.encode())

    assert ["recent" in answer.meta.mode.routes for answer in answers] == [False, True, False, True]
    assert ["recent_only" in answer.meta.mode.degraded for answer in answers] == [False, True, False, True]
    assert [sorted(ids(answer)) for answer in answers] == [[fact.id for fact in own]] * 4


KEYS = """
SELECT c.relname, i.relname, array_agg(a.attname ORDER BY k.place)
FROM pg_index AS x
JOIN pg_class AS i ON i.oid = x.indexrelid
JOIN pg_class AS c ON c.oid = x.indrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN unnest(x.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.number
WHERE n.nspname = 'remit' AND i.relam <> (SELECT oid FROM pg_am WHERE amname = 'hnsw')
    AND EXISTS (SELECT 1 FROM pg_attribute AS o WHERE o.attrelid = c.oid AND o.attname = 'org')
GROUP BY c.relname, i.relname
"""


def test_c1_15_every_key_and_index_of_an_orgs_rows_begins_with_the_org_on_postgres(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        keys = connection.execute(KEYS).fetchall()

    assert {"memory", "passage", "posting", "vector_local", "phrase", "shelf", "tag"} <= {table for table, _, _ in keys}
    assert [(index, columns) for _, index, columns in keys if columns[0] != "org"] == []


async def test_c1_15_every_key_and_index_of_an_orgs_rows_begins_with_the_org_on_sqlite(tmp_path: Path) -> None:
    path = f"{tmp_path}/keys.db"
    async with engine_at(f"sqlite:{path}"):
        pass
    db = apsw.Connection(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE %'")]
    of_orgs = {name for name in tables if "org" in {row[1] for row in db.execute(f"PRAGMA table_info('{name}')")}}
    keys = {
        index: [column for _, _, column in db.execute(f"PRAGMA index_info('{index}')")]
        for table in of_orgs
        for _, index, *_ in db.execute(f"PRAGMA index_list('{table}')")
    }

    assert {"memory", "passage", "posting", "vector", "shelf", "tag"} <= of_orgs
    of_a_memory = {"sqlite_autoindex_passage_1": ["memory", "ordinal"]}  # a number, and each is of one org
    assert {index: columns for index, columns in keys.items() if columns[0] != "org"} == of_a_memory
