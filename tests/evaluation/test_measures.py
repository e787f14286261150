"""Measures are plain figures: right at their ends, and the same whenever they are computed."""

from collections.abc import Sequence
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.evaluation.measures import (
    distribution,
    gain,
    interval,
    mean_of,
    moved,
    part,
    percentile,
    precision,
    right_and_wrong,
)

IDS = st.lists(st.sampled_from("abcdefgh"), unique=True)


def test_recall_is_the_part_of_the_evidence_and_no_question_where_there_is_none() -> None:
    assert part(("a", "b"), ("b", "c")) == 0.5
    assert part((), ("a",)) is None
    assert mean_of([None, 1.0, 0.0]) == 0.5
    assert mean_of([None]) is None


def test_gain_falls_with_the_place_of_the_evidence() -> None:
    assert gain(["a", "x"], {"a"}, 10) == 1.0
    assert gain(["x", "a"], {"a"}, 10) == pytest.approx(1 / log2(3))
    assert gain(["x", "a"], {"a"}, 1) == 0.0
    assert gain(["a"], (), 10) is None


def test_precision_leaves_what_is_merely_related_aside() -> None:
    assert precision(["a", "x", "r"], {"a"}, {"r"}) == 0.5
    assert precision(["r"], {"a"}, {"r"}) == 1.0
    assert precision([], {"a"}, ()) == 1.0
    assert right_and_wrong(["a", "x", "r"], {"a"}, {"r"}) == (1, 1)


@given(IDS, IDS, st.integers(1, 10))
def test_every_figure_is_between_nothing_and_everything(found: list[str], relevant: list[str], k: int) -> None:
    for figure in (part(relevant, found), gain(found, relevant, k), precision(found, relevant, ())):
        assert figure is None or 0.0 <= figure <= 1.0


def test_percentiles_are_values_that_occurred() -> None:
    assert [percentile([4.0, 1.0, 3.0, 2.0], wanted) for wanted in (0, 50, 75, 99, 100)] == [1.0, 2.0, 3.0, 4.0, 4.0]
    assert distribution([]) == {"count": 0, "mean": 0.0, "p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0}


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.integers(0, 9))
def test_an_interval_holds_still_for_its_seed_and_lies_within_what_was_seen(differences: Sequence[float], seed: int) -> None:
    low, high = interval(differences, resamples=50, seed=seed)
    assert (low, high) == interval(differences, resamples=50, seed=seed)
    assert min(differences) - 1e-9 <= low <= high <= max(differences) + 1e-9


def test_what_moved_is_told_by_measure_with_the_cases_that_did() -> None:
    before = {name: {"precision": 0.0} for name in "abcdefgh"} | {"gone": {"precision": 1.0}}
    after = {name: {"precision": 1.0} for name in "abcdefgh"} | {"new": {"precision": 1.0}}
    told = moved(before, after, resamples=100, seed=7)
    assert list(told) == ["precision"]
    assert (told["precision"]["difference"], told["precision"]["clear"], told["precision"]["rose"]) == (1.0, True, list("abcdefgh"))
    same = moved(before, before, resamples=100, seed=7)["precision"]
    assert (same["difference"], same["clear"], same["fell"]) == (0.0, False, [])
