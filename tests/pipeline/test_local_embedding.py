"""The local feature hash: the same words are near, the same text is the same bytes everywhere, and no words are no vector."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.analysis import Analyser
from remit.pipeline.embedding.local import DIMENSIONS, FEW, INLINE_CHARACTERS, LocalHash, similarity
from remit.stages.evidence import Lane

ANALYSER = Analyser("english")
LOCAL = LocalHash(ANALYSER)

GOLDEN = {
    4: -0.212799,
    7: 0.212799,
    11: 0.212799,
    24: 0.212799,
    26: 0.360345,
    40: 0.212799,
    48: 0.212799,
    50: -0.212799,
    64: -0.360345,
    73: -0.212799,
    83: -0.212799,
    96: 0.360345,
    99: 0.147546,
    101: -0.212799,
    109: 0.212799,
    119: -0.212799,
    126: -0.212799,
}


def test_a_known_text_has_the_known_vector() -> None:
    vector = LOCAL.vector_of("The deploy crashed the queue workers; the deploy failed.")

    assert {int(place): round(float(vector[place]), 6) for place in np.flatnonzero(vector)} == GOLDEN
    assert vector.dtype == np.float32
    assert vector.shape == (DIMENSIONS,) == (128,)


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_another_process_makes_the_same_bytes(seed: str) -> None:
    program = (
        "from remit.pipeline.analysis import Analyser; from remit.pipeline.embedding.local import LocalHash;"
        "local = LocalHash(Analyser('english')); print(local.space, local.vector_of('deploy crashed 売上 getUserById').tobytes().hex())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout

    assert told.split() == [LOCAL.space, LOCAL.vector_of("deploy crashed 売上 getUserById").tobytes().hex()]


def test_the_space_names_version_dimensions_and_analyser() -> None:
    assert LOCAL.lane is Lane.LOCAL
    assert LOCAL.dimensions == DIMENSIONS
    assert LOCAL.space.startswith("local-feature-hash-v1/128/")
    assert LOCAL.space == LocalHash(Analyser("english")).space != LocalHash(Analyser("none")).space


def test_shared_words_are_near_and_others_are_not() -> None:
    query = LOCAL.vector_of("why do workers crash after a deploy?")
    near, far = LOCAL.vector_of("a deploy crashes the workers"), LOCAL.vector_of("lunch is at noon on fridays")

    assert similarity(query, near) > 0.7
    assert abs(similarity(query, far)) < 0.4


def test_stop_words_count_only_when_nothing_else_is_there() -> None:
    assert similarity(LOCAL.vector_of("the deploy of it"), LOCAL.vector_of("deploy")) == pytest.approx(1)
    assert LOCAL.vector_of("to be or not to be").any()


def test_words_counted_before_give_the_same_vector() -> None:
    text = "deploy, deploy and crash"

    assert (LOCAL.vector_of_words(Analyser("english").indexed(text)[0]) == LOCAL.vector_of(text)).all()


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 9), min_size=1, max_size=3 * FEW))
def test_few_words_or_many_fill_the_bins_that_their_hashes_name(words: dict[str, int]) -> None:
    bins = [0] * DIMENSIONS
    for word, count in ANALYSER.subject(words).items():
        for byte in blake2b(word.encode(), digest_size=4, person=b"remit-local-v1").digest():
            bins[byte % 128] += round((1 + log(count)) * 1024) * (-1 if byte >= 128 else 1)
    length = sqrt(sum(each * each for each in bins)) or 1.0

    made = np.array([each / length for each in bins], np.float32).tobytes()
    assert LOCAL.vector_of_words(words).tobytes() == made
    assert LOCAL.vectors_of_words([{"deploy": 2}, words, {}])[1].tobytes() == made


@given(st.permutations(["deploy", "crash", "worker", "queue", "deploy", "売上", "v1.2"]))
def test_the_order_of_words_changes_no_bit(words: list[str]) -> None:
    assert LOCAL.vector_of(" ".join(words)).tobytes() == LOCAL.vector_of("deploy crash worker queue deploy 売上 v1.2").tobytes()


@given(st.text(st.characters()))
def test_a_vector_is_a_unit_or_zero(text: str) -> None:
    vector = LOCAL.vector_of(text)

    assert np.isfinite(vector).all()
    assert not vector.any() or np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("text", ["", "   ", "!?", "\x00", "\ud800"])
def test_a_text_without_words_is_zero(text: str) -> None:
    assert not LOCAL.vector_of(text).any()


async def test_a_batch_is_its_texts_one_by_one() -> None:
    long = "deploy crash " * INLINE_CHARACTERS
    texts = ["deploy", "", long, "crash", long]

    vectors = await LOCAL.embed(texts)

    assert vectors.shape == (5, DIMENSIONS)
    assert vectors.dtype == np.float32
    assert vectors.tobytes() == np.stack([LOCAL.vector_of(text) for text in texts]).tobytes()
    assert (await LOCAL.embed([])).shape == (0, DIMENSIONS)


async def test_a_short_text_has_its_vector_at_once_and_a_long_one_is_waited_for() -> None:
    vector = LOCAL.at_once("deploy crash")
    assert vector is not None
    assert vector.tobytes() == (await LOCAL.embed(["deploy crash"])).tobytes()
    assert LOCAL.at_once("a" * INLINE_CHARACTERS) is not None
    assert LOCAL.at_once("a" * (INLINE_CHARACTERS + 1)) is None


def test_similarity_is_the_cosine() -> None:
    assert similarity([1, 0], [1, 0]) == 1.0
    assert similarity([1, 0], [0, 2]) == 0.0
    assert similarity([1, 0], [-3, 0]) == -1.0
    assert similarity([3, 4], [4, 3]) == pytest.approx(0.96)
    vector = LOCAL.vector_of("deploy crash")
    assert similarity(vector, vector) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "one, other",
    [
        ([1.0, 0.0], [1.0, 0.0, 0.0]),
        ([], []),
        ([0.0, 0.0], [1.0, 0.0]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([[1.0]], [[1.0]]),
        ([float("nan"), 1.0], [1.0, 1.0]),
        ([float("inf"), 1.0], [1.0, 1.0]),
    ],
)
def test_what_cannot_be_compared_has_no_similarity(one: list[float], other: list[float]) -> None:
    assert similarity(one, other) == 0.0
