"""Turns of a conversation gain from the strongest turns beside them, and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.config import load
from remit.stages.bm25 import Scored
from remit.stages.request import Source
from remit.stages.turns import Turns, anchors_of, gains_of, with_gains

RULES = Turns(anchors=2, reach=2, weight=0.5, within_seconds=3600.0)


def scored(scores: Mapping[int, float], source: Source = Source.SESSION) -> Scored:
    keys = np.array(sorted(scores), dtype=np.int64)
    ones, no = np.ones(keys.size), np.zeros(keys.size, dtype=np.bool_)
    sources = np.full(keys.size, tuple(Source).index(source))
    return Scored(keys, sources, np.array([scores[key] for key in sorted(scores)]), ones, ones, ones, ~no, no)


def raised(
    scores: Mapping[int, float],
    strong: Sequence[int],
    around: Mapping[int, Sequence[int]],
    rules: Turns = RULES,
    without: Sequence[int] = (),
) -> tuple[dict[int, float], list[int]]:
    """The scores that are left, by key, and the keys that are strong then."""
    given, eligible = scored(scores), np.array([key not in without for key in sorted(scores)])
    of_strong = np.array([key in strong for key in sorted(scores)]) & eligible
    told, now = with_gains(given, of_strong, eligible, gains_of(given, anchors_of(given, of_strong, rules), around, rules))
    return dict(zip(told.keys.tolist(), told.scores.tolist(), strict=True)), told.keys[now].tolist()


def test_a_turn_gains_a_part_of_the_score_of_the_turn_beside_it() -> None:
    assert raised({1: 4.0, 2: 3.0, 3: 1.0}, [1, 2], {1: [2]}) == ({1: 4.0, 2: 5.0, 3: 1.0}, [1, 2])


def test_a_weak_turn_beside_a_strong_one_is_strong_by_what_it_gained_alone() -> None:
    assert raised({1: 4.0, 2: 3.0}, [1], {1: [2]}) == ({1: 4.0, 2: 2.0}, [1, 2])


def test_what_holds_no_word_of_the_question_gains_nothing() -> None:
    assert raised({1: 4.0}, [1], {1: [7, 0]}) == ({1: 4.0}, [1])


def test_what_the_filters_leave_out_neither_gains_nor_gives() -> None:
    assert raised({1: 4.0, 2: 3.0}, [1], {1: [2]}, without=[2]) == ({1: 4.0, 2: 3.0}, [1])
    assert raised({1: 4.0, 2: 3.0}, [1, 2], {1: [2], 2: [1]}, without=[1]) == ({1: 4.0, 2: 3.0}, [2])


def test_a_turn_between_two_strong_ones_gains_from_both() -> None:
    assert raised({1: 4.0, 2: 1.0, 3: 2.0}, [1, 3], {1: [2, 3], 3: [2, 1]}) == ({1: 5.0, 2: 3.0, 3: 4.0}, [1, 2, 3])


def test_only_the_strongest_turns_are_anchors() -> None:
    given = scored({1: 4.0, 2: 3.0, 3: 2.0})

    assert anchors_of(given, np.ones(3, dtype=np.bool_), RULES) == {1: 4.0, 2: 3.0}
    assert anchors_of(given, np.array([False, True, True]), RULES) == {2: 3.0, 3: 2.0}


def test_of_turns_that_tie_for_the_last_place_none_is_an_anchor() -> None:
    every = np.ones(4, dtype=np.bool_)

    assert anchors_of(scored({1: 4.0, 2: 3.0, 3: 3.0, 4: 3.0}), every, RULES) == {1: 4.0}
    assert anchors_of(scored(dict.fromkeys(range(4), 1.0)), every, RULES) == {}
    assert anchors_of(scored({1: 3.0, 2: 3.0}), every[:2], RULES) == {1: 3.0, 2: 3.0}


def test_facts_and_docs_are_no_turns() -> None:
    for source in (Source.FACT, Source.DOC):
        assert anchors_of(scored({1: 4.0}, source), np.ones(1, dtype=np.bool_), RULES) == {}


def test_each_of_the_three_numbers_switches_it_off() -> None:
    for off in ({"anchors": 0}, {"reach": 0}, {"weight": 0.0}):
        assert anchors_of(scored({1: 4.0}), np.ones(1, dtype=np.bool_), replace(RULES, **off)) == {}  # type: ignore[arg-type]


@given(st.permutations(range(6)), st.lists(st.sampled_from([0.1, 0.3, 0.7, 1.1]), min_size=6, max_size=6))
def test_the_same_turns_gain_the_same_bits_whatever_numbers_a_store_gave_them(numbers: list[int], scores: list[float]) -> None:
    rules = replace(load().recall.turns, anchors=6)

    def told(key_of: Sequence[int]) -> dict[int, float]:
        around = {key_of[at]: [key_of[each] for each in (at - 2, at - 1, at + 1, at + 2) if 0 <= each < 6] for at in range(6)}
        after, _ = raised({key_of[at]: scores[at] for at in range(6)}, list(key_of), around, rules)
        return {at: after[key_of[at]] for at in range(6)}

    assert told(range(6)) == told(numbers)
