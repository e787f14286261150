"""C11: what is stale, expired or superseded is absent and counted, and costs what stands nothing. Rules 1 and 9."""

from __future__ import annotations

from typing import Any

import pytest
from stories.world import ADA, NOW, NewStore, balanced, engine_at, entry, ids, taken_in

from remit.pipeline import Doc, Fact, Memory, Origin, Request, Verdict

BETTER = "walrus walrus harbour"
WORSE = "the walrus of the harbour sings at noon"
QUERY = "walrus harbour"


@pytest.mark.parametrize(
    "ceilings", [{}, {"generate": {"items": 2}}, {"generate": {"items": 2, "postings": 4}, "verify": {"items": 2, "rounds": 1}}]
)
async def test_c11_1_expired_rows_that_match_better_cost_the_live_ones_nothing(new_store: NewStore, ceilings: dict[str, Any]) -> None:
    expired = [Fact(id=f"expired-{n}", text=BETTER, expires_at=NOW) for n in range(61)]
    live = [Fact(id=f"live-{n}", text=WORSE) for n in range(2)]
    async with engine_at(new_store(), *expired, *live) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=2, sources=("fact",), ceilings=ceilings), ADA)

    assert (answer.outcome, ids(answer)) == ("enough", ["live-0", "live-1"])
    assert entry(answer, "generate").rejected["expired"] in (61, 4)
    balanced(answer)


async def test_c11_2_five_hundred_stale_before_five_fresh_are_exhausted_or_the_five_and_never_nothing(new_store: NewStore) -> None:
    async def crm(memory: Memory, _access: object) -> Verdict:
        return Verdict.FRESH if memory.id.id.startswith("fresh") else Verdict.CHANGED

    stale = [Fact(id=f"stale-{n}", text=BETTER, origin=Origin(uri="crm:1")) for n in range(500)]
    fresh = [Fact(id=f"fresh-{n}", text=WORSE, origin=Origin(uri="crm:1")) for n in range(5)]
    for most, expected in ((500, ("exhausted", 0)), (505, ("enough", 5))):
        config = {"recall": {"profiles": {"memory": {"verify": {"items": most}}}}}
        async with engine_at(new_store(), *stale, *fresh, config=config, checkers={"crm": crm}) as engine:
            answer = await engine.recall(Request(query=QUERY, sources=("fact",)), ADA)
        assert (answer.outcome, len(answer.data)) == expected
        assert entry(answer, "verify").rejected["changed"] == 500


@pytest.mark.parametrize("supersede_first", [True, False])
async def test_c11_3_what_was_superseded_is_absent_and_counted(new_store: NewStore, supersede_first: bool) -> None:
    async with engine_at(new_store(), Fact(id="old", text=BETTER)) as engine:
        if not supersede_first:
            assert ids(await engine.recall(Request(query=QUERY), ADA)) == ["old"]
        await taken_in(engine, [Fact(id="new", text=WORSE, supersedes=("fact:old",))])
        answer = await engine.recall(Request(query=QUERY), ADA)

    assert ids(answer) == ["new"]
    assert entry(answer, "generate").rejected["superseded"] == 1


async def test_c11_3_what_was_only_proposed_supersedes_nothing(new_store: NewStore) -> None:
    async with engine_at(
        new_store(), Fact(id="old", text=BETTER), Fact(id="new", text=WORSE, supersedes=("fact:old",), approval="proposed")
    ) as engine:
        answer = await engine.recall(Request(query=QUERY), ADA)

    assert ids(answer) == ["old"]
    assert entry(answer, "generate").rejected == {}


@pytest.mark.parametrize("change", [{"expires_at": NOW}, {"approval": "rejected"}, {"scope": "project:beta"}, {"text": "something else"}])
async def test_c11_4_what_is_no_longer_so_is_gone_from_both_lanes_at_once(new_store: NewStore, change: dict[str, Any]) -> None:
    async with engine_at(new_store(), Fact(id="it", text=BETTER)) as engine:
        before = await engine.recall(Request(query=QUERY), ADA)
        await taken_in(engine, [Fact(**{"id": "it", "text": BETTER, **change})])
        after = await engine.recall(Request(query=QUERY), ADA)

    assert (ids(before), before.data[0].matchedBy) == (["it"], "both")
    assert (after.outcome, after.data) == ("nothing_found", [])


async def test_c11_4_what_is_forgotten_is_gone_from_both_lanes_with_its_places_in_the_indexes(new_store: NewStore) -> None:
    async with engine_at(new_store(), Fact(id="it", text=BETTER), Fact(id="other", text="A heron.")) as engine:
        forgotten = await engine.forget(["fact:it"], ADA)
        answer = await engine.recall(Request(query=QUERY), ADA)

        assert (answer.outcome, answer.data) == ("nothing_found", [])
        assert (forgotten.counts["passages"], forgotten.counts["vectors"], forgotten.counts["words"] > 0) == (1, 1, True)
        assert (await engine.doctor()).healthy


async def test_c11_7_after_many_updates_nothing_is_left_of_what_was_replaced(new_store: NewStore) -> None:
    async with engine_at(new_store()) as engine:
        for turn in range(20):
            docs = [Doc(id=f"d{at}", text=f"The walrus of turn{turn} sings.\n\n" * (1 + (at + turn) % 3)) for at in range(10)]
            await taken_in(engine, docs)

        last = [await engine.recall(Request(query=f"turn{turn}", sources=("doc",)), ADA) for turn in (0, 18, 19)]
        would = await engine.forget(principal=ADA, scope="global", dry_run=True)

        assert [len(answer.data) for answer in last] == [0, 0, 10]
        assert (would.counts["passages"], would.counts["vectors"], would.counts["versions"]) == (10, 10, 190)
        assert (await engine.doctor()).healthy


async def test_what_is_replaced_while_it_is_being_ranked_is_not_returned_as_it_was(new_store: NewStore) -> None:
    changed = False

    async def crm(memory: Memory, _access: object) -> Verdict:
        nonlocal changed
        if not changed:
            changed = True
            await taken_in(engine, [Fact(id="b", text=f"{BETTER}, rewritten", origin=Origin(uri="crm:1"))])
        return Verdict.FRESH

    facts = [Fact(id=name, text=BETTER, origin=Origin(uri="crm:1")) for name in "ab"]
    async with engine_at(new_store(), *facts, config={"freshness": {"batch": 1}}, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query=QUERY, sources=("fact",)), ADA)

    assert ids(answer) == ["a"]
    assert entry(answer, "verify").rejected == {"revised": 1}
    balanced(answer)


async def test_looking_again_never_renews_what_was_recorded(new_store: NewStore) -> None:
    verdicts = [Verdict.FRESH, Verdict.CHANGED]

    async def crm(_memory: Memory, _access: object) -> Verdict:
        return verdicts.pop(0)

    async with engine_at(new_store(), Fact(id="a", text=BETTER, origin=Origin(uri="crm:1")), checkers={"crm": crm}) as engine:
        first = await engine.recall(Request(query=QUERY), ADA)
        second = await engine.recall(Request(query=QUERY), ADA)

    assert (ids(first), ids(second)) == (["a"], [])
