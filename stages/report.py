"""What a stage tells of its work: what it kept, what it rejected and why, and whether a limit cut it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from remit.stages.ceiling import Limit

T = TypeVar("T")


class StageName(StrEnum):
    GENERATE = "generate"
    DEDUPE = "dedupe"
    RANK = "rank"
    VERIFY = "verify"
    PACK = "pack"


class Reason(StrEnum):
    """Why a stage let an item go. The list is closed; `ops/runbook.md` explains each."""

    WEAK = "weak"
    FILTERED = "filtered"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    OVER_CEILING = "over_ceiling"
    DUPLICATE = "duplicate"
    COLLAPSED = "collapsed"
    SHARE = "share"
    LIMIT = "limit"
    GONE = "gone"
    REVISED = "revised"
    WITHDRAWN = "withdrawn"
    CHANGED = "changed"
    MISSING = "missing"
    INACCESSIBLE = "inaccessible"
    UNVERIFIED = "unverified"
    UNFINISHED = "unfinished"
    REPEATS = "repeats"
    OVERSIZED = "oversized"
    NO_ROOM = "no_room"
    PASSAGES = "passages"
    SEEN = "seen"


class Degradation(StrEnum):
    """What a recall had to do without. The list is closed; `ops/runbook.md` explains each."""

    NO_VECTORS = "no_vectors"
    EMBEDDINGS_OFF = "embeddings_off"
    EMBEDDING_FAILED = "embedding_failed"
    EMBEDDING_DISABLED = "embedding_disabled"
    EMBEDDING_PENDING = "embedding_pending"
    EMBEDDING_INCOMPATIBLE = "embedding_incompatible"
    RERANKER_FAILED = "reranker_failed"
    RECENT_ONLY = "recent_only"
    COMMON_WORDS_LEFT_OUT = "common_words_left_out"
    NEAR_WORDS = "near_words"
    UNWATCHED = "unwatched"
    UNVERIFIED = "unverified"
    RECEIPT_FAILED = "receipt_failed"


class Unbalanced(Exception):
    """A stage lost count: what it received is not what it kept and rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(Generic[T]):
    """A stage's result. It always balances: `received == len(kept) + sum(rejected.values())`, or `Unbalanced` is raised.

    `exhausted` names the limit that cut something; a limit met exactly, with nothing cut, is not exhausted.
    """

    received: int
    kept: tuple[T, ...]
    rejected: Mapping[Reason, int] = field(default_factory=dict)
    exhausted: Limit | None = None
    degraded: tuple[Degradation, ...] = ()

    def __post_init__(self) -> None:
        if self.received != len(self.kept) + sum(self.rejected.values()) or min(self.rejected.values(), default=0) < 0:
            raise Unbalanced(f"received {self.received}, kept {len(self.kept)}, rejected {dict(self.rejected)}")
