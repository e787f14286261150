"""Deciding: what becomes of the entries of a write, one after another, from what stands there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import Entry, Event, Receipt, Record, Refusal, Whole, Written, lowest, refused, tombstone
from remit.pipeline.storage.postgres.desk import Desk, Transaction
from remit.pipeline.storage.postgres.identity import Identity
from remit.pipeline.storage.postgres.rows import dumped, place_of, shelf_of, spelled, unspelled
from remit.pipeline.storage.postgres.statements import Command
from remit.pipeline.storage.postgres.wire import numbers_of
from remit.stages.access import Access, Approval, Shelf
from remit.stages.evidence import MemoryId, Trust
from remit.stages.request import Source


@dataclass(slots=True)
class Known:
    """A memory as the write finds it, and what the write has decided: `entry` is what it will be, `superseded` whether it still stands.

    `was` is the number of the shelf it stands on in the database, None when it is not there; `passages` what stands there of it at every
    time, `marked` what would if it were not superseded. `past` are events to be added to its history.
    """

    key: int
    shelf: Shelf
    version: int
    digest: str
    superseded: bool
    approved: bool
    rejected: bool
    trust: Trust
    was: int | None = None
    entry: Entry | None = None
    written_at: datetime | None = None
    newly_superseded: bool = False
    passages: tuple[tuple[int, list[str]], ...] = ()
    marked: tuple[tuple[int, list[str]], ...] = ()
    past: list[Event] = field(default_factory=list)


class Decisions:
    """Those of one write of an org inside its transaction: look, then decide entry by entry. Nothing is sent."""

    def __init__(self, desk: Desk, org: str, identity: Identity) -> None:
        self._desk = desk
        self._org = identity.org
        self._of = org
        self.memories: dict[MemoryId, Known] = {}
        self._first: dict[tuple[str, str], tuple[MemoryId, str, Receipt]] = {}
        self._tombstones: set[str] = set()
        self._lowered: list[Record] = []
        self._told: list[tuple[Record, Receipt]] = []
        self._shelves: dict[str, int] = {}
        self._vectors: dict[int, dict[str, int]] = {}
        self._new_shelves: dict[str, tuple[int, tuple[str, str, str, str]]] = {}
        self._indexed_again: set[MemoryId] = set()

    async def look(
        self,
        transaction: Transaction,
        records: Sequence[Record],
        passages: int,
        *,
        names: Sequence[MemoryId] = (),
        keys: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Waits for its turn among the writers of the org, then reads all that records, names and actors' keys have to do with."""
        of_records = (name for record in records for name in (record.id, *record.supersedes, *record.derived_from))
        wanted = list(dict.fromkeys([*names, *of_records]))
        used = [*keys, *((record.actor, record.key) for record in records if record.key is not None)]
        places = list(dict.fromkeys(_place(record.label.shelf) for record in records))
        answers = await transaction.ask(
            [
                turn(self._desk, self._org),
                self._command("numbers", memories=len(records), passages=passages, shelves=len(places)),
                self._command("shelves_at", places=places),
                self._command("memories_of", **names_of(wanted)),
                self._command("passages_kept", **names_of(wanted)),
                *self._of_keys(used),
            ]
        )
        numbers = [iter(numbers_of(each).tolist()) for each in answers.row(1)]
        self._memory_numbers, self._passage_numbers, self._shelf_numbers = numbers
        shelves, memories, kept, *of_keys = (json.loads(answers.value(place) or b"[]") for place in range(2, len(answers.results)))
        receipts, marks = of_keys or ((), ())
        self._take(shelves, memories, kept, receipts)
        self._tombstones.update(marks)

    def _of_keys(self, used: Sequence[tuple[str, str]]) -> list[Command]:
        """What became of keys; most writes have none."""
        if not used:
            return []
        marks = [tombstone(self._of, *each) for each in used]
        return [self._command("receipts_of", **used_by(used)), self._command("tombstones_of", marks=marks)]

    def _take(self, shelves: Sequence[Any], memories: Sequence[Any], passages: Sequence[Any], receipts: Sequence[Any]) -> None:
        for place, number, vectors in shelves:
            self._shelves[place], self._vectors[number] = number, vectors
        standing: dict[tuple[int, bool], list[tuple[int, list[str]]]] = {}
        for memory, approved, superseded, timed, length, spaces in passages:
            if approved and not timed:
                standing.setdefault((memory, superseded), []).append((length, spaces))
        for source, name, *row, place, vectors in memories:
            known = self._known(source, row, standing)
            self.memories[MemoryId(Source(source), unspelled(name))] = known
            if known.was is not None:
                self._shelves[place], self._vectors[known.was] = known.was, vectors
        for actor, key, source, name, digest, written, version in receipts:
            memory = MemoryId(Source(source), unspelled(name))
            receipt = Receipt(id=str(memory), written=Written(written), version=version)
            self._first[unspelled(actor), unspelled(key)] = memory, digest, receipt

    def _known(self, source: str, row: Sequence[Any], standing: Mapping[tuple[int, bool], Sequence[tuple[int, list[str]]]]) -> Known:
        key, version, digest, superseded, approval, trust, shelf, scope, project, conversation = row
        return Known(
            key=key,
            shelf=shelf_of(self._of, scope, source, project, conversation),
            version=version,
            digest=digest,
            superseded=superseded,
            approved=approval == Approval.APPROVED,
            rejected=approval == Approval.REJECTED,
            trust=Trust(trust),
            was=shelf,
            passages=tuple(standing.get((key, False), ())),
            marked=tuple(standing.get((key, True), ())),
        )

    def put(self, entry: Entry, access: Access, hidden: set[MemoryId]) -> Receipt:
        """What becomes of an entry, after those before it."""
        record = entry.record
        if not access.reaches(record.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if record.key is not None and (first := self._first.get((record.actor, record.key))) is not None:
            return first[2] if first[:2] == (record.id, record.digest) else refused(record.id, Refusal.KEY_CONFLICT)
        if record.key is not None and tombstone(self._of, record.actor, record.key) in self._tombstones:
            return refused(record.id, Refusal.KEY_FORGOTTEN)
        before = self._reached(record.id, access)
        if before is not None and before.digest == record.digest:
            return self._tell(record, Written.UNCHANGED, before.version)
        named = (*record.supersedes, *record.derived_from)
        if any(name == record.id or self._reached(name, access) is None for name in named):
            return refused(record.id, Refusal.UNKNOWN_REFERENCE)
        if record.id in hidden or (before is None and record.id in self.memories):
            # Only now: what is wrong with the write itself is told first, so that nobody learns from it what stands out of reach.
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if before is not None and record.label.approval is Approval.APPROVED and self._out_of_its_own_place(before, record.supersedes):
            return refused(record.id, Refusal.NOT_STANDING)
        parents = [self.memories[name] for name in record.derived_from]
        trust = lowest(record.trust, [parent.trust for parent in parents])
        return self._store(replace(entry, record=replace(record, trust=trust)) if parents else entry, before, access)

    def reindex(self, entry: Entry) -> None:
        before = self.memories.get(entry.record.id)
        if before is not None and before.digest == entry.record.digest:
            label = replace(entry.record.label, shelf=before.shelf)
            before.entry = replace(entry, record=replace(entry.record, label=label))
            self._indexed_again.add(entry.record.id)

    def _out_of_its_own_place(self, known: Known, older: Iterable[MemoryId]) -> bool:
        """Whether it would supersede what stands although it is superseded itself: then neither of the two would stand."""
        return known.superseded and not all(self.memories[name].superseded for name in older)

    def _reached(self, name: MemoryId, access: Access) -> Known | None:
        known = self.memories.get(name)
        return known if known is not None and access.reaches(known.shelf) else None

    def _store(self, entry: Entry, before: Known | None, access: Access) -> Receipt:
        known = self._new(entry.record) if before is None else before
        if known.entry is not None and known.written_at is not None:
            known.past.append(Whole(entry=known.entry, version=known.version, written_at=known.written_at).standing)
        self._become(known, entry, known.version + 1, access.as_of)
        for name in entry.record.supersedes if known.approved else ():
            self._supersede(self.memories[name], entry.record.id, access)
        return self._tell(entry.record, Written.STORED if before is None else Written.REPLACED, known.version)

    def _new(self, record: Record) -> Known:
        known = Known(next(self._memory_numbers), record.label.shelf, 0, "", False, False, False, record.trust)
        self.memories[record.id] = known
        return known

    def _become(self, known: Known, entry: Entry, version: int, written_at: datetime) -> None:
        record, label = entry.record, entry.record.label
        known.entry, known.shelf, known.digest, known.version, known.written_at = entry, label.shelf, record.digest, version, written_at
        known.superseded = known.superseded or label.superseded
        known.approved, known.rejected = label.approval is Approval.APPROVED, label.approval is Approval.REJECTED
        known.trust = record.trust
        if record.trust is not Trust.VERIFIED:
            self._lowered.append(record)

    def _supersede(self, older: Known, by: MemoryId, access: Access) -> None:
        if not older.superseded:
            older.newly_superseded = older.superseded = True
            self._happened(older, Written.SUPERSEDED, access, by)

    def _happened(self, known: Known, what: Written, access: Access, by: MemoryId | None = None) -> None:
        known.past.append(Event(what=what, version=known.version, actor=access.actor, at=access.as_of, by=by))

    def _tell(self, record: Record, written: Written, version: int) -> Receipt:
        receipt = Receipt(id=str(record.id), written=written, version=version)
        if record.key is not None:
            self._first[record.actor, record.key] = record.id, record.digest, receipt
            self._told.append((record, receipt))
        return receipt

    def number_of(self, shelf: Shelf) -> int:
        """The number of a shelf, new if need be."""
        place = _place(shelf)
        if place not in self._shelves:
            number = next(self._shelf_numbers)
            self._shelves[place], self._vectors[number] = number, {}
            self._new_shelves[place] = number, place_of(shelf)
        return self._shelves[place]

    def _command(self, name: str, **values: Any) -> Command:
        return self._desk.command(name, org=self._org, **values)


def used_by(keys: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Actors' keys as the arrays that statements take."""
    return {"actors": [spelled(actor) for actor, _ in keys], "keys": [spelled(key) for _, key in keys]}


def turn(desk: Desk, org: str) -> Command:
    """Waits for its turn among the writers of an org, as it is spelled."""
    return desk.command("lock", number=int.from_bytes(sha256(org.encode()).digest()[:8], signed=True))


def names_of(names: Sequence[MemoryId]) -> dict[str, Any]:
    return {"wanted_sources": [str(name.source) for name in names], "wanted_ids": [spelled(name.id) for name in names]}


def _place(shelf: Shelf) -> str:
    return sha256(dumped(place_of(shelf)).encode()).hexdigest()


def keys_of(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)
