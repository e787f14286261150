"""Judging a provider's answer: all of its vectors can be used, or all are refused with the code of what is wrong."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.embedding.batch import LARGEST, SMALLEST, Expected, Unsound, judged, opened, sound_scores
from remit.pipeline.errors import UnsoundBatch

EXPECTED = Expected(model="toy", count=3, dimensions=4)
GOOD = [[0.1, 0.2, 0.3, 0.4], [0.5, -0.5, 0.5, -0.5], [1.0, 0.0, 0.0, 0.0]]


def answer(vectors: Any = GOOD, *, indexes: Any = None, model: Any = "toy") -> dict[str, Any]:
    places = range(len(vectors)) if indexes is None else indexes
    return {"model": model, "data": [{"index": index, "embedding": each} for index, each in zip(places, vectors, strict=False)]}


def changed(value: Any, *, at: int = 1) -> dict[str, Any]:
    """A sound answer in which one number is another."""
    return answer([*GOOD[:at], [0.5, value, 0.5, 0.5], *GOOD[at + 1 :]])


def refusal(given: Any, expected: Expected = EXPECTED) -> str:
    with pytest.raises(UnsoundBatch) as refused:
        judged(given, expected)
    assert refused.value.code in list(Unsound)
    return refused.value.code


def test_a_sound_answer_gives_unit_vectors_in_the_order_of_the_texts() -> None:
    vectors = judged(answer(), EXPECTED)

    assert (vectors.shape, vectors.dtype) == ((3, 4), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert np.allclose(vectors @ vectors[1], [-0.18257418, 1, 0.5])


def test_what_else_an_answer_says_does_not_matter() -> None:
    assert judged({**answer(), "object": "list", "usage": None, "id": 7}, EXPECTED).shape == (3, 4)


FAULTS = {
    "wrong model id": (answer(model="other"), Unsound.MODEL),
    "no model id": (answer(model=None), Unsound.MODEL),
    "n - 1 vectors": (answer(GOOD[:2]), Unsound.COUNT),
    "n + 1 vectors": (answer([*GOOD, GOOD[0]]), Unsound.COUNT),
    "no vectors": (answer([]), Unsound.COUNT),
    "wrong index": (answer(indexes=[0, 1, 7]), Unsound.INDEX),
    "negative index": (answer(indexes=[-1, 0, 1]), Unsound.INDEX),
    "index from one": (answer(indexes=[1, 2, 3]), Unsound.INDEX),
    "index is text": (answer(indexes=["0", "1", "2"]), Unsound.INDEX),
    "index is a bool": (answer(indexes=[False, True, 2]), Unsound.INDEX),
    "index is a fraction": (answer(indexes=[0.0, 1.0, 2.0]), Unsound.INDEX),
    "no index": ({"model": "toy", "data": [{"embedding": each} for each in GOOD]}, Unsound.INDEX),
    "permuted indexes": (answer(indexes=[1, 0, 2]), Unsound.INDEX_PERMUTED),
    "duplicate index": (answer(indexes=[0, 1, 1]), Unsound.INDEX_REPEATED),
    "dims 0": (answer([[], [], []]), Unsound.NO_DIMENSIONS),
    "dims too large": (answer([[0.1] * 20_000] * 3), Unsound.TOO_MANY_DIMENSIONS),
    "other dims": (answer([[0.1] * 5] * 3), Unsound.DIMENSIONS),
    "ragged": (answer([GOOD[0], GOOD[1], [0.1] * 5]), Unsound.RAGGED),
    "NaN": (changed(math.nan), Unsound.NOT_FINITE),
    "+Inf": (changed(math.inf), Unsound.NOT_FINITE),
    "-Inf": (changed(-math.inf), Unsound.NOT_FINITE),
    "None": (changed(None), Unsound.NOT_FINITE),
    "None for a vector": (answer([GOOD[0], None, GOOD[2]]), Unsound.NOT_NUMBERS),
    "strings": (changed("0.5"), Unsound.NOT_NUMBERS),
    "base64": (answer(["AAAA", "AAAA", "AAAA"]), Unsound.NOT_NUMBERS),
    "bools": (changed(True), Unsound.NOT_NUMBERS),
    "all bools": (answer([[True, False, True, True]] * 3), Unsound.NOT_NUMBERS),
    "ints": (answer([[1, 2, 3, 4]] * 3), Unsound.NOT_NUMBERS),
    "bits": (answer([[1, 0, 0, 1]] * 3), Unsound.NOT_NUMBERS),
    "an int among fractions": (changed(17), Unsound.NOT_NUMBERS),
    "nested list": (changed([0.5]), Unsound.NOT_NUMBERS),
    "nested vectors": (answer([[each] for each in GOOD], indexes=range(3)), Unsound.DIMENSIONS),
    "object": (changed({"value": 0.5}), Unsound.NOT_NUMBERS),
    "1e39": (changed(1e39), Unsound.OUT_OF_RANGE),
    "-1e39": (changed(-1e39), Unsound.OUT_OF_RANGE),
    "1e308": (changed(1e308), Unsound.OUT_OF_RANGE),
    "1e-46": (changed(1e-46), Unsound.OUT_OF_RANGE),
    "a subnormal of float32": (changed(1e-40), Unsound.OUT_OF_RANGE),
    "a subnormal of float64": (changed(5e-324), Unsound.OUT_OF_RANGE),
    "all zeros": (answer([GOOD[0], [0.0] * 4, GOOD[2]]), Unsound.ALL_ZERO),
    "all -0.0": (answer([GOOD[0], [-0.0] * 4, GOOD[2]]), Unsound.ALL_ZERO),
    "complex": (changed(1j), Unsound.NOT_NUMBERS),
    "no object": ([GOOD], Unsound.SHAPE),
    "no data": ({"model": "toy"}, Unsound.SHAPE),
    "data is an object": ({"model": "toy", "data": {}}, Unsound.SHAPE),
    "an error with status 200": ({"error": {"message": "overloaded"}}, Unsound.SHAPE),
    "an entry is a list": ({"model": "toy", "data": GOOD}, Unsound.SHAPE),
    "null": (None, Unsound.SHAPE),
}


@pytest.mark.parametrize("given, code", FAULTS.values(), ids=FAULTS)
def test_a_fault_refuses_the_whole_batch_with_its_code(given: Any, code: Unsound) -> None:
    assert refusal(given) == code


def test_a_refusal_quotes_nothing_of_the_answer() -> None:
    with pytest.raises(UnsoundBatch) as refused:
        judged(answer(model="a secret"), EXPECTED)

    assert "secret" not in str(refused.value)


def test_zero_and_one_may_be_written_as_whole_numbers_among_fractions() -> None:
    assert np.array_equal(judged(changed(0), EXPECTED), judged(changed(0.0), EXPECTED))
    assert np.array_equal(judged(changed(-1), EXPECTED), judged(changed(-1.0), EXPECTED))


def test_a_negative_zero_is_a_zero() -> None:
    vectors = judged(changed(-0.0), EXPECTED)

    assert vectors.tobytes() == judged(changed(0.0), EXPECTED).tobytes()


@pytest.mark.parametrize("size", [LARGEST, -LARGEST, SMALLEST, 1e-30, 3e38])
def test_extreme_numbers_give_usable_vectors(size: float) -> None:
    vectors = judged(answer([[size] * 4] * 3), EXPECTED)

    assert np.allclose(np.abs(vectors), 0.5)


NUMBERS = st.one_of(st.floats(), st.integers(), st.none(), st.booleans(), st.text(max_size=3), st.floats(-1, 1, width=32))


@given(st.recursive(NUMBERS, lambda each: st.lists(each, max_size=4) | st.dictionaries(st.sampled_from(["data", "model"]), each)))
def test_whatever_comes_is_judged_or_refused(given: Any) -> None:
    assert refusal(given)
    assert refusal({"model": "toy", "data": given})


@given(st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=3, max_size=3))
def test_what_is_not_refused_can_be_compared(vectors: list[list[Any]]) -> None:
    try:
        found = judged(answer(vectors), EXPECTED)
    except UnsoundBatch:
        return
    assert (found.shape, found.dtype) == ((3, 4), np.float32)
    assert np.allclose(np.linalg.norm(found.astype(np.float64), axis=1), 1, atol=1e-5)
    assert not (np.signbit(found) & (found == 0)).any()


@given(st.permutations(range(3)), st.lists(st.integers(-1, 4), min_size=3, max_size=3))
def test_only_the_order_of_the_texts_is_taken_for_it(permuted: list[int], any_indexes: list[int]) -> None:
    for indexes in (permuted, any_indexes):
        if indexes == [0, 1, 2]:
            assert judged(answer(indexes=indexes), EXPECTED).shape == (3, 4)
        else:
            assert refusal(answer(indexes=indexes)).startswith("index")


JSON = "application/json"
BODIES = {
    "truncated": (json.dumps(answer()).encode()[:-9], JSON, Unsound.NOT_JSON),
    "HTML": (b"<!doctype html><h1>Welcome</h1>", JSON, Unsound.NOT_JSON),
    "declared HTML": (b"<!doctype html>", "text/html", Unsound.CONTENT_TYPE),
    "declared text": (json.dumps(answer()).encode(), "text/plain", Unsound.CONTENT_TYPE),
    "not declared": (json.dumps(answer()).encode(), None, Unsound.CONTENT_TYPE),
    "events": (b"data: {}", "text/event-stream", Unsound.CONTENT_TYPE),
    "empty": (b"", JSON, Unsound.EMPTY),
    "blank": (b" \n", JSON, Unsound.EMPTY),
    "too long": (b"[" + b" " * 1000 + b"]", JSON, Unsound.TOO_LARGE),
    "too deep": (b"[" * 100_000, JSON, Unsound.TOO_LARGE),
    "no text": (b'{"model": "\xff"}', JSON, Unsound.NOT_JSON),
    "two values": (b"{} {}", JSON, Unsound.NOT_JSON),
    "a number of 5,000 digits": (b"9" * 5000, JSON, Unsound.NOT_JSON),
}


@pytest.mark.parametrize("body, content_type, code", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_answer_is_refused(body: bytes, content_type: str | None, code: Unsound) -> None:
    with pytest.raises(UnsoundBatch) as refused:
        opened(body, content_type, most_bytes=1000 if code is Unsound.TOO_LARGE else 10_000)

    assert refused.value.code == code
    assert refused.value.__context__ is None  # a parser's error quotes what it could not read


def test_nesting_that_no_parser_bears_is_no_json() -> None:
    with pytest.raises(UnsoundBatch) as refused:
        opened(b"[" * 100_000, JSON, most_bytes=200_000)

    assert refused.value.code == Unsound.NOT_JSON


@pytest.mark.parametrize("content_type", [JSON, "application/json; charset=utf-8", "Application/JSON", "application/problem+json"])
def test_a_declared_json_body_is_read(content_type: str) -> None:
    assert opened(b'{"a": [1.5]}', content_type, most_bytes=100) == {"a": [1.5]}


def scores(*results: Any, model: Any = "toy") -> dict[str, Any]:
    return {"model": model, "results": [{"index": index, "relevance_score": score} for index, score in results]}


def test_scores_come_in_any_order_and_are_put_in_that_of_the_passages() -> None:
    assert sound_scores(scores((2, 0.9), (0, 1), (1, -3.5)), model="toy", count=3) == (1.0, -3.5, 0.9)
    assert sound_scores({"results": []}, model="toy", count=0) == ()


SCORES = {
    "other model": (scores((0, 0.1), (1, 0.2), model="other"), Unsound.MODEL),
    "too few": (scores((0, 0.1)), Unsound.COUNT),
    "too many": (scores((0, 0.1), (1, 0.2), (2, 0.3)), Unsound.COUNT),
    "repeated": (scores((0, 0.1), (0, 0.2)), Unsound.INDEX_REPEATED),
    "not asked": (scores((0, 0.1), (5, 0.2)), Unsound.INDEX),
    "no index": (scores((0, 0.1), (None, 0.2)), Unsound.INDEX),
    "NaN": (scores((0, math.nan), (1, 0.2)), Unsound.NOT_FINITE),
    "huge": (scores((0, 10**400), (1, 0.2)), Unsound.NOT_FINITE),
    "text": (scores((0, "0.1"), (1, 0.2)), Unsound.NOT_NUMBERS),
    "bool": (scores((0, True), (1, 0.2)), Unsound.NOT_NUMBERS),
    "no list": ({"results": {}}, Unsound.SHAPE),
    "no object": ({"results": [1, 2]}, Unsound.SHAPE),
}


@pytest.mark.parametrize("given, code", SCORES.values(), ids=SCORES)
def test_unsound_scores_are_refused_as_a_whole(given: Any, code: Unsound) -> None:
    with pytest.raises(UnsoundBatch) as refused:
        sound_scores(given, model="toy", count=2)

    assert refused.value.code == code
