"""Reuse of verdicts: for a stated time from the look, for the same access and version, and never past a change that was told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.freshness import Reuse, Watch
from remit.stages.access import Access, Label, Shelf
from remit.stages.evidence import Memory, MemoryId, Origin, PassageId, Reused, Verdict
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ADA = Access(actor="ada", org="acme", granted=frozenset({"project:alpha"}), as_of=NOW)
LASTS, DENIAL_LASTS = 30.0, 2.0


class World:
    """Sources with what may be seen of them, a clock that stands until it is moved, and a watch with reuse over both."""

    def __init__(self, *, seconds: float = LASTS, deny_seconds: float = DENIAL_LASTS, most: int = 1000) -> None:
        self.now, self.looks, self.sees = 1000.0, 0, Verdict.FRESH
        self.during: Callable[[], None] = lambda: None
        self.watch = Watch(
            {"crm": self.check},
            workers=8,
            check_seconds=60,
            reuse=Reuse(seconds=seconds, deny_seconds=deny_seconds, most=most, clock=lambda: self.now),
        )

    async def check(self, memory: Memory, access: Access) -> Any:
        self.looks += 1
        saw = self.sees
        await anyio.lowlevel.checkpoint()
        self.during()
        return saw

    async def asked(self, memory: Memory | None = None, access: Access = ADA) -> Verdict | Reused:
        (answer,) = (await self.watch.still_true([memory or record()], access)).values()
        return answer


def record(name: str = "f1", uri: str = "crm:1", *, version: int = 1, org: str = "acme", states: str | None = None) -> Memory:
    return Memory(
        passage=PassageId(MemoryId(Source.FACT, name), 0),
        version=version,
        label=Label(shelf=Shelf(org=org, source=Source.FACT)),
        title="",
        text="",
        created_at=NOW,
        origin=Origin(uri=uri, version=states),
    )


def verdict(answer: Verdict | Reused) -> Verdict:
    return answer.verdict if isinstance(answer, Reused) else answer


async def test_a_verdict_is_used_again_with_its_age_until_its_time_is_over() -> None:
    world = World()
    assert await world.asked() is Verdict.FRESH

    world.now += 29.5
    assert await world.asked() == Reused(Verdict.FRESH, timedelta(seconds=29.5))

    world.now += 0.5
    assert await world.asked() is Verdict.FRESH
    assert world.looks == 2


async def test_reading_makes_a_verdict_no_younger() -> None:
    world = World()
    for _ in range(60):
        await world.asked()
        world.now += 1

    assert world.looks == 2


async def test_a_verdict_is_as_old_as_the_beginning_of_its_look() -> None:
    world = World()

    def slowly() -> None:
        world.now += 29

    world.during = slowly
    await world.asked()
    assert await world.asked() == Reused(Verdict.FRESH, timedelta(seconds=29))

    world.now += 1
    assert await world.asked() is Verdict.FRESH


@pytest.mark.parametrize("denial", [Verdict.CHANGED, Verdict.MISSING, Verdict.INACCESSIBLE])
async def test_a_denial_counts_for_its_own_shorter_time(denial: Verdict) -> None:
    world = World()
    world.sees = denial
    await world.asked()
    world.sees = Verdict.FRESH

    world.now += 1.9
    assert await world.asked() == Reused(denial, timedelta(seconds=world.now - 1000))

    world.now += 0.1
    assert await world.asked() is Verdict.FRESH


async def test_what_could_not_be_verified_is_looked_at_again() -> None:
    world = World()
    world.sees = Verdict.UNVERIFIED
    await world.asked()
    world.sees = Verdict.FRESH

    assert await world.asked() is Verdict.FRESH


@pytest.mark.parametrize("seconds, deny_seconds, looks", [(0, 0, 4), (30, 0, 3), (30, 30, 2)])
async def test_no_seconds_remember_nothing(seconds: float, deny_seconds: float, looks: int) -> None:
    world = World(seconds=seconds, deny_seconds=deny_seconds)
    for world.sees, memory in ((Verdict.FRESH, record("f1")), (Verdict.CHANGED, record("f2"))):
        await world.asked(memory)
        await world.asked(memory)

    assert world.looks == looks


async def test_a_clock_that_ran_backwards_makes_nothing_last_longer() -> None:
    world = World()
    await world.asked()
    world.now -= 5

    assert await world.asked() is Verdict.FRESH
    assert world.looks == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(ADA, actor="bob"),
        replace(ADA, org="globex"),
        replace(ADA, granted=None),
        replace(ADA, granted=frozenset()),
        replace(ADA, granted=frozenset({"project:alpha", "project:beta"})),
        replace(ADA, granted=frozenset({"project:alpha', 'project:beta"})),
        replace(ADA, sources=frozenset({Source.FACT})),
        replace(ADA, scopes=frozenset({"global"})),
        replace(ADA, fact_scopes=frozenset({"global"})),
        replace(ADA, actor="ada', 'acme", org=""),
    ],
)
async def test_another_access_is_another_look(other: Access) -> None:
    world = World()
    await world.asked()

    world.sees = Verdict.INACCESSIBLE
    assert await world.asked(access=other) is Verdict.INACCESSIBLE
    assert verdict(await world.asked()) is Verdict.FRESH


async def test_the_same_access_at_another_time_is_the_same() -> None:
    world = World()
    await world.asked()

    assert await world.asked(access=replace(ADA, as_of=NOW + timedelta(days=1))) == Reused(Verdict.FRESH, timedelta())


@pytest.mark.parametrize(
    "other", [record("f2"), record(version=2), record(uri="crm:2"), record(uri="CRM:1"), record(org="globex"), record(states="7")]
)
async def test_another_version_or_origin_is_another_look(other: Memory) -> None:
    world = World()
    await world.asked()
    await world.asked(other)

    assert world.looks == 2


async def test_no_more_is_remembered_than_the_most_and_the_least_used_goes_first() -> None:
    world = World(most=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        await world.asked(record(name))

    assert world.looks == 4  # a, b, c, and b again, which c had put out


# Changes


async def test_a_change_that_was_told_is_seen_by_every_recall_that_begins_afterwards() -> None:
    """Ten thousand times: seen, changed or revoked, told, asked. The same without telling shows that reuse was on."""
    world, memories = World(deny_seconds=LASTS), [record(f"f{n}", f"crm:{n}") for n in range(10)]
    stale = reused = 0
    for n in range(10_000):
        memory = memories[n % 10]
        world.sees = Verdict.FRESH
        world.watch.forget(f"crm:{n % 10}")
        await world.asked(memory)
        world.sees = Verdict.INACCESSIBLE if n % 2 else Verdict.CHANGED
        reused += n % 100 == 0 and verdict(await world.asked(memory)) is Verdict.FRESH
        world.watch.forget(f"crm:{n % 10}")
        stale += verdict(await world.asked(memory)) is Verdict.FRESH

    assert (stale, reused) == (0, 100)


@pytest.mark.parametrize("how", ["forget", "forget_all"])
async def test_a_look_under_way_when_a_change_is_told_is_not_used_again(how: str) -> None:
    world = World()

    def told() -> None:
        world.sees = Verdict.CHANGED
        world.watch.forget("crm:1") if how == "forget" else world.watch.forget_all()

    world.during = told
    assert await world.asked() is Verdict.FRESH  # this recall began before the change
    world.during = lambda: None

    assert await world.asked() is Verdict.CHANGED


async def test_only_what_was_told_is_forgotten_whatever_its_case() -> None:
    world = World()
    for memory in (record("a", "crm:Key"), record("b", "crm:other")):
        await world.asked(memory)

    world.watch.forget("CRM:KEY", "crm:unknown")
    assert await world.asked(record("a", "crm:Key")) is Verdict.FRESH
    assert await world.asked(record("b", "crm:other")) == Reused(Verdict.FRESH, timedelta())


async def test_a_watch_without_reuse_looks_each_time_and_may_be_told_of_changes() -> None:
    world = World()
    watch = Watch({"crm": world.check}, workers=1, check_seconds=60)
    watch.forget("crm:1")
    watch.forget_all()
    for _ in range(3):
        assert await watch.still_true([record()], ADA) == {MemoryId(Source.FACT, "f1"): Verdict.FRESH}

    assert world.looks == 3


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 2)),
        st.tuples(st.just("change"), st.sampled_from([Verdict.FRESH, Verdict.CHANGED, Verdict.INACCESSIBLE])),
        st.tuples(st.just("tell"), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_an_answer_is_what_was_last_seen_in_its_time_and_since_the_last_telling(steps: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        world, seen, told = World(), dict[int, tuple[int, float, Verdict]](), dict[int, int]()
        for place, (step, value) in enumerate(steps):
            if step == "ask":
                looks = world.looks
                answer = verdict(await world.asked(record(f"f{value}", f"crm:{value}")))
                if world.looks > looks:
                    seen[value] = place, world.now, world.sees
                looked_at, when, saw = seen[value]
                assert answer is saw
                assert looked_at > told.get(value, -1)
                assert looked_at == place or world.now - when < (LASTS if answer is Verdict.FRESH else DENIAL_LASTS)
            elif step == "change":
                world.sees = value
            elif step == "tell":
                world.watch.forget(f"crm:{value}")
                told[value] = place
            else:
                world.now += value

    anyio.run(run)
