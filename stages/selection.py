"""Selection: what a lane must see in a passage before it proposes it. Rules of relevance, not of confidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from statistics import NormalDist
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from remit.stages.bm25 import Scored
from remit.stages.evidence import Lane

FEW = 500
"""Amounts up to which a set of them is made sooner than by numpy, which is far ahead for more."""

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
class Bar:
    """The least a passage must carry to be proposed by words: a share of the question's information, a part of its words, a number
    of its words, and, where `telling`, one that is not commonplace."""

    share: float
    covered: float
    words: float
    telling: bool

    def cleared(self, scores: Scored) -> NDArray[np.bool_]:
        """Which passages carry that."""
        enough = (scores.shares >= self.share) & (scores.covered >= self.covered) & (scores.words >= self.words)
        return enough & (scores.telling if self.telling else True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Thresholds. Of words: what the best passage must carry (`lexical` of the question's information and `words` of its words), and
    what the others must (`lexical_of_best` of the best one's, and no fall of the number of words below `words_fall`). Of vectors:
    cosine similarity."""

    lexical: Similarity
    lexical_of_best: Similarity
    words: Similarity
    words_fall: Similarity
    local: Similarity
    semantic: Similarity
    floor: Floors
    chance: Chance

    def bar(self, scores: Scored, eligible: NDArray[np.bool_]) -> Bar:
        """What a passage must carry, given what the eligible ones do. When the best carries too little, none clears it.

        An idle question is answered only by a passage that holds all of its words.
        """
        best = float(scores.shares[eligible].max(initial=0.0))
        covered = float(scores.covered[eligible].max(initial=0.0))
        words = 1.0 if scores.idle else self.words
        if best < self.lexical or covered < words:
            return Bar(share=max(self.lexical, self.lexical_of_best * best), covered=words, words=0.0, telling=False)
        near_best = eligible & (scores.shares >= self.lexical_of_best * best)
        held, telling = scores.words[near_best], scores.telling[near_best]
        some_tell = bool(np.count_nonzero(telling))
        return Bar(
            share=self.lexical_of_best * best,
            covered=1.0 if scores.idle else 0.0,
            words=before_the_fall(held[telling] if some_tell else held, self.words_fall),
            telling=some_tell,
        )

    def least(self, lane: Lane) -> float:
        """The similarity below which nothing is proposed in this vector lane, however little is looked at."""
        return self.semantic if lane is Lane.SEMANTIC else self.local

    def threshold(self, lane: Lane, compared: int, dimensions: int) -> float:
        """The similarity a passage must reach in this vector lane when `compared` passages of `dimensions` are looked at."""
        chance = self.chance.semantic if lane is Lane.SEMANTIC else self.chance.local
        return max(self.least(lane), above_chance(compared, dimensions, chance))


def before_the_fall(amounts: NDArray[np.float64], part: float) -> float:
    """The last amount, from the largest down, before one that is less than this part of it; the smallest when there is none such.

    Of passages holding four, three, two, two and one words of a question, the last one is beside the point: two are half as many again.
    """
    distinct = set(amounts.tolist()) if amounts.size <= FEW else np.unique(amounts).tolist()
    falling = sorted(distinct, reverse=True)
    for amount, next_amount in pairwise(falling):
        if next_amount < part * amount:
            return float(amount)
    return float(falling[-1]) if falling else 0.0


@lru_cache(256)
def above_chance(compared: int, dimensions: int, expected: float) -> float:
    """The similarity that only `expected` of `compared` unrelated passages would pass.

    Cosines of unrelated random unit vectors are close to normal, with mean 0 and standard deviation 1/√dimensions.
    """
    if expected <= 0 or compared <= expected or not dimensions:
        return 0.0
    return NormalDist().inv_cdf(1.0 - expected / compared) / sqrt(dimensions)


def similarities(probe: NDArray[np.float32], vectors: NDArray[np.float32] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of one probe (d,) with each row of vectors (n, d), in float64, rounded to 12 decimals.

    Every row is added up by itself, so a row's value does not depend on which rows stand beside it. Rows or probes of
    length zero, and rows with a component that is no number, have similarity 0.
    """
    if not len(vectors):
        return np.zeros(0)
    wide = vectors.astype(np.float64, copy=False)
    query = probe.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", wide, wide)) * sqrt(float((query * query).sum()))
        cosines: NDArray[np.float64] = np.einsum("ij,j->i", wide, query) / norms
    cosines[~np.isfinite(cosines)] = 0.0
    return cosines.round(12, out=cosines)
