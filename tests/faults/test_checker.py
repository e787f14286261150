"""A check of a source that fails never makes evidence look fresh, and never makes it look as if there were none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from stories.world import ADA, NewStore, balanced, codes, engine_at, entry, ids

from remit.pipeline import Fact, Memory, Origin, Request, Verdict

Check = Callable[[Memory, Any], Awaitable[Any]]


def facts(count: int) -> list[Fact]:
    return [Fact(id=f"f{n:02}", text="the deploy key rotates", origin=Origin(uri=f"crm:{n}")) for n in range(count)]


async def raising(_memory: Memory, _access: object) -> Any:
    raise ConnectionError("crm.internal refused root:hunter2")


async def hanging(_memory: Memory, _access: object) -> Any:
    await anyio.sleep_forever()


async def rambling(_memory: Memory, _access: object) -> Any:
    return {"fresh": "certainly"}


async def silent(_memory: Memory, _access: object) -> Any:
    return None


QUICK = {"freshness": {"checkSeconds": 0.01}}


@pytest.mark.parametrize("check", [raising, hanging, rambling, silent])
async def test_sources_that_nobody_can_look_at_are_unavailable_and_not_an_empty_answer(new_store: NewStore, check: Check) -> None:
    async with engine_at(new_store(), *facts(4), config=QUICK, checkers={"crm": check}) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    (because,) = answer.meta.because
    assert (answer.outcome, because.stage, because.code, because.retryable) == ("unavailable", "verify", "freshness", True)
    assert entry(answer, "verify").rejected == {"unverified": 4}
    assert answer.data == []
    assert "hunter2" not in because.detail
    balanced(answer)


async def test_one_hanging_check_costs_its_own_memory_and_nothing_else(new_store: NewStore) -> None:
    async def crm(memory: Memory, access: object) -> Any:
        return await hanging(memory, access) if memory.id.id == "f03" else Verdict.FRESH

    async with engine_at(new_store(), *facts(20), config=QUICK, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=("fact",)), ADA)

    assert answer.outcome == "enough"
    assert sorted(ids(answer)) == [f"f{n:02}" for n in range(20) if n != 3]
    assert entry(answer, "verify").rejected == {"unverified": 1}


async def test_no_more_checks_run_at_once_than_there_are_workers_over_all_recalls(new_store: NewStore) -> None:
    running, most = 0, 0

    async def crm(_memory: Memory, _access: object) -> Verdict:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return Verdict.FRESH

    config = {"freshness": {"workers": 3}}
    async with engine_at(new_store(), *facts(40), config=config, checkers={"crm": crm}) as engine, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(engine.recall, Request(query="deploy key", sources=("fact",)), ADA)

    assert most == 3


async def test_looking_stops_when_the_page_is_full(new_store: NewStore) -> None:
    looks: list[str] = []

    async def crm(memory: Memory, _access: object) -> Verdict:
        looks.append(memory.id.id)
        return Verdict.FRESH

    async with engine_at(new_store(), *facts(40), checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=("fact",), limit=5), ADA)

    assert (len(ids(answer)), len(looks), len(set(looks))) == (5, 5, 5)


async def test_an_origin_that_nobody_watches_is_kept_without_a_time_and_the_mode_says_so(new_store: NewStore) -> None:
    async with engine_at(new_store(), *facts(1)) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert (answer.outcome, answer.data[0].verifiedAt, answer.meta.mode.degraded) == ("enough", None, ["unwatched"])


async def test_what_changed_at_its_source_is_the_source_owners_to_mend_and_is_told_apart_from_no_match(new_store: NewStore) -> None:
    async def changed(_memory: Memory, _access: object) -> bool:
        return False

    async with engine_at(new_store(), *facts(2), config={"embedding": {"provider": "none"}}, checkers={"crm": changed}) as engine:
        stale = await engine.recall(Request(query="deploy key"), ADA)
        nothing = await engine.recall(Request(query="wholly unrelated"), ADA)

    assert (stale.outcome, codes(stale), stale.meta.because[0].owner) == ("nothing_found", ["stale_sources"], "source_owner")
    assert (nothing.outcome, codes(nothing)) == ("nothing_found", ["no_match"])


async def test_a_check_sees_the_memory_and_the_access_it_is_for_and_only_what_may_be_read(new_store: NewStore) -> None:
    seen: list[tuple[str, str]] = []

    async def crm(memory: Memory, access: Any) -> Verdict:
        seen.append((memory.id.id, access.org))
        return Verdict.FRESH

    hidden = Fact(id="hidden", text="the deploy key rotates", origin=Origin(uri="crm:9"), scope="project:beta")
    async with engine_at(new_store(), *facts(2), hidden, checkers={"crm": crm}) as engine:
        await engine.recall(Request(query="deploy key"), ADA)

    assert sorted(seen) == [("f00", "acme"), ("f01", "acme")]
