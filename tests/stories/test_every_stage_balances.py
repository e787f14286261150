"""Whatever is asked, each of the five stages accounts for everything it was given, and keeps its ceiling."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from stories.populations import crm, own, requests
from stories.test_non_interference import CONFIG
from stories.world import ADA, Item, NewStore, balanced, engine_at, entry

from remit.pipeline import Memory, Request, Verdict

several = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

OUTCOMES = {"enough", "exhausted", "unavailable", "nothing_found"}


@several
@given(items=own, request=requests)
async def test_every_stage_balances_and_none_works_beyond_its_ceiling(new_store: NewStore, items: list[Item], request: Request) -> None:
    looks: Counter[str] = Counter()

    async def counted(memory: Memory, access: object) -> Verdict:
        looks[str(memory.id)] += 1
        return await crm(memory, access)

    async with engine_at(new_store(), *items, config=CONFIG, checkers={"crm": counted}) as engine:
        answer = await engine.recall(request, ADA)

    balanced(answer)
    ceiling = {stage.stage: stage.ceiling for stage in answer.meta.stages}
    rounds = request.ceilings.get("verify", {}).get("rounds", 2)
    assert entry(answer, "generate").returned <= 2 * 3 * rounds * ceiling["generate"]["items"]
    assert entry(answer, "dedupe").returned <= rounds * ceiling["dedupe"]["items"]
    assert entry(answer, "rank").returned <= rounds * ceiling["rank"]["items"]
    assert max(looks.values(), default=0) <= 1
    assert looks.total() <= ceiling["verify"]["items"]
    context = answer.meta.context
    assert context.tokens <= min(context.budget, ceiling["pack"]["tokens"])
    assert entry(answer, "pack").returned == context.passages == sum(card.packed for card in answer.data) <= ceiling["pack"]["items"]
    assert len(answer.data) == entry(answer, "verify").returned <= (request.limit or 20)


@several
@given(items=own, request=requests)
async def test_the_outcome_is_one_of_four_and_says_why_whenever_it_is_not_enough(
    new_store: NewStore, items: list[Item], request: Request
) -> None:
    async with engine_at(new_store(), *items, config=CONFIG, checkers={"crm": crm}) as engine:
        answer = await engine.recall(request, ADA)

    assert answer.outcome == answer.meta.outcome
    assert answer.outcome in OUTCOMES
    assert bool(answer.meta.because) == (answer.outcome != "enough")
    assert answer.data or answer.outcome != "enough"
    assert not answer.data or answer.outcome != "nothing_found"
    assert answer.outcome != "nothing_found" or not any(stage.exhausted for stage in answer.meta.stages) or request.sources == ()
    assert [card.rank for card in answer.data] == list(range(1, len(answer.data) + 1))
    archived_last = [(card.source == "doc" and "archived" in statuses(items, card.id), -card.score) for card in answer.data]
    assert archived_last == sorted(archived_last)


def statuses(items: list[Item], name: str) -> list[str]:
    return [getattr(item, "status", "") for item in items if item.id == name and item.source == "doc"]
