"""What a caller asks: the request as it is given, and the question it becomes once every gap is filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class Source(StrEnum):
    """A kind of memory."""

    FACT = "fact"
    SESSION = "session"
    DOC = "doc"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagFilter:
    """Tags a memory must carry all of, any of, and none of. An empty list asks for nothing."""

    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()

    def passes(self, tags: frozenset[str]) -> bool:
        return tags.issuperset(self.all) and (not self.any or not tags.isdisjoint(self.any)) and tags.isdisjoint(self.none)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWanted:
    """The packed context a caller has room for. `None` means the profile's value from config."""

    tokens: int | None = None
    passages: int | None = None
    instructions: int = 0
    tools: int = 0
    reserve: int = 0
    format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A recall as its caller states it; only `query` is required and `None` means "as configured".

    `sources=()` and `fact_scopes=()` mean none of them, not all. `ceilings` is stage → `{items, seconds, tokens, rounds}`
    and may only lower what the caller is allowed. `continuation` is the token of an exhausted answer to the same request, its
    budgets aside, to go on from there. Checked by `remit.pipeline.asking` before any store is asked.
    """

    query: str
    limit: int | None = None
    sources: tuple[Source | str, ...] | None = None
    project: str | None = None
    fact_scopes: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = None
    as_of: datetime | str | None = None
    phrases: tuple[str, ...] = ()
    tags: TagFilter = TagFilter()
    created_from: datetime | str | None = None
    created_until: datetime | str | None = None
    profile: str | None = None
    questions: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    evidence_minimum: int | None = None
    selection: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    context: ContextWanted = ContextWanted()
    ceilings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    continuation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a memory must be, beyond readable, to be a hit: phrases that stand in it, its tags, when it was made.

    `created_from` is inclusive, `created_until` exclusive.
    """

    phrases: tuple[str, ...] = ()
    tags: TagFilter = TagFilter()
    created_from: datetime | None = None
    created_until: datetime | None = None

    @property
    def idle(self) -> bool:
        return self == Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A checked request with every gap filled: what the stages work from."""

    query: str
    limit: int
    sources: tuple[Source, ...]
    project: str | None
    as_of: datetime
    filters: Filters
    questions: tuple[str, ...] = ()
