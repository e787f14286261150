"""The doctor: for everything that can be wrong with a store a fault of its own, and a fix that mends it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import psycopg
import pytest
from databases import APP, OWNER, login, swept, template_with_store
from numpy.typing import NDArray
from psycopg import conninfo
from servers import Postgres
from stories.world import NewStore, engine_at

from remit.pipeline import Engine, Fact, Principal
from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.doctor import Examination
from remit.pipeline.storage.postgres import condition, made
from remit.pipeline.storage.postgres.making import indexes_made
from remit.pipeline.storage.postgres.means import Means, Place
from remit.pipeline.storage.sqlite import checking
from remit.stages.evidence import Lane

ADA = Principal(actor="ada", org="acme", scopes="*")
FACTS = [Fact(id="f1", text="the lighthouse is white"), Fact(id="f2", text="the keeper is Mara")]


class Wide:
    """A host's embedder, which may be down."""

    lane = Lane.SEMANTIC
    space = "wide"

    def __init__(self, dimensions: int, *, down: bool = False) -> None:
        self.dimensions, self._down = dimensions, down

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._down:
            raise ConnectionError
        return np.ones((len(texts), self.dimensions), dtype=np.float32)


def codes(examination: Examination) -> list[str]:
    assert all(fault.detail and fault.fix for fault in examination.faults)
    return sorted(fault.code for fault in examination.faults)


def tidy(url: str) -> str:
    """The same store, with nothing left in its database of whoever used that before."""
    return swept(url) if url.startswith("postgresql:") else url


async def examined(engine: Engine) -> Examination:
    return await engine.doctor(ADA)


async def test_a_store_that_is_whole_is_healthy_and_tells_what_it_is(new_store: NewStore) -> None:
    async with engine_at(tidy(new_store()), *FACTS) as engine:
        examination = await examined(engine)

    assert (codes(examination), examination.healthy) == ([], True)
    assert examination.facts["local coverage"] == "2 of 2 passages in reach"
    assert examination.facts["grants"] == "what the host states"


async def test_passages_without_a_models_vector_are_told_with_how_to_get_them(new_store: NewStore) -> None:
    async with engine_at(tidy(new_store()), *FACTS, embedder=Wide(200, down=True)) as engine:
        examination = await examined(engine)

    assert (codes(examination), examination.facts["semantic coverage"]) == (["uncovered"], "0 of 2 passages in reach")
    assert "remit embed" in examination.faults[0].fix


async def test_coverage_is_of_what_the_principal_reaches(new_store: NewStore) -> None:
    async with engine_at(new_store(), *FACTS, Fact(id="theirs", text="a plan", org="rival")) as engine:
        assert (await examined(engine)).facts["local coverage"] == "2 of 2 passages in reach"


# SQLite.


async def test_a_log_that_somebody_took_away_is_told(tmp_path: Path) -> None:
    async with engine_at(f"sqlite:{tmp_path}/remit.db", *FACTS) as engine:
        assert (await examined(engine)).facts["journal"] == "wal"
    db = apsw.Connection(str(tmp_path / "remit.db"))
    db.execute("PRAGMA journal_mode = delete")

    assert [fault.code for fault in checking._keeping(db)] == ["no_log"]
    db.close()


async def test_a_log_that_cannot_be_emptied_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_at(f"sqlite:{tmp_path}/remit.db") as engine:
        reader = apsw.Connection(str(tmp_path / "remit.db"))
        reader.execute("BEGIN; SELECT count(*) FROM memory").fetchall()
        await engine.remember(FACTS, ADA)
        before = await examined(engine)
        monkeypatch.setattr(checking, "LARGE_LOG", 1000)
        after = await examined(engine)
        reader.close()

    assert (codes(before), codes(after)) == ([], ["large_log"])


async def test_without_the_extension_sqlite_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sqlite_vec", None)
    async with engine_at(f"sqlite:{tmp_path}/remit.db") as engine:
        examination = await examined(engine)

    assert codes(examination) == ["no_vectors"]
    assert "sqlite-vec" in examination.faults[0].fix


# Postgres.


@pytest.fixture
def spoiled(postgres_server: Postgres) -> Iterator[str]:
    """The superuser's DSN of a store of its own, which may be spoiled."""
    signature = Analyser(load().analysis.language).signature
    with postgres_server.clone(template_with_store(postgres_server, signature)) as dsn:
        yield dsn


