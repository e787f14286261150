"""Shelves: which of them an access reaches, found first in every transaction that reads, and what all else is limited to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw

from remit.pipeline.storage.sqlite.line import reading, rows, value
from remit.pipeline.storage.sqlite.rows import dumped, micros
from remit.stages.access import Access
from remit.stages.request import Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shelves:
    """The shelves an access reaches: their numbers as JSON, which of them belong to a source, what always stands on them, and whether any
    holds what was said in a conversation."""

    all: str
    of_source: Mapping[Source, Sequence[int]]
    passages: int
    words: int
    count: int
    turns: bool


def still(db: apsw.Connection, sql: Mapping[str, str], access: Access) -> Access:
    """The access as it is granted at the moment of this transaction, where the store keeps the grants."""
    if not access.kept:
        return access
    return access.left([scope for (scope,) in rows(db, sql["granted"], {"org": access.org, "actor": access.actor})])


def reach(access: Access) -> dict[str, Any]:
    """What the statements that resolve shelves need of an access."""
    return {
        "org": access.org,
        "now": micros(access.as_of),
        "granted": None if access.granted is None else dumped(["global", *sorted(access.granted)]),
        "sources": dumped(sorted(access.sources)),
        "scopes": None if access.scopes is None else dumped(sorted(access.scopes)),
        "fact_scopes": None if access.fact_scopes is None else dumped(sorted(access.fact_scopes)),
    }


def shelves_reached(db: apsw.Connection, sql: Mapping[str, str], parameters: Mapping[str, Any]) -> Shelves:
    """THE visibility rule's unchanging part, in SQL: `Access.reaches` of every shelf of the org."""
    name = "shelves_of_all" if parameters["granted"] is None else "shelves_of_granted"
    reached = json.loads(value(db, sql[name], parameters))
    of_source: dict[Source, list[int]] = {}
    for number, source, _, _, _ in reached:
        of_source.setdefault(Source(source), []).append(number)
    passages, words = sum(shelf[2] for shelf in reached), sum(shelf[3] for shelf in reached)
    turns = any(shelf[4] for shelf in reached)
    return Shelves(dumped([shelf[0] for shelf in reached]), of_source, passages, words, len(reached), turns)


def in_reach(db: apsw.Connection, sql: Mapping[str, str], access: Access, work: Callable[[dict[str, Any]], T]) -> T:
    """What `work` makes of the shelves in reach, given as parameters of statements; all in one moment of the store."""
    with reading(db):
        scope = reach(still(db, sql, access))
        shelves = shelves_reached(db, sql, scope)
        facts, sessions = (dumped(shelves.of_source.get(source, ())) for source in (Source.FACT, Source.SESSION))
        return work(scope | {"shelves": shelves.all, "facts": facts, "sessions": sessions, "passages": shelves.passages})
