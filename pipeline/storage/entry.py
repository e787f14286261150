"""What is written to a store: a checked memory with the passages, words and vectors that its indexes hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from remit.stages.access import Label
from remit.stages.evidence import Claim, MemoryId, Origin, Status, Trust

ALIAS = "="
"""An alias is indexed as one word, this mark and then its words with single spaces between; no other word begins with it."""

NOTHING: NDArray[np.float32] = np.zeros(0, np.float32)
"""Kept in place of a vector for what a space has nothing to embed of: it is compared with nothing, and asked for no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A memory as its owner stated it, checked and normalised; times are aware and in UTC.

    `digest` is the SHA-256 of everything stated, so equal digests mean nothing changed; `key` is the idempotency key of the write, one
    among those of its `actor`.
    """

    id: MemoryId
    label: Label
    title: str
    text: str
    created_at: datetime
    digest: str
    actor: str
    ended_at: datetime | None = None
    importance: float = 0.0
    pinned: bool = False
    status: Status = Status.ACTIVE
    trust: Trust = Trust.STATED
    origin: Origin | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    supersedes: tuple[MemoryId, ...] = ()
    disputes: tuple[MemoryId, ...] = ()
    derived_from: tuple[MemoryId, ...] = ()
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One passage as it is indexed.

    `start` and `end` are byte offsets in the memory's UTF-8 text. `words` is word → how often it stands here, aliases included;
    `length` counts the words of the text for BM25. `plain` holds the unstemmed words in order, space separated, for phrases.
    `vectors` is space → float32 unit vector, or `NOTHING` where the text has nothing to embed.
    """

    ordinal: int
    start: int
    end: int
    text: str
    words: Mapping[str, int]
    length: int
    plain: str
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record and its passages, in order."""

    record: Record
    passages: tuple[Passage, ...]


class Written(StrEnum):
    """What became of one item of a write, or of one memory in its life."""

    STORED = "stored"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    REFUSED = "refused"
    APPROVED = "approved"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    RESTORED = "restored"
    DISPUTED = "disputed"
    FORGOTTEN = "forgotten"


class Refusal(StrEnum):
    """Why an item was not taken in, or a memory not changed. The list is closed; `ops/runbook.md` explains each."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    NOT_AUTHORISED = "not_authorised"
    KEY_CONFLICT = "key_conflict"
    KEY_FORGOTTEN = "key_forgotten"
    UNKNOWN_REFERENCE = "unknown_reference"
    UNKNOWN_MEMORY = "unknown_memory"
    ORIGIN_CHANGED = "origin_changed"
    REVISED = "revised"
    NOT_STANDING = "not_standing"
    OTHER_CONTENT = "other_content"
    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    UNREADABLE = "unreadable"
    UNKNOWN_KIND = "unknown_kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of one item of a write. `code` says why it was refused; the list of codes stands in `ops/runbook.md`."""

    id: str
    written: Written
    version: int = 0
    code: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a memory: who did what to which version of it, and when.

    A version (`stored`, `replaced`) has its digest, title and text; `by` is the memory that took its place, of one `superseded`, or
    that says otherwise, of one `disputed`; None when that was forgotten.
    """

    what: Written
    version: int
    actor: str
    at: datetime
    digest: str = ""
    title: str = ""
    text: str = ""
    by: MemoryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """An idempotency key that a memory was written with, by whom, and what the first write with it was told."""

    actor: str
    key: str
    digest: str
    written: Written
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """All there is of a memory: as it stands, with its number of versions, when this one was written, and what was before.

    `entry.passages` are empty when it comes out of a store, for they are made anew where it goes. `past` leaves out the version that
    stands; `keys` are sorted.
    """

    entry: Entry
    version: int
    written_at: datetime
    past: tuple[Event, ...] = ()
    keys: tuple[Keyed, ...] = ()

    @property
    def standing(self) -> Event:
        """The version that stands."""
        record = self.entry.record
        return Event(
            what=Written.STORED if self.version == 1 else Written.REPLACED,
            version=self.version,
            actor=record.actor,
            at=self.written_at,
            digest=record.digest,
            title=record.title,
            text=record.text,
        )

    @property
    def history(self) -> tuple[Event, ...]:
        """What happened, version by version, the one that stands among them."""
        return in_order([*self.past, self.standing])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A passage without a vector of some space: under the key its store gave it, which no later version of it has."""

    key: int
    memory: MemoryId
    ordinal: int
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """Passages lent to who embeds them. `after` is the key behind which the next look begins, None at the end; `elsewhere` how many
    this look passed by because somebody else has them."""

    passages: tuple[Lacking, ...]
    after: int | None
    elsewhere: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """How many vectors were dropped, and the key behind which the next look begins, None at the end."""

    vectors: int
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to become of a memory that stands in a store.

    `entry` is the memory with new passages, for one to be approved, made of its version `seen`; `by` the memory that takes its place
    or disputes it.
    """

    what: Written
    id: MemoryId
    entry: Entry | None = None
    seen: int = 0
    by: MemoryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """Which memories are to be forgotten: those named, or all for which every condition that is stated holds.

    `scope` is a whole name, `origin` a whole URI, `actor` who wrote the version that stands; `expired` those whose `expires_at` has come.
    """

    names: tuple[MemoryId, ...] | None = None
    origin: str | None = None
    scope: str | None = None
    actor: str | None = None
    expired: bool = False


LOOK = 4096
"""Passages looked at in one transaction for what they lack: some ten milliseconds, so that no writer waits long."""

PARTS = ("memories", "passages", "words", "vectors", "tags", "versions", "keys")
"""What forgetting counts: the memories themselves, their passages, places of words, vectors and tags in the indexes, earlier versions
and other events of their history, and idempotency keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was forgotten, or would be: a receipt for each memory that was named, and how much of each of `PARTS` went."""

    counts: Mapping[str, int]
    receipts: tuple[Receipt, ...] = ()
    dry_run: bool = False


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Events version by version, each version before what happened to it."""
    return tuple(sorted(events, key=lambda event: (event.version, event.what not in (Written.STORED, Written.REPLACED))))


def or_nothing(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """What is kept of what an embedder made of a text: its vector, or `NOTHING` when it is zero."""
    return vector if np.count_nonzero(vector) else NOTHING


def worth_keeping(vector: NDArray[np.float32]) -> bool:
    """Whether it has a direction, or is `NOTHING`; zero and what is no number is kept by no store."""
    return not vector.size or bool(np.count_nonzero(vector) and np.count_nonzero(np.isfinite(vector)) == vector.size)


def lowest(stated: Trust, parents: Iterable[Trust]) -> Trust:
    """The trust of a memory: what is stated, but never above what it is derived from."""
    return max((stated, *parents), key=tuple(Trust).index)


def tombstone(org: str, actor: str, key: str) -> str:
    """What is left of an idempotency key that was forgotten: enough to know it again, and nothing to read."""
    return sha256(f"{org}\0{actor}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def refused(memory: MemoryId, code: Refusal) -> Receipt:
    return Receipt(id=str(memory), written=Written.REFUSED, code=code)


def alike(here: Whole, there: Whole) -> bool:
    """Whether a memory that comes stands here already; but for trust, which follows what it is derived from here."""
    record = replace(there.entry.record, trust=here.entry.record.trust)
    return replace(there, entry=Entry(record=record, passages=())) == here
