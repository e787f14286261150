"""Is this batch sound? A provider's answer is judged as a whole: all of its vectors can be used, or none is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.errors import UnsoundBatch

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_normal)
"""Below it float32 has fewer and fewer digits, and then none: such a number is lost, not rounded."""

MOST_DIMENSIONS = 16_384
"""No model makes longer vectors: beyond it an answer is not of another model but of no model."""

WHOLE = (-1, 0, 1)
"""How many encoders write -1.0, 0.0 and 1.0. Other whole numbers are another encoding, of bytes or bits."""


class Unsound(StrEnum):
    """What is wrong with a provider's answer. The list is closed; `ops/runbook.md` explains each."""

    TOO_LARGE = "too_large"
    CONTENT_TYPE = "content_type"
    EMPTY = "empty"
    NOT_JSON = "not_json"
    SHAPE = "shape"
    MODEL = "model"
    COUNT = "count"
    INDEX = "index"
    INDEX_REPEATED = "index_repeated"
    INDEX_PERMUTED = "index_permuted"
    NO_DIMENSIONS = "no_dimensions"
    TOO_MANY_DIMENSIONS = "too_many_dimensions"
    RAGGED = "ragged"
    DIMENSIONS = "dimensions"
    NOT_NUMBERS = "not_numbers"
    NOT_FINITE = "not_finite"
    OUT_OF_RANGE = "out_of_range"
    ALL_ZERO = "all_zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What was asked for: `count` vectors of `dimensions` of `model`."""

    model: str
    count: int
    dimensions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """Vectors of texts, float32 of shape (texts, dimensions); `failed` says what kept a text from one, whose row is zero then."""

    vectors: NDArray[np.float32]
    failed: Mapping[int, str] = field(default_factory=dict)


class PassageEmbedder(Protocol):
    """Embeds what is taken in, text by text: one that cannot be embedded now costs the others nothing. Never raises."""

    space: str
    dimensions: int

    async def embed_each(self, texts: Sequence[str]) -> Embedded: ...


def opened(body: bytes, content_type: str | None, *, most_bytes: int) -> object:
    """The JSON value of an answer's body. Raises `UnsoundBatch`."""
    if len(body) > most_bytes:
        raise UnsoundBatch(Unsound.TOO_LARGE, f"more than {most_bytes} bytes")
    media = (content_type or "").partition(";")[0].strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise UnsoundBatch(Unsound.CONTENT_TYPE, "the answer is not declared to be JSON")
    if not body.strip():
        raise UnsoundBatch(Unsound.EMPTY, "the answer has no content")
    value = _parsed(body)
    if value is _NOTHING:  # raised here and not where it was caught: the parser's error quotes the answer
        raise UnsoundBatch(Unsound.NOT_JSON, "the answer is no JSON text")
    return value


_NOTHING = object()


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _NOTHING


def judged(answer: object, expected: Expected) -> NDArray[np.float32]:
    """The vectors of an OpenAI-compatible answer: float32 of shape (count, dimensions), each of length 1, in the order of the texts.

    The place of a vector must be proved by its `index`: answers in any other order are refused, not sorted. A negative zero is a zero.
    Raises `UnsoundBatch` whose code is one of `Unsound` and whose fact holds no value of the answer.
    """
    if not isinstance(answer, Mapping) or not isinstance(answer.get("data"), list):
        raise UnsoundBatch(Unsound.SHAPE, "the answer has no list `data`")
    if answer.get("model") != expected.model:
        raise UnsoundBatch(Unsound.MODEL, "another model answered than was asked")
    data: Sequence[Any] = answer["data"]
    if len(data) != expected.count:
        raise UnsoundBatch(Unsound.COUNT, f"{len(data)} vectors for {expected.count} texts")
    if not all(isinstance(each, Mapping) for each in data):
        raise UnsoundBatch(Unsound.SHAPE, "an entry of `data` is no object")
    _check_order([each.get("index") for each in data])
    rows = [vector for each in data if isinstance(vector := each.get("embedding"), list)]
    if len(rows) != expected.count:
        raise UnsoundBatch(Unsound.NOT_NUMBERS, "a vector is no list of numbers")
    _check_lengths([len(row) for row in rows], expected)
    _check_kinds(rows)
    matrix = np.array(rows, np.float64).reshape(expected.count, expected.dimensions)
    _check_values(matrix)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    vectors: NDArray[np.float32] = (matrix / lengths + 0.0).astype(np.float32)
    return vectors


