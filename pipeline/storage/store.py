"""What every store can do, and what it tells of itself. One behaviour suite runs against all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import Change, Dropped, Entry, Forgetting, Forgotten, Lent, Receipt, Whole
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, PassageId
from remit.stages.ports import Finder, Reader

RAN = "ran"
NOTHING_ASKED = "nothing_asked"
NOTHING_ALLOWED = "nothing_allowed"
OUT_OF_TIME = "out_of_time"
"""What `Found.routes` says of a route, beside a capability's own reason: it ran, had nothing to look up, had a ceiling of 0, was late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the store at hand can do, read from it and never remembered from another.

    `vectors` is None when vectors can be searched, else why not, and `fix` what to do; `dimensions` is the most that a vector may have to
    be kept, None for any number. `facts` are lines for `remit doctor`: name → value.
    """

    vectors: str | None = None
    dimensions: int | None = None
    fix: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something about the store that is not as it should be, and the fix."""

    code: str
    detail: str
    fix: str


class Bound(StrEnum):
    """What keeps a scan within the org: the index leads to its rows alone, or to one row by a key that a row of it gave, or the org of each
    row is looked at; else nothing does."""

    INDEX = "index"
    KEY = "key"
    ROW = "row"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A table that a statement looks at, by which index (None: all of it), and what keeps that within the org."""

    table: str
    index: str | None
    within: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the database goes about one statement of a search, whatever it is asked: what it scans, and all that it tells of it."""

    statement: str
    scans: tuple[Scan, ...]
    text: str


