"""BM25 over the caller's own statistics, and how much of a question's information a passage carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray

from remit.stages.ports import Postings


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How words are weighed: BM25's k1 and b, and what is not the word itself (aliases, parts, near and unknown words)."""

    k1: Annotated[float, Gt(0)]
    b: Annotated[float, Ge(0), Le(1)]
    alias_weight: Annotated[float, Gt(0)]
    part_weight: Annotated[float, Ge(0)]
    near_weight: Annotated[float, Ge(0)]
    unknown_weight: Annotated[float, Ge(0)]
    asked_most: Annotated[float, Gt(0)]
    near_shortest: Annotated[int, Ge(1)]
    near_two_edits: Annotated[int, Ge(1)]
    near_most: Annotated[int, Ge(0)]
    alias_longest: Annotated[int, Ge(0)]
    most_words: Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True)
class Weighed:
    """One looked-up word with what it counts in the score and in the information asked for."""

    text: str
    weight: float
    information: float
    alias: bool = False


@dataclass(frozen=True, slots=True)
class Scored:
    """Parallel arrays, one place per passage that holds any word: key, index of its source, BM25 score, share of the
    question's information it carries (0…1), and whether it is called by one of its other names."""

    keys: NDArray[np.int64]
    sources: NDArray[np.int64]
    scores: NDArray[np.float64]
    shares: NDArray[np.float64]
    aliased: NDArray[np.bool_]


def inverse_frequency(holding: int, passages: int) -> float:
    """BM25's idf, never negative: ln(1 + (N − n + ½) / (n + ½)). Robertson and Zaragoza 2009, as Lucene smooths it."""
    return log(1.0 + (passages - holding + 0.5) / (holding + 0.5))


def information(holding: int, passages: int) -> float:
    """How much a word tells in a memory of `passages`: more the fewer hold it, and something even where all do."""
    return log(1.0 + (passages + 1.0) / (holding + 0.5))


def scored(words: Sequence[Weighed], postings: Mapping[str, Postings], *, passages: int, total_words: int, rules: Words) -> Scored:
    """Scores every passage that holds a word. `passages` and `total_words` are the caller's own scope and nothing more.

    Words are added in the order given, and scores rounded to 12 decimals, so that the same corpus gives the same bits on every store.
    """
    held = [(word, postings[word.text]) for word in words if word.text in postings and postings[word.text].keys.size]
    if not held:
        return _nothing()
    keys, first = np.unique(np.concatenate([each.keys for _, each in held]), return_index=True)
    sources = np.concatenate([each.sources for _, each in held])[first]
    scores, informed = np.zeros(keys.size), np.zeros(keys.size)
    aliased = np.zeros(keys.size, dtype=np.bool_)
    average = max(1.0, total_words / max(1, passages))
    for word, each in held:
        at = np.searchsorted(keys, each.keys)
        damped = each.counts + rules.k1 * (1.0 - rules.b + rules.b * each.lengths / average)
        scores[at] += word.weight * inverse_frequency(each.keys.size, passages) * (rules.k1 + 1.0) * each.counts / damped
        informed[at] += word.information
        if word.alias:
            aliased[at] = True
    asked = min(sum(word.information for word in words), rules.asked_most * information(1, passages))
    shares = np.minimum(1.0, informed / asked) if asked > 0 else np.zeros(keys.size)
    return Scored(keys, sources, np.round(scores, 12), np.round(shares, 12), aliased)


def _nothing() -> Scored:
    none = np.zeros(0, dtype=np.int64)
    return Scored(none, none, np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_))
