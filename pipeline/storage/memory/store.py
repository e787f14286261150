"""A store of plain lists: every question is a loop over everything, so that it is easy to see that the answer is right."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import ALIAS, Change, Dropped, Entry, Forgetting, Forgotten, Lent, Receipt, Whole
from remit.pipeline.storage.memory.finding import Indexed, Kept, find
from remit.pipeline.storage.memory.life import Life
from remit.pipeline.storage.memory.loans import Loans
from remit.pipeline.storage.store import Capabilities, Fault, Plan
from remit.stages.access import Access, Approval
from remit.stages.evidence import Memory, MemoryId, Outline, PassageId
from remit.stages.ports import Found, Wanted
from remit.stages.request import Source

LATEST = datetime.max.replace(tzinfo=UTC)


class MemoryStore:
    """Keeps everything in dictionaries, gone when the process ends. Nothing in it waits, so no call is ever half done."""

    def __init__(self, signature: str) -> None:
        self._signature = signature
        self._identity = token_hex(16)
        self._kept: dict[tuple[str, MemoryId], Kept] = {}
        self._life = Life(self._kept)
        self._loans = Loans(self._kept)
        self._granted: set[tuple[str, str, str]] = set()
        self._roots: set[tuple[str, str]] = set()

    async def __aenter__(self) -> MemoryStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Nothing to give back."""

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found = find(wanted, self._still(access), [(kept, each) for kept in self._kept.values() for each in kept.passages])
        if wanted.likely is None or wanted.seconds <= 0:
            return found
        return replace(found, outlines=self._outlines(wanted.likely(found), access))

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        return self._outlines(keys, access)

    def _outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        wanted, access = set(keys), self._still(access)
        return {
            each.key: _outline(kept, each)
            for kept in self._kept.values()
            if access.admits(kept.label)
            for each in kept.passages
            if each.key in wanted
        }

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        turns = [kept for kept in self._kept.values() if _is_turn(kept) and kept.passages and access.admits(kept.label)]
        return {
            each.key: [other.passages[0].key for other in _around(kept, turns, reach, within)]
            for kept in turns
            for each in kept.passages
            if each.key in keys
        }

    async def vocabulary(self, shortest: int, longest: int, access: Access) -> Sequence[str]:
        access = self._still(access)
        words = {
            word
            for kept in self._kept.values()
            if kept.findable and access.reaches(kept.label.shelf)
            for each in kept.passages
            for word in each.passage.words
            if not word.startswith(ALIAS) and shortest <= len(word) <= longest
        }
        return sorted(words)

    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        found = {}
        for wanted in passages:
            kept = self._reached(wanted.memory, access)
            for each in kept.passages if kept else ():
                if kept and each.passage.ordinal == wanted.ordinal:
                    found[wanted] = _memory(kept, each)
        return found

    async def passages_of(self, memory: MemoryId, access: Access) -> Sequence[PassageId]:
        kept = self._reached(memory, access)
        approved = kept is not None and kept.label.approval is Approval.APPROVED
        return [PassageId(memory, each.passage.ordinal) for each in kept.passages] if kept and approved else []

    async def brief(self, access: Access, *, pinned: int, important: int, recent: int) -> Sequence[Memory]:
        access = self._still(access)
        standing = [kept for kept in self._kept.values() if access.admits(kept.label) and kept.passages]
        facts = sorted((kept for kept in standing if kept.record.id.source is Source.FACT), key=_by_importance)
        sessions = sorted((kept for kept in standing if kept.record.id.source is Source.SESSION), key=_by_age)
        chosen = [
            *[kept for kept in facts if kept.record.pinned][:pinned],
            *[kept for kept in facts if not kept.record.pinned][:important],
            *sessions[:recent],
        ]
        return [_memory(kept, kept.passages[0]) for kept in chosen]

    async def coverage(self, space: str, access: Access) -> tuple[int, int]:
        access = self._still(access)
        standing = [each for kept in self._kept.values() if access.admits(kept.label) for each in kept.passages]
        return sum(space in each.passage.vectors for each in standing), len(standing)

    async def lend_passages(self, space: str, after: int, most: int, until: datetime, access: Access) -> Lent:
        return self._loans.lend(space, after, most, until, self._still(access))

    async def keep_vectors(self, space: str, vectors: Mapping[int, NDArray[np.float32] | None], access: Access) -> int:
        return self._loans.keep(space, vectors, self._still(access))

    async def spaces(self, access: Access) -> Mapping[str, int]:
        return self._loans.spaces(self._still(access))

    async def drop_vectors(self, keep: Collection[str], after: int, access: Access) -> Dropped:
        return self._loans.drop(keep, after, self._still(access))

    async def roots(self, org: str) -> Sequence[str]:
        return sorted(path for of, path in self._roots if of == org)

    async def add_root(self, org: str, path: str) -> None:
        self._roots.add((org, path))

    async def drop_root(self, org: str, path: str) -> bool:
        known = (org, path) in self._roots
        self._roots.discard((org, path))
        return known

    async def grant(self, actor: str, org: str, scope: str) -> None:
        self._granted.add((org, actor, scope))

    async def revoke(self, actor: str, org: str, scope: str) -> bool:
        known = (org, actor, scope) in self._granted
        self._granted.discard((org, actor, scope))
        return known

    async def granted(self, actor: str, org: str) -> Sequence[str]:
        return self._held(actor, org)

    async def identity(self) -> str:
        return self._identity

    async def capabilities(self) -> Capabilities:
        return Capabilities(facts={"store": "memory", "analyser": self._signature})

    async def plans(self) -> Sequence[Plan]:
        return []

    async def faults(self) -> Sequence[Fault]:
        return []

    async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
        return [self._life.put(entry, self._still(access)) for entry in entries]

    async def change(self, changes: Sequence[Change], access: Access) -> list[Receipt]:
        return [self._life.change(each, self._still(access)) for each in changes]

    async def forget(self, what: Forgetting, access: Access, *, dry_run: bool = False) -> Forgotten:
        return self._life.forget(what, self._still(access), dry_run=dry_run)

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]:
        return {name: self._life.whole(kept) for name in names if (kept := self._reached(name, access)) is not None}

    async def exported(self, after: MemoryId | None, most: int, access: Access) -> Sequence[Whole]:
        access = self._still(access)
        reached = [kept for kept in self._kept.values() if access.reaches(kept.label.shelf)]
        behind = sorted((kept.record.id, kept) for kept in reached if after is None or kept.record.id > after)
        return [self._life.whole(kept) for _, kept in behind[: max(0, most)]]

    async def imported(self, wholes: Sequence[Whole], access: Access) -> list[Receipt]:
        return [self._life.imported(each, self._still(access)) for each in wholes]

    async def reindexed(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            place = (entry.record.label.shelf.org, entry.record.id)
            kept = self._kept.get(place)
            if kept is not None and kept.record.digest == entry.record.digest:
                self._kept[place] = replace(kept, passages=self._life.numbered(entry.passages))

    async def records(self, after: tuple[str, MemoryId] | None, most: int) -> Sequence[tuple[str, Entry]]:
        behind = sorted(place for place in self._kept if after is None or place > after)
        return [(org, Entry(record=self._kept[org, memory].record, passages=())) for org, memory in behind[:most]]

    async def signed(self) -> None:
        """Nothing outlives the process, so nothing was made by another analyser."""

    def _reached(self, memory: MemoryId, access: Access) -> Kept | None:
        kept = self._kept.get((access.org, memory))
        return kept if kept is not None and self._still(access).reaches(kept.label.shelf) else None

    def _still(self, access: Access) -> Access:
        """The access as it is granted now, where the grants are kept here."""
        return access.left(self._held(access.actor, access.org)) if access.kept else access

    def _held(self, actor: str, org: str) -> list[str]:
        return sorted(scope for of, whom, scope in self._granted if (of, whom) == (org, actor))


async def open_memory(signature: str) -> MemoryStore:
    """An empty store. `signature` names the analyser whose words it is given."""
    return MemoryStore(signature)


def _is_turn(kept: Kept) -> bool:
    return kept.record.id.source is Source.SESSION and kept.label.shelf.of_conversation


def _around(kept: Kept, turns: Sequence[Kept], reach: int, within: timedelta) -> list[Kept]:
    """The turns of the same conversation that were made last before this one, and first after it."""

    def made(other: Kept) -> tuple[datetime, str]:
        return other.record.created_at, other.record.id.id

    now = kept.record.created_at
    near = [each for each in turns if each.label.shelf == kept.label.shelf and abs(each.record.created_at - now) <= within]
    before = sorted((each for each in near if each.record.created_at < now), key=made, reverse=True)
    after = sorted((each for each in near if each.record.created_at > now), key=made)
    return [*before[:reach], *after[:reach]]


def _outline(kept: Kept, each: Indexed) -> Outline:
    record = kept.record
    return Outline(
        key=each.key,
        passage=PassageId(record.id, each.passage.ordinal),
        scope=record.label.shelf.scope,
        version=kept.version,
        aged_from=record.ended_at or record.created_at,
        importance=record.importance,
        pinned=record.pinned,
        status=record.status,
    )


def _memory(kept: Kept, each: Indexed) -> Memory:
    record = kept.record
    return Memory(
        passage=PassageId(record.id, each.passage.ordinal),
        version=kept.version,
        label=record.label,
        title=record.title,
        text=each.passage.text,
        created_at=record.created_at,
        ended_at=record.ended_at,
        importance=record.importance,
        pinned=record.pinned,
        status=record.status,
        trust=record.trust,
        origin=record.origin,
        tags=record.tags,
        claims=record.claims,
        disputes=record.disputes,
        derived_from=record.derived_from,
        start=each.passage.start,
        end=each.passage.end,
    )


def _by_importance(kept: Kept) -> tuple[float, str]:
    return -kept.record.importance, kept.record.id.id


def _by_age(kept: Kept) -> tuple[timedelta, str]:
    return LATEST - (kept.record.ended_at or kept.record.created_at), kept.record.id.id