def _check_order(indexes: Sequence[object]) -> None:
    if not all(type(index) is int for index in indexes):
        raise UnsoundBatch(Unsound.INDEX, "a vector does not say which text it is of")
    stated: list[int] = [index for index in indexes if isinstance(index, int)]
    if stated == list(range(len(stated))):
        return
    if len(set(stated)) < len(stated):
        raise UnsoundBatch(Unsound.INDEX_REPEATED, "two vectors say that they are of the same text")
    if sorted(stated) == list(range(len(stated))):
        raise UnsoundBatch(Unsound.INDEX_PERMUTED, "the vectors are not in the order of the texts")
    raise UnsoundBatch(Unsound.INDEX, "a vector says that it is of a text which was not sent")


def _check_lengths(lengths: Sequence[int], expected: Expected) -> None:
    if any(length > MOST_DIMENSIONS for length in lengths):
        raise UnsoundBatch(Unsound.TOO_MANY_DIMENSIONS, f"more than {MOST_DIMENSIONS} dimensions")
    if any(length == 0 for length in lengths):
        raise UnsoundBatch(Unsound.NO_DIMENSIONS, "a vector is empty")
    if len(set(lengths)) > 1:
        raise UnsoundBatch(Unsound.RAGGED, "the vectors differ in length")
    if lengths and lengths[0] != expected.dimensions:
        raise UnsoundBatch(Unsound.DIMENSIONS, f"{lengths[0]} dimensions where {expected.dimensions} were expected")


def _check_kinds(rows: Sequence[list[object]]) -> None:
    """Whole numbers count as numbers only where they are how a fraction's encoder writes -1.0, 0.0 or 1.0; a null is a number that was
    not finite, as many encoders write those."""
    kinds = [set(map(type, row)) for row in rows]
    if any(type(None) in kind and kind <= {float, int, type(None)} for kind in kinds):
        raise UnsoundBatch(Unsound.NOT_FINITE, "a number is null")
    if any(kind - {float, int} for kind in kinds):
        raise UnsoundBatch(Unsound.NOT_NUMBERS, "a vector holds something else than numbers")
    if any(float not in kind for kind in kinds):
        raise UnsoundBatch(Unsound.NOT_NUMBERS, "a vector of whole numbers is of another encoding")
    mixed = (row for row, kind in zip(rows, kinds, strict=True) if int in kind)
    if any(type(value) is int and value not in WHOLE for value in chain.from_iterable(mixed)):
        raise UnsoundBatch(Unsound.NOT_NUMBERS, "a vector mixes fractions and whole numbers")


def _check_values(matrix: NDArray[np.float64]) -> None:
    if not np.isfinite(matrix).all():
        raise UnsoundBatch(Unsound.NOT_FINITE, "a number is not finite")
    sizes = np.abs(matrix)
    if (sizes > LARGEST).any() or ((sizes > 0) & (sizes < SMALLEST)).any():
        raise UnsoundBatch(Unsound.OUT_OF_RANGE, "a number is too large or too small for float32")
    if not sizes.any(axis=1).all():
        raise UnsoundBatch(Unsound.ALL_ZERO, "a vector is zero")


def sound_scores(answer: object, *, model: str, count: int) -> tuple[float, ...]:
    """The scores of a reranker's answer, `{"results": [{"index", "relevance_score"}…]}` in any order, in the order of the passages.

    Each passage must have exactly one, finite; a `model`, when the answer names one, must be the one asked. Raises `UnsoundBatch`.
    """
    if not isinstance(answer, Mapping) or not isinstance(answer.get("results"), list):
        raise UnsoundBatch(Unsound.SHAPE, "the answer has no list `results`")
    if answer.get("model", model) != model:
        raise UnsoundBatch(Unsound.MODEL, "another model answered than was asked")
    results: Sequence[Any] = answer["results"]
    if len(results) != count:
        raise UnsoundBatch(Unsound.COUNT, f"{len(results)} scores for {count} passages")
    if not all(isinstance(each, Mapping) for each in results):
        raise UnsoundBatch(Unsound.SHAPE, "an entry of `results` is no object")
    indexes = [each.get("index") for each in results]
    _check_order(sorted(indexes) if all(type(index) is int for index in indexes) else indexes)
    scores = {each["index"]: each.get("relevance_score") for each in results}
    if not all(type(score) in (float, int) for score in scores.values()):
        raise UnsoundBatch(Unsound.NOT_NUMBERS, "a score is no number")
    if not all(-LARGEST <= score <= LARGEST for score in scores.values()):  # a NaN is in no range
        raise UnsoundBatch(Unsound.NOT_FINITE, "a score is not finite")
    return tuple(float(scores[place]) for place in range(count))
