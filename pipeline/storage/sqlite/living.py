"""Living: memories that stand here approved, rejected, superseded, restored, disputed, forgotten, or carried over from another store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from remit.pipeline.storage.entry import (
    PARTS,
    Change,
    Forgetting,
    Forgotten,
    Receipt,
    Refusal,
    Whole,
    Written,
    alike,
    lowest,
    refused,
    tombstone,
)
from remit.pipeline.storage.sqlite.reading import wholes_of
from remit.pipeline.storage.sqlite.rows import dumped, ids, name_text, names_of
from remit.pipeline.storage.sqlite.shelves import reach, shelves_reached
from remit.pipeline.storage.sqlite.writing import Before, Writing, out_of_its_own_place
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId, Trust
from remit.stages.request import Source

Chosen = tuple[int, int, MemoryId]
"""Key, shelf and name of a memory that is to be forgotten."""


class Living(Writing):
    """Changes to memories of one org inside a transaction that the caller opens and ends; `finish` before it ends."""

    def change(self, change: Change, access: Access) -> Receipt:
        memory = self._in_reach(change.id, access)
        if memory is None:
            return refused(change.id, Refusal.UNKNOWN_MEMORY)
        match change.what:
            case Written.APPROVED:
                done = self._approve(memory, change, access)
            case Written.REJECTED:
                done = self._reject(memory, access)
            case Written.SUPERSEDED:
                done = self._take_place(memory, change, access)
            case Written.RESTORED:
                done = self._restore(memory, access)
            case Written.DISPUTED:
                done = self._dispute(memory, change, access)
            case _:
                raise ValueError(f"{change.what} is no change")
        if isinstance(done, Refusal):
            return refused(change.id, done)
        return Receipt(id=str(change.id), written=done, version=memory.version)

    def forget(self, what: Forgetting, access: Access, *, dry_run: bool) -> Forgotten:
        known = {name: self._in_reach(name, access) for name in what.names or ()}
        chosen = self._meant(what, access)
        if what.names is not None:
            chosen = [(memory.key, memory.shelf, name) for name, memory in known.items() if memory is not None]
        keys = [key for key, _, _ in chosen]
        counts = dict(zip(PARTS, (len(keys), *self._one("parts_of", memories=dumped(keys))[0]), strict=True))
        counts["versions"] += self._forget_earlier(what, set(keys), access, dry_run=dry_run)
        if not dry_run and chosen:
            self._take_out(chosen)
        receipts = tuple(
            refused(name, Refusal.UNKNOWN_MEMORY)
            if (memory := known[name]) is None
            else Receipt(id=str(name), written=Written.FORGOTTEN, version=memory.version)
            for name in what.names or ()
        )
        return Forgotten(counts=counts, receipts=receipts, dry_run=dry_run)

    def imported(self, whole: Whole, access: Access) -> Receipt:
        record = whole.entry.record
        if not access.reaches(record.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        before = self._before(record.id)
        if before is not None and not access.reaches(self._shelf(before.shelf)):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if before is not None:
            told = Receipt(id=str(record.id), written=Written.UNCHANGED, version=before.version)
            return told if alike(self._whole(record.id, before), whole) else refused(record.id, Refusal.OTHER_CONTENT)
        if (refusal := self._taken(whole)) is not None:
            return refused(record.id, refusal)
        parents = [Trust(parent.trust) for name in record.derived_from if (parent := self._in_reach(name, access)) is not None]
        entry = replace(whole.entry, record=replace(record, trust=lowest(record.trust, parents)))
        key = self._write(entry, None, whole.version, record.label.superseded, whole.written_at)
        for event in whole.past:
            self._add_past(key, event)
        for each in whole.keys:
            row = {"source": str(record.id.source), "id": record.id.id, "digest": each.digest}
            self._one("add_receipt", actor=each.actor, key=each.key, written=str(each.written), version=each.version, **row)
        return Receipt(id=str(record.id), written=Written.STORED, version=whole.version)

    def _in_reach(self, name: MemoryId, access: Access) -> Before | None:
        found = self._reached([name], access)
        return found[0] if found else None

    def _approve(self, memory: Before, change: Change, access: Access) -> Written | Refusal:
        if memory.approval == Approval.APPROVED:
            return Written.UNCHANGED
        if change.entry is None or (change.seen, change.entry.record.digest) != (memory.version, memory.digest):
            return Refusal.REVISED
        older = self._reached(self._references(memory)[0], access)
        if older is None:
            return Refusal.UNKNOWN_REFERENCE
        if out_of_its_own_place(memory, older):
            return Refusal.NOT_STANDING
        self._drop_passages(memory.key)
        label = replace(change.entry.record.label, approval=Approval.APPROVED)
        self._gather(change.entry, memory.key, self._standing(label, memory.shelf, bool(memory.superseded)))
        self._one("set_approval", memory=memory.key, approval=str(Approval.APPROVED))
        self._happened(memory, Written.APPROVED, access)
        for each in older:
            self._supersede(each, change.id, access)
        return Written.APPROVED

    def _reject(self, memory: Before, access: Access) -> Written:
        if memory.approval == Approval.REJECTED:
            return Written.UNCHANGED
        self._drop_from_indexes(memory.key)
        self._one("withdraw_passages", memory=memory.key)
        self._one("set_approval", memory=memory.key, approval=str(Approval.REJECTED))
        self._happened(memory, Written.REJECTED, access)
        return Written.REJECTED

    def _take_place(self, memory: Before, change: Change, access: Access) -> Written | Refusal:
        newer = None if change.by is None else self._in_reach(change.by, access)
        if newer is None or change.by is None or newer.key == memory.key:
            return Refusal.UNKNOWN_REFERENCE
        if newer.superseded or newer.approval != Approval.APPROVED:
            return Refusal.NOT_STANDING
        said = self._references(newer)[0]
        if change.id in said and memory.superseded:
            return Written.UNCHANGED
        if change.id not in said:
            self._one("set_supersedes", memory=newer.key, names=dumped(ids((*said, change.id))))
        if not memory.superseded:
            self._mark(memory.key, superseded=True)
        self._happened(memory, Written.SUPERSEDED, access, change.by)
        return Written.SUPERSEDED

    def _restore(self, memory: Before, access: Access) -> Written:
        if not memory.superseded:
            return Written.UNCHANGED
        self._mark(memory.key, superseded=False)
        self._happened(memory, Written.RESTORED, access)
        return Written.RESTORED

    def _dispute(self, memory: Before, change: Change, access: Access) -> Written | Refusal:
        other = None if change.by is None else self._in_reach(change.by, access)
        if other is None or change.by is None or other.key == memory.key:
            return Refusal.UNKNOWN_REFERENCE
        said = self._references(memory)[1]
        if change.by in said:
            return Written.UNCHANGED
        self._one("set_disputes", memory=memory.key, names=dumped(ids((*said, change.by))))
        self._happened(memory, Written.DISPUTED, access, change.by)
        return Written.DISPUTED

    def _references(self, memory: Before) -> tuple[tuple[MemoryId, ...], tuple[MemoryId, ...]]:
        supersedes, disputes = self._one("references_of", memory=memory.key)[0]
        return names_of(supersedes), names_of(disputes)

    def _meant(self, what: Forgetting, access: Access) -> list[Chosen]:
        """The memories in reach for which all holds that is stated; none when they are named."""
        if what.names is not None:
            return []
        scope = reach(access)
        shelves = shelves_reached(self._db, self._sql, scope).all
        stated = {"scope": what.scope, "origin": what.origin, "actor": what.actor, "expired": what.expired}
        found = self._one("meant", shelves=shelves, now=scope["now"], **stated)
        return [(key, shelf, MemoryId(Source(source), name)) for key, shelf, source, name in found]

    def _forget_earlier(self, what: Forgetting, without: set[int], access: Access, *, dry_run: bool) -> int:
        """How many versions an actor wrote that others replaced; all of an actor is forgotten with them."""
        if what.actor is None or what.names is not None:
            return 0
        memories = dumped([key for key, _, _ in self._meant(replace(what, actor=None), access) if key not in without])
        number: int = self._one("count_earlier", memories=memories, actor=what.actor)[0][0]
        if number and not dry_run:
            self._one("drop_earlier", memories=memories, actor=what.actor)
        return number

    def _take_out(self, chosen: Sequence[Chosen]) -> None:
        used = [(actor, key) for _, actor, key, *_ in self._one("keys_of", memories=dumped([key for key, _, _ in chosen]))]
        self._many("add_tombstone", [(self._org, tombstone(self._org, *each)) for each in used])
        self._many("drop_receipt", [(self._org, *each) for each in used])
        self._one("forget_names", names=dumped([name_text(name) for _, _, name in chosen]))
        for key, _, _ in chosen:
            self._drop_passages(key)
            for name in ("drop_tags", "drop_past", "drop_derived", "drop_memory"):
                self._one(name, memory=key)
        self.finish()
        left = dumped(sorted({shelf for _, shelf, _ in chosen}))
        self._one("drop_counts", shelves=left)
        self._one("drop_shelves", shelves=left)
        self._one("merge_phrases")

    def _taken(self, whole: Whole) -> Refusal | None:
        """Why the keys of a memory cannot come along."""
        for each in whole.keys:
            if self._one("receipt_of", actor=each.actor, key=each.key):
                return Refusal.KEY_CONFLICT
            if self._one("tombstone_of", mark=tombstone(self._org, each.actor, each.key)):
                return Refusal.KEY_FORGOTTEN
        return None

    def _whole(self, name: MemoryId, memory: Before) -> Whole:
        found = self._one("wholes", names=dumped(ids([name])), shelves=dumped([memory.shelf]))
        return wholes_of(self._db, self._sql, self._org, found)[0]
