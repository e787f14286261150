"""Turns: what a turn of a conversation is about was often said one or two turns before or after it, so it gains from those beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray

from remit.stages.bm25 import Scored
from remit.stages.request import Source

DECIMALS = 12
"""As the scores themselves are rounded, so that the same turns gain the same bits on every store."""

SESSION = tuple(Source).index(Source.SESSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The `anchors` strongest turns give `weight` of their score to the `reach` turns before and after them, none of them further away
    than `within_seconds`. No anchors, reach or weight: every turn stands alone."""

    anchors: Annotated[int, Ge(0)]
    reach: Annotated[int, Ge(0)]
    weight: Annotated[float, Ge(0)]
    within_seconds: Annotated[float, Gt(0), Le(31_536_000)]

    @property
    def within(self) -> timedelta:
        return timedelta(seconds=self.within_seconds)


def anchors_of(scores: Scored, strong: NDArray[np.bool_], rules: Turns) -> dict[int, float]:
    """The strongest sessions among the strong passages with their scores, strongest first, at most `rules.anchors`.

    Those that tie with the first one left out are left out with it: which of them came first would depend on the store.
    """
    if not (rules.anchors and rules.reach and rules.weight):
        return {}
    at = np.flatnonzero(strong & (scores.sources == SESSION))
    at = at[np.argsort(-scores.scores[at], kind="stable")]
    if at.size > rules.anchors:
        at = at[: rules.anchors][scores.scores[at[: rules.anchors]] > scores.scores[at[rules.anchors]]]
    return dict(zip(scores.keys[at].tolist(), scores.scores[at].tolist(), strict=True))


def gains_of(scores: Scored, anchors: Mapping[int, float], around: Mapping[int, Sequence[int]], rules: Turns) -> dict[int, float]:
    """What passages that hold a word of the question gain from the anchors beside them, by key."""
    gains: dict[int, float] = {}
    for anchor, score in anchors.items():
        for key in around.get(anchor, ()):
            gains[key] = gains.get(key, 0.0) + rules.weight * score
    keys, _ = _held(scores, sorted(gains))
    return {key: gains[key] for key in keys}


def with_gains(
    scores: Scored, strong: NDArray[np.bool_], eligible: NDArray[np.bool_], gains: Mapping[int, float]
) -> tuple[Scored, NDArray[np.bool_]]:
    """The scores with what turns gained, and which passages are strong, those that gained among them.

    Only what is eligible can gain; what was weak by itself then has what it gained and nothing else.
    """
    keys, at = _held(scores, sorted(gains))
    more = np.zeros(scores.keys.size)
    more[at] = [gains[key] for key in keys]
    gained = eligible & (more > 0)
    raised = np.where(gained, np.where(strong, scores.scores, 0.0) + more, scores.scores)
    return replace(scores, scores=np.round(raised, DECIMALS, out=raised)), strong | gained


def _held(scores: Scored, keys: Sequence[int]) -> tuple[list[int], NDArray[np.int64]]:
    """Those of the ascending keys that hold a word of the question, and their places."""
    wanted = np.array(keys, dtype=np.int64)
    at = np.searchsorted(scores.keys, wanted)
    held = scores.keys[np.minimum(at, scores.keys.size - 1)] == wanted if scores.keys.size else np.zeros(wanted.size, dtype=np.bool_)
    return wanted[held].tolist(), at[held]
