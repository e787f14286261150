"""C8: ages and times, in every form they are written, and at their ends. Rule 7."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from stories.world import ADA, NOW, NewStore, engine_at, ids

from remit.pipeline import Fact, Request, Session
from remit.pipeline.errors import ConfigError

TEXT = "the deploy failed"
QUERY = Request(query="deploy failed", sources=("session",))


async def boosts(new_store: NewStore, *sessions: Session, **options: Any) -> dict[str, float]:
    async with engine_at(new_store(), *sessions, **options) as engine:
        answer = await engine.recall(QUERY, ADA)
    assert answer.outcome == "enough"
    return {card.id: card.parts["boost"] for card in answer.data}


def session(name: str, when: datetime | str) -> Session:
    return Session(id=name, text=TEXT, ended_at=when)


async def test_c8_1_the_same_instant_is_the_same_age_in_whatever_zone_it_is_written(new_store: NewStore) -> None:
    found = await boosts(
        new_store,
        session("naive", "2026-10-31T12:00:00"),
        session("z", "2026-10-31T12:00:00Z"),
        session("tehran", "2026-10-31T15:30:00+03:30"),
        session("apia", datetime(2026, 11, 1, 1, tzinfo=timezone(timedelta(hours=13)))),
        session("plain", datetime(2026, 10, 31, 12)),  # noqa: DTZ001 - a naive time is what is tested
    )

    assert found == dict.fromkeys(["naive", "z", "tehran", "apia", "plain"], 0.5)


@pytest.mark.parametrize("when", [NOW + timedelta(days=10), NOW + timedelta(seconds=1), "9999-12-31T23:59:59Z", "infinity"])
async def test_c8_2_and_8_3_the_future_is_never_boosted_and_hurts_nobody(new_store: NewStore, when: datetime | str) -> None:
    found = await boosts(new_store, session("ahead", when), session("month", NOW - timedelta(days=30)))

    assert found == {"ahead": 1.0, "month": 0.5}


@pytest.mark.parametrize(
    "when", ["0001-01-01T00:00:00Z", "-infinity", datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))]
)
async def test_c8_3_the_distant_past_is_nearly_nothing_and_hurts_nobody(new_store: NewStore, when: datetime | str) -> None:
    found = await boosts(new_store, session("ancient", when), session("now", NOW))

    assert found["now"] == 1.0
    assert 0.0 <= found["ancient"] < 1e-100


async def test_c8_5_a_memory_without_end_stands_beside_the_others(new_store: NewStore) -> None:
    items = [
        Fact(id="endless", text=TEXT, valid_from="-infinity", valid_until="infinity", expires_at="infinity", created_at="-infinity"),
        Fact(id="plain", text=TEXT),
    ]
    async with engine_at(new_store(), *items) as engine:
        answer = await engine.recall(Request(query="deploy failed"), ADA)

    assert sorted(ids(answer)) == ["endless", "plain"]


async def test_c8_6_a_half_life_halves(new_store: NewStore) -> None:
    ages = {"now": 0, "half": 30, "quarter": 60, "eighth": 90}
    found = await boosts(new_store, *(session(name, NOW - timedelta(days=days)) for name, days in ages.items()))

    assert found["now"] == 1.0
    assert abs(found["half"] - 0.5) < 1e-12
    assert abs(found["quarter"] - 0.25) < 1e-12
    assert abs(found["eighth"] - 0.125) < 1e-12


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "30", None, True])
async def test_c8_7_a_half_life_that_is_none_is_refused_when_the_config_is_read(new_store: NewStore, value: Any) -> None:
    with pytest.raises(ConfigError, match="sessionHalfLifeDays"):
        async with engine_at(new_store(), config={"recall": {"boosts": {"sessionHalfLifeDays": value}}}):
            pass


async def test_a_recency_of_one_switches_it_off(new_store: NewStore) -> None:
    config = {"recall": {"boosts": {"sessionRecency": 1.0}}}
    assert await boosts(new_store, session("old", NOW - timedelta(days=900)), config=config) == {"old": 1.0}


async def test_a_session_without_an_end_is_aged_from_when_it_was_made(new_store: NewStore) -> None:
    made = Session(id="made", text=TEXT, created_at=NOW - timedelta(days=30))
    assert await boosts(new_store, made) == {"made": 0.5}


async def test_ages_are_counted_to_the_moment_that_is_asked_about(new_store: NewStore) -> None:
    async with engine_at(new_store(), session("s", NOW - timedelta(days=30))) as engine:
        answer = await engine.recall(Request(query="deploy failed", sources=("session",), as_of=NOW + timedelta(days=30)), ADA)

    assert answer.data[0].parts["boost"] == 0.25
