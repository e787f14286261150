"""Writing: entries into one transaction; what a refusal needs is looked at before anything of its entry is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import apsw

from remit.pipeline.storage.entry import Entry, Event, Receipt, Record, Refusal, Written, lowest, refused, tombstone
from remit.pipeline.storage.sqlite.gathering import Gathering, Standing
from remit.pipeline.storage.sqlite.line import rows
from remit.pipeline.storage.sqlite.rows import dumped, event_row, memory_row, micros, shelf_of, shelf_row, until
from remit.stages.access import Access, Approval, Label, Shelf
from remit.stages.evidence import MemoryId, Trust

FEW = 4
"""Up to here memories are asked for one by one, which is sooner than one look for all of them."""


@dataclass(frozen=True, slots=True)
class Before:
    """A memory as the write finds it."""

    key: int
    shelf: int
    version: int
    digest: str
    superseded: int
    approval: str
    trust: str


class Writing:
    """Writes of one org inside a transaction that the caller opens and ends; `finish` before it ends."""

    def __init__(self, db: apsw.Connection, sql: Mapping[str, str], org: str) -> None:
        self._db = db
        self._sql = sql
        self._org = org
        self._gathered = Gathering(db, sql, org)
        self._last_memory, self._last_passage = rows(db, sql["last_keys"])[0]
        self._shelf_at: dict[Shelf, int] = {}
        self._shelf_under: dict[int, Shelf] = {}
        self._missing = set[MemoryId]()
        self._derivations = bool(self._aside("any_derived"))

    def expect(self, names: Iterable[MemoryId]) -> None:
        """Finds out in one look which of these memories are not here yet: those need not be asked for one by one."""
        named = list(dict.fromkeys(names))
        if len(named) > FEW:
            there = set(json.loads(self._one("here", names=dumped(named))[0][0]))
            self._missing = {name for place, name in enumerate(named) if place not in there}

    def put(self, entry: Entry, access: Access) -> Receipt:
        record = entry.record
        if not access.reaches(record.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if record.key is not None and (first := self._first(record)) is not None:
            return first
        before = self._before(record.id)
        hidden = before is not None and not access.reaches(self._shelf(before.shelf))
        if before is not None and not hidden and before.digest == record.digest:
            return self._told(record, Written.UNCHANGED, before.version)
        older, parents = self._reached(record.supersedes, access), self._reached(record.derived_from, access)
        if older is None or parents is None or record.id in record.supersedes or record.id in record.derived_from:
            return refused(record.id, Refusal.UNKNOWN_REFERENCE)
        if hidden:
            # Only now: what is wrong with the write itself is told first, so that nobody learns from it what stands out of reach.
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if before is not None and record.label.approval is Approval.APPROVED and out_of_its_own_place(before, older):
            return refused(record.id, Refusal.NOT_STANDING)
        version = 1 if before is None else before.version + 1
        trusted = replace(record, trust=lowest(record.trust, [Trust(each.trust) for each in parents])) if parents else record
        self._store(replace(entry, record=trusted) if parents else entry, before, version, access.as_of)
        for each in older if record.label.approval is Approval.APPROVED else ():
            self._supersede(each, record.id, access)
        return self._told(record, Written.STORED if before is None else Written.REPLACED, version)

    def reindex(self, entry: Entry) -> None:
        """Gives a memory that stands here, with this content, the passages of `entry`."""
        before = self._before(entry.record.id)
        if before is not None and before.digest == entry.record.digest:
            self._drop_passages(before.key)
            self._gather(entry, before.key, self._standing(entry.record.label, before.shelf, bool(before.superseded)))

    def finish(self) -> None:
        """Writes what was gathered."""
        self._gathered.write()

    def _first(self, record: Record) -> Receipt | None:
        """What the first write with this key was told, or that the key was forgotten, or now comes with something else."""
        found = self._aside("receipt_of", actor=record.actor, key=record.key)
        if not found:
            gone = self._aside("tombstone_of", mark=tombstone(self._org, record.actor, record.key or ""))
            return refused(record.id, Refusal.KEY_FORGOTTEN) if gone else None
        source, name, digest, written, version = found[0]
        if (source, name, digest) != (record.id.source, record.id.id, record.digest):
            return refused(record.id, Refusal.KEY_CONFLICT)
        return Receipt(id=str(record.id), written=Written(written), version=version)

    def _told(self, record: Record, written: Written, version: int) -> Receipt:
        if record.key is not None:
            row = {"source": str(record.id.source), "id": record.id.id, "digest": record.digest}
            self._aside("add_receipt", actor=record.actor, key=record.key, written=str(written), version=version, **row)
        return Receipt(id=str(record.id), written=written, version=version)

    def _reached(self, names: Iterable[MemoryId], access: Access) -> list[Before] | None:
        """The memories of these names; None when one is not there or out of reach."""
        found = []
        for name in names:
            before = self._before(name)
            if before is None or not access.reaches(self._shelf(before.shelf)):
                return None
            found.append(before)
        return found

    def _store(self, entry: Entry, before: Before | None, version: int, written_at: datetime) -> None:
        record = entry.record
        superseded = record.label.superseded or (before is not None and bool(before.superseded))
        if before is not None:
            self._one("keep_version", memory=before.key)
            self._drop_passages(before.key)
            self._one("drop_tags", memory=before.key)
            self._one("drop_derived", memory=before.key)
        self._write(entry, None if before is None else before.key, version, superseded, written_at)

    def _write(self, entry: Entry, key: int | None, version: int, superseded: bool, written_at: datetime) -> int:
        """A memory as it stands from now on, under its key or, when it has none, a new one."""
        record, label = entry.record, entry.record.label
        if key is None:
            self._last_memory += 1
            key = self._last_memory
        standing = self._standing(label, self._number(label.shelf), superseded)
        self._missing.discard(record.id)
        self._gathered.memories.append(memory_row(record, key, standing.shelf, version, superseded, written_at))
        if record.derived_from:
            self._derivations = True
            self._gathered.derived += [(self._org, str(name.source), name.id, key) for name in record.derived_from]
        if record.tags:
            self._gathered.add_tags(key, record.tags)
        if self._derivations and record.trust is not Trust.VERIFIED:
            self._lower(record)
        self._gather(entry, key, standing)
        return key

    def _lower(self, parent: Record) -> None:
        """Whatever is derived from it is trusted no more than it."""
        above = dumped([trust for trust in Trust if lowest(trust, [parent.trust]) is not trust])
        self._one("lower", source=str(parent.id.source), id=parent.id.id, trust=str(parent.trust), above=above)

    def _gather(self, entry: Entry, memory: int, standing: Standing) -> None:
        for passage in entry.passages:
            self._last_passage += 1
            self._gathered.add(entry.record, passage, self._last_passage, memory, standing)

    def _drop_passages(self, memory: int) -> None:
        self._drop_from_indexes(memory)
        self._one("drop_passages", memory=memory)

    def _drop_from_indexes(self, memory: int) -> None:
        for key, standing, length, spaces, words in self._kept(memory):
            if standing.approved:
                self._many("drop_posting", [(self._org, word, standing.shelf, key) for word in words])
                self._many("drop_vector", [(self._org, space, standing.shelf, key) for space in spaces])
                self._many("drop_phrases", [(key,)])
                self._gathered.count(standing, words, length, spaces, -1)

    def _supersede(self, memory: Before, by: MemoryId, access: Access) -> None:
        if not memory.superseded:
            self._mark(memory.key, superseded=True)
            self._happened(memory, Written.SUPERSEDED, access, by)

    def _mark(self, memory: int, *, superseded: bool) -> None:
        """Marks a memory, its passages and their places in the indexes as superseded, or takes the marks back."""
        for key, standing, length, spaces, words in self._kept(memory):
            if standing.approved:
                self._many("mark_posting", [(self._org, word, standing.shelf, key, superseded) for word in words])
                self._many("mark_vector", [(self._org, space, standing.shelf, key, superseded) for space in spaces])
            if replace(standing, superseded=False).always:
                self._gathered.count_standing(standing.shelf, length, spaces, -1 if superseded else 1)
        self._one("mark_passages", memory=memory, superseded=superseded)
        self._one("mark_memory", memory=memory, superseded=superseded)

    def _happened(self, memory: Before, what: Written, access: Access, by: MemoryId | None = None) -> None:
        self._add_past(memory.key, Event(what=what, version=memory.version, actor=access.actor, at=access.as_of, by=by))

    def _add_past(self, memory: int, event: Event) -> None:
        self._one("add_past", memory=memory, **event_row(event))

    def _kept(self, memory: int) -> list[tuple[int, Standing, int, list[str], list[str]]]:
        """Of each passage: its key, how it stands, its length, and the spaces and words that the indexes hold for it."""
        if self._gathered.holds(memory):
            self.finish()
        return [
            (key, Standing(shelf, bool(approved), bool(superseded), start, end), length, json.loads(spaces), json.loads(words))
            for key, shelf, approved, superseded, start, end, length, spaces, words in self._one("passages_kept", memory=memory)
        ]

    def _before(self, name: MemoryId) -> Before | None:
        if name in self._missing:
            return None
        found = self._one("memory_of", source=str(name.source), id=name.id)
        return Before(*found[0]) if found else None

    def _standing(self, label: Label, shelf: int, superseded: bool) -> Standing:
        return _alike(shelf, label.approval is Approval.APPROVED, superseded, micros(label.valid_from), until(label))

    def _number(self, shelf: Shelf) -> int:
        """The number of a shelf, new if need be."""
        if shelf not in self._shelf_at:
            row = shelf_row(shelf)
            found = self._aside("shelf_at", **row) or self._aside("add_shelf", **row)
            self._shelf_at[shelf] = found[0][0]
        return self._shelf_at[shelf]

    def _shelf(self, number: int) -> Shelf:
        if number not in self._shelf_under:
            self._shelf_under[number] = shelf_of(self._org, *self._one("shelf_under", shelf=number)[0])
        return self._shelf_under[number]

    def _one(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        self._gathered.write_memories()
        return self._aside(name, **parameters)

    def _aside(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Asks or writes what has nothing to do with memories that were gathered."""
        parameters["org"] = self._org
        return rows(self._db, self._sql[name], parameters)

    def _many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._gathered.many(name, rows)


_alike = lru_cache(1024)(Standing)
"""Most memories of a shelf stand alike."""


def out_of_its_own_place(memory: Before, older: Iterable[Before]) -> bool:
    """Whether it would supersede what stands although it is superseded itself: then neither of the two would stand."""
    return bool(memory.superseded) and not all(each.superseded for each in older)
