"""BM25 over the caller's own statistics, and how much of a question a passage carries: its information, and its words."""

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
    """How words are weighed: BM25's k1 and b, and what is not the word itself (aliases, parts, near, unknown and commonplace words)."""

    k1: Annotated[float, Gt(0)]
    b: Annotated[float, Ge(0), Le(1)]
    alias_weight: Annotated[float, Gt(0)]
    part_weight: Annotated[float, Ge(0)]
    near_weight: Annotated[float, Ge(0)]
    unknown_weight: Annotated[float, Ge(0)]
    common_weight: Annotated[float, Gt(0), Le(1)]
    asked_most: Annotated[float, Gt(0)]
    asked_words: Annotated[float, Gt(0)]
    known_asked: Annotated[float, Gt(0), Le(1)]
    near_shortest: Annotated[int, Ge(1)]
    near_two_edits: Annotated[int, Ge(1)]
    near_most: Annotated[int, Ge(0)]
    alias_longest: Annotated[int, Ge(0)]
    most_words: Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True)
class Weighed:
    """One word of the question with what it counts: in the score, in the information asked for, and among the words asked for.

    `looked_up` is what it stands for in the index: itself, its near words, or another name as a whole. `held` is what a passage
    holding it has of the question's words, `asked` what it adds to their number. An `unsure` guess needs another word beside it.
    """

    text: str
    weight: float
    information: float
    alias: bool = False
    common: bool = False
    unsure: bool = False
    held: float = 1.0
    asked: float = 1.0
    near: tuple[str, ...] = ()

    @property
    def looked_up(self) -> tuple[str, ...]:
        return self.near or (self.text,)


@dataclass(frozen=True, slots=True)
class Scored:
    """Parallel arrays, one place per passage that holds any word: key, index of its source, BM25 score, share of the question's
    information it carries (0…1), how many of the question's words it holds, the part of them that is (0…1, commonplace words
    counting less), whether one of them is not commonplace, and whether it is called by one of its other names. `idle` questions
    are nothing but stop words."""

    keys: NDArray[np.int64]
    sources: NDArray[np.int64]
    scores: NDArray[np.float64]
    shares: NDArray[np.float64]
    words: NDArray[np.float64]
    covered: NDArray[np.float64]
    telling: NDArray[np.bool_]
    aliased: NDArray[np.bool_]
    idle: bool = False


def inverse_frequency(holding: int, passages: int) -> float:
    """BM25's idf, never negative: ln(1 + (N − n + ½) / (n + ½)). Robertson and Zaragoza 2009, as Lucene smooths it."""
    return log(1.0 + (passages - holding + 0.5) / (holding + 0.5))


def information(holding: int, passages: int) -> float:
    """How much a word tells in a memory of `passages`: more the fewer hold it, and something even where all do."""
    return log(1.0 + (passages + 1.0) / (holding + 0.5))


def scored(words: Sequence[Weighed], postings: Mapping[str, Postings], *, passages: int, total_words: int, rules: Words) -> Scored:
    """Scores every passage that holds a word. `passages` and `total_words` are the caller's own scope and nothing more.

    Words are added in the order given, unsure ones last, and results rounded to 12 decimals, so that the same corpus gives the same
    bits on every store. A question asks for no more than `asked_most` rare words tell, and for `asked_words` words.
    """
    held = [each for word in words if (each := _Held.of(word, postings)) is not None]
    if not held:
        return _nothing()
    keys, first = np.unique(np.concatenate([each.keys for word in held for each in word.places]), return_index=True)
    sources = np.concatenate([each.sources for word in held for each in word.places])[first]
    tally = _Tally(keys, average=max(1.0, total_words / max(1, passages)), passages=passages, rules=rules)
    for each in held:
        if not each.word.unsure:
            tally.add(each)
    _add_guesses(tally, [each for each in held if each.word.unsure], words)
    asked = min(sum(word.information for word in words), rules.asked_most * information(1, passages))
    asked_words = min(sum(word.asked * _lessened(word, rules) for word in words), rules.asked_words)
    return Scored(
        keys,
        sources,
        np.round(tally.scores, 12),
        _part(tally.informed, asked),
        np.round(tally.words, 12),
        _part(tally.lessened, asked_words),
        tally.telling,
        tally.aliased,
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """A word and where it, or what it was taken for, stands."""

    word: Weighed
    places: tuple[Postings, ...]

    @classmethod
    def of(cls, word: Weighed, postings: Mapping[str, Postings]) -> _Held | None:
        places = tuple(postings[each] for each in word.looked_up if each in postings and postings[each].keys.size)
        return cls(word, places) if places else None

    def among(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the keys hold it."""
        holding = np.zeros(keys.size, dtype=np.bool_)
        for each in self.places:
            holding[np.searchsorted(keys, each.keys)] = True
        return holding


class _Tally:
    """Adds up, passage by passage, what the words of a question give."""

    def __init__(self, keys: NDArray[np.int64], *, average: float, passages: int, rules: Words) -> None:
        self.keys = keys
        self._average, self._passages, self._rules = average, passages, rules
        self.scores, self.informed, self.words, self.lessened = (np.zeros(keys.size) for _ in range(4))
        self.telling, self.aliased = (np.zeros(keys.size, dtype=np.bool_) for _ in range(2))

    def add(self, held: _Held, where: NDArray[np.bool_] | None = None) -> None:
        """One word, in the passages that hold it; of those only the ones in `where`."""
        word, rules = held.word, self._rules
        holding = np.zeros(self.keys.size, dtype=np.bool_)
        for each in held.places:
            at = np.searchsorted(self.keys, each.keys)
            holding[at] = True
            damped = each.counts + rules.k1 * (1.0 - rules.b + rules.b * each.lengths / self._average)
            gained = word.weight * inverse_frequency(each.keys.size, self._passages) * (rules.k1 + 1.0) * each.counts / damped
            self.scores[at] += gained if where is None else np.where(where[at], gained, 0.0)
        if where is not None:
            holding &= where
        self.informed += holding * word.information
        self.words += holding * word.held
        self.lessened += holding * (word.held * _lessened(word, rules))
        if not word.common:
            self.telling |= holding
        if word.alias:
            self.aliased |= holding


def _add_guesses(tally: _Tally, guesses: Sequence[_Held], words: Sequence[Weighed]) -> None:
    """A guess counts only where something beside it agrees: a word of the question that is not commonplace, or a second guess.

    When the question has no other such word, any other word will do, and a question of one word is taken for what it is near to.
    """
    if not guesses:
        return
    others = [word for word in words if not word.unsure and word.asked]
    if any(not word.common for word in others):
        agreed = tally.telling.copy()
    elif others:
        agreed = tally.words > 0
    else:
        agreed = np.full(tally.keys.size, len(guesses) == 1)
    agreed |= np.add.reduce([each.among(tally.keys).astype(np.int64) for each in guesses]) > 1
    for each in guesses:
        tally.add(each, agreed)


def _lessened(word: Weighed, rules: Words) -> float:
    return rules.common_weight if word.common else 1.0


def _part(amounts: NDArray[np.float64], whole: float) -> NDArray[np.float64]:
    """The part of the whole that each amount is, 0…1."""
    if whole <= 0:
        return np.zeros(amounts.size)
    parts: NDArray[np.float64] = amounts / whole
    np.minimum(parts, 1.0, out=parts)
    return np.round(parts, 12, out=parts)


def _nothing() -> Scored:
    none, nowhere = np.zeros(0), np.zeros(0, dtype=np.bool_)
    return Scored(none.astype(np.int64), none.astype(np.int64), none, none, none, none, nowhere, nowhere)
