"""Reciprocal rank fusion: what the places of a candidate in its lanes are worth together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from remit.stages.evidence import Lane

_LANES = tuple(Lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What a vote of each lane counts."""

    semantic: Annotated[float, Ge(0)]
    local: Annotated[float, Ge(0)]
    lexical: Annotated[float, Ge(0)]

    def of(self, lane: Lane) -> float:
        if lane is Lane.LEXICAL:
            return self.lexical
        return self.semantic if lane is Lane.SEMANTIC else self.local


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """How lanes are fused: `k` damps high places, `rank_origin` is 0 or 1."""

    k: Annotated[int, Ge(1)]
    rank_origin: Literal[0, 1]
    weights: Weights


def reciprocal_rank(ranks: Mapping[Lane, int], fusion: Fusion) -> float:
    """Fused score of one candidate: the sum over lanes of weight / (k + origin + rank).

    `ranks` are 0-based places, one per lane that found it; a lane that did not find it adds nothing.
    Lanes are added in a fixed order (vector, lexical), so the same ranks give the same bits. Cormack et al. 2009.
    """
    fused = 0.0
    for lane in _LANES:
        if (place := ranks.get(lane)) is not None:
            fused += fusion.weights.of(lane) / (fusion.k + fusion.rank_origin + place)
    return fused
