"""A memory on its way through the stages: Hit → Candidate → Ranked → Fresh → Card, each made by one stage only.

Those that a recall makes by the dozen are named tuples, which take a third of the time of a frozen dataclass to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from remit.stages.access import Label
from remit.stages.request import Source


class Lane(StrEnum):
    """A way of finding that votes in the fusion, in the order in which votes are added."""

    SEMANTIC = "semantic"
    LOCAL = "local"
    LEXICAL = "lexical"

    @property
    def vector(self) -> bool:
        return self is not Lane.LEXICAL


class Route(StrEnum):
    """One pass of a lane."""

    LEXICAL = "lexical"
    LOCAL_APPROXIMATE = "local.approximate"
    LOCAL_EXACT = "local.exact"
    SEMANTIC_APPROXIMATE = "semantic.approximate"
    SEMANTIC_EXACT = "semantic.exact"
    RECENT = "recent"


class Status(StrEnum):
    """Whether a doc is in use."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    MISSING = "missing"


class Trust(StrEnum):
    VERIFIED = "verified"
    STATED = "stated"
    UNTRUSTED = "untrusted"


class MatchedBy(StrEnum):
    LEXICAL = "lexical"
    VECTOR = "vector"
    BOTH = "both"


class MemoryId(NamedTuple):
    """A memory's name inside its org, written `source:id`. Sorts by source, then id by code point."""

    source: Source
    id: str

    def __str__(self) -> str:
        return f"{self.source}:{self.id}"


class PassageId(NamedTuple):
    """One passage of a memory: facts and sessions have only passage 0, a doc has one for each chunk."""

    memory: MemoryId
    ordinal: int


class Outline(NamedTuple):
    """What ranking needs to know of a passage; no text. `key` is the store's own number for it and means nothing elsewhere.

    `aged_from` is what a session's age is counted from; `importance` is 0…1.
    """

    key: int
    passage: PassageId
    scope: str
    version: int
    aged_from: datetime
    importance: float = 0.0
    pinned: bool = False
    status: Status = Status.ACTIVE

    @property
    def memory(self) -> MemoryId:
        return self.passage.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a memory came from, and what freshness looks at again. `sha256` is lower-case hex of the bytes at `uri`."""

    uri: str
    version: str | None = None
    sha256: str | None = None
    project: str | None = None
    conversation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something a memory says. Same `about`, other `says` is a dispute; a plain claim has no `about`."""

    says: str
    about: str | None = None


class Memory(NamedTuple):
    """One passage as it stands in the store at the moment it was read, with its text and all of its provenance.

    `start` and `end` are byte offsets of the passage in the doc's UTF-8 text.
    """

    passage: PassageId
    version: int
    label: Label
    title: str
    text: str
    created_at: datetime
    ended_at: datetime | None = None
    importance: float = 0.0
    pinned: bool = False
    status: Status = Status.ACTIVE
    trust: Trust = Trust.STATED
    origin: Origin | None = None
    tags: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    disputes: tuple[MemoryId, ...] = ()
    derived_from: tuple[MemoryId, ...] = ()
    start: int = 0
    end: int = 0

    @property
    def id(self) -> MemoryId:
        return self.passage.memory

    @property
    def scope(self) -> str:
        return self.label.shelf.scope


_NOTHING: Mapping[Lane, float] = MappingProxyType({})


class Hit(NamedTuple):
    """One passage found by one route. Only `generate` makes these. `place` is 0-based inside lane and source."""

    outline: Outline
    lane: Lane
    route: Route
    place: int
    strength: float


class Candidate(NamedTuple):
    """One passage with every lane that found it, each once, at its best place. Only `dedupe` makes these.

    `strengths` is how strongly each of those lanes found it, by that lane's own measure.
    """

    outline: Outline
    ranks: Mapping[Lane, int]
    routes: tuple[Route, ...]
    strengths: Mapping[Lane, float] = _NOTHING


class Ranked(NamedTuple):
    """A candidate in its final order. Only `rank` makes these. `score` is `fused × boost × scope`, rounded to 12 decimals.

    `reranked` is what a reranker said of it, rounded likewise; None when none was asked about it. Of a doc `candidate` is the best
    passage, `ranks` the best place any of its passages has in each lane, and `others` are its other passages that were found, best first.
    `shares` is what was left of the vote of each lane, 0…1, where votes were counted by strength; else empty.
    """

    candidate: Candidate
    ranks: Mapping[Lane, int]
    fused: float
    boost: float
    scope: float
    score: float
    others: tuple[Candidate, ...] = ()
    reranked: float | None = None
    shares: Mapping[Lane, float] = _NOTHING

    @property
    def outline(self) -> Outline:
        return self.candidate.outline

    @property
    def chunks(self) -> int:
        return 1 + len(self.others)

    @property
    def matched_by(self) -> MatchedBy:
        if Lane.LEXICAL not in self.ranks:
            return MatchedBy.VECTOR
        return MatchedBy.BOTH if len(self.ranks) > 1 else MatchedBy.LEXICAL


class Verdict(StrEnum):
    """What looking again at a source found."""

    FRESH = "fresh"
    CHANGED = "changed"
    MISSING = "missing"
    INACCESSIBLE = "inaccessible"
    UNVERIFIED = "unverified"
    UNWATCHED = "unwatched"


@dataclass(frozen=True, slots=True)
class Reused:
    """What an earlier look found, where it may still be used. `age` is how long ago that look began."""

    verdict: Verdict
    age: timedelta


class Fresh(NamedTuple):
    """A ranked memory that was just read again and whose source was looked at. Only `verify` makes these.

    `verdict` is `unwatched` when nobody can look at its source (no checker for that kind of origin), and `unverified` when the look
    failed and the org wants such evidence all the same; `checked_at`, when its source was looked at, is None for both.
    """

    ranked: Ranked
    memory: Memory
    checked_at: datetime | None
    verdict: Verdict = Verdict.FRESH


class Card(NamedTuple):
    """One piece of evidence as the caller gets it. Only `pack` makes these.

    `tokens` counts its rendered passage, and is a floor of one that is too long for any room; `cite` is its mark in the packed context,
    and how an answer should refer to it. `disputed_by` are the other cards that say otherwise, best ranked first.
    """

    rank: int
    fresh: Fresh
    cite: str
    tokens: int
    packed: bool
    disputed_by: tuple[MemoryId, ...] = ()

    @property
    def ranked(self) -> Ranked:
        return self.fresh.ranked

    @property
    def memory(self) -> Memory:
        return self.fresh.memory
