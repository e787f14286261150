"""The life of memories in dictionaries: written, approved, superseded, forgotten, carried over; each rule in its plainest form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import (
    PARTS,
    Change,
    Entry,
    Event,
    Forgetting,
    Forgotten,
    Keyed,
    Passage,
    Receipt,
    Record,
    Refusal,
    Whole,
    Written,
    alike,
    in_order,
    lowest,
    refused,
    tombstone,
    worth_keeping,
)
from remit.pipeline.storage.memory.finding import Indexed, Kept
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId, Trust


@dataclass(frozen=True, slots=True)
class First:
    """What became of the first write with an idempotency key."""

    id: MemoryId
    digest: str
    receipt: Receipt


class Life:
    """Changes what a store keeps, one memory after the other; what a refusal needs is looked at before anything is changed."""

    def __init__(self, kept: MutableMapping[tuple[str, MemoryId], Kept]) -> None:
        self._kept = kept
        self._first: dict[tuple[str, str, str], First] = {}
        self._tombstones: set[str] = set()
        self._keys = count(1)

    def put(self, entry: Entry, access: Access) -> Receipt:
        record, org = entry.record, access.org
        if not access.reaches(record.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        first = self._first.get((org, record.actor, record.key)) if record.key is not None else None
        if first is not None and (first.id, first.digest) != (record.id, record.digest):
            return refused(record.id, Refusal.KEY_CONFLICT)
        if first is not None:
            return first.receipt
        if record.key is not None and tombstone(org, record.actor, record.key) in self._tombstones:
            return refused(record.id, Refusal.KEY_FORGOTTEN)
        before = self._reached(record.id, access)
        if before is not None and before.record.digest == record.digest:
            return self._told(record, org, Receipt(id=str(record.id), written=Written.UNCHANGED, version=before.version))
        if any(each == record.id or self._reached(each, access) is None for each in (*record.supersedes, *record.derived_from)):
            return refused(record.id, Refusal.UNKNOWN_REFERENCE)
        if before is not None and record.label.approval is Approval.APPROVED and self._takes_a_place_out_of_its_own(record, before, access):
            return refused(record.id, Refusal.NOT_STANDING)
        if before is None and (org, record.id) in self._kept:
            return refused(record.id, Refusal.NOT_AUTHORISED)
        return self._told(record, org, self._stored(entry, access, before))

    def change(self, change: Change, access: Access) -> Receipt:
        kept = self._reached(change.id, access)
        if kept is None:
            return refused(change.id, Refusal.UNKNOWN_MEMORY)
        match change.what:
            case Written.APPROVED:
                done = self._approved(kept, change, access)
            case Written.REJECTED:
                done = self._rejected(kept, access)
            case Written.SUPERSEDED:
                done = self._superseded(kept, change.by, access)
            case Written.RESTORED:
                done = self._restored(kept, access)
            case Written.DISPUTED:
                done = self._disputed(kept, change.by, access)
            case _:
                raise ValueError(f"{change.what} is no change")
        if isinstance(done, Refusal):
            return refused(change.id, done)
        return Receipt(id=str(change.id), written=done, version=kept.version)

    def forget(self, what: Forgetting, access: Access, *, dry_run: bool) -> Forgotten:
        chosen = [kept for kept in self._kept.values() if access.reaches(kept.label.shelf) and _meant(kept, what, access)]
        counts = Counter(dict.fromkeys(PARTS, 0))
        for kept in chosen:
            counts.update(self._parts(kept, access.org))
        others = self._written_earlier(what, access, {kept.record.id for kept in chosen})
        counts["versions"] += sum(len(gone) for _, gone in others)
        if not dry_run:
            self._take_out([kept.record.id for kept in chosen], access.org)
            for kept, gone in others:
                self._kept[access.org, kept.record.id] = replace(kept, past=tuple(each for each in kept.past if each not in gone))
        known = {kept.record.id: kept.version for kept in chosen}
        receipts = tuple(
            Receipt(id=str(name), written=Written.FORGOTTEN, version=known[name])
            if name in known
            else refused(name, Refusal.UNKNOWN_MEMORY)
            for name in what.names or ()
        )
        return Forgotten(counts=dict(counts), receipts=receipts, dry_run=dry_run)

    def imported(self, whole: Whole, access: Access) -> Receipt:
        record, org = whole.entry.record, access.org
        if not access.reaches(record.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        before = self._kept.get((org, record.id))
        if before is not None and not access.reaches(before.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if before is not None:
            told = Receipt(id=str(record.id), written=Written.UNCHANGED, version=before.version)
            return told if alike(self.whole(before), whole) else refused(record.id, Refusal.OTHER_CONTENT)
        for each in whole.keys:
            if (org, each.actor, each.key) in self._first:
                return refused(record.id, Refusal.KEY_CONFLICT)
            if tombstone(org, each.actor, each.key) in self._tombstones:
                return refused(record.id, Refusal.KEY_FORGOTTEN)
        record = replace(record, trust=lowest(record.trust, self._trust_of(record.derived_from, access)))
        self._kept[org, record.id] = Kept(record, whole.version, self.numbered(whole.entry.passages), whole.written_at, whole.past)
        for each in whole.keys:
            receipt = Receipt(id=str(record.id), written=each.written, version=each.version)
            self._first[org, each.actor, each.key] = First(record.id, each.digest, receipt)
        self._lower(record, org)
        return Receipt(id=str(record.id), written=Written.STORED, version=whole.version)

    def whole(self, kept: Kept) -> Whole:
        org = kept.label.shelf.org
        keys = [
            Keyed(actor=actor, key=key, digest=first.digest, written=first.receipt.written, version=first.receipt.version)
            for (of, actor, key), first in self._first.items()
            if (of, first.id) == (org, kept.record.id)
        ]
        return Whole(
            entry=Entry(record=kept.record, passages=()),
            version=kept.version,
            written_at=kept.written_at,
            past=in_order(kept.past),
            keys=tuple(sorted(keys, key=lambda each: (each.key, each.actor))),
        )

    def numbered(self, passages: Sequence[Passage]) -> tuple[Indexed, ...]:
        return tuple(Indexed(next(self._keys), replace(each, vectors=sound(each.vectors))) for each in passages)

    def _stored(self, entry: Entry, access: Access, before: Kept | None) -> Receipt:
        record, version = entry.record, 1 if before is None else before.version + 1
        superseded = record.label.superseded or (before is not None and before.label.superseded)
        trust = lowest(record.trust, self._trust_of(record.derived_from, access))
        record = replace(record, trust=trust, label=replace(record.label, superseded=superseded))
        past = () if before is None else (*before.past, self.whole(before).standing)
        self._kept[access.org, record.id] = Kept(record, version, self.numbered(entry.passages), access.as_of, past)
        if record.label.approval is Approval.APPROVED:
            self._supersede(record, access)
        self._lower(record, access.org)
        return Receipt(id=str(record.id), written=Written.STORED if before is None else Written.REPLACED, version=version)

    def _approved(self, kept: Kept, change: Change, access: Access) -> Written | Refusal:
        if kept.label.approval is Approval.APPROVED:
            return Written.UNCHANGED
        if change.entry is None or change.seen != kept.version or change.entry.record.digest != kept.record.digest:
            return Refusal.REVISED
        if any(self._reached(each, access) is None for each in kept.record.supersedes):
            return Refusal.UNKNOWN_REFERENCE
        if self._takes_a_place_out_of_its_own(kept.record, kept, access):
            return Refusal.NOT_STANDING
        record = replace(kept.record, label=replace(kept.label, approval=Approval.APPROVED))
        self._keep(replace(kept, record=record, passages=self.numbered(change.entry.passages)), Written.APPROVED, access)
        self._supersede(record, access)
        return Written.APPROVED

    def _rejected(self, kept: Kept, access: Access) -> Written:
        if kept.label.approval is Approval.REJECTED:
            return Written.UNCHANGED
        label = replace(kept.label, approval=Approval.REJECTED)
        self._keep(replace(kept, record=replace(kept.record, label=label)), Written.REJECTED, access)
        return Written.REJECTED

    def _superseded(self, kept: Kept, name: MemoryId | None, access: Access) -> Written | Refusal:
        newer = None if name is None else self._reached(name, access)
        if newer is None or name == kept.record.id:
            return Refusal.UNKNOWN_REFERENCE
        if newer.label.superseded or newer.label.approval is not Approval.APPROVED:
            return Refusal.NOT_STANDING
        said = kept.record.id in newer.record.supersedes
        if said and kept.label.superseded:
            return Written.UNCHANGED
        if not said:
            record = replace(newer.record, supersedes=(*newer.record.supersedes, kept.record.id))
            self._kept[access.org, newer.record.id] = replace(newer, record=record)
        self._mark(kept, newer.record.id, access)
        return Written.SUPERSEDED

    def _restored(self, kept: Kept, access: Access) -> Written:
        if not kept.label.superseded:
            return Written.UNCHANGED
        label = replace(kept.label, superseded=False)
        self._keep(replace(kept, record=replace(kept.record, label=label)), Written.RESTORED, access)
        return Written.RESTORED

    def _disputed(self, kept: Kept, name: MemoryId | None, access: Access) -> Written | Refusal:
        if name is None or name == kept.record.id or self._reached(name, access) is None:
            return Refusal.UNKNOWN_REFERENCE
        if name in kept.record.disputes:
            return Written.UNCHANGED
        record = replace(kept.record, disputes=(*kept.record.disputes, name))
        self._keep(replace(kept, record=record), Written.DISPUTED, access, name)
        return Written.DISPUTED

    def _supersede(self, newer: Record, access: Access) -> None:
        for each in newer.supersedes:
            older = self._kept[access.org, each]
            if not older.label.superseded:
                self._mark(older, newer.id, access)

    def _mark(self, older: Kept, by: MemoryId, access: Access) -> None:
        label = replace(older.label, superseded=True)
        self._keep(replace(older, record=replace(older.record, label=label)), Written.SUPERSEDED, access, by)

    def _keep(self, kept: Kept, what: Written, access: Access, by: MemoryId | None = None) -> None:
        event = Event(what=what, version=kept.version, actor=access.actor, at=access.as_of, by=by)
        self._kept[access.org, kept.record.id] = replace(kept, past=(*kept.past, event))

    def _trust_of(self, names: Iterable[MemoryId], access: Access) -> list[Trust]:
        return [kept.record.trust for kept in (self._reached(name, access) for name in names) if kept is not None]

    def _lower(self, parent: Record, org: str) -> None:
        """Whatever is derived from a memory, wherever it lies, is trusted no more than it."""
        for (of, name), kept in list(self._kept.items()):
            trust = lowest(kept.record.trust, [parent.trust])
            if of == org and parent.id in kept.record.derived_from and trust is not kept.record.trust:
                record = replace(kept.record, trust=trust)
                self._kept[of, name] = replace(kept, record=record)
                self._lower(record, org)

    def _parts(self, kept: Kept, org: str) -> dict[str, int]:
        shown = kept.passages if kept.findable else ()
        return {
            "memories": 1,
            "passages": len(kept.passages),
            "words": sum(len(each.passage.words) for each in shown),
            "vectors": sum(len(each.passage.vectors) for each in shown),
            "tags": len(kept.record.tags),
            "versions": len(kept.past),
            "keys": sum((of, first.id) == (org, kept.record.id) for (of, *_), first in self._first.items()),
        }

    def _written_earlier(self, what: Forgetting, access: Access, without: set[MemoryId]) -> list[tuple[Kept, list[Event]]]:
        """What an actor wrote and others replaced, when all of an actor is forgotten."""
        if what.actor is None or what.names is not None:
            return []
        others = replace(what, actor=None)
        left = [kept for name, kept in self._kept.items() if access.reaches(kept.label.shelf) and name[1] not in without]
        found = [
            (kept, [each for each in kept.past if each.digest and each.actor == what.actor])
            for kept in left
            if _meant(kept, others, access)
        ]
        return [(kept, gone) for kept, gone in found if gone]

    def _take_out(self, names: Sequence[MemoryId], org: str) -> None:
        for name in names:
            del self._kept[org, name]
        for used in [used for used, first in self._first.items() if used[0] == org and first.id in names]:
            del self._first[used]
            self._tombstones.add(tombstone(*used))
        for (of, name), kept in self._kept.items():
            if of == org and any(each.by in names for each in kept.past):
                past = tuple(replace(each, by=None) if each.by in names else each for each in kept.past)
                self._kept[of, name] = replace(kept, past=past)

    def _told(self, record: Record, org: str, receipt: Receipt) -> Receipt:
        if record.key is not None:
            self._first[org, record.actor, record.key] = First(record.id, record.digest, receipt)
        return receipt

    def _takes_a_place_out_of_its_own(self, record: Record, kept: Kept, access: Access) -> bool:
        """Whether it would supersede what stands although it is superseded itself: then neither of the two would stand."""
        older = [self._reached(each, access) for each in record.supersedes]
        return kept.label.superseded and any(each is not None and not each.label.superseded for each in older)

    def _reached(self, memory: MemoryId, access: Access) -> Kept | None:
        kept = self._kept.get((access.org, memory))
        return kept if kept is not None and access.reaches(kept.label.shelf) else None


def _meant(kept: Kept, what: Forgetting, access: Access) -> bool:
    record, expires = kept.record, kept.label.expires_at
    return (
        (what.names is None or record.id in what.names)
        and (what.origin is None or (record.origin is not None and record.origin.uri == what.origin))
        and (what.scope is None or kept.label.shelf.scope == what.scope)
        and (what.actor is None or record.actor == what.actor)
        and (not what.expired or (expires is not None and expires <= access.as_of))
    )


def sound(vectors: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """The vectors that are kept."""
    return {space: vector for space, vector in vectors.items() if worth_keeping(vector)}
