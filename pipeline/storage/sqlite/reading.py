"""Reading: what is asked of SQLite about passages and memories that are known by name, each in one read transaction."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import apsw
import numpy as np

from remit.pipeline.storage.entry import Entry, Whole, in_order
from remit.pipeline.storage.sqlite.line import rows, value
from remit.pipeline.storage.sqlite.rows import dumped, event_of, ids, keyed_of, memories_of, moment_of, outlines_of, record_of
from remit.pipeline.storage.sqlite.shelves import in_reach
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, Outline, PassageId
from remit.stages.request import Source

Sql = Mapping[str, str]


def outlines(db: apsw.Connection, sql: Sql, keys: Collection[int], access: Access) -> dict[int, Outline]:
    return in_reach(db, sql, access, lambda scope: outlines_in(db, sql, keys, scope)) if keys else {}


def outlines_in(db: apsw.Connection, sql: Sql, keys: Collection[int], scope: Mapping[str, Any]) -> dict[int, Outline]:
    """The same where it is known already what is in reach, in a transaction that has begun."""
    if not keys:
        return {}
    wanted = np.fromiter(keys, dtype=np.int64, count=len(keys))
    return outlines_of(value(db, sql["outlines"], {**scope, "keys": apsw.carray(wanted)}))


def around(db: apsw.Connection, sql: Sql, keys: Collection[int], reach: int, within: timedelta, access: Access) -> dict[int, list[int]]:
    if not keys:
        return {}
    beside = {
        "keys": apsw.carray(np.fromiter(keys, dtype=np.int64, count=len(keys))),
        "reach": reach,
        "within": within // timedelta(microseconds=1),
    }

    def turns(scope: dict[str, Any]) -> dict[int, list[int]]:
        return {key: before + after for key, before, after in json.loads(value(db, sql["around"], scope | beside))}

    return in_reach(db, sql, access, turns)


def vocabulary(db: apsw.Connection, sql: Sql, shortest: int, longest: int, access: Access) -> list[str]:
    def words(scope: dict[str, Any]) -> list[str]:
        return sorted(json.loads(value(db, sql["vocabulary"], scope | {"shortest": shortest, "longest": longest})))

    return in_reach(db, sql, access, words)


def read(db: apsw.Connection, sql: Sql, passages: Sequence[PassageId], access: Access) -> dict[PassageId, Memory]:
    return in_reach(db, sql, access, lambda scope: _memories(db, sql, passages, scope))


def passages_of(db: apsw.Connection, sql: Sql, memory: MemoryId, access: Access) -> list[PassageId]:
    def names(scope: dict[str, Any]) -> list[PassageId]:
        found = rows(db, sql["passages_of"], scope | {"name": dumped(memory)})
        return [PassageId(memory, ordinal) for (ordinal,) in found]

    return in_reach(db, sql, access, names)


def brief(db: apsw.Connection, sql: Sql, access: Access, pinned: int, important: int, recent: int) -> list[Memory]:
    def chosen(scope: dict[str, Any]) -> list[Memory]:
        names = [
            *_names(rows(db, sql["brief_facts"], scope | {"shelves": scope["facts"], "pinned": 1, "most": max(0, pinned)})),
            *_names(rows(db, sql["brief_facts"], scope | {"shelves": scope["facts"], "pinned": 0, "most": max(0, important)})),
            *_names(rows(db, sql["brief_sessions"], scope | {"shelves": scope["sessions"], "most": max(0, recent)})),
        ]
        memories = _memories(db, sql, names, scope)
        return [memories[name] for name in names]

    return in_reach(db, sql, access, chosen)


def coverage(db: apsw.Connection, sql: Sql, space: str, access: Access) -> tuple[int, int]:
    def counts(scope: dict[str, Any]) -> tuple[int, int]:
        vectors = json.loads(value(db, sql["vectors_on_shelves"], scope | {"space": space}))
        timed = rows(db, sql["passages_in_their_time"], scope)[0][0]
        return sum(number for _, number in vectors), scope["passages"] + timed

    return in_reach(db, sql, access, counts)


def spaces(db: apsw.Connection, sql: Sql, access: Access) -> dict[str, int]:
    return in_reach(db, sql, access, lambda scope: dict(rows(db, sql["spaces"], scope)))


def records(db: apsw.Connection, sql: Sql, after: tuple[str, MemoryId] | None, most: int) -> list[tuple[str, Entry]]:
    org, memory = after if after is not None else ("", ("", ""))
    behind = rows(db, sql["records"], {"org": org, "source": str(memory[0]), "id": memory[1], "most": max(0, most)})
    return [(org, Entry(record=record, passages=())) for org, record in map(record_of, behind)]


def wholes(db: apsw.Connection, sql: Sql, names: Sequence[MemoryId], access: Access) -> dict[MemoryId, Whole]:
    def found(scope: dict[str, Any]) -> dict[MemoryId, Whole]:
        told = wholes_of(db, sql, scope["org"], rows(db, sql["wholes"], scope | {"names": dumped(ids(names))}))
        return {each.entry.record.id: each for each in told}

    return in_reach(db, sql, access, found)


def exported(db: apsw.Connection, sql: Sql, after: MemoryId | None, most: int, access: Access) -> list[Whole]:
    source, name = ("", "") if after is None else (str(after.source), after.id)

    def behind(scope: dict[str, Any]) -> list[Whole]:
        found = rows(db, sql["wholes_behind"], scope | {"source": source, "id": name, "most": max(0, most)})
        return wholes_of(db, sql, scope["org"], found)

    return in_reach(db, sql, access, behind)


def wholes_of(db: apsw.Connection, sql: Sql, org: str, found: Sequence[tuple[Any, ...]]) -> list[Whole]:
    """All there is of the memories of rows of `wholes`, with their histories and keys."""
    wanted = {"org": org, "memories": dumped([row[-1] for row in found])}
    past, keys = defaultdict(list), defaultdict(list)
    for memory, *row in rows(db, sql["past_of"], wanted):
        past[memory].append(event_of(row))
    for memory, *row in rows(db, sql["keys_of"], wanted):
        keys[memory].append(keyed_of(row))
    return [
        Whole(
            entry=Entry(record=record_of(row)[1], passages=()),
            version=version,
            written_at=moment_of(written_at),
            past=in_order(past[key]),
            keys=tuple(keys[key]),
        )
        for row in found
        for version, written_at, key in [row[-3:]]
    ]


def _names(chosen: Iterable[tuple[Any, ...]]) -> list[PassageId]:
    found = []
    for (text,) in chosen:
        source, name, ordinal = json.loads(text)
        found.append(PassageId(MemoryId(Source(source), name), ordinal))
    return found


def _memories(db: apsw.Connection, sql: Sql, passages: Sequence[PassageId], scope: dict[str, Any]) -> dict[PassageId, Memory]:
    wanted = dumped([[passage.memory.source, passage.memory.id, passage.ordinal] for passage in passages])
    return memories_of(scope["org"], rows(db, sql["read"], {**scope, "passages": wanted}))
