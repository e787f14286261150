"""Words are weighed by the caller's own statistics, and what carries too little of a question is weak."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.config import load
from remit.stages.bm25 import Weighed, information, inverse_frequency, scored
from remit.stages.evidence import Lane
from remit.stages.near import near_words
from remit.stages.ports import Postings
from remit.stages.selection import above_chance, similarities

WORDS = load().recall.words
SELECTION = load().recall.selection


def postings(places: dict[int, int], length: int = 10) -> Postings:
    keys = np.array(sorted(places), dtype=np.int64)
    counts = np.array([places[key] for key in sorted(places)], dtype=np.int64)
    return Postings(keys, counts, np.full(keys.size, length), np.zeros(keys.size, dtype=np.int64))


def test_more_matching_words_score_higher() -> None:
    where = {"red": postings({1: 1, 2: 1, 3: 1}), "green": postings({1: 1, 2: 1}), "blue": postings({1: 1})}
    result = scored([Weighed(word, 1.0, 1.0) for word in where], where, passages=10, total_words=100, rules=WORDS)
    assert result.keys.tolist() == [1, 2, 3]
    assert result.scores[0] > result.scores[1] > result.scores[2] > 0
    assert result.shares.tolist() == [1.0, pytest.approx(2 / 3), pytest.approx(1 / 3)]


def test_bm25_is_the_published_formula() -> None:
    result = scored([Weighed("red", 1.0, 1.0)], {"red": postings({7: 3}, length=20)}, passages=10, total_words=100, rules=WORDS)
    idf = np.log(1 + (10 - 1 + 0.5) / 1.5)
    assert result.scores[0] == pytest.approx(idf * 3 * 2.2 / (3 + 1.2 * (0.25 + 0.75 * 20 / 10)), abs=1e-12)


def test_a_rare_word_tells_more_than_a_common_one_and_no_word_tells_less_than_nothing() -> None:
    assert inverse_frequency(1, 100) > inverse_frequency(50, 100) > inverse_frequency(100, 100) > 0
    assert information(0, 100) > information(1, 100) > information(100, 100) > 0


def test_a_word_that_stands_nowhere_still_counts_as_asked_for() -> None:
    words = [Weighed("red", 1.0, 1.0), Weighed("zebra", 0.0, 3.0)]
    result = scored(words, {"red": postings({1: 1}), "zebra": postings({})}, passages=5, total_words=50, rules=WORDS)
    assert result.shares.tolist() == [0.25]


@given(st.permutations([1, 2, 3, 4, 5]))
def test_scores_do_not_depend_on_the_keys_a_store_happens_to_use(order: list[int]) -> None:
    renamed = dict(zip([1, 2, 3, 4, 5], order, strict=True))
    counts = {1: 1, 2: 2, 3: 3, 4: 1, 5: 7}

    def scores_of(keys: dict[int, int]) -> list[float]:
        where = {"red": postings({keys[key]: counts[key] for key in counts}), "blue": postings({keys[2]: 1, keys[4]: 2})}
        result = scored([Weighed("red", 1.0, 1.0), Weighed("blue", 0.5, 1.0)], where, passages=9, total_words=77, rules=WORDS)
        by_key = dict(zip(result.keys.tolist(), result.scores.tolist(), strict=True))
        return [by_key[keys[key]] for key in counts]

    assert scores_of(renamed) == scores_of({key: key for key in counts})


@pytest.mark.parametrize(
    "word, vocabulary, near",
    [
        ("kubernets", ["kubernetes", "kitchen"], ("kubernetes",)),
        ("recieve", ["receive", "relieve"], ("receive", "relieve")),
        ("postgress", ["postgres", "postgresql"], ("postgres",)),
        ("deploy", ["deployment", "deploys"], ()),
        ("cat", ["car", "cut"], ()),
        ("pol358", ["pol359"], ()),
        ("crash", ["crush"], ("crush",)),
        ("wholesome", ["handsome"], ()),
        ("lunch", ["bunch", "punch"], ()),
        ("ulnch", ["lunch"], ("lunch",)),
    ],
)
def test_a_near_word_is_a_typing_error_and_never_a_mere_beginning(word: str, vocabulary: list[str], near: tuple[str, ...]) -> None:
    assert near_words(word, vocabulary, WORDS) == near


def test_near_words_can_be_switched_off() -> None:
    off = load({"recall": {"words": {"nearMost": 0}}}).recall.words
    assert near_words("kubernets", ["kubernetes"], off) == ()


def test_similarity_of_broken_or_empty_vectors_is_zero() -> None:
    probe = np.array([1, 0, 0], dtype=np.float32)
    rows = np.array([[1, 0, 0], [0, 0, 0], [np.nan, 0, 0], [3e38, 3e38, 3e38], [-1, 0, 0]], dtype=np.float32)
    assert similarities(probe, rows).tolist() == [1.0, 0.0, 0.0, pytest.approx(3**-0.5), -1.0]
    assert similarities(np.zeros(3, dtype=np.float32), rows).tolist() == [0.0] * 5


@given(st.integers(1, 40), st.integers(0, 39))
def test_a_row_has_the_same_similarity_whatever_stands_beside_it(rows: int, chosen: int) -> None:
    chosen %= rows
    vectors = np.random.default_rng(rows).normal(size=(rows, 128)).astype(np.float32)
    probe = np.random.default_rng(99).normal(size=128).astype(np.float32)
    assert similarities(probe, vectors)[chosen] == similarities(probe, vectors[chosen : chosen + 1])[0]


def test_what_chance_alone_would_give_rises_with_the_number_of_passages() -> None:
    assert SELECTION.threshold(Lane.LOCAL, 0, 128) == 0.2
    assert 0.2 < SELECTION.threshold(Lane.LOCAL, 60, 128) < SELECTION.threshold(Lane.LOCAL, 5000, 128) < 0.6
    assert above_chance(1000, 128, 0.0) == 0.0
