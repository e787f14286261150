"""A plan is read rightly: what looks at rows of every org is seen to, whatever way the database puts it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from remit.pipeline.storage import queries, sqlite
from remit.pipeline.storage.migrations import read
from remit.pipeline.storage.postgres.plans import scans_of
from remit.pipeline.storage.sqlite.plans import plans
from remit.pipeline.storage.store import Bound, Scan

HERE = Path(sqlite.__file__).parent
IN_POSTGRES = {
    "Aggregate\n  ->  Index Scan using posting_pkey on posting p\n        Index Cond: ((org = $1) AND (word = w.word))": Scan(
        table="posting", index="posting_pkey", within=Bound.INDEX
    ),
    "Limit\n  ->  Index Scan using vector_local_nearest on vector_local v\n        Order By: (embedding <=> $1)\n"
    "        Filter: ((org = current_setting('app.org'::text)) AND (org = $2))": Scan(
        table="vector_local", index="vector_local_nearest", within=Bound.ROW
    ),
    "Seq Scan on memory m\n  Filter: (title = $1)": Scan(table="memory", index=None, within=Bound.NOTHING),
    "Seq Scan on memory m\n  Filter: (organ = $1)\n  ->  Index Only Scan using a on b\n        Index Cond: (org = $1)": Scan(
        table="memory", index=None, within=Bound.NOTHING
    ),
    "Bitmap Heap Scan on shelf s\n  Recheck Cond: (org = $1)\n  ->  Bitmap Index Scan on shelf_pkey\n        Index Cond: (org = $1)": Scan(
        table="shelf", index="shelf_pkey", within=Bound.INDEX
    ),
}
IN_SQLITE = {
    "SELECT text FROM memory WHERE title = 'x'": Scan(table="memory", index=None, within=Bound.NOTHING),
    "SELECT count(*) FROM passage AS p": Scan(table="passage", index="sqlite_autoindex_passage_1", within=Bound.NOTHING),
    "SELECT m.text FROM memory AS m WHERE m.key = :key": Scan(table="memory", index="key", within=Bound.KEY),
    "SELECT m.text FROM memory AS m WHERE m.org = :org AND m.source = 'x'": Scan(
        table="memory", index="sqlite_autoindex_memory_1", within=Bound.INDEX
    ),
}


@pytest.mark.parametrize("text", IN_POSTGRES)
def test_of_postgres(text: str) -> None:
    assert next(scans_of(text)) == IN_POSTGRES[text]


@pytest.mark.parametrize("statement", IN_SQLITE)
def test_of_sqlite(statement: str) -> None:
    db = apsw.Connection(":memory:")
    for migration in read(HERE / "migrations"):
        db.execute(migration.sql)
    told = plans(db, dict.fromkeys(queries.load(HERE / "queries.sql"), statement))
    assert told[0].scans == (IN_SQLITE[statement],)
