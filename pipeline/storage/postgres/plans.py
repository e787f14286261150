"""Plans: how Postgres goes about the statements of a search, as the restricted role, under row security."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from secrets import token_hex

from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.postgres.identity import Identity
from remit.pipeline.storage.postgres.line import ROLLBACK
from remit.pipeline.storage.postgres.means import Means
from remit.pipeline.storage.postgres.statements import Command, Statement, plain
from remit.pipeline.storage.store import Bound, Plan, Scan

SEARCHING = (
    "reached_of_all",
    "reached_of_granted",
    "in_their_time",
    "find_words",
    "find_words_of_org",
    "count_words",
    "count_words_of_org",
    "dead",
    "dead_of_org",
    "many_dead",
    "many_dead_of_org",
    "eligible",
    "outlines",
    "around",
    "vocabulary",
    "read",
)
EXACT = ("whole_{}", "whole_{}_of_org", "nearest_{}", "nearest_{}_of_org", "eligible_{}", "recent_{}")
APPROXIMATE = ("approximate_{}", "approximate_{}_of_org")
"""The statements that a recall may run; those with a place in their names, for each table of vectors."""

_SCAN = re.compile(
    r"^\s*(?:->\s+)?(?:(?:Parallel )?(?P<kind>Index Only Scan|Index Scan|Seq Scan|Bitmap Heap Scan|Bitmap Index Scan)(?: Backward)?"
    r"(?: using (?P<index>\w+))? on (?P<name>\w+))"
)
_NODE = re.compile(r"^\s*->|^\S")
_ORG = re.compile(r"\borg\)?(?:::text)? = ")


async def plans(desk: Desk) -> list[Plan]:
    """Under settings as those of a search. What goes by the index of the nearest comes last, since it is planned without sorting."""
    exact, approximate = _statements(desk.means)
    asked = [command for name in exact for command in _explained(desk.sql[name])]
    asked.append(plain("SET LOCAL enable_sort = off"))
    asked += [command for name in approximate for command in _explained(desk.sql[name])]
    async with desk.reading(Identity.of_org(f"nobody {token_hex(16)}")) as transaction:
        answers = await transaction.ask([*asked, ROLLBACK])
    explained = [place for place, command in enumerate(asked) if command.statement.sql.startswith(b"EXPLAIN")]
    told = zip((*exact, *approximate), explained, strict=True)
    return [_plan(name, "\n".join((line or b"").decode() for (line,) in answers.rows(place))) for name, place in told]


def _statements(means: Means) -> tuple[list[str], list[str]]:
    exact = [*SEARCHING, *(name.format(table) for table in means.places for name in EXACT)]
    return exact, [name.format(table) for table, place in means.places.items() if place.indexed for name in APPROXIMATE]


def _explained(statement: Statement) -> list[Command]:
    """What tells the plan that a search uses, which is one for all values. Costs are left out: they tell how large the tables of all orgs
    are. The statement is prepared by SQL, for the protocol's own preparing does not see the parameters inside an EXPLAIN."""
    name = f"planned_{token_hex(8)}"
    values = f"({', '.join(['NULL'] * len(statement.parameters))})" if statement.parameters else ""
    return [
        plain(f"PREPARE {name} AS {statement.sql.decode()}"),
        plain(f"EXPLAIN (COSTS OFF) EXECUTE {name}{values}"),
        plain(f"DEALLOCATE {name}"),
    ]


def _plan(name: str, text: str) -> Plan:
    return Plan(statement=name, scans=tuple(dict.fromkeys(scans_of(text))), text=text)


def scans_of(text: str) -> Iterator[Scan]:
    """The scans of tables in a plan as EXPLAIN tells it."""
    lines, heap = text.splitlines(), ""
    for place, line in enumerate(lines):
        if (told := _SCAN.match(line)) is None:
            continue
        scan = Scan(table=told["name"], index=told["index"], within=_within(lines, place))
        if told["kind"] == "Bitmap Heap Scan":
            heap = told["name"]
        elif told["kind"] == "Bitmap Index Scan":
            yield replace(scan, table=heap, index=told["name"])
        else:
            yield scan


def _within(lines: list[str], place: int) -> Bound:
    """By what the node that begins at this line is told to look at one org alone."""
    within = Bound.NOTHING
    for line in lines[place + 1 :]:
        if _NODE.match(line):
            break
        if _ORG.search(line):
            if line.lstrip().startswith("Index Cond:"):
                return Bound.INDEX
            within = Bound.ROW
    return within
