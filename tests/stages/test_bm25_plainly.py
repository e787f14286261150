"""All words are added up at once, to the same bits as passage by passage and word by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.pipeline.config import load
from remit.stages.bm25 import Weighed, information, inverse_frequency, scored
from remit.stages.ports import Postings

RULES = load().recall.words
PASSAGES = 10

Held = Mapping[str, Mapping[int, int]]
"""Word → passage → how often it stands there."""


def plainly(words: Sequence[Weighed], held: Held, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """One passage after the other, one word after the other: the sure ones, then the guesses that something agrees with."""
    sure, guesses = ([word for word in words if word.unsure is unsure and _passages(word, held)] for unsure in (False, True))
    told = []
    for passage in sorted({passage for word in sure + guesses for passage in _passages(word, held)}):
        tally = {"key": passage, "score": 0.0, "informed": 0.0, "words": 0.0, "lessened": 0.0, "telling": False, "aliased": False}
        for word in sure:
            _add(tally, word, held, passage, lengths)
        if _agreed(tally, words, [word for word in guesses if passage in _passages(word, held)], alone=len(guesses) == 1):
            for word in guesses:
                _add(tally, word, held, passage, lengths)
        told.append(tally)
    return told


def _passages(word: Weighed, held: Held) -> set[int]:
    return {passage for each in word.looked_up for passage in held.get(each, {})}


def _agreed(tally: dict[str, Any], words: Sequence[Weighed], guesses_here: Sequence[Weighed], *, alone: bool) -> bool:
    others = [word for word in words if not word.unsure and word.asked]
    if len(guesses_here) > 1:
        return True
    if any(not word.common for word in others):
        return bool(tally["telling"])
    return bool(tally["words"] > 0) if others else alone


def _add(tally: dict[str, Any], word: Weighed, held: Held, passage: int, lengths: Sequence[int]) -> None:
    average = max(1.0, sum(lengths) / PASSAGES)
    for count, idf in (
        (places[passage], inverse_frequency(len(places), PASSAGES)) for each in word.looked_up if passage in (places := held.get(each, {}))
    ):
        damped = count + RULES.k1 * (1.0 - RULES.b + RULES.b * lengths[passage] / average)
        tally["score"] += word.weight * idf * (RULES.k1 + 1.0) * count / damped
    if passage in _passages(word, held):
        tally["informed"] += word.information
        tally["words"] += word.held
        tally["lessened"] += word.held * (RULES.common_weight if word.common else 1.0)
        tally["telling"] |= not word.common
        tally["aliased"] |= word.alias


def part(amounts: Sequence[float], whole: float) -> list[float]:
    return rounded([min(amount / whole, 1.0) if whole > 0 else 0.0 for amount in amounts])


def rounded(amounts: Sequence[float]) -> list[float]:
    return list(np.round(np.array(amounts, dtype=np.float64), 12).tolist())


def postings_of(places: Mapping[int, int], lengths: Sequence[int]) -> Postings:
    keys = sorted(places)
    columns = (keys, [places[key] for key in keys], [lengths[key] for key in keys], [key % 3 for key in keys])
    return Postings(*(np.array(column, dtype=np.int64) for column in columns))


NEAR = ("hull", "mast", "keel")
WORDS = ("anchor", "boat", "crane", "dock", "=fleet")

questions = st.lists(
    st.builds(
        Weighed,
        st.sampled_from(WORDS),
        weight=st.sampled_from([1.0, 0.7, 1 / 3]),
        information=st.sampled_from([0.1, 1.3, 2.77]),
        alias=st.booleans(),
        common=st.booleans(),
        unsure=st.booleans(),
        held=st.sampled_from([1.0, 0.7, 0.0, 3.0]),
        asked=st.sampled_from([1.0, 0.0, 0.3]),
        near=st.just(()) | st.lists(st.sampled_from(NEAR), max_size=3, unique=True).map(tuple),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda word: word.text,
)
holding = st.fixed_dictionaries(
    {}, optional={word: st.dictionaries(st.integers(0, PASSAGES - 1), st.integers(1, 5)) for word in WORDS + NEAR}
)


@given(questions, holding, st.lists(st.integers(1, 40), min_size=PASSAGES, max_size=PASSAGES), st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_words_of_a_question_add_up_as_they_do_one_by_one(words: list[Weighed], held: Held, lengths: list[int], idle: bool) -> None:
    postings = {word: postings_of(places, lengths) for word, places in held.items()}

    result = scored(words, postings, passages=PASSAGES, total_words=sum(lengths), rules=RULES, idle=idle)

    told = plainly(words, held, lengths)
    asked = min(sum(word.information for word in words), RULES.asked_most * information(1, PASSAGES))
    asked_words = min(sum(word.asked * (RULES.common_weight if word.common else 1.0) for word in words), RULES.asked_words)
    assert result.keys.tolist() == [each["key"] for each in told]
    assert result.sources.tolist() == [each["key"] % 3 for each in told]
    assert result.scores.tolist() == rounded([each["score"] for each in told])
    assert result.shares.tolist() == part([each["informed"] for each in told], asked)
    assert result.words.tolist() == rounded([each["words"] for each in told])
    assert result.covered.tolist() == part([each["lessened"] for each in told], asked_words)
    assert result.telling.tolist() == [each["telling"] for each in told]
    assert result.aliased.tolist() == [each["aliased"] for each in told]
    assert result.idle is idle
