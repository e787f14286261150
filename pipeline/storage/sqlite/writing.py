"""Writing: entries into one transaction; what a refusal needs is looked at before anything of its entry is written."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from heapq import merge
from struct import Struct
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import ALIAS, Entry, Event, Passage, Receipt, Record, Refusal, Written, lowest, tombstone, worth_keeping
from remit.pipeline.storage.sqlite.line import rows
from remit.pipeline.storage.sqlite.phrases import phrased, phrased_org
from remit.pipeline.storage.sqlite.rows import INDEX_OF, dumped, event_row, ids, memory_row, micros, shelf_of, shelf_row, until
from remit.stages.access import Access, Approval, Label, Shelf
from remit.stages.evidence import MemoryId, Trust

_packed = Struct("<qIIB").pack
"""Packs an entry of `rows.ENTRY`."""


PIECE = 8192
"""Words sorted in one go: a few milliseconds."""


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


@dataclass(frozen=True, slots=True)
class Standing:
    """How the passages of a memory stand, as the indexes note it."""

    shelf: int
    approved: bool
    superseded: bool
    valid_from: int | None
    valid_until: int | None

    @property
    def always(self) -> bool:
        return self.approved and not self.superseded and self.valid_from is None and self.valid_until is None


@dataclass(slots=True)
class Gathered:
    """Rows and counts that wait to be written together."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    derived: list[tuple[Any, ...]] = field(default_factory=list)
    passages: list[tuple[Any, ...]] = field(default_factory=list)
    postings: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    vectors: list[tuple[Any, ...]] = field(default_factory=list)
    phrases: list[tuple[Any, ...]] = field(default_factory=list)
    tags: list[tuple[Any, ...]] = field(default_factory=list)
    memories: set[int] = field(default_factory=set)
    uses: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    on_shelf: dict[int, tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    embedded: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))


