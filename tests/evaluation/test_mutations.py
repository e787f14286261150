"""Every property holds on every store, and each is seen to break when its guard is switched off."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from evaluation.worlds import CASES, EVERYTHING, NOW, every_scope, filled, for_all, leaking, long_ago, never_expiring, world

from remit.pipeline import Engine, Fact, open_engine
from remit.pipeline.authority import FromStore
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.evaluation.mutations import Finding, Opening, as_granted, copied, mutated
from remit.stages.ports import Wanted

NewStore = Callable[[], str]
LEAKY_SPACE = "another/"


@pytest.fixture
def anyio_backend() -> str:
    """psycopg is asyncio only, and what is looked at is the same on both loops."""
    return "asyncio"


def opening(store: str, guard: Callable[[Engine], Engine] = lambda engine: engine) -> Opening:
    @asynccontextmanager
    async def open_copy(**more: Any) -> AsyncIterator[Engine]:
        async with open_engine(store, clock=lambda: NOW, **more) as engine:
            yield guard(engine)

    return open_copy


async def found(store: str, guard: Callable[[Engine], Engine] = lambda engine: engine) -> dict[str, Finding]:
    async with open_engine(store, clock=lambda: NOW) as engine:
        await filled(engine)
    return {each.name: each for each in await mutated(opening(store, guard), CASES)}


async def test_all_properties_hold(new_other_store: NewStore) -> None:
    findings = await found(new_other_store())
    assert {name: each.cases for name, each in findings.items() if not each.holds} == {}
    assert list(findings) == ["control", "foreign population", "stale high-ranked records", "model changed", "revoked grant"]


@pytest.fixture
def store(new_other_store: NewStore) -> str:
    return new_other_store()


async def test_a_store_that_forgets_scopes_breaks_the_foreign_population_and_the_revoked_grant(store: str) -> None:
    findings = await found(store, lambda engine: leaking(engine, widened=every_scope, seen=for_all))
    assert {name for name, each in findings.items() if not each.holds} >= {"foreign population", "revoked grant"}
    assert findings["control"].holds


async def test_a_store_that_forgets_time_breaks_the_stale_records(store: str) -> None:
    findings = await found(store, lambda engine: leaking(engine, widened=long_ago, seen=never_expiring))
    assert (findings["stale high-ranked records"].holds, findings["control"].holds) == (False, True)


async def test_a_store_that_only_looks_at_dimensions_breaks_the_changed_model(store: str) -> None:
    def old_space(wanted: Wanted) -> Wanted:
        probes = tuple(replace(probe, space=probe.space.removeprefix(LEAKY_SPACE)) for probe in wanted.probes)
        return replace(wanted, probes=probes)

    findings = await found(store, lambda engine: leaking(engine, like=old_space))
    assert (findings["model changed"].holds, findings["control"].holds) == (False, True)


async def test_answers_that_differ_from_one_time_to_the_next_break_the_control(store: str) -> None:
    turns = iter(range(1000))

    def moody(engine: Engine) -> Engine:
        rules = replace(engine.config.context, format=("xml", "markdown")[next(turns) % 2])
        config = replace(engine.config, context=rules)
        return replace(engine, config=config, kit=replace(engine.kit, config=config))

    assert not (await found(store, moody))["control"].holds


async def test_a_case_may_be_asked_at_the_beginning_of_time(store: str) -> None:
    early = replace(CASES[0], request=replace(CASES[0].request, as_of="0001-01-01T12:00:00Z"))
    assert [each.holds for each in await mutated(opening(store), [early])] == [True] * 5


async def test_what_the_store_grants_is_what_a_copy_is_asked_with() -> None:
    async with world() as source:
        await source.grant("ada", ["project:beta"], EVERYTHING["acme"])
        kept = replace(source, authority=FromStore(source.store))
        (by_store,), (stated,) = await as_granted(kept, CASES[:1]), await as_granted(source, CASES[:1])
        assert (by_store.principal.scopes, stated.principal.scopes) == (("project:beta",), ("project:alpha",))
        async with open_engine("memory:", clock=lambda: NOW) as copy:
            assert await copied(kept, copy, ["acme"]) == 4


async def test_a_copy_that_refuses_a_memory_is_none() -> None:
    async with world() as source, open_engine("memory:", clock=lambda: NOW) as copy:
        await copy.remember([Fact(id="crane", text="Another crane altogether.")], EVERYTHING["acme"])
        with pytest.raises(InvalidRequest, match="copy: refused"):
            await copied(source, copy, ["acme"])


async def test_a_copy_holds_what_the_memory_held(store: str) -> None:
    async with world() as source, open_engine(store, clock=lambda: NOW) as copy:
        assert await copied(source, copy, ["acme", "rival"]) == 5
        for case in CASES:
            before, after = await source.recall(case.request, case.principal), await copy.recall(case.request, case.principal)
            assert [card.id for card in before.data] == [card.id for card in after.data]
