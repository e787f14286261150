"""What was said before and after a turn of a conversation: whose turns they are, in which order, how many, and how far away."""

from __future__ import annotations

from datetime import timedelta

import pytest
from conformance.answers import around, filled
from conformance.worlds import EVERYTHING, NOW, memory, seen_from, wanting

from remit.pipeline.storage.entry import Entry
from remit.pipeline.storage.store import Store
from remit.stages.access import Approval
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


def turn(name: str, minute: float, text: str = "word", scope: str = "conversation:42", **stated: object) -> Entry:
    stated.setdefault("source", Source.SESSION)
    return memory(name, text, scope=scope, created_at=NOW + timedelta(minutes=minute), **stated)


async def beside(store: Store, reach: int = 2, within: timedelta = HOUR, granted: list[str] | None = None) -> list[str] | None:
    """The turns beside the one that holds the word `asked`."""
    access = EVERYTHING if granted is None else seen_from(granted=granted)
    told = await around(store, wanting("asked"), access, reach, within)
    return [name.removeprefix("session:").removesuffix("#0") for name in told["session:x#0"]] if told else None


async def test_the_last_before_and_the_first_after_in_order_of_distance(store: Store) -> None:
    await filled(store, [turn("x", 0, "asked"), *[turn(f"t{minute}", minute) for minute in (3, -1, 2, -3, 1, -2)]])

    assert await beside(store) == ["t-1", "t-2", "t1", "t2"]
    assert await beside(store, reach=1) == ["t-1", "t1"]
    assert await beside(store, reach=9) == ["t-1", "t-2", "t-3", "t1", "t2", "t3"]
    assert await beside(store, reach=0) == []


async def test_what_is_further_away_in_time_is_another_matter(store: Store) -> None:
    await filled(store, [turn("x", 0, "asked"), turn("early", -60), turn("earlier", -60.001), turn("late", 60), turn("later", 60.001)])

    assert await beside(store) == ["early", "late"]


async def test_what_was_made_at_the_same_time_has_no_order(store: Store) -> None:
    await filled(store, [turn("x", 0, "asked"), turn("w", 0), turn("y", 0), turn("a", 1), turn("b", 1), turn("c", 1), turn("d", -1)])

    assert await beside(store) == ["d", "a", "b"]


async def test_only_turns_of_one_conversation_have_others_beside_them(store: Store) -> None:
    await filled(
        store,
        [
            turn("x", 0, "asked"),
            turn("other", 1, scope="conversation:421"),
            turn("fact", 1, source=Source.FACT),
            turn("aside", 1, project="alpha"),
            turn("global", 1, scope="global"),
        ],
    )

    assert await beside(store) == []
    assert await around(store, wanting("asked", "word"), seen_from(granted=None, sources=frozenset({Source.FACT})), 2, HOUR) == {}


async def test_sessions_of_no_conversation_have_nothing_beside_them(store: Store) -> None:
    await filled(store, [turn("x", 0, "asked", scope="project:alpha"), turn("y", 1, scope="project:alpha")])

    assert await beside(store) is None


async def test_a_conversation_that_they_come_from_will_do(store: Store) -> None:
    of_it = {"scope": "person:ada", "conversation": "42"}
    await filled(store, [turn("x", 0, "asked", **of_it), turn("y", 1, **of_it)])

    assert await beside(store) == ["y"]
    assert await beside(store, granted=["person:ada"]) is None
    assert await beside(store, granted=["person:ada", "conversation:42"]) == ["y"]


async def test_what_does_not_stand_takes_no_place(store: Store) -> None:
    await filled(
        store,
        [
            turn("x", 0, "asked"),
            turn("old", 1),
            turn("new", 5, supersedes=(MemoryId(Source.SESSION, "old"),)),
            turn("over", 2, valid_until=NOW),
            turn("proposed", 3, approval=Approval.PROPOSED),
            turn("standing", 4),
        ],
    )

    assert await beside(store) == ["standing", "new"]


async def test_turns_of_another_org_are_not_there(store: Store) -> None:
    await filled(store, [turn("x", 0, "asked"), turn("y", 2), *[turn(f"z{minute}", minute, org="acme2") for minute in (1, -1)]])

    assert await beside(store) == ["y"]
