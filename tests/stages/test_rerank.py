"""Rerank: a better order for what may be read, and the fused one when there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.stages.access import Access, Approval, Label, Shelf
from remit.stages.ceiling import Ceiling
from remit.stages.evidence import Candidate, Lane, Memory, MemoryId, Outline, PassageId, Ranked, Route, Status
from remit.stages.rank import order
from remit.stages.report import Degradation, Reason, Staged
from remit.stages.request import Source
from remit.stages.rerank import rerank

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ACCESS = Access(actor="ada", org="acme", granted=frozenset(), as_of=NOW)
TIES = (Source.DOC, Source.FACT, Source.SESSION)
PLENTY = Ceiling(items=50, seconds=60.0)


def ranked(name: str, *, score: float = 1.0, source: Source = Source.FACT, status: Status = Status.ACTIVE) -> Ranked:
    outline = Outline(key=1, passage=PassageId(MemoryId(source, name), 0), scope="global", version=1, aged_from=NOW, status=status)
    candidate = Candidate(outline=outline, ranks={Lane.LEXICAL: 0}, routes=(Route.LEXICAL,))
    return Ranked(candidate=candidate, ranks=candidate.ranks, fused=score, boost=1.0, scope=1.0, score=score)


def staged(*those: Ranked) -> Staged[Ranked]:
    return Staged(received=len(those) + 2, kept=those, rejected={Reason.COLLAPSED: 2}, degraded=(Degradation.NEAR_WORDS,))


def memory(passage: PassageId, **changes: Any) -> Memory:
    label = Label(shelf=Shelf(org="acme", source=passage.memory.source, scope=changes.pop("scope", "global")))
    label = replace(label, approval=changes.pop("approval", Approval.APPROVED))
    return Memory(passage=passage, version=changes.pop("version", 1), label=label, title="", text=passage.memory.id, created_at=NOW)


class Shelves:
    """A store that holds everything asked for, but for what a test changed."""

    def __init__(self, **changes: Mapping[str, Any] | None) -> None:
        self.changes = changes

    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        changes = {each: self.changes.get(each.memory.id, {}) for each in passages}
        return {each: memory(each, **change) for each, change in changes.items() if change is not None}


class Judge:
    """Scores texts as a test says."""

    name = "judge"

    def __init__(self, said: Any) -> None:
        self.said = said
        self.asked: list[str] = []

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        self.asked += passages
        if isinstance(self.said, Exception):
            raise self.said
        if isinstance(self.said, dict):
            return [self.said[text] for text in passages]
        return self.said  # type: ignore[no-any-return]


async def reranked(those: Staged[Ranked], judge: Any, *, reader: Any = None, ceiling: Ceiling = PLENTY) -> Staged[Ranked]:
    return await rerank(
        those, question="why", access=ACCESS, reader=reader or Shelves(), reranker=judge, tie_break_order=TIES, ceiling=ceiling
    )


def names(given: Staged[Ranked]) -> list[str]:
    return [each.outline.memory.id for each in given.kept]


async def test_the_order_is_the_rerankers_and_nothing_comes_or_goes() -> None:
    before = staged(ranked("a", score=0.9), ranked("b", score=0.8), ranked("c", score=0.7))
    after = await reranked(before, Judge({"a": 0.1, "b": 0.3, "c": 0.2}))

    assert names(after) == ["b", "c", "a"]
    assert [each.reranked for each in after.kept] == [0.3, 0.2, 0.1]
    assert [each.score for each in after.kept] == [0.8, 0.7, 0.9]
    assert (after.received, after.rejected, after.degraded) == (before.received, before.rejected, before.degraded)


async def test_equal_scores_fall_back_to_the_fused_one_then_the_kind_then_the_id() -> None:
    before = staged(
        ranked("high", score=0.9),
        ranked("doc", source=Source.DOC),
        ranked("B"),
        ranked("a"),
        ranked("b"),
        ranked("session", source=Source.SESSION),
    )
    after = await reranked(before, Judge(dict.fromkeys(names(before), 0.5)))

    assert names(after) == ["doc", "B", "a", "b", "session", "high"]


async def test_scores_that_differ_by_less_than_rounding_are_equal() -> None:
    after = await reranked(staged(ranked("a"), ranked("b")), Judge({"a": 0.3, "b": 0.1 + 0.2}))

    assert names(after) == ["a", "b"]


async def test_archived_docs_stay_last() -> None:
    old = ranked("old", source=Source.DOC, status=Status.ARCHIVED)
    after = await reranked(staged(ranked("a"), old), Judge({"a": 0.1, "old": 0.9}))

    assert names(after) == ["a", "old"]


async def test_only_the_first_so_many_are_asked_about_and_stay_before_the_rest() -> None:
    judge = Judge({"a": -5.0, "b": -4.0})
    before = staged(ranked("a", score=0.9), ranked("b", score=0.8), ranked("c", score=0.7))
    after = await reranked(before, judge, ceiling=Ceiling(items=2, seconds=60.0))

    assert judge.asked == ["a", "b"]
    assert names(after) == ["b", "a", "c"]
    assert after.kept[2].reranked is None


CHANGES: Mapping[str, Mapping[str, Any] | None] = {
    "gone": None,
    "revised": {"version": 2},
    "withdrawn": {"approval": Approval.REJECTED},
    "out of reach": {"scope": "project:hidden"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_text_that_does_not_stand_any_more_is_not_shown(change: Mapping[str, Any] | None) -> None:
    judge = Judge({"a": 0.5, "c": 0.9})
    after = await reranked(staged(ranked("a"), ranked("b"), ranked("c")), judge, reader=Shelves(b=change))

    assert judge.asked == ["a", "c"]
    assert names(after) == ["c", "a", "b"]  # verify says what became of b


FAILURES = {
    "raises": RuntimeError("down"),
    "too few": [0.1],
    "too many": [0.1, 0.2, 0.3],
    "nothing": [],
    "None": None,
    "NaN": [0.1, math.nan],
    "infinite": [0.1, math.inf],
    "text": ["high", "low"],
}


@pytest.mark.parametrize("said", FAILURES.values(), ids=FAILURES)
async def test_failing_the_fused_order_stands_and_is_reported(said: Any) -> None:
    before = staged(ranked("a"), ranked("b"))
    after = await reranked(before, Judge(said))

    assert after.kept == before.kept
    assert after.degraded == (Degradation.NEAR_WORDS, Degradation.RERANKER_FAILED)


async def test_late_the_fused_order_stands_and_is_reported() -> None:
    class Late:
        name = "late"

        async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
            await anyio.sleep_forever()
            raise AssertionError

    before = staged(ranked("a"), ranked("b"))
    for seconds in (0.0, 0.01):
        after = await reranked(before, Late(), ceiling=Ceiling(items=50, seconds=seconds))
        assert after.kept == before.kept
        assert Degradation.RERANKER_FAILED in after.degraded


async def test_nothing_to_rank_or_nothing_allowed_asks_nobody() -> None:
    judge = Judge(RuntimeError())
    before = staged(ranked("a"))

    assert await reranked(staged(), judge) == staged()
    assert await reranked(before, judge, ceiling=Ceiling(items=0, seconds=60.0)) == before
    assert (await reranked(before, judge, reader=Shelves(a=None))).degraded == before.degraded
    assert judge.asked == []


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.sampled_from(list(Source))), max_size=8), st.integers(0, 9))
def test_any_scores_give_one_order_of_the_same_memories(given: list[tuple[float, float, Source]], items: int) -> None:
    those = [ranked(str(place), score=score, source=source) for place, (_, score, source) in enumerate(given)]
    said = {str(place): said for place, (said, _, _) in enumerate(given)}
    results = []
    for turned in (those, those[::-1]):
        before = staged(*sorted(turned, key=lambda each: order(each, TIES)))
        results.append(anyio.run(lambda before=before: reranked(before, Judge(said), ceiling=Ceiling(items=items, seconds=60.0))))

    assert results[0] == results[1]
    assert sorted(names(results[0])) == sorted(said)
