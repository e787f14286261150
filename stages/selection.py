"""Selection: what a lane must see in a passage before it proposes it. Rules of relevance, not of confidence."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from remit.stages.evidence import Lane

Similarity = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The least each threshold may be set to by a request."""

    lexical: Similarity
    local: Similarity
    semantic: Similarity


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """Expected number of unrelated passages a vector lane may propose by pure chance; 0 switches the rule off."""

    local: Annotated[float, Ge(0)]
    semantic: Annotated[float, Ge(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Thresholds: share of the question's information for words, cosine similarity for vectors."""

    lexical: Similarity
    lexical_of_best: Similarity
    local: Similarity
    semantic: Similarity
    floor: Floors
    chance: Chance

    def share_needed(self, best: float) -> float:
        """The share a passage must carry when the best one carries `best`: a part of that, or more than any has if it is too little."""
        return self.lexical_of_best * best if best >= self.lexical else self.lexical

    def threshold(self, lane: Lane, compared: int, dimensions: int) -> float:
        """The similarity a passage must reach in this vector lane when `compared` passages of `dimensions` are looked at."""
        if lane is Lane.SEMANTIC:
            return max(self.semantic, above_chance(compared, dimensions, self.chance.semantic))
        return max(self.local, above_chance(compared, dimensions, self.chance.local))


def above_chance(compared: int, dimensions: int, expected: float) -> float:
    """The similarity that only `expected` of `compared` unrelated passages would pass.

    Cosines of unrelated random unit vectors are close to normal, with mean 0 and standard deviation 1/√dimensions.
    """
    if expected <= 0 or compared <= expected or not dimensions:
        return 0.0
    return NormalDist().inv_cdf(1.0 - expected / compared) / sqrt(dimensions)


def similarities(probe: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine of one probe (d,) with each row of vectors (n, d), in float64, rounded to 12 decimals.

    Every row is added up by itself, so a row's value does not depend on which rows stand beside it. Rows or probes of
    length zero, and rows with a component that is no number, have similarity 0.
    """
    wide = vectors.astype(np.float64)
    query = probe.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", wide, wide)) * sqrt(float((query * query).sum()))
        cosines: NDArray[np.float64] = np.einsum("ij,j->i", wide, query) / norms
    cosines[~np.isfinite(cosines)] = 0.0
    return np.round(cosines, 12, out=cosines)
