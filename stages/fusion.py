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
    """A number for each lane."""

    semantic: Annotated[float, Ge(0)]
    local: Annotated[float, Ge(0)]
    lexical: Annotated[float, Ge(0)]

    def of(self, lane: Lane) -> float:
        if lane is Lane.LEXICAL:
            return self.lexical
        return self.semantic if lane is Lane.SEMANTIC else self.local


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """How votes count where words and a model both answer a question of at least `words` words with at least `hits` hits each.

    A vote is multiplied by the lane's `weights`, and by how strong the hit is beside the best of its lane, to the lane's `powers`.
    """

    words: Annotated[int, Ge(1)]
    hits: Annotated[int, Ge(1)]
    weights: Weights
    powers: Weights

    def goes_for(self, words: int, hits: Mapping[Lane, int]) -> bool:
        """Whether there is enough of both to compare: of one word or a few hits, strengths tell nothing."""
        return words >= self.words and min(hits.get(Lane.SEMANTIC, 0), hits.get(Lane.LEXICAL, 0)) >= self.hits

    def share(self, lane: Lane, strength: float) -> float:
        """What is left of a vote, given its strength beside the lane's best, 0…1."""
        return self.weights.of(lane) * float(strength ** self.powers.of(lane))


BY_PLACE = Together(
    words=1, hits=1, weights=Weights(semantic=1.0, local=1.0, lexical=1.0), powers=Weights(semantic=0.0, local=0.0, lexical=0.0)
)
"""Votes count by place and by nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """How lanes are fused: `k` damps high places, `rank_origin` is 0 or 1, `weights` are what a vote of each lane counts, and `together`
    what becomes of votes where two lanes can be compared by strength."""

    k: Annotated[int, Ge(1)]
    rank_origin: Literal[0, 1]
    weights: Weights
    together: Together = BY_PLACE


def reciprocal_rank(ranks: Mapping[Lane, int], fusion: Fusion, strengths: Mapping[Lane, float] | None = None) -> float:
    """Fused score of one candidate: the sum over lanes of weight / (k + origin + rank), each by its strength where that is told.

    `ranks` are 0-based places, one per lane that found it; a lane that did not find it adds nothing. `strengths` are 0…1, 1 for the best
    of a lane: see `Together`.
    Lanes are added in a fixed order (vector, lexical), so the same ranks give the same bits. Cormack et al. 2009.
    """
    fused = 0.0
    for lane in _LANES:
        if (place := ranks.get(lane)) is not None:
            vote = fusion.weights.of(lane) / (fusion.k + fusion.rank_origin + place)
            if strengths:
                vote *= fusion.together.share(lane, strengths[lane])
            fused += vote
    return fused
