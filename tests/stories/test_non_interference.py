"""What the caller may not read changes nothing that the caller gets; and every store gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stories.populations import Populated, crm, populated, requests
from stories.world import ADA, Item, NewStore, bytes_of, engine_at

from remit.pipeline import Engine, Principal, Request

several = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

# Chance thresholds would keep nearly every vector hit out of so small a memory: here both lanes must have something to say.
CONFIG: dict[str, Any] = {"recall": {"selection": {"chance": {"local": 0.0}}}, "chunking": {"tokens": 16}}

asked = st.lists(requests, min_size=1, max_size=3)


async def everything_told(engine: Engine, wanted: Sequence[Request], names: Iterable[str], who: Principal) -> list[object]:
    """All that the front door answers to these requests, and what became of each of these memories in them."""
    told: list[object] = [
        astuple(await engine.brief(who, tokens=tokens, project=project)) for tokens, project in [(None, None), (60, "alpha")]
    ]
    for request in wanted:
        told.append(bytes_of(await engine.recall(request, who)))
        told += [await engine.why(request, name, who) for name in names]
    return told


def names_in(items: Iterable[Item]) -> list[str]:
    return sorted({f"{item.source}:{item.id}" for item in items} | {"fact:nowhere"})


@several
@given(population=populated(), wanted=asked)
async def test_whatever_foreign_memories_stand_beside_the_answer_is_the_same_to_the_byte(
    new_store: NewStore, population: Populated, wanted: list[Request]
) -> None:
    names = names_in(population.both)
    async with engine_at(new_store(), *population.own, config=CONFIG, checkers={"crm": crm}) as engine:
        alone = await everything_told(engine, wanted, names, ADA)
    async with engine_at(new_store(), *population.both, config=CONFIG, checkers={"crm": crm}) as engine:
        among = await everything_told(engine, wanted, names, ADA)

    assert among == alone


@several
@given(population=populated(), wanted=asked, every_scope=st.booleans())
async def test_every_store_gives_the_same_bytes_as_the_plainest(
    new_other_store: NewStore, population: Populated, wanted: list[Request], every_scope: bool
) -> None:
    names, who = names_in(population.both), Principal(actor="ada", org="acme", scopes="*") if every_scope else ADA
    async with engine_at("memory:", *population.both, config=CONFIG, checkers={"crm": crm}) as engine:
        plainest = await everything_told(engine, wanted, names, who)
    async with engine_at(new_other_store(), *population.both, config=CONFIG, checkers={"crm": crm}) as engine:
        other = await everything_told(engine, wanted, names, who)

    assert other == plainest
