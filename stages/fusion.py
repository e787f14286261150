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
    """How votes count where words and a model of one of the `spaces` both answer a question of at least `words` words with at least `hits`
    hits each. A space is known by how its name begins; how the similarities of any other model fall was not measured.

    A vote is multiplied by how strong the hit is beside the best of its lane, to the lane's `powers`. A model's is multiplied besides by
    what `model` says of the list of words: how strong that still is at `place`, the last where it is shorter, and whole from `flat` on.
    """

    spaces: tuple[str, ...]
    words: Annotated[int, Ge(1)]
    hits: Annotated[int, Ge(1)]
    place: Annotated[int, Ge(1)]
    flat: Annotated[float, Ge(0)]
    powers: Weights

    def goes_for(self, space: str | None, words: int, hits: Mapping[Lane, int]) -> bool:
        """Whether the model is known and there is enough of both to compare: of one word or a few hits, strengths tell nothing."""
        if space is None or not space.startswith(self.spaces):
            return False
        return words >= self.words and min(hits.get(Lane.SEMANTIC, 0), hits.get(Lane.LEXICAL, 0)) >= self.hits

    def model(self, left: float) -> float:
        """What a model's vote counts, 0…1, when words at their `place` are `left` of their best: the less, the more they know."""
        return min(1.0, left * left / (self.flat * self.flat)) if self.flat else 1.0

    def share(self, lane: Lane, strength: float, left: float = 1.0) -> float:
        """What is left of a vote, 0…1, given its strength beside the lane's best and what is left of the words at their place."""
        own = float(strength ** self.powers.of(lane))
        return own * self.model(left) if lane is Lane.SEMANTIC else own


BY_PLACE = Together(spaces=(), words=1, hits=1, place=1, flat=0.0, powers=Weights(semantic=0.0, local=0.0, lexical=0.0))
"""Votes count by place and by nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """How lanes are fused: `k` damps high places, `rank_origin` is 0 or 1, `weights` are what a vote of each lane counts, and `together`
    what becomes of votes where two lanes can be compared by strength."""

    k: Annotated[int, Ge(1)]
    rank_origin: Literal[0, 1]
    weights: Weights
    together: Together = BY_PLACE


def reciprocal_rank(ranks: Mapping[Lane, int], fusion: Fusion, shares: Mapping[Lane, float] | None = None) -> float:
    """Fused score of one candidate: the sum over lanes of weight / (k + origin + rank), each times its share where that is told.

    `ranks` are 0-based places, one per lane that found it; a lane that did not find it adds nothing. `shares` are what is left of the
    votes, 0…1: see `Together`. Lanes are added in a fixed order (vector, lexical), so the same ranks give the same bits.
    Cormack et al. 2009.
    """
    fused = 0.0
    for lane in _LANES:
        if (place := ranks.get(lane)) is not None:
            vote = fusion.weights.of(lane) / (fusion.k + fusion.rank_origin + place)
            fused += vote * shares[lane] if shares else vote
    return fused
