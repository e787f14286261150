"""BM25 over the caller's own statistics, and how much of a question a passage carries: its information, and its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Annotated, NamedTuple

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


class Weighed(NamedTuple):
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


def scored(
    words: Sequence[Weighed], postings: Mapping[str, Postings], *, passages: int, total_words: int, rules: Words, idle: bool = False
) -> Scored:
    """Scores every passage that holds a word. `passages` and `total_words` are the caller's own scope and nothing more.

    Words are added in the order given, unsure ones last, and results rounded to 12 decimals, so that the same corpus gives the same
    bits on every store. A question asks for no more than `asked_most` rare words tell, and for `asked_words` words.
    """
    standing = [
        _Standing(number, word, places, places.keys.size)
        for number, word in enumerate(words)
        for each in word.looked_up
        if (places := postings.get(each)) is not None and places.keys.size
    ]
    if not standing:
        return _nothing(idle)
    standing.sort(key=lambda each: each.word.unsure)
    keys, first, at = _distinct(np.concatenate([each.places.keys for each in standing]))
    sources = np.concatenate([each.places.sources for each in standing])[first]
    given = _given(standing, average=max(1.0, total_words / max(1, passages)), passages=passages, rules=rules)
    if len({each.number for each in standing}) < len(standing):
        given[1:, _held_already(standing, at)] = 0.0
    if standing[-1].word.unsure:
        given[:, _doubtful(standing, at, given, words)] = 0.0
    # `bincount` adds in the order of the row: the words of a passage in theirs.
    scores, informed, held, lessened, telling, aliased = np.array([np.bincount(at, each) for each in given], dtype=np.float64)
    asked = min(sum([word.information for word in words]), rules.asked_most * information(1, passages))
    asked_words = min(sum([word.asked * _lessened(word, rules) for word in words]), rules.asked_words)
    return Scored(
        keys,
        sources,
        scores.round(12, out=scores),
        _part(informed, asked),
        held.round(12, out=held),
        _part(lessened, asked_words),
        telling > 0,
        aliased > 0,
        idle,
    )


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
    """Each key once, in order, with the place where it stands first, and of every place which of them it is.

    What `np.unique` tells, without what that does for keys of other types, which is half of its time for a few hundred.
    """
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    new = np.ones(keys.size, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    at = np.empty(keys.size, dtype=np.intp)
    at[order] = new.cumsum() - 1
    return ordered[new], order[new], at


class _Standing(NamedTuple):
    """A word, the `number` of it in the question, and where it or one of the words that it was taken for stands."""

    number: int
    word: Weighed
    places: Postings
    size: int


_HELD, _TELLING = 2, 4


def _given(standing: Sequence[_Standing], *, average: float, passages: int, rules: Words) -> NDArray[np.float64]:
    """What each place gives its passage, all words in a row: to the score, the information, the words held, those that count less,
    and whether it tells and is another name; a line for each of these."""
    counts, lengths = np.concatenate([each.places.counts for each in standing]), np.concatenate([each.places.lengths for each in standing])
    of_words = [
        (
            word.weight * inverse_frequency(size, passages) * (rules.k1 + 1.0),
            word.information,
            word.held,
            word.held * _lessened(word, rules),
            not word.common,
            word.alias,
        )
        for _, word, _, size in standing
    ]
    given = np.array(of_words, dtype=np.float64).T.repeat([each.size for each in standing], axis=1)
    given[0] *= counts
    given[0] /= counts + rules.k1 * (1.0 - rules.b + rules.b * lengths / average)
    return given


def _held_already(standing: Sequence[_Standing], at: NDArray[np.intp]) -> NDArray[np.intp]:
    """The places of near words in passages that hold the word they stand for by another one: it is held once."""
    _, first = np.unique(_numbers(standing) * at.size + at, return_index=True)
    return np.delete(np.arange(at.size), first)


def _doubtful(
    standing: Sequence[_Standing], at: NDArray[np.intp], given: NDArray[np.float64], words: Sequence[Weighed]
) -> NDArray[np.intp]:
    """The places of guesses that do not count. A guess counts only where something beside it agrees: a word of the question that is
    not commonplace, or a second guess.

    When the question has no other such word, any other word will do, and a question of one word is taken for what it is near to.
    """
    sure = sum([each.size for each in standing if not each.word.unsure])
    guessing = [each for each in standing if each.word.unsure]
    most = int(at.max()) + 1
    others = [word for word in words if not word.unsure and word.asked]
    if others:
        line = given[_TELLING] if any(not word.common for word in others) else given[_HELD]
        agreed = np.bincount(at[:sure], line[:sure], most) > 0
    else:
        agreed = np.full(most, len({each.number for each in guessing}) == 1)
    guesses = np.unique(_numbers(guessing) * most + at[sure:])
    agreed |= np.bincount(guesses % most, minlength=most) > 1
    return sure + np.flatnonzero(~agreed[at[sure:]])


def _numbers(standing: Sequence[_Standing]) -> NDArray[np.int64]:
    """Of each place the number of its word."""
    return np.repeat([each.number for each in standing], [each.size for each in standing])


def _lessened(word: Weighed, rules: Words) -> float:
    return rules.common_weight if word.common else 1.0


def _part(amounts: NDArray[np.float64], whole: float) -> NDArray[np.float64]:
    """The part of the whole that each amount is, 0…1."""
    if whole <= 0:
        return np.zeros(amounts.size)
    parts: NDArray[np.float64] = amounts / whole
    np.minimum(parts, 1.0, out=parts)
    return parts.round(12, out=parts)


def _nothing(idle: bool) -> Scored:
    none, nowhere = np.zeros(0), np.zeros(0, dtype=np.bool_)
    return Scored(none.astype(np.int64), none.astype(np.int64), none, none, none, none, nowhere, nowhere, idle)
