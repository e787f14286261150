"""Bounded work and bounded waiting: places for each stage and each org, and an outcome, never a hang, for who finds none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from stories.world import ADA, NewStore, balanced, codes, engine_at, entry, ids

from remit.pipeline import Answer, Engine, Fact, Memory, Origin, Principal, Request, Verdict

REQUEST = Request(query="deploy key")
BOB = Principal(actor="bob", org="acme", scopes="*")
EVE = Principal(actor="eve", org="rival", scopes="*")
IMPATIENT = {"waitSeconds": 0.0}


def crewed(**sizes: Any) -> Mapping[str, Any]:
    return {"recall": {"crews": sizes}}


class Gate:
    """A checker that holds whoever comes until it is opened."""

    def __init__(self) -> None:
        self.open, self.held = anyio.Event(), anyio.Event()
        self.inside = 0

    async def __call__(self, _memory: Memory, _access: object) -> Verdict:
        self.inside += 1
        self.held.set()
        await self.open.wait()
        return Verdict.FRESH


def fact(org: str) -> Fact:
    return Fact(id="key", text="the deploy key rotates", org=org, origin=Origin(uri="crm:7"))


async def while_one_is_held(engine: Engine, gate: Gate, who: Principal, request: Request = REQUEST) -> tuple[Answer, Answer]:
    """What `who` is answered while a recall of Ada's stands in verify, and what Ada is answered afterwards."""
    first: list[Answer] = []

    async def held() -> None:
        first.append(await engine.recall(REQUEST, ADA))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(held)
        await gate.held.wait()
        second = await engine.recall(request, who)
        gate.open.set()
    return second, first[0]


async def test_a_recall_that_finds_no_place_in_time_is_unavailable_at_that_stage_and_not_a_hang(new_store: NewStore) -> None:
    gate = Gate()
    async with engine_at(new_store(), fact("acme"), fact("rival"), config=crewed(verify=1, **IMPATIENT), checkers={"crm": gate}) as engine:
        second, first = await while_one_is_held(engine, gate, EVE)
        third = await engine.recall(REQUEST, EVE)

    (because,) = second.meta.because
    assert (second.outcome, because.stage, because.code) == ("unavailable", "verify", "overloaded")
    assert (because.retryable, because.owner) == (True, "operator")
    assert entry(second, "verify").outcome == "skipped"
    balanced(second)
    assert (first.outcome, third.outcome) == ("enough", "enough")


async def test_one_org_takes_no_more_than_its_places_and_another_org_goes_on(new_store: NewStore) -> None:
    gate, config = Gate(), crewed(perOrg=1, verify=8, **IMPATIENT)
    async with engine_at(
        new_store(), fact("acme"), Fact(id="free", text="a deploy key", org="rival"), config=config, checkers={"crm": gate}
    ) as engine:
        same_org, _ = await while_one_is_held(engine, gate, BOB)
        gate.open, gate.held = anyio.Event(), anyio.Event()
        other_org, _ = await while_one_is_held(engine, gate, EVE)

    assert (same_org.outcome, codes(same_org), same_org.meta.because[0].stage) == ("unavailable", ["overloaded"], None)
    assert [stage.outcome for stage in same_org.meta.stages] == ["skipped"] * 5
    assert (other_org.outcome, ids(other_org)) == ("enough", ["free"])


async def test_a_recall_that_is_cancelled_gives_its_places_back(new_store: NewStore) -> None:
    gate = Gate()
    config = crewed(generate=1, rank=1, verify=1, pack=1, perOrg=1, **IMPATIENT)
    async with engine_at(new_store(), fact("acme"), config=config, checkers={"crm": gate}) as engine:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.recall, REQUEST, ADA)
            await gate.held.wait()
            tasks.cancel_scope.cancel()
        gate.open.set()
        after = await engine.recall(REQUEST, ADA)

    assert after.outcome == "enough"


async def test_a_recall_cancelled_while_it_waits_for_a_place_takes_none(new_store: NewStore) -> None:
    gate = Gate()
    async with engine_at(new_store(), fact("acme"), config=crewed(perOrg=1), checkers={"crm": gate}) as engine:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.recall, REQUEST, ADA)
            await gate.held.wait()
            with anyio.CancelScope() as waiting:
                waiting.cancel()
                await engine.recall(REQUEST, BOB)
            gate.open.set()
        after = await engine.recall(REQUEST, BOB)

    assert waiting.cancelled_caught
    assert after.outcome == "enough"


@pytest.mark.parametrize("sizes", [{"perOrg": 1}, {"verify": 1, "perOrg": 8}], ids=["org", "stage"])
async def test_nobody_waits_for_a_place_beyond_the_requests_deadline(new_store: NewStore, sizes: dict[str, int]) -> None:
    gate = Gate()
    async with engine_at(new_store(), fact("acme"), config=crewed(waitSeconds=3600.0, **sizes), checkers={"crm": gate}) as engine:
        with anyio.fail_after(60):
            second, _ = await while_one_is_held(engine, gate, BOB, Request(query="deploy key", deadline_seconds=0.05))

    assert (second.outcome, codes(second)) == ("unavailable", ["overloaded"])


async def test_waiting_within_the_time_allowed_costs_only_the_wait(new_store: NewStore) -> None:
    answers: list[Answer] = []

    async def ask(who: Principal) -> None:
        answers.append(await engine.recall(REQUEST, who))

    config = crewed(generate=1, rank=1, verify=1, pack=1, perOrg=1)
    free = [Fact(id="key", text="the deploy key rotates", org=org) for org in ("acme", "rival")]
    async with engine_at(new_store(), *free, config=config) as engine, anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(ask, (ADA, EVE)[n % 2])

    assert [answer.outcome for answer in answers] == ["enough"] * 20


async def test_an_org_that_nobody_recalls_for_any_more_is_forgotten(new_store: NewStore) -> None:
    async with engine_at(new_store()) as engine:
        for n in range(50):
            await engine.recall(REQUEST, Principal(actor="x", org=f"org{n}"))

        assert engine.kit.crews._orgs == {}
