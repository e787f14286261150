"""What is written to a store: a checked memory with the passages, words and vectors that its indexes hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from remit.stages.access import Label
from remit.stages.evidence import Claim, MemoryId, Origin, Status, Trust

ALIAS = "="
"""An alias is indexed as one word, this mark and then its words with single spaces between; no other word begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A memory as its owner stated it, checked and normalised; times are aware and in UTC.

    `digest` is the SHA-256 of everything stated, so equal digests mean nothing changed; `key` is the idempotency key of the write.
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
    `vectors` is space → float32 unit vector; a text with nothing to embed has none.
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
    STORED = "stored"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    REFUSED = "refused"


class Refusal(StrEnum):
    """Why an item was not taken in. The list is closed; `ops/runbook.md` explains each."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    NOT_AUTHORISED = "not_authorised"
    KEY_CONFLICT = "key_conflict"
    UNKNOWN_REFERENCE = "unknown_reference"
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