class Store(Finder, Reader, Protocol):
    """A place where memories live. Methods raise `StorageUnavailable` when it cannot be asked, and leave nothing half done."""

    async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
        """Writes what `access` may write, one receipt an entry, in order; durable when it returns.

        One by one: unchanged digest → `unchanged` (version stays); another digest → `replaced`, version + 1, all old passages, words
        and vectors gone; new → `stored`, version 1. A used `key` with other content or another id → refused `key_conflict`; with the
        same content → the receipt of the first write; one that was forgotten → refused `key_forgotten`. `supersedes` marks those
        memories, when access reaches them; one it does not reach, or that is not there, → refused `unknown_reference`, alike, and so
        for `derived_from`, above whose lowest trust that of the memory is never kept. When its trust is lower than that of what is
        derived from it, the latter is lowered too, wherever in the org it lies. A memory that exists on a shelf that access does not
        reach → refused `not_authorised`. A refusal never touches the other entries. What was replaced goes into the history, by
        `access.actor` at `access.as_of`.
        """
        ...

    async def change(self, changes: Sequence[Change], access: Access) -> list[Receipt]:
        """Changes how memories stand, one receipt each, in order; durable when it returns, all in one transaction.

        `approved` puts the given passages, words and vectors into the indexes, and marks what the memory supersedes, or is refused
        `unknown_reference`; one that is another version than `seen` is refused `revised`. `rejected` takes them out. `superseded`: `by`
        takes its place, at once when `by` is approved, else when it becomes so; a `by` that is superseded itself is refused
        `not_standing`. `restored` takes that back. `disputed`: `by` is noted as saying otherwise. Versions and digests stay. What is so
        already is `unchanged`. A memory that is not there and one that access does not reach are refused `unknown_memory`, alike, a
        `by` of that kind `unknown_reference`.
        """
        ...

    async def forget(self, what: Forgetting, access: Access, *, dry_run: bool = False) -> Forgotten:
        """Takes memories that access reaches out of everything, in one transaction, or with `dry_run` only counts.

        Nothing of their text, words, names and keys is left in the store; of each key only `tombstone`. Of an `actor`, earlier versions
        which others replaced go as well. Named ones have receipts: `forgotten`, or refused `unknown_memory`. What they superseded
        stays superseded, what was derived from them stays.
        """
        ...

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]:
        """All there is of these memories, of those on shelves that access reaches, whether or not they stand."""
        ...

    async def exported(self, after: MemoryId | None, most: int, access: Access) -> Sequence[Whole]:
        """All there is of the next `most` memories in reach behind `after`, in order of (source, id)."""
        ...

    async def imported(self, wholes: Sequence[Whole], access: Access) -> list[Receipt]:
        """Writes memories exactly as they stood in another store, history and keys included, one receipt each.

        One that stands here just so is `unchanged`, another under its name refused `other_content`, a key that stands for another write
        refused `key_conflict`, a key that was forgotten here refused `key_forgotten`. References are not looked up; trust is kept
        as `put` keeps it, of the parents that are there.
        """
        ...

    async def passages_of(self, memory: MemoryId, access: Access) -> Sequence[PassageId]:
        """The passages of an approved memory on a shelf that access reaches, also when it was superseded or its time is not now; else
        nothing: what is not approved may not be read, and is as if it were not there."""
        ...

    async def brief(self, access: Access, *, pinned: int, important: int, recent: int) -> Sequence[Memory]:
        """Standing memories for a start-up brief: pinned facts, then facts by importance, then sessions, latest first.

        Each group is ordered (facts: importance down, then id by code point; sessions: age, then id) and no longer than its number;
        pinned facts are not repeated among the important ones.
        """
        ...

    async def coverage(self, space: str, access: Access) -> tuple[int, int]:
        """How many standing passages in reach have a vector of this space, or nothing to embed, and how many there are."""
        ...

    async def lend_passages(self, space: str, after: int, most: int, until: datetime, access: Access) -> Lent:
        """The next `most` passages in reach with a key behind `after` that lack a vector of this space, in order of their keys.

        They are of approved memories that are not superseded, in their time or not. Until `until` nobody else is lent them; what is
        lent to somebody is passed by. `access.as_of` is the time of day. One look goes through a bounded number of passages, so
        that it may find nothing although it is not the end.
        """
        ...

    async def keep_vectors(self, space: str, vectors: Mapping[int, NDArray[np.float32] | None], access: Access) -> int:
        """Gives lent passages their vectors of a space, by key, and tells how many were kept; durable when it returns.

        `NOTHING` is kept for what has nothing to embed. What is None or has no direction, what was replaced, withdrawn, forgotten or is
        out of reach by now, and what has such a vector already is left as it is. Nobody has any of them on loan after that.
        """
        ...

    async def spaces(self, access: Access) -> Mapping[str, int]:
        """How many vectors of each space stand in reach at every time; of what is bound to a time there may be more."""
        ...

    async def drop_vectors(self, keep: Collection[str], after: int, access: Access) -> Dropped:
        """Drops the vectors of all spaces but these from a bounded number of passages in reach with a key behind `after`."""
        ...

    async def roots(self, org: str) -> Sequence[str]:
        """Folders and files in which `file:` origins of an org may be read, sorted."""
        ...

    async def add_root(self, org: str, path: str) -> None: ...

    async def drop_root(self, org: str, path: str) -> bool:
        """Whether it was one."""
        ...

    async def grant(self, actor: str, org: str, scope: str) -> None:
        """Grants an actor of an org a scope, by its whole name; granting again changes nothing."""
        ...

    async def revoke(self, actor: str, org: str, scope: str) -> bool:
        """Takes a grant back, for every recall that begins from now on; whether there was one."""
        ...

    async def granted(self, actor: str, org: str) -> Sequence[str]:
        """The scopes granted to an actor of an org, sorted."""
        ...

    async def identity(self) -> str:
        """The name of this very store: random, given when it was made, and kept by a copy of it."""
        ...

    async def capabilities(self) -> Capabilities: ...

    async def plans(self) -> Sequence[Plan]:
        """The plans of the statements of a search, asked on behalf of an org that is made up: no content, no value and no count is in them.

        Empty where a store plans nothing.
        """
        ...

    async def faults(self) -> Sequence[Fault]:
        """What is wrong with the store as it stands: broken indexes, rows and indexes that disagree, another analyser's words."""
        ...

    async def reindexed(self, entries: Sequence[Entry]) -> None:
        """Replaces passages, words and vectors of memories that already stand here; versions stay."""
        ...

    async def records(self, after: tuple[str, MemoryId] | None, most: int) -> Sequence[tuple[str, Entry]]:
        """For maintenance by the host: (org, entry) in order of (org, source, id) behind `after`, passages left out."""
        ...

    async def signed(self) -> None:
        """Says that all indexes are made by the analyser this store was opened with: the end of a reindexing."""
        ...

    async def close(self) -> None: ...
