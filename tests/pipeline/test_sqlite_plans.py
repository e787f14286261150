"""How SQLite goes about the statements: always from the org's own places in an index, never through a whole table."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import numpy as np
import pytest
import sqlite_vec

from remit.pipeline.storage import queries, sqlite
from remit.pipeline.storage.migrations import read

HERE = Path(sqlite.__file__).parent
SQL = queries.load(HERE / "queries.sql")

STARTS = {
    "shelves_of_granted": "sqlite_autoindex_shelf_1 (org=? AND scope=?)",
    "shelves_of_all": "(org=?",
    "passages_in_their_time": "passage_timed (org=? AND shelf=?",
    "aliased": "SEARCH posting USING PRIMARY KEY (org=? AND word>? AND word<?)",
    "find_all_words": "SEARCH p USING PRIMARY KEY (org=? AND word=? AND shelf=?)",
    "find_all_words_on_many": "SEARCH p USING PRIMARY KEY (org=? AND word=?)",
    "find_words": "SEARCH p USING PRIMARY KEY (org=? AND word=? AND shelf=?)",
    "find_words_on_many": "SEARCH p USING PRIMARY KEY (org=? AND word=?)",
    "count_words": "SEARCH p USING PRIMARY KEY (org=? AND word=? AND shelf=?)",
    "count_words_on_many": "SEARCH p USING PRIMARY KEY (org=? AND word=?)",
    "words_lost": "SEARCH posting USING PRIMARY KEY (org=?)",
    "words_used": "SEARCH v USING PRIMARY KEY (org=? AND shelf=? AND letters=? AND word=?)",
    "words_held": "SEARCH p USING PRIMARY KEY (org=? AND word=? AND shelf=?)",
    "dead": "posting_dead (org=? AND word=? AND superseded=? AND shelf=?",
    "vectors_on_shelves": "SEARCH embedded USING PRIMARY KEY (org=? AND space=? AND shelf=?)",
    "every_vector": "SEARCH vector USING PRIMARY KEY (org=? AND space=? AND shelf=?)",
    "every_eligible_vector": "SEARCH vector USING PRIMARY KEY (org=? AND space=? AND shelf=?",
    "nearest_vectors": "SEARCH vector USING PRIMARY KEY (org=? AND space=? AND shelf=?)",
    "nearest_eligible_vectors": "SEARCH vector USING PRIMARY KEY (org=? AND space=? AND shelf=?",
    "eligible": "passage_by_shelf (org=? AND shelf=?",
    "eligible_by_phrase": "SCAN f VIRTUAL TABLE",
    "outlines": "SEARCH p USING INTEGER PRIMARY KEY",
    "around": "memory_in_time (org=? AND shelf=? AND created_at>? AND created_at<?)",
    "vocabulary": "SEARCH vocabulary USING PRIMARY KEY (org=? AND shelf=? AND letters>? AND letters<?)",
    "read": "SEARCH m USING INDEX sqlite_autoindex_memory_1 (org=? AND source=? AND id=?)",
    "passages_of": "SEARCH m USING INDEX sqlite_autoindex_memory_1 (org=? AND source=? AND id=?)",
    "brief_facts": "memory_by_shelf (org=? AND shelf=? AND pinned=?",
    "brief_sessions": "memory_by_shelf (org=? AND shelf=?",
    "here": "sqlite_autoindex_memory_1 (org=? AND source=? AND id=?)",
    "memory_of": "(org=? AND source=? AND id=?)",
    "receipt_of": "(org=? AND actor=? AND key=?)",
    "passages_kept": "(memory=?)",
}
WHOLE_TABLES = re.compile(r"SCAN (?!w\b|t\b|k\b|f\b|json_each|carray|\(|CONSTANT)")


@pytest.fixture
def db() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    for migration in read(HERE / "migrations"):
        connection.execute(migration.sql)
    return connection


def plan(db: apsw.Connection, statement: str) -> str:
    names = set(re.findall(r":([a-z_]+)", statement))
    values = {name: apsw.carray(np.zeros(1, dtype=np.int64)) if name in ("keys", "eligible") else None for name in names}
    return "\n".join(str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values))


@pytest.mark.parametrize("name", STARTS)
def test_a_statement_starts_from_the_orgs_own_places(db: apsw.Connection, name: str) -> None:
    told = plan(db, SQL[name])

    assert STARTS[name] in told, told
    assert not WHOLE_TABLES.search(told), told


def test_a_walk_through_a_whole_table_would_be_noticed(db: apsw.Connection) -> None:
    assert WHOLE_TABLES.search(plan(db, "SELECT text FROM memory WHERE org = :org AND title = 'x'")) is None
    assert WHOLE_TABLES.search(plan(db, "SELECT text FROM memory WHERE title = 'x'"))
