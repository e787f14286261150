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


def with_turns(
    scores: Scored,
    strong: NDArray[np.bool_],
    eligible: NDArray[np.bool_],
    anchors: Mapping[int, float],
    around: Mapping[int, Sequence[int]],
    rules: Turns,
) -> tuple[Scored, NDArray[np.bool_]]:
    """The scores with what turns gain from the anchors beside them, and which passages are strong, those that gained among them.

    Only what holds a word of the question and is eligible can gain; what was weak by itself then has what it gained and nothing else.
    """
    gains = np.zeros(scores.keys.size)
    for anchor, score in anchors.items():
        beside = np.array(around.get(anchor, ()), dtype=np.int64)
        at = np.searchsorted(scores.keys, beside)
        at = at[scores.keys[np.minimum(at, scores.keys.size - 1)] == beside]
        gains[at] += rules.weight * score
    gained = (gains > 0) & eligible
    if not gained.any():
        return scores, strong
    own = np.where(strong, scores.scores, 0.0)
    raised = np.where(gained, own + gains, scores.scores)
    return replace(scores, scores=np.round(raised, DECIMALS, out=raised)), strong | gained
