"""Plans: how SQLite goes about the statements of a search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import apsw

from remit.pipeline.storage.sqlite.line import rows
from remit.pipeline.storage.store import Bound, Plan, Scan

SEARCHING = (
    "shelves_of_all",
    "shelves_of_granted",
    "passages_in_their_time",
    "aliased",
    "find_all_words",
    "find_all_words_on_many",
    "find_words",
    "find_words_on_many",
    "count_words",
    "count_words_on_many",
    "dead",
    "vectors_on_shelves",
    "every_vector",
    "every_eligible_vector",
    "nearest_vectors",
    "nearest_eligible_vectors",
    "eligible",
    "eligible_by_phrase",
    "outlines",
    "around",
    "vocabulary",
    "read",
)
"""The statements that a recall may run."""

_PARAMETER = re.compile(r":([a-z_]+)")
_TABLE = re.compile(r"\b(?:FROM|JOIN) (\w+)\b(?!\()(?: AS (\w+))?")
_STEP = re.compile(r"^(?:SEARCH|SCAN) (\w+)\b(.*)$")
_BY_KEY = re.compile(r"\((?:rowid|memory)=\?")
_INDEX = re.compile(r"USING (?:COVERING )?(?:INDEX (\w+)|(INTEGER )?PRIMARY KEY)")


def plans(db: apsw.Connection, sql: Mapping[str, str]) -> list[Plan]:
    return [_plan(db, name, sql[name]) for name in SEARCHING]


def _plan(db: apsw.Connection, name: str, statement: str) -> Plan:
    nothing = dict.fromkeys(_PARAMETER.findall(statement))
    steps = [str(step) for _, _, _, step in rows(db, f"EXPLAIN QUERY PLAN {statement}", nothing)]
    return Plan(statement=name, scans=tuple(_scans(statement, steps)), text="\n".join(steps))


def _scans(statement: str, steps: Sequence[str]) -> Iterator[Scan]:
    """The scans of tables; lists that a statement is given are none."""
    tables = {name: table for table, alias in _TABLE.findall(statement) for name in (table, alias or table)}
    for step in steps:
        if (told := _STEP.match(step)) is not None and told[1] in tables:
            yield _scan(tables[told[1]], told[2])


def _scan(table: str, how: str) -> Scan:
    if "VIRTUAL TABLE" in how:
        # The phrase index: the org is one of the things that it looks for.
        return Scan(table=table, index="full text", within=Bound.INDEX if "M" in how.rpartition(":")[2] else Bound.NOTHING)
    index = _INDEX.search(how)
    if index is None:
        return Scan(table=table, index=None, within=Bound.NOTHING)
    within = Bound.INDEX if "(org=?" in how else Bound.KEY if _BY_KEY.search(how) else Bound.NOTHING
    return Scan(table=table, index=index[1] or ("key" if index[2] else "primary key"), within=within)
