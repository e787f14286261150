"""Routes on a real server: exact where that is complete, by the index where it pays, never silently too few; and each plan. C1, B1.13."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from conformance.answers import found
from conformance.worlds import EVERYTHING, SIGNATURE, SPACE, memory, seen_from, wanting
from databases import APP, OWNER, Stock, login, swept, template_with_store
from numpy.typing import NDArray
from psycopg import sql
from servers import Postgres

from remit.pipeline.config import load
from remit.pipeline.storage.entry import Entry
from remit.pipeline.storage.postgres import PostgresStore, made, open_postgres, statements
from remit.pipeline.storage.postgres.line import Answers
from remit.pipeline.storage.postgres.nearest import FELL_SHORT, NO_EXTENSION, NO_INDEX, TOO_MANY
from remit.pipeline.storage.store import OUT_OF_TIME, RAN
from remit.stages.evidence import Lane, Route
from remit.stages.ports import Found, Probe
from remit.stages.report import Degradation
from remit.stages.request import Filters, Source, TagFilter
from remit.stages.selection import similarities

pytestmark = pytest.mark.anyio

SETTINGS = load().postgres
OWN = seen_from()
BY_INDEX = {"exact_rows": 0, "exact_most": 0}


@asynccontextmanager
async def opened(dsn: str, **changed: Any) -> AsyncIterator[PostgresStore]:
    async with await open_postgres(login(dsn, OWNER), replace(SETTINGS, **changed), SIGNATURE) as store:
        yield store


def names(answer: Found) -> list[int]:
    return [key for each in answer.neighbours for key in each.keys.tolist()]


def turned(many: int, start: float, end: float) -> list[float]:
    return np.linspace(start, end, many).tolist()


def doc(passages: int) -> Entry:
    return memory("d", source=Source.DOC, parts=["x"] * passages, degrees=turned(passages, 0, 90))


def with_vector(entry: Entry, space: str, vector: NDArray[np.float32]) -> Entry:
    return replace(entry, passages=(replace(entry.passages[0], vectors={space: vector}),))


def all_keys(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM remit.passage ORDER BY key").fetchall()]


@pytest.fixture(scope="module")
def crowded(postgres_server: Postgres) -> Iterator[str]:
    """Six hundred own passages far from where is asked, and five thousand of another org right there."""
    with postgres_server.clone(template_with_store(postgres_server, SIGNATURE)) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def unknown(postgres_server: Postgres) -> Iterator[str]:
    """A store of which the planner knows nothing yet, so that no table passes for empty."""
    with postgres_server.clone(template_with_store(postgres_server, SIGNATURE)) as dsn:
        yield dsn


@pytest.fixture
async def crowd(crowded: str) -> str:
    async with opened(crowded) as store:
        if not (await store.coverage(SPACE, OWN))[1]:
            await store.put([memory("own", source=Source.DOC, parts=["x"] * 600, degrees=turned(600, 60, 170))], EVERYTHING)
            theirs = memory("theirs", source=Source.DOC, org="other", parts=["x"] * 5000, degrees=turned(5000, 0, 5))
            await store.put([theirs], seen_from("other"))
            await store.put([memory(f"f{at}", "y", org="other") for at in range(300)], seen_from("other"))
    return crowded


async def test_c1_1_nearer_foreign_rows_never_leave_an_index_with_too_few(crowd: str) -> None:
    async with opened(crowd, **BY_INDEX, max_scan_tuples=500) as store:
        answer = await store.find(wanting(near=0, rows=5), OWN)

    assert [each.keys.size for each in answer.neighbours] == [5]
    assert (answer.routes[Route.LOCAL_APPROXIMATE], answer.routes[Route.LOCAL_EXACT]) == (FELL_SHORT, RAN), "noticed, and completed"
    assert (answer.exhausted, answer.compared) == (None, {Lane.LOCAL: 600})


async def test_c1_1_without_the_exact_pass_they_would(crowd: str) -> None:
    with psycopg.connect(crowd) as connection:
        for setting in ("enable_sort = off", "enable_seqscan = off", "hnsw.ef_search = 100"):
            connection.execute(f"SET LOCAL {setting}".encode())
        connection.execute(sql.SQL("SET LOCAL ROLE {}; SET LOCAL app.org = 'acme'; SET LOCAL app.scopes = '*'").format(sql.Identifier(APP)))
        probe = str([1.0] + [0.0] * 127)
        query = "SELECT passage FROM remit.vector_local WHERE NOT superseded ORDER BY embedding <=> %s::vector LIMIT 5"
        assert connection.execute(query, [probe]).fetchall() == []


@pytest.mark.parametrize("way", [{}, BY_INDEX], ids=["exact", "by index"])
async def test_c1_3_every_number_of_rows_is_filled_and_begins_like_the_next(crowd: str, way: dict[str, int]) -> None:
    async with opened(crowd, **way) as store:
        answers = [await store.find(wanting(near=0, rows=rows), OWN) for rows in (1, 2, 3, 10, 40, 50, 100, 391, 500, 599, 600, 601)]

    assert [len(names(answer)) for answer in answers] == [1, 2, 3, 10, 40, 50, 100, 391, 500, 599, 600, 600]
    assert [answer.neighbours[0].more for answer in answers] == [True] * 10 + [False] * 2
    for shorter, longer in pairwise(answers):
        assert set(names(shorter)) <= set(names(longer))


async def test_a_large_scope_goes_by_the_index_and_a_small_one_beside_it_does_not(store_database: str) -> None:
    async with opened(swept(store_database), exact_rows=10, exact_most=0) as store:
        await store.put(
            [memory("d", source=Source.DOC, parts=["x"] * 40, degrees=turned(40, 0, 90)), memory("f", "x", degrees=1)], EVERYTHING
        )
        by_index = await store.find(wanting(near=0, rows=5), OWN)
        await store.put([doc(9)], EVERYTHING)
        exact = await store.find(wanting(near=0, rows=5), OWN)

    assert {(each.source, each.route) for each in by_index.neighbours} == {
        (Source.DOC, Route.LOCAL_APPROXIMATE),
        (Source.FACT, Route.LOCAL_EXACT),
    }
    assert by_index.routes[Route.LOCAL_APPROXIMATE] == by_index.routes[Route.LOCAL_EXACT] == RAN
    assert {each.route for each in exact.neighbours} == {Route.LOCAL_EXACT}
    assert Route.LOCAL_APPROXIMATE not in exact.routes


async def test_what_passes_filters_is_compared_exactly_however_large_the_scope(store_database: str) -> None:
    async with opened(store_database, **BY_INDEX) as store:
        near = [memory(f"near{at}", "x", degrees=0) for at in range(30)]
        await store.put([*near, memory("tagged", "x", degrees=90, tags=("t",))], EVERYTHING)
        answer = await found(store, wanting(near=0, rows=1, filters=Filters(tags=TagFilter(all=("t",)))), OWN)

    assert [name for *_, rows in answer["neighbours"] for name, _ in rows] == ["fact:tagged#0"]
    assert Route.LOCAL_APPROXIMATE not in answer["routes"]


async def test_only_an_index_that_gave_enough_leaves_the_exact_pass_out(store_database: str) -> None:
    async with opened(swept(store_database), **BY_INDEX) as store:
        await store.put([doc(100)], EVERYTHING)
        answer = await store.find(wanting(near=0, rows=10), OWN)

    assert (answer.routes[Route.LOCAL_APPROXIMATE], answer.routes[Route.LOCAL_EXACT]) == (RAN, TOO_MANY)
    assert len(names(answer)) == 10


async def test_a_large_scope_is_searched_by_the_index_and_exactly_as_far_as_the_time_for_that_goes(store_database: str) -> None:
    random = np.random.default_rng(3)
    close = random.standard_normal((1500, 128)).astype(np.float32)
    probe = Probe(lane=Lane.LOCAL, space=SPACE, vector=close[0] + random.standard_normal(128).astype(np.float32))
    wanted = replace(wanting(rows=20), probes=(probe,))
    nearest = np.sort(np.argsort(-similarities(probe.vector, close))[:20])
    careless = {"exact_rows": 0, "ef_search": 1, "vector_slack": 1, "iterative_scan": "relaxed_order"}
    async with opened(store_database) as store:
        await store.put([with_vector(memory(f"m{at:04}", "x"), SPACE, vector) for at, vector in enumerate(close)], EVERYTHING)
        keys = {key: place for place, key in enumerate(all_keys(store_database))}
    answers = {}
    for name, changed in {
        "beside": {"exact_most": 1500},
        "index alone": {"exact_most": 1499},
        "no time": {"exact_most": 1500, "exact_seconds": 0},
    }.items():
        async with opened(store_database, **careless, **changed) as store:
            answers[name] = await store.find(wanted, OWN)

    found_by = {name: [keys[key] for key in names(answer)] for name, answer in answers.items()}
    assert found_by["beside"] == nearest.tolist()
    assert found_by["index alone"] == found_by["no time"] != nearest.tolist(), "so it is the exact pass that made the difference"
    told = {name: tuple(answer.routes[route] for route in (Route.LOCAL_APPROXIMATE, Route.LOCAL_EXACT)) for name, answer in answers.items()}
    assert told == {"beside": (RAN, RAN), "index alone": (RAN, TOO_MANY), "no time": (RAN, OUT_OF_TIME)}
    assert [answer.exhausted for answer in answers.values()] == [None] * 3


@pytest.mark.parametrize("way", [{}, BY_INDEX], ids=["exact", "by index"])
async def test_c1_5_foreign_rows_change_nothing(store_database: str, way: dict[str, int]) -> None:
    async with opened(store_database, **way) as store:
        await store.put([memory("own", source=Source.DOC, parts=["red x"] * 50, degrees=turned(50, 0, 90))], EVERYTHING)
        search = wanting("red", near=0, rows=20)
        before = await found(store, search, OWN)
        theirs = memory("theirs", source=Source.DOC, org="other", parts=["red x"] * 1000, degrees=turned(1000, 0, 3))
        await store.put([theirs], seen_from("other"))
        after = await found(store, search, OWN)

    if way:  # an index that gave up too early because of them is followed by the exact pass, and that is told
        before, after = ({**each, "routes": None, "neighbours": [rows for *_, rows in each["neighbours"]]} for each in (before, after))
    assert after == before


async def test_the_longer_vectors_are_searched_alike_and_come_back_as_they_were(store_database: str) -> None:
    random = np.random.default_rng(5)
    wide = random.standard_normal((40, 768)).astype(np.float16).astype(np.float32)
    plain = [memory(f"m{at}", "x") for at in range(40)]
    entries = [
        replace(each, passages=(replace(each.passages[0], vectors={"wide": vector}),)) for each, vector in zip(plain, wide, strict=True)
    ]
    probe = Probe(lane=Lane.SEMANTIC, space="wide", vector=wide[7])
    wanted = replace(wanting(rows=3), probes=(probe, *wanting(near=0).probes))

    for way in ({}, BY_INDEX):
        async with opened(store_database, **way) as store:
            await store.put(entries, EVERYTHING)
            (each,) = (await store.find(wanted, OWN)).neighbours
            assert (each.lane, each.keys.size, each.more) == (Lane.SEMANTIC, 3, True)
            assert any((row == wide[7]).all() for row in each.vectors)
            assert await store.coverage("wide", OWN) == (40, 40)
            assert await store.faults() == []


@pytest.mark.parametrize("least", [-1.0, 0.0, 0.5, 0.999, 1.0])
async def test_what_is_too_weak_to_be_proposed_is_counted_and_not_brought(store_database: str, least: float) -> None:
    random = np.random.default_rng(6)
    narrow, wide = (random.standard_normal((60, many)).astype(np.float16).astype(np.float32) for many in (3, 768))
    entries = [
        replace(
            memory(f"m{at}", "x"), passages=(replace(memory(f"m{at}", "x").passages[0], vectors={SPACE: narrow[at], "wide": wide[at]}),)
        )
        for at in range(60)
    ]
    probes = [
        Probe(lane=Lane.SEMANTIC, space="wide", vector=wide[7] + random.standard_normal(768).astype(np.float32), least=least),
        Probe(lane=Lane.LOCAL, space=SPACE, vector=narrow[7], least=least),
    ]
    async with opened(store_database) as store:
        await store.put(entries, EVERYTHING)
        answer = await store.find(replace(wanting(rows=60), probes=tuple(probes)), OWN)

    for each, probe, vectors in zip(answer.neighbours, probes, (wide, narrow), strict=True):
        near = vectors[similarities(probe.vector, vectors) >= least]
        assert {row.tobytes() for row in near} <= {row.tobytes() for row in each.vectors}
        assert (each.keys.size + each.weaker, each.more) == (60, False)
        assert each.weaker == 0 if least < 0 else each.keys.size < 60


async def test_a_vector_that_is_longer_than_there_is_room_for_costs_its_lane_only(store_database: str) -> None:
    async with opened(store_database) as store:
        await store.put([with_vector(memory("one", "red"), "huge", np.ones(3000, dtype=np.float32))], EVERYTHING)
        probe = Probe(lane=Lane.SEMANTIC, space="huge", vector=np.ones(3000, dtype=np.float32))
        answer = await store.find(replace(wanting("red"), probes=(probe,)), OWN)

    assert answer.postings["red"].keys.size == 1
    assert (answer.neighbours, answer.degraded) == ((), (Degradation.NO_VECTORS,))


async def test_without_an_index_a_large_scope_is_searched_among_what_was_written_last(stock: Stock) -> None:
    with stock.database() as with_index, stock.database() as without:
        _do(without, "DROP INDEX remit.vector_local_nearest")
        try:
            async with opened(with_index, exact_rows=3) as one, opened(without, exact_rows=3) as other:
                for store in (one, other):
                    await store.put([memory(f"m{at}", "x", degrees=10 * at) for at in range(9)], EVERYTHING)
                in_one, in_other = [await found(store, wanting(near=0, rows=2), OWN) for store in (one, other)]
                assert [fault.code for fault in await other.faults()] == ["no_vector_index"]
                assert await one.faults() == []
        finally:
            _do(
                without,
                "CREATE INDEX vector_local_nearest ON remit.vector_local USING hnsw (embedding vector_cosine_ops) WHERE NOT superseded",
            )

    assert (in_one["routes"][Route.LOCAL_APPROXIMATE], in_one["degraded"]) == (RAN, ())
    assert (in_other["routes"][Route.RECENT], in_other["routes"][Route.LOCAL_EXACT]) == (RAN, NO_INDEX)
    assert in_other["degraded"] == (Degradation.RECENT_ONLY,)
    assert [name for *_, rows in in_other["neighbours"] for name, _ in rows] == ["fact:m6#0", "fact:m7#0"]
    assert in_other["neighbours"][0][3], "there is more"


async def test_an_index_that_is_gone_while_running_is_noticed(store_database: str) -> None:
    async with opened(store_database, exact_rows=3, safety_seconds=0) as store:
        await store.put([memory(f"m{at}", "x", degrees=10 * at) for at in range(9)], EVERYTHING)
        assert (await store.find(wanting(near=0), OWN)).routes[Route.LOCAL_APPROXIMATE] == RAN
        _do(store_database, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'remit.vector_local_nearest'::regclass")
        try:
            await store.find(wanting(near=0), OWN)
            assert (await store.find(wanting(near=0), OWN)).routes[Route.RECENT] == RAN
        finally:
            _do(store_database, "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'remit.vector_local_nearest'::regclass")


async def test_without_the_extension_words_are_searched_and_that_is_said(postgres_server: Postgres) -> None:
    dsn = postgres_server.create()
    try:
        _do(dsn, f'GRANT CREATE ON DATABASE "{psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]}" TO {OWNER}')
        done = await made(login(dsn, OWNER), SETTINGS, SIGNATURE, semantic_dimensions=768)
        async with opened(dsn) as store:
            await store.put([memory("one", "red", degrees=0)], EVERYTHING)
            answer = await store.find(wanting("red", near=0), OWN)
            capabilities = await store.capabilities()
            assert await store.faults() == []
        _do(dsn, done.for_dba)
        again = await made(login(dsn, OWNER), SETTINGS, SIGNATURE, semantic_dimensions=768)
        async with opened(dsn) as store:
            await store.put([memory("two", "red", degrees=0)], EVERYTHING)
            later = await store.find(wanting("red", near=0), OWN)
    finally:
        postgres_server.drop(dsn)

    assert done.for_dba == "CREATE EXTENSION IF NOT EXISTS vector;"
    assert again.for_dba == ""
    assert (answer.postings["red"].keys.size, answer.neighbours, answer.degraded) == (1, (), (Degradation.NO_VECTORS,))
    assert answer.routes[Route.LOCAL_EXACT] == capabilities.vectors == NO_EXTENSION
    assert (later.postings["red"].keys.size, later.compared, later.passages) == (2, {Lane.LOCAL: 1}, 2)


async def test_a_search_tells_whether_anything_in_reach_was_said_in_a_conversation(store_database: str) -> None:
    async with opened(store_database) as store:
        await store.put([memory("fact", "red", scope="conversation:7"), memory("alone", "red", source=Source.SESSION)], EVERYTHING)
        before = await store.find(wanting("red"), EVERYTHING)
        await store.put([memory("turn", "red", source=Source.SESSION, scope="conversation:7")], EVERYTHING)
        after, out_of_reach = [await store.find(wanting("red"), access) for access in (EVERYTHING, OWN)]

    assert (before.turns, after.turns, out_of_reach.turns) == (False, True, False)


async def test_outlines_that_are_likely_asked_for_are_of_the_moment_of_what_was_found(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.put([memory("one", "red"), memory("two", "blue")], EVERYTHING)
        keys = all_keys(store_database)

        def likely(found: Found) -> list[int]:
            with psycopg.connect(store_database, autocommit=True) as another:
                another.execute("UPDATE remit.passage SET superseded = true")
            return keys

        answer = await store.find(replace(wanting("red"), likely=likely), EVERYTHING)
        assert list(answer.outlines or ()) == keys
        assert await store.outlines(keys, EVERYTHING) == {}, "later they do not stand"


async def test_without_time_for_outlines_what_was_found_stands(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        keys = all_keys(store_database)

        def likely(found: Found) -> list[int]:
            time.sleep(0.5)  # as long as all of the search has: then its time is over
            return keys

        answer = await store.find(replace(wanting("red", seconds=0.5), likely=likely), EVERYTHING)
        again = await store.find(replace(wanting("red"), likely=lambda found: keys), EVERYTHING)

    assert (answer.postings["red"].keys.size, answer.outlines, answer.exhausted) == (1, None, None)
    assert (again.postings["red"].keys.size, list(again.outlines or ())) == (1, keys)


async def test_an_exact_pass_that_is_cut_short_leaves_what_the_index_found_and_outlines_to_be_asked_for(store_database: str) -> None:
    async with opened(swept(store_database), connections=1, exact_rows=0, exact_most=1500, exact_seconds=0.05) as store:
        await store.put([doc(100)], EVERYTHING)
        (line,) = store._desk.pool._idle
        whole = line.exchange

        async def slowly(commands: Sequence[statements.Command], *, until: float) -> Answers:
            slow = statements.plain("SELECT pg_sleep(9)")
            return await whole([slow if each.statement.name.startswith("nearest_local") else each for each in commands], until=until)

        line.exchange = slowly  # type: ignore[method-assign]
        answer = await store.find(replace(wanting(near=0, rows=10), likely=names), OWN)
        outlines = await store.outlines(names(answer), OWN)

    assert (answer.routes[Route.LOCAL_APPROXIMATE], answer.routes[Route.LOCAL_EXACT]) == (RAN, OUT_OF_TIME)
    assert (len(names(answer)), len(outlines), answer.outlines) == (10, 10, None)


# Plans


SQL = statements.load(Path(statements.__file__).parent / "queries.sql")

PLANS = {
    "whole_local": ("vector_local_pkey", "vector_local_nearest"),
    "whole_local_of_org": ("vector_local_pkey", "vector_local_nearest"),
    "whole_semantic": ("vector_semantic_pkey", "vector_semantic_nearest"),
    "whole_semantic_of_org": ("vector_semantic_pkey", "vector_semantic_nearest"),
    "nearest_local": ("vector_local_pkey", "vector_local_nearest"),
    "nearest_local_of_org": ("vector_local_pkey", "vector_local_nearest"),
    "eligible_local": ("vector_local_pkey", "vector_local_nearest"),
    "nearest_semantic": ("vector_semantic_pkey", "vector_semantic_nearest"),
    "nearest_semantic_of_org": ("vector_semantic_pkey", "vector_semantic_nearest"),
    "approximate_local": ("vector_local_nearest", "Sort"),
    "approximate_local_of_org": ("vector_local_nearest", "Sort"),
    "approximate_semantic": ("vector_semantic_nearest", "Sort"),
    "approximate_semantic_of_org": ("vector_semantic_nearest", "Sort"),
    "find_words": ("posting_pkey", "Seq Scan"),
    "find_words_of_org": ("posting_pkey", "Seq Scan"),
    "count_words": ("posting_pkey", "Seq Scan"),
    "dead": ("posting_dead", "Seq Scan"),
    "outlines": ("passage_pkey", "Seq Scan on passage"),
    "around": ("memory_in_time", "Seq Scan on memory"),
    "read": ("memory_org_source_id_key", "Seq Scan on memory"),
    "vocabulary": ("vocabulary_by_length", "Seq Scan on vocabulary"),
}
"""Of each statement that its speed hangs on: the index it goes by under row security, and what must not be in its plan."""


@pytest.mark.parametrize("name", PLANS)
def test_a_statement_goes_by_its_index_under_row_security_whatever_is_asked(crowded: str, postgres_server: Postgres, name: str) -> None:
    if postgres_server.major < 16:
        pytest.skip("EXPLAIN (GENERIC_PLAN) came with Postgres 16")
    goes_by, never = PLANS[name]
    with psycopg.connect(crowded, autocommit=True) as connection:
        connection.execute("ANALYZE")
        with connection.transaction():
            connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(APP)))
            connection.execute(b"SET LOCAL search_path = pg_catalog, public; SET LOCAL enable_seqscan = off")
            if name.startswith("approximate"):
                connection.execute(b"SET LOCAL enable_sort = off")
            plan = "\n".join(line for (line,) in connection.execute(b"EXPLAIN (GENERIC_PLAN) " + SQL[name].sql).fetchall())

    assert goes_by in plan, plan
    assert not re.search(rf"\b{never}\b", plan)


NAMED = {"wholes": "receipt_by_memory", "wholes_behind": "receipt_by_memory", "keys_of": "receipt_by_memory", "lower": "derived_pkey"}
"""Statements that look something up by the name of each memory, and the index that they do it by."""


@pytest.mark.parametrize("name", NAMED)
def test_what_is_looked_up_for_each_memory_is_found_by_its_whole_name(unknown: str, postgres_server: Postgres, name: str) -> None:
    """Compared in another collation than the index has, a name would be looked for among everything of the org, memory by memory."""
    if postgres_server.major < 16:
        pytest.skip("EXPLAIN (GENERIC_PLAN) came with Postgres 16")
    with psycopg.connect(unknown, autocommit=True) as connection, connection.transaction():
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(APP)))
        for method in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
            connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(f"enable_{method}")))
        plan = [str(line) for (line,) in connection.execute(b"EXPLAIN (GENERIC_PLAN) " + SQL[name].sql).fetchall()]

    conditions = [condition for scan, condition in pairwise(plan) if f" {NAMED[name]} " in scan]
    assert conditions, plan
    assert any("(source = " in each and "(id = " in each for each in conditions), conditions


def _do(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())