class Writing:
    """Writes of one org inside a transaction that the caller opens and ends; `finish` before it ends."""

    def __init__(self, db: apsw.Connection, sql: Mapping[str, str], org: str) -> None:
        self._db = db
        self._sql = sql
        self._org = org
        self._phrased_org = phrased_org(org)
        self._last_memory, self._last_passage = rows(db, sql["last_keys"])[0]
        self._shelf_at: dict[Shelf, int] = {}
        self._shelf_under: dict[int, Shelf] = {}
        self._gathered = Gathered()
        self._missing = set[MemoryId]()
        self._derivations = bool(self._one("any_derived"))

    def expect(self, names: Iterable[MemoryId]) -> None:
        """Finds out in one look which of these memories are not here yet: those need not be asked for one by one."""
        named = list(dict.fromkeys(names))
        there = json.loads(self._one("here", names=dumped(ids(named)))[0][0])
        self._missing = {name for place, name in enumerate(named) if place not in set(there)}

    def put(self, entry: Entry, access: Access) -> Receipt:
        record = entry.record
        if not access.reaches(record.label.shelf):
            return _refused(record, Refusal.NOT_AUTHORISED)
        if record.key is not None and (first := self._first(record)) is not None:
            return first
        before = self._before(record.id)
        hidden = before is not None and not access.reaches(self._shelf(before.shelf))
        if before is not None and not hidden and before.digest == record.digest:
            return self._told(record, Written.UNCHANGED, before.version)
        older, parents = self._reached(record.supersedes, access), self._reached(record.derived_from, access)
        if older is None or parents is None or record.id in record.supersedes or record.id in record.derived_from:
            return _refused(record, Refusal.UNKNOWN_REFERENCE)
        if hidden:
            # Only now: what is wrong with the write itself is told first, so that nobody learns from it what stands out of reach.
            return _refused(record, Refusal.NOT_AUTHORISED)
        if before is not None and record.label.approval is Approval.APPROVED and out_of_its_own_place(before, older):
            return _refused(record, Refusal.NOT_STANDING)
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
        """Writes what was gathered. Sorted, because neighbours in an index are cheap to write after one another."""
        self._add_memories()
        gathered, self._gathered = self._gathered, Gathered()
        self._many("add_passage", gathered.passages)
        self._many("add_posting", [each for word in _in_order(list(gathered.postings)) for each in sorted(gathered.postings[word])])
        self._many("add_vector", gathered.vectors)
        self._many("add_phrases", gathered.phrases)
        self._many("add_tag", gathered.tags)
        words = [(self._org, shelf, len(word), word, number) for shelf, word, number in _used(gathered.uses)]
        self._many("use_word", words)
        self._many("forget_word", [word[:4] for word in words if word[4] < 0])
        self._many("count_vectors", [(self._org, space, shelf, number) for (space, shelf), number in gathered.embedded.items()])
        for shelf, (passages, length) in gathered.on_shelf.items():
            self._one("count_on_shelf", shelf=shelf, passages=passages, words=length)

    def _add_memories(self) -> None:
        """Writes the memories that were gathered, before anything is asked that has to do with them."""
        added, self._gathered.rows = self._gathered.rows, []
        derived, self._gathered.derived = self._gathered.derived, []
        self._many("add_memory", added)
        self._many("add_derived", derived)

    def _first(self, record: Record) -> Receipt | None:
        """What the first write with this key was told, or that the key was forgotten, or now comes with something else."""
        found = self._aside("receipt_of", actor=record.actor, key=record.key)
        if not found:
            gone = self._aside("tombstone_of", mark=tombstone(self._org, record.actor, record.key or ""))
            return _refused(record, Refusal.KEY_FORGOTTEN) if gone else None
        source, name, digest, written, version = found[0]
        if (source, name, digest) != (record.id.source, record.id.id, record.digest):
            return _refused(record, Refusal.KEY_CONFLICT)
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
        self._gathered.rows.append(memory_row(record, key, standing.shelf, version, superseded, written_at))
        self._gathered.derived += [(self._org, str(name.source), name.id, key) for name in record.derived_from]
        self._gathered.tags += [(self._org, key, tag) for tag in record.tags]
        self._derivations = self._derivations or bool(record.derived_from)
        if self._derivations and record.trust is not Trust.VERIFIED:
            self._lower(record)
        self._gather(entry, key, standing)
        return key

    def _lower(self, parent: Record) -> None:
        """Whatever is derived from it is trusted no more than it."""
        above = dumped([trust for trust in Trust if lowest(trust, [parent.trust]) is not trust])
        self._one("lower", source=str(parent.id.source), id=parent.id.id, trust=str(parent.trust), above=above)

    def _gather(self, entry: Entry, key: int, standing: Standing) -> None:
        self._gathered.memories.add(key)
        for passage in entry.passages:
            self._last_passage += 1
            vectors = sound(passage.vectors)
            self._gather_passage(entry.record, passage, key, standing, vectors)
            if standing.approved:
                self._gather_indexes(entry.record, passage, standing, vectors)
                self._count(standing, passage.words.keys(), passage.length, vectors, 1)

    def _gather_passage(self, record: Record, passage: Passage, key: int, standing: Standing, vectors: Iterable[str]) -> None:
        self._gathered.passages.append(
            (
                self._last_passage,
                self._org,
                key,
                passage.ordinal,
                standing.shelf,
                standing.approved,
                standing.superseded,
                standing.valid_from,
                standing.valid_until,
                passage.length,
                passage.start,
                passage.end,
                _named(tuple(vectors)),
                None if passage.text == record.text else passage.text,
                dumped(list(passage.words)),
            )
        )

    def _gather_indexes(self, record: Record, passage: Passage, standing: Standing, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        org, key, shelf, source = self._org, self._last_passage, standing.shelf, INDEX_OF[record.id.source]
        superseded, start, end = standing.superseded, standing.valid_from, standing.valid_until
        postings, length = self._gathered.postings, passage.length
        for word, count in passage.words.items():
            postings[word].append((org, word, shelf, key, superseded, start, end, _packed(key, count, length, source)))
        for space, vector in vectors.items():
            self._gathered.vectors.append((org, space, shelf, key, superseded, start, end, vector.tobytes()))
        self._gathered.phrases.append((key, self._phrased_org, phrased(passage.plain)))

    def _count(self, standing: Standing, words: Collection[str], length: int, spaces: Iterable[str], sign: int) -> None:
        """Keeps the counters of an approved passage that comes (1) or goes (-1)."""
        uses = self._gathered.uses[standing.shelf]
        if sign > 0:
            uses.update(words)
        else:
            uses.subtract(words)
        if standing.always:
            self._count_standing(standing.shelf, length, spaces, sign)

    def _count_standing(self, shelf: int, length: int, spaces: Iterable[str], sign: int) -> None:
        passages, total = self._gathered.on_shelf[shelf]
        self._gathered.on_shelf[shelf] = (passages + sign, total + sign * length)
        for space in spaces:
            self._gathered.embedded[space, shelf] += sign

    def _drop_passages(self, memory: int) -> None:
        self._drop_from_indexes(memory)
        self._one("drop_passages", memory=memory)

    def _drop_from_indexes(self, memory: int) -> None:
        for key, standing, length, spaces, words in self._kept(memory):
            if standing.approved:
                self._many("drop_posting", [(self._org, word, standing.shelf, key) for word in words])
                self._many("drop_vector", [(self._org, space, standing.shelf, key) for space in spaces])
                self._many("drop_phrases", [(key,)])
                self._count(standing, words, length, spaces, -1)

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
                self._count_standing(standing.shelf, length, spaces, -1 if superseded else 1)
        self._one("mark_passages", memory=memory, superseded=superseded)
        self._one("mark_memory", memory=memory, superseded=superseded)

    def _happened(self, memory: Before, what: Written, access: Access, by: MemoryId | None = None) -> None:
        self._add_past(memory.key, Event(what=what, version=memory.version, actor=access.actor, at=access.as_of, by=by))

    def _add_past(self, memory: int, event: Event) -> None:
        self._one("add_past", memory=memory, **event_row(event))

    def _kept(self, memory: int) -> list[tuple[int, Standing, int, list[str], list[str]]]:
        """Of each passage: its key, how it stands, its length, and the spaces and words that the indexes hold for it."""
        if memory in self._gathered.memories:
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
        return Standing(shelf, label.approval is Approval.APPROVED, superseded, micros(label.valid_from), until(label))

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
        if self._gathered.rows:
            self._add_memories()
        return self._aside(name, **parameters)

    def _aside(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Asks or writes what has nothing to do with memories that were gathered."""
        return rows(self._db, self._sql[name], {"org": self._org} | parameters)

    def _many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._db.executemany(self._sql[name], rows)


def sound(vectors: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """The vectors that are kept, little-endian."""
    return {space: vector.astype("<f4", copy=False) for space, vector in vectors.items() if worth_keeping(vector)}


@lru_cache(64)
def _named(spaces: tuple[str, ...]) -> str:
    """Few and always the same."""
    return dumped(spaces)


def out_of_its_own_place(memory: Before, older: Iterable[Before]) -> bool:
    """Whether it would supersede what stands although it is superseded itself: then neither of the two would stand."""
    return bool(memory.superseded) and not all(each.superseded for each in older)


def _refused(record: Record, code: Refusal) -> Receipt:
    return Receipt(id=str(record.id), written=Written.REFUSED, code=code)


def _in_order(words: list[str]) -> list[str]:
    """Sorted, in pieces, for one sort of them all would hold the interpreter too long."""
    pieces = [sorted(words[start : start + PIECE]) for start in range(0, len(words), PIECE)]
    return pieces[0] if len(pieces) == 1 else list(merge(*pieces))


def _used(uses: Mapping[int, Counter[str]]) -> Iterator[tuple[int, str, int]]:
    """Shelf, word and how many uses more or less, in order. Names that are matched whole are no words."""
    for shelf in sorted(uses):
        numbers = uses[shelf]
        for word in _in_order([word for word, number in numbers.items() if number and not word.startswith(ALIAS)]):
            yield shelf, word, numbers[word]
