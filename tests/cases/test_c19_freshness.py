"""C19: checks run under a ceiling, each with a time of its own, and what was revoked before a recall begins is not returned. Rule 17."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import anyio
import pytest
from stories.world import ADA, NewStore, balanced, codes, engine_at, entry, ids
from trio.testing import MockClock

from remit.pipeline import Doc, Engine, Fact, Memory, Origin, Request, Verdict

RECALLS = int(os.environ.get("TEST_RECALLS", "240"))
"""Of each store and event loop. Ten thousand take a minute or two, and are asked for when something here changes."""

QUERY = "harbour crane"


def watched(count: int, **stated: Any) -> list[Fact]:
    return [Fact(id=f"f{n:03}", text=f"the harbour crane number {n}", origin=Origin(uri=f"crm:f{n:03}"), **stated) for n in range(count)]


class Changing:
    """Sources and grants that change while recalls go on, and what of it had been acknowledged, and when."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.ticks = names, 0
        self.changed: dict[str, bool] = dict.fromkeys(names, False)
        self.gone: dict[str, int] = {}
        self.looks = 0

    async def check(self, memory: Memory, _access: object) -> Verdict:
        self.looks += 1
        seen = Verdict.CHANGED if self.changed[memory.id.id] else Verdict.FRESH
        await anyio.lowlevel.checkpoint()
        return seen

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks

    def change_source(self, engine: Engine, name: str) -> None:
        """Changes one, or changes it back, tells the engine, and only then counts it as acknowledged."""
        self.gone.pop(name, None)
        self.changed[name] = not self.changed[name]
        engine.changed(f"crm:{name}")
        if self.changed[name]:
            self.gone[name] = self.tick()

    async def change_grant(self, engine: Engine) -> None:
        """Takes the scope of the second half back, or gives it again."""
        half = [f"{name} granted" for name in self.names[len(self.names) // 2 :]]
        if half[0] in self.gone:
            for name in half:
                del self.gone[name]
            await engine.grant(ADA.actor, ["project:alpha"], ADA)
        else:
            await engine.revoke(ADA.actor, ["project:alpha"], ADA)
            self.gone |= dict.fromkeys(half, self.tick())

    def forbidden(self) -> dict[str, int]:
        return dict(self.gone)


async def test_c19_3_what_was_revoked_or_changed_before_a_recall_begins_is_in_no_answer_though_verdicts_are_used_again(
    new_other_store: NewStore,
) -> None:
    facts = [
        *watched(4),
        *(Fact(id=f"g{n}", text="the harbour crane", scope="project:alpha", origin=Origin(uri=f"crm:g{n}")) for n in range(4)),
    ]
    world, chance = Changing([fact.id for fact in facts]), random.Random(19)
    config = {
        "freshness": {"reuseSeconds": 3600.0, "denySeconds": 3600.0},
        "authority": {"grants": "store"},
        "embedding": {"provider": "none"},
    }
    asked, returned = 0, Counter[str]()
    async with engine_at(new_other_store(), config=config, checkers={"crm": world.check}) as engine:
        await engine.grant(ADA.actor, ["project:alpha"], ADA)
        await engine.remember(facts, ADA)

        async def asking() -> None:
            nonlocal asked
            while asked < RECALLS:
                asked += 1
                before = world.forbidden()
                answer = await engine.recall(Request(query=QUERY, sources=("fact",)), ADA)
                assert answer.outcome in ("enough", "nothing_found")
                for name, since in before.items():
                    if world.gone.get(name) == since:  # and was not allowed again meanwhile
                        assert name.removesuffix(" granted") not in ids(answer)
                returned.update(ids(answer))

        async def changing() -> None:
            while asked < RECALLS:
                for _ in range(chance.randint(0, 12)):
                    await anyio.lowlevel.checkpoint()
                if chance.random() < 0.2:
                    await world.change_grant(engine)
                else:
                    world.change_source(engine, chance.choice(world.names))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(asking)
            tasks.start_soon(changing)

    assert len(returned) > len(world.names) / 2, "most of them were returned while they might be"
    assert world.ticks > RECALLS / 20


VIRTUAL = pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["virtual time"])
"""Time that passes only while everybody waits, so that what is late is late by exact seconds on every machine."""

SECONDS = {"recall": {"deadlineSeconds": 5.0, "profiles": {"memory": {"verify": {"seconds": 3.0}}}}, "freshness": {"checkSeconds": 1.0}}


class Desk:
    """Looks that take their time: how many went on at once, how many ended, and how long each took."""

    def __init__(self, seconds: float, hung: str = "") -> None:
        self.seconds, self.hung = seconds, hung
        self.running = self.most = 0
        self.took: dict[str, float] = {}

    async def check(self, memory: Memory, _access: object) -> Verdict:
        self.running += 1
        self.most = max(self.most, self.running)
        began = anyio.current_time()
        try:
            await (anyio.sleep_forever() if memory.id.id == self.hung else anyio.sleep(self.seconds))
        finally:
            self.running -= 1
            self.took[memory.id.id] = anyio.current_time() - began
        return Verdict.FRESH


@VIRTUAL
async def test_c19_1_one_hung_check_of_five_hundred_is_late_alone_and_never_more_than_eight_are_looked_at_at_once() -> None:
    desk = Desk(0.01, hung="f100")
    async with engine_at("memory:", *watched(500), config=SECONDS, checkers={"crm": desk.check}) as engine:
        began = anyio.current_time()
        answer = await engine.recall(Request(query=QUERY, sources=("fact",), limit=500), ADA)
        took = anyio.current_time() - began

    assert (desk.most, desk.running, len(desk.took)) == (8, 0, 500)
    assert [name for name, seconds in desk.took.items() if seconds > 0.011] == ["f100"]
    assert desk.took["f100"] == pytest.approx(1.0)
    assert (answer.outcome, len(answer.data), entry(answer, "verify").rejected) == ("enough", 499, {"unverified": 1})
    assert took < 5.25


@VIRTUAL
async def test_b4_1_slow_checks_end_with_the_ceiling_of_their_stage_and_what_was_seen_is_kept() -> None:
    desk = Desk(0.1)
    async with engine_at("memory:", *watched(500), config=SECONDS, checkers={"crm": desk.check}) as engine:
        began = anyio.current_time()
        answer = await engine.recall(Request(query=QUERY, sources=("fact",), limit=500), ADA)
        took = anyio.current_time() - began
        few = await engine.recall(Request(query=QUERY, sources=("fact",), limit=5), ADA)

    assert (answer.outcome, codes(answer), answer.meta.because[0].stage) == ("exhausted", ["ceiling_seconds"], "verify")
    assert (desk.most, desk.running) == (8, 0)
    assert 200 <= len(answer.data) <= 240
    assert took == pytest.approx(3.0, abs=0.01)
    assert (few.outcome, len(few.data)) == ("enough", 5)
    balanced(answer)


@VIRTUAL
@pytest.mark.parametrize("recalls", [1, 12])
async def test_every_request_ends_by_its_deadline_whatever_hangs_and_however_many_wait(recalls: int) -> None:
    took: list[float] = []
    desk = Desk(100.0)

    async def asking(engine: Engine) -> None:
        began = anyio.current_time()
        answer = await engine.recall(Request(query=QUERY, sources=("fact",), limit=500, deadline_seconds=2.0), ADA)
        took.append(anyio.current_time() - began)
        assert answer.outcome in ("unavailable", "exhausted")

    async with (
        engine_at("memory:", *watched(500), config=SECONDS, checkers={"crm": desk.check}) as engine,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(recalls):
            tasks.start_soon(asking, engine)

    assert len(took) == recalls
    assert max(took) <= 2.25
    assert desk.most <= 8


class Slow:
    """An authority that takes a while; what is left of the request's time is less by that."""

    async def resolve(self, principal: Any) -> Any:
        await anyio.sleep(0.0 if principal.actor == "writer" else 1.5)
        return principal


@VIRTUAL
async def test_the_time_that_the_authority_takes_is_a_part_of_the_requests() -> None:
    desk = Desk(100.0)
    async with engine_at("memory:", *watched(5), config=SECONDS, checkers={"crm": desk.check}, authority=Slow()) as engine:
        began = anyio.current_time()
        await engine.recall(Request(query=QUERY, deadline_seconds=2.0), ADA)

    assert anyio.current_time() - began == pytest.approx(2.0, abs=0.01)


async def test_c19_4_a_recall_cancelled_during_its_checks_returns_after_they_have_cleaned_up(new_store: NewStore) -> None:
    started, cleaned = anyio.Event(), 0

    async def check(_memory: Memory, _access: object) -> Verdict:
        nonlocal cleaned
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                cleaned += 1
        return Verdict.FRESH

    async with engine_at(new_store(), *watched(20), checkers={"crm": check}) as engine:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(engine.recall, Request(query=QUERY, sources=("fact",)), ADA)
                await started.wait()
                scope.cancel()

    assert cleaned == 8


@pytest.mark.parametrize("org, kept", [("acme", ["f000", "f001"]), ("other", [])])
async def test_each_org_says_whether_what_nobody_could_look_at_is_dropped_or_returned_and_marked(
    new_store: NewStore, org: str, kept: list[str]
) -> None:
    async def down(_memory: Memory, _access: object) -> Verdict:
        raise ConnectionError

    config = {"freshness": {"unverified": "drop", "unverifiedOf": {"acme": "mark"}}}
    principal = type(ADA)(actor="ada", org=org, scopes=())
    async with engine_at(new_store(), *watched(2, org=org), config=config, checkers={"crm": down}) as engine:
        answer = await engine.recall(Request(query=QUERY), principal)

    assert ids(answer) == kept
    assert [(card.freshness, card.verifiedAt) for card in answer.data] == [("unverified", None)] * len(kept)
    assert answer.meta.context.text.count("verified=unverified") == len(kept)
    assert ("unverified" in answer.meta.mode.degraded) == bool(kept)


async def test_a_doc_whose_best_passage_is_stale_goes_as_a_whole_and_its_place_goes_to_the_next(new_store: NewStore) -> None:
    async def check(memory: Memory, _access: object) -> Verdict:
        return Verdict.CHANGED if memory.id.id == "a-stale" else Verdict.FRESH

    parts = "\n\n".join(f"# Part {n}\n\nThe harbour crane of part {n} lifts containers." for n in range(5))
    docs = [Doc(id="a-stale", text=parts, origin=Origin(uri="crm:1")), Doc(id="fresh", text=parts, origin=Origin(uri="crm:2"))]
    async with engine_at(new_store(), *docs, config={"chunking": {"tokens": 16}}, checkers={"crm": check}) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=1, sources=("doc",)), ADA)

    assert (ids(answer), answer.data[0].chunks) == (["fresh"], 5)
    assert entry(answer, "verify").rejected["changed"] == 1
    assert "doc:a-stale" not in answer.meta.context.text
    balanced(answer)


async def test_b4_3_fresh_evidence_behind_five_hundred_stale_is_found_by_another_round_or_said_to_be_out_of_reach(
    new_store: NewStore,
) -> None:
    async def check(memory: Memory, _access: object) -> Verdict:
        return Verdict.FRESH if memory.id.id >= "f040" else Verdict.CHANGED

    facts = [Fact(id=f"f{n:03}", text="harbour crane" + " old" * (n // 40), origin=Origin(uri="crm:1")) for n in range(45)]
    told = {}
    for rounds in (1, 2):
        config = {"recall": {"profiles": {"memory": {"generate": {"items": 40}, "verify": {"rounds": rounds}}}}}
        async with engine_at(new_store(), *facts, config=config, checkers={"crm": check}) as engine:
            answer = await engine.recall(Request(query=QUERY, sources=("fact",)), ADA)
        told[rounds] = (answer.outcome, ids(answer), entry(answer, "verify").rejected["changed"])

    assert told == {1: ("exhausted", [], 40), 2: ("enough", [f"f{n:03}" for n in range(40, 45)], 40)}