def do(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@asynccontextmanager
async def opened(dsn: str, **options: Any) -> AsyncIterator[Engine]:
    async with engine_at(login(dsn, OWNER), **options) as engine:
        yield engine


HALF_MADE = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'remit.{}'::regclass"
SPOILED: Mapping[str, tuple[str, str]] = {
    "missing_index": ("DROP INDEX remit.passage_timed", "passage_timed"),
    "invalid_index": (HALF_MADE.format("shelf_by_scope"), "shelf_by_scope"),
    "no_vector_index": (HALF_MADE.format("vector_local_nearest"), "local"),
    "missing_rights": (f"REVOKE DELETE, UPDATE ON remit.posting FROM {APP}", "posting: UPDATE, DELETE"),
}


@pytest.mark.parametrize("code", SPOILED)
async def test_what_init_makes_is_missed_when_it_is_gone_and_made_again_by_init(spoiled: str, code: str) -> None:
    config = load()
    spoiling, named = SPOILED[code]
    do(spoiled, spoiling)
    async with opened(spoiled) as engine:
        before = await examined(engine)

    signature = before.facts["analyser"]
    await made(login(spoiled, OWNER), config.postgres, signature, semantic_dimensions=config.embedding.semantic_dimensions)

    assert codes(before) == [code]
    assert named in before.faults[0].detail
    assert "remit init" in before.faults[0].fix
    async with opened(spoiled) as engine:
        assert codes(await examined(engine)) == []


async def test_a_database_that_takes_no_writes_is_told(spoiled: str) -> None:
    name = conninfo.conninfo_to_dict(spoiled)["dbname"]
    do(spoiled, f"ALTER ROLE {OWNER} IN DATABASE {name} SET default_transaction_read_only = on")
    async with opened(spoiled) as engine:
        examination = await examined(engine)

    assert (codes(examination), examination.facts["writes"]) == (["read_only"], "none: it is read-only")


async def test_rows_that_no_vacuum_takes_away_are_told(spoiled: str) -> None:
    do(
        spoiled,
        "ALTER TABLE remit.tombstone SET (autovacuum_enabled = off)",
        f"INSERT INTO remit.tombstone SELECT 'acme', n::text FROM generate_series(0, {condition.MOST_DEAD}) AS n",  # noqa: S608 - a number
        "DELETE FROM remit.tombstone",
        "SELECT pg_stat_force_next_flush()",
    )
    async with opened(spoiled) as engine:
        before = await examined(engine)
    do(spoiled, "VACUUM remit.tombstone")
    async with opened(spoiled) as engine:
        after = await examined(engine)

    assert (codes(before), codes(after)) == (["dead_rows"], [])
    assert "tombstone" in before.faults[0].detail


async def test_vectors_that_the_store_has_no_place_for_are_told_and_cost_nothing_else(spoiled: str) -> None:
    async with opened(spoiled, embedder=Wide(1024)) as engine:
        receipts = await engine.remember(FACTS, ADA)
        examination = await examined(engine)

    assert [receipt.code for receipt in receipts] == [None, None]
    assert codes(examination) == ["too_many_dimensions", "uncovered"]
    told = next(fault for fault in examination.faults if fault.code == "too_many_dimensions")
    assert "1024 dimensions, where the store has a place for 768" in told.detail
    assert "semanticDimensions" in told.fix


async def test_without_the_extension_postgres_says_how_to_get_it(spoiled: str) -> None:
    do(spoiled, "DROP TABLE remit.vector_local, remit.vector_semantic", "DROP EXTENSION vector")
    do(spoiled, "UPDATE remit.setting SET value = (value::jsonb - 'vector_local' - 'vector_semantic')::text WHERE name = 'policies'")
    async with opened(spoiled) as engine:
        examination = await examined(engine)

    assert codes(examination) == ["no_vectors"]
    assert "CREATE EXTENSION vector" in examination.faults[0].fix


async def test_a_role_that_could_see_past_its_policies_is_the_one_fault_that_is_told(spoiled: str) -> None:
    async with opened(spoiled, config={"postgres": {"safetySeconds": 0}}) as engine:
        do(spoiled, "CREATE POLICY wide ON remit.memory FOR SELECT USING (true)")
        examination = await examined(engine)

    assert (codes(examination), examination.facts) == (["unsafe_storage"], {})
    assert "remit init" in examination.faults[0].fix


@pytest.mark.parametrize("version, faults", [("0.8.3", ["old_extension"]), ("0.7.4", ["old_extension"]), ("0.8.4", []), ("0.10.0", [])])
def test_an_extension_that_may_damage_its_index_is_told(version: str, faults: list[str]) -> None:
    places = {"local": Place(128, 1, True)}
    there = json.dumps({"indexes": dict.fromkeys(indexes_made(), True)}).encode()

    assert [fault.code for fault in condition.faults(there, Means(version=version, places=places))] == faults


async def test_facts_of_postgres_say_versions_role_indexes_settings_and_what_is_searched_how(spoiled: str) -> None:
    async with opened(spoiled) as engine:
        facts = (await examined(engine)).facts

    assert {"postgres", "pgvector", "role", "policies", "indexes", "local vectors", "semantic vectors", "iterative scan"} <= facts.keys()
    assert {"dead rows", "size", "statement timeout", "client check", "row security", "autovacuum", "writes"} <= facts.keys()
    assert facts["role"] == f"{APP}, logged in as {OWNER}"
    assert int(facts["indexes"]) > len(indexes_made())
