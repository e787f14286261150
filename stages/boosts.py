"""Boosts: how much a memory's own nature, and the scope it belongs to, change its fused score."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from annotated_types import Gt, Le

from remit.stages.access import GLOBAL
from remit.stages.evidence import Outline, Status
from remit.stages.request import Source

Factor = Annotated[float, Gt(0)]

_FACT, _DOC = Source.FACT, Source.DOC
_ACTIVE = Status.ACTIVE

_NO_TIME = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosts:
    """Factors on the fused score; 1 turns one off."""

    fact_importance: Factor
    fact_pinned: Factor
    session_recency: Annotated[float, Gt(0), Le(1)]
    session_half_life_days: Factor
    doc_active: Factor
    doc_archived: Factor
    doc_missing: Factor
    scope_match: Factor
    scope_mismatch: Factor
    scope_specific: Factor
    scope_neutral: Factor


def boost_of(outline: Outline, boosts: Boosts, now: datetime) -> float:
    """The factor of the memory's own source: importance of a fact, age of a session, status of a doc."""
    source = outline.passage.memory.source
    if source is _DOC:
        return _of_status(outline.status, boosts)
    if source is _FACT:
        pinned = boosts.fact_pinned if outline.pinned else 1.0
        return importance(outline.importance, boosts.fact_importance) * pinned
    half_life = timedelta(days=boosts.session_half_life_days)
    return recency(now - outline.aged_from, half_life, boosts.session_recency)


def importance(value: float, most: float) -> float:
    """1 + (most − 1) × importance: with `most` 1.5 a fact of importance 0.8 counts 1.4."""
    return 1.0 + (most - 1.0) * value


def recency(age: timedelta, half_life: timedelta, left: float = 0.5) -> float:
    """`left` to the power of age in half-lives; an age below zero counts as zero, so the future is never boosted."""
    return float(left ** (max(age, _NO_TIME) / half_life))


def _of_status(status: Status, boosts: Boosts) -> float:
    if status is _ACTIVE:
        return boosts.doc_active
    return boosts.doc_archived if status is Status.ARCHIVED else boosts.doc_missing


def affinity(outline: Outline, named: frozenset[str], boosts: Boosts) -> float:
    """The factor of a fact's scope: named or declared, another one named, scoped with none named, or global."""
    if outline.passage.memory.source is not _FACT:
        return 1.0
    if outline.scope == GLOBAL:
        return boosts.scope_neutral
    if outline.scope in named:
        return boosts.scope_match
    return boosts.scope_mismatch if named else boosts.scope_specific


def named_scopes(query: str, scopes: Iterable[str], project: str | None) -> frozenset[str]:
    """The scopes a question is about: those whose name stands in it as a whole word, and the declared project.

    A hyphen or underscore belongs to the word, so `alpha-b` does not name `alpha`. Case does not matter in the question.
    """
    asked = query.casefold()
    named = {scope for scope in scopes if scope != GLOBAL and _stands_whole(scope.partition(":")[2].casefold(), asked)}
    if project is not None:
        named.add(f"project:{project}")
    return frozenset(named)


def _stands_whole(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None
