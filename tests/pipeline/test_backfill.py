"""Backfill: what lacks a vector gets one, once, whoever else writes or does the same, and whatever becomes of who embeds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray
from providers import Asked, Provider, embeddings, reply, serving
from stories.world import ADA, NewStore, bytes_of, engine_at, ids, laid, taken_in

from remit.pipeline import Doc, Engine, Fact, Principal, Request
from remit.pipeline.authority import Grants, access_to_write
from remit.pipeline.backfill import OVER, Embedding, Means, Step, backfill
from remit.pipeline.embedding.streams import State, Stream, Wholly
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.vectors import Later
from remit.stages.evidence import Lane

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALL = Principal(actor="ada", org="acme", scopes="*")
FACTS = tuple(Fact(id=f"f{number:02}", text=f"fact {number} of the lighthouse, {'a' * number}") for number in range(10))


class Counting:
    """A host's embedder that turns each text into its own direction, and counts what it is asked."""

    lane = Lane.SEMANTIC
    dimensions = 3

    def __init__(self, space: str = "m1/3") -> None:
        self.space = space
        self.asked: list[str] = []
        self.broken: Callable[[str], bool] = lambda _text: False
        self.before: Callable[[], Any] | None = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.before is not None:
            await self.before()
        self.asked += texts
        if any(map(self.broken, texts)):
            raise ConnectionError
        return np.array([[1.0, text.count("a"), 0.5] for text in texts], np.float32)


def small(page: int = 3, **changes: Any) -> dict[str, Any]:
    return {"embedding": {"backfill": {"pageTexts": page, **changes}}}


async def embedded(engine: Engine, principal: Principal = ALL, **options: Any) -> list[Embedding]:
    return [step async for step in engine.embed(principal, **options)]


async def mode(engine: Engine, query: str = "lighthouse") -> tuple[Mapping[str, Any], list[str], str]:
    """What an answer says of its semantic stream and of what it did without, and how its first card was found."""
    answer = await engine.recall(Request(query=query), ALL)
    told = answer.meta.mode
    return told["embedding"]["semantic"], told["degraded"], answer.data[0].matchedBy


# Another model


async def test_after_another_model_words_answer_until_everything_is_embedded_again(new_other_store: NewStore) -> None:
    """C13.3, B3.3: the dimensions are the same, so that a comparison would look plausible."""
    url = new_other_store()
    async with engine_at(url, *FACTS, embedder=Counting("m1/3")) as engine:
        state, degraded, matched = await mode(engine)
        assert (state["space"], state["coverage"], state["state"], matched) == ("m1/3", 1.0, "ready", "both")
    async with engine_at(url, embedder=Counting("m2/3"), config=small()) as engine:
        state, degraded, matched = await mode(engine)
        assert (state["space"], state["coverage"], state["state"], matched) == ("m2/3", 0.0, "pending", "lexical")
        assert "embedding_pending" in degraded
        assert await engine.other_spaces(ALL) == {"m1/3": 10}

        steps = await embedded(engine)

        assert [(step.step, step.having, step.passages) for step in steps[-2:]] == [(Step.EMBEDDING, 10, 10), (Step.COMPLETE, 10, 10)]
        state, degraded, matched = await mode(engine)
        assert (state["coverage"], state["state"], degraded, matched) == (1.0, "ready", [], "both")
        assert await engine.prune(ALL) == 10
        assert await engine.other_spaces(ALL) == {}
        assert (await mode(engine))[0]["coverage"] == 1.0
        assert (await engine.doctor()).faults == ()


# How far, and how often


async def test_progress_is_told_page_by_page_and_nothing_is_embedded_twice(new_store: NewStore) -> None:
    model = Counting()
    async with lacking(new_store(), model, config=small(4)) as engine:
        steps = await embedded(engine)
        again = await embedded(engine)

    assert [step.having for step in steps] == [0, 4, 8, 10, 10]
    assert all(step.step is Step.EMBEDDING for step in steps[:-1])
    assert (steps[-1].step, steps[-1].embedded, steps[-1].failed) == (Step.COMPLETE, 10, {})
    assert len(model.asked) == len(set(model.asked)) == 10
    assert [(step.step, step.embedded) for step in again] == [(Step.EMBEDDING, 0), (Step.COMPLETE, 0)]


@asynccontextmanager
async def lacking(url: str, model: Counting, *items: Any, config: Mapping[str, Any], **options: Any) -> AsyncIterator[Engine]:
    """An engine over memories that were taken in while the model was away."""
    model.broken = lambda _text: True
    async with engine_at(url, *(items or FACTS), embedder=model, config=config, **options) as engine:
        model.broken, model.asked = lambda _text: False, []
        yield engine


async def test_two_at_once_share_the_work(new_store: NewStore) -> None:
    """Both are asked for pages by turns; no text is embedded twice."""
    model = Counting()
    model.before = anyio.lowlevel.checkpoint
    async with lacking(new_store(), model, config=small(2)) as engine:
        ends: list[Embedding] = []

        async def one() -> None:
            ends.append((await embedded(engine))[-1])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            tasks.start_soon(one)

    assert sorted(model.asked) == sorted(set(model.asked))
    assert len(model.asked) == 10
    assert [(end.step, end.having) for end in ends] == [(Step.COMPLETE, 10)] * 2
    assert sum(end.embedded for end in ends) == 10


async def test_what_was_stopped_goes_on_where_it_was(new_store: NewStore) -> None:
    model = Counting()
    async with lacking(new_store(), model, config=small(3)) as engine:
        async with aclosing(engine.embed(ALL)) as steps:
            async for step in steps:
                if step.having >= 3:
                    break
        with anyio.CancelScope() as scope:
            model.before = lambda: cancelling(scope)
            await embedded(engine)
        model.before = None
        stopped = len(model.asked)
        end = (await embedded(engine))[-1]

    assert stopped == 3
    assert (end.step, end.embedded, len(model.asked)) == (Step.COMPLETE, 7, 10)


async def cancelling(scope: anyio.CancelScope) -> None:
    scope.cancel()
    await anyio.lowlevel.checkpoint()


async def test_what_a_killed_one_was_lent_is_embedded_when_its_lease_is_over(new_store: NewStore) -> None:
    model, times = Counting(), [NOW]
    async with lacking(new_store(), model, config=small(4, pollSeconds=30.0), clock=lambda: times[0]) as engine:
        until = NOW + timedelta(seconds=60)
        access = (await engine.store.lend_passages("m1/3", 0, 4, until, everything(NOW))).passages
        assert len(access) == 4
        waits: list[float] = []

        async def passing(seconds: float) -> None:
            waits.append(seconds)
            times[0] += timedelta(seconds=seconds)

        steps = [step async for step in filling(engine, model, pause=passing)]

    assert [step.step for step in steps if step.step is not Step.EMBEDDING] == [Step.WAITING, Step.WAITING, Step.COMPLETE]
    assert sum(waits) == 60.0
    assert (steps[-1].having, len(model.asked)) == (10, 10)


def everything(now: datetime) -> Any:
    return access_to_write(Grants(actor="ada", org="acme", scopes=None), now)


def filling(engine: Engine, model: Counting, *, cooling: Callable[[], float] = lambda: 0.0, **options: Any) -> AsyncIterator[Embedding]:
    """The backfill of a stream of a model, with a pause or a time of its own."""
    stream = Stream(lane=Lane.SEMANTIC, questions=model, passages=Wholly(model), cooling=cooling)
    means = Means(
        store=engine.store,
        granted=lambda: engine._grants(ALL),
        settings=engine.config.embedding.backfill,
        clock=engine.kit.clock,
        **options,
    )
    return backfill(stream, Later(stream, engine.indexer, engine.store), means)


async def test_no_more_texts_a_second_than_allowed() -> None:
    model, now, sent = Counting(), [100.0], list[tuple[float, int]]()

    async def passing(seconds: float) -> None:
        now[0] += seconds

    async def noted() -> None:
        sent.append((now[0], len(model.asked)))

    model.before = noted
    async with lacking("memory:", model, config=small(64)) as engine:
        sent.clear()
        steps = [step async for step in filling(engine, model, rate=4.0, pause=passing, time=lambda: now[0])]

    assert steps[-1].step is Step.COMPLETE
    assert [count for _, count in sent] == [0, 4, 8], "not more at once than a second's worth"
    assert [later - earlier for (earlier, _), (later, _) in pairwise(sent)] == [1.0, 1.0]


# Beside writers


async def test_what_changes_while_it_is_embedded_keeps_no_vector_of_what_it_was(new_store: NewStore) -> None:
    model = Counting()
    async with lacking(new_store(), model, config=small(10)) as engine:
        model.before = lambda: changing(engine, model)
        steps = await embedded(engine)
        doctor = await engine.doctor()
        answer = await engine.recall(Request(query="rewritten"), ALL)

    assert (steps[1].embedded, steps[1].changed) == (7, 3)
    assert (steps[-1].step, steps[-1].having, steps[-1].passages) == (Step.COMPLETE, 8, 8)
    assert ids(answer)[0] == "f00"
    assert doctor.faults == ()


async def changing(engine: Engine, model: Counting) -> None:
    """Rewrites one, forgets one, rejects one; what is written embeds by itself."""
    model.before = None
    await taken_in(engine, [Fact(id="f00", text="rewritten meanwhile")])
    await engine.forget(["fact:f01"], ALL)
    await engine.reject(["fact:f02"], ALL)


# When it fails


async def test_a_text_that_always_fails_is_left_and_told_and_the_others_are_not(new_store: NewStore) -> None:
    model = Counting()
    async with lacking(new_store(), model, config=small(1)) as engine:
        model.broken = lambda text: "fact 3 " in text
        steps = await embedded(engine)
        tries = [text for text in model.asked if "fact 3 " in text]
        state, degraded, _ = await mode(engine)

    assert (steps[-1].step, steps[-1].having, steps[-1].passages, steps[-1].failed) == (Step.INCOMPLETE, 9, 10, {"failed": 1})
    assert len(tries) == 2, "once more after the others, and not again"
    assert (state["coverage"], state["state"]) == (0.9, "pending")
    assert degraded == ["embedding_pending"]


async def test_a_model_that_is_away_is_left_alone_after_a_few_pages(new_store: NewStore) -> None:
    model = Counting()
    async with lacking(new_store(), model, config=small(2, tries=3)) as engine:
        model.broken = lambda _text: True
        steps = await embedded(engine)

    assert (steps[-1].step, steps[-1].having, steps[-1].failed) == (Step.UNAVAILABLE, 0, {"failed": 6})
    assert len(model.asked) == 6


async def test_a_cool_down_is_waited_for_and_a_long_one_is_not() -> None:
    model, left, waits = Counting(), [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 500.0], list[float]()

    async def passing(seconds: float) -> None:
        waits.append(seconds)

    async with lacking("memory:", model, config=small(3)) as engine:
        steps = [step async for step in filling(engine, model, cooling=lambda: left.pop(0) if len(left) > 1 else left[0], pause=passing)]

    assert [(step.step, step.seconds) for step in steps if step.seconds] == [(Step.COOLING, 5.0), (Step.UNAVAILABLE, 500.0)]
    assert steps[-1].step is Step.UNAVAILABLE
    assert max(waits) == 5.0


async def test_one_that_takes_longer_than_its_lease_is_given_up(new_store: NewStore) -> None:
    model = Counting()
    async with lacking(new_store(), model, config=small(leaseSeconds=0.001, tries=1)) as engine:
        model.before = anyio.sleep_forever
        steps = await embedded(engine)

    assert (steps[-1].step, steps[-1].failed) == (Step.UNAVAILABLE, {"out_of_time": 3})


# A provider, and whose text may go there


def answering(model: str) -> Callable[[Asked], bytes]:
    return lambda asked: reply(embeddings(asked.json["input"], model=model))


@asynccontextmanager
async def behind(
    monkeypatch: pytest.MonkeyPatch, answers: Callable[[Asked], bytes], model: str, orgs: Sequence[str] = ("acme",)
) -> AsyncIterator[tuple[Provider, dict[str, Any]]]:
    async with serving(answers) as provider:
        monkeypatch.setenv("REMIT_EMBEDDINGS_URL", provider.url)
        openai = {"model": model, "dimensions": 4, "questionSeconds": 60.0, "passageSeconds": 60.0}
        yield provider, {"embedding": {"provider": "openai", "openai": openai}, "outbound": {"embeddingOrgs": list(orgs)}}


async def test_each_state_of_a_stream_is_told_apart(new_other_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13.3, B3.3, B3.5, through the front door."""
    url, states = new_other_store(), dict[str, str]()

    async def noted(engine: Engine) -> str:
        answer = await engine.recall(Request(query="lighthouse"), ALL)
        state = str(answer.meta.mode["embedding"]["semantic"]["state"])
        assert answer.outcome == "enough"
        assert ("semantic" in answer.data[0].ranks) is (state == "ready")
        return state

    async with engine_at(url, *FACTS, config={"embedding": {"provider": "none"}}) as engine:
        states["not configured"] = await noted(engine)
        assert (await engine.doctor(ALL)).facts["semantic stream"] == "not_configured"
        with pytest.raises(InvalidRequest, match="stream: semantic is not configured"):
            await embedded(engine, stream="semantic")
    async with behind(monkeypatch, answering("m1"), "m1") as (_, config), engine_at(url, config=config) as engine:
        states["pending"] = await noted(engine)
        assert [steps.step for steps in await embedded(engine) if steps.step in OVER] == [Step.COMPLETE, Step.COMPLETE]
        states["ready"] = await noted(engine)
    async with behind(monkeypatch, answering("m1"), "m1", ["other"]) as (provider, config), engine_at(url, config=config) as engine:
        states["disabled"] = await noted(engine)
        assert [step.step for step in await embedded(engine, stream="semantic")] == [Step.DISABLED]
        assert provider.connections == 0
    async with behind(monkeypatch, answering("m9"), "m1") as (provider, config), engine_at(url, config=config) as engine:
        states["incompatible"] = await noted(engine)
    async with behind(monkeypatch, lambda _: reply({}, status=503), "m1") as (_, config), engine_at(url, config=config) as engine:
        states["failing"] = await noted(engine)

    assert {state.replace(" ", "_"): told for state, told in states.items()} == {each.value: each.value for each in State}


async def test_a_provider_of_another_model_is_not_asked_for_page_after_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async with behind(monkeypatch, answering("m9"), "m1") as (provider, config):
        patient = laid(config, small(2), {"outbound": {"coolSeconds": 0.001}})
        async with engine_at("memory:", *FACTS, config=patient) as engine:
            asked = len(provider.asked)
            steps = await embedded(engine, stream="semantic")

    assert (steps[-1].step, steps[-1].failed) == (Step.UNAVAILABLE, {"model": 2})
    assert len(provider.asked) == asked + 1


@pytest.mark.parametrize("options, field", [({"rate": 0.0}, "rate"), ({"rate": float("nan")}, "rate"), ({"stream": "lexical"}, "stream")])
async def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    async with engine_at("memory:", *FACTS) as engine:
        with pytest.raises(InvalidRequest, match=rf"\b{field}: "):
            await embedded(engine, **options)


# The local hash


async def test_the_local_hash_is_made_as_when_it_was_taken_in(new_other_store: NewStore) -> None:
    guide = Doc(id="guide", text="# Lamps\n\nOil them daily.\n\n## Spare parts\n\nWicks are in the shed. " + "More about wicks. " * 200)
    directly, later = new_other_store(), new_other_store()
    async with engine_at(directly, *FACTS, guide) as engine:
        expected = bytes_of(await engine.recall(Request(query="spare parts of lamps"), ADA))
    async with engine_at(later, *FACTS, guide, config={"embedding": {"provider": "none"}}):
        pass
    async with engine_at(later) as engine:
        before = bytes_of(await engine.recall(Request(query="spare parts of lamps"), ADA))
        assert (await embedded(engine, stream="local"))[-1].step is Step.COMPLETE
        after = bytes_of(await engine.recall(Request(query="spare parts of lamps"), ADA))

    assert before != expected
    assert after == expected


async def test_what_has_nothing_to_embed_keeps_no_stream_pending(new_other_store: NewStore) -> None:
    signs = [
        Fact(id="marks", text="!!! --- ???"),
        Fact(id="soon", text="…", expires_at=datetime(2126, 1, 1, tzinfo=UTC)),
        Doc(id="rule", text="***\n\n==="),
    ]
    directly, later = new_other_store(), new_other_store()
    async with engine_at(directly, *FACTS, *signs) as engine:
        expected = (await engine.recall(Request(query="lighthouse"), ALL)).meta.mode["embedding"]["local"]
        assert (expected["coverage"], expected["state"]) == (1.0, "ready")
    async with engine_at(later, *FACTS, *signs, config={"embedding": {"provider": "none"}}):
        pass
    async with engine_at(later) as engine:
        last = (await embedded(engine, stream="local"))[-1]
        again = (await embedded(engine, stream="local"))[-1]
        told = (await engine.recall(Request(query="lighthouse"), ALL)).meta.mode["embedding"]["local"]
        assert (await engine.doctor(ALL)).faults == ()

    assert (last.step, last.having, last.passages) == (Step.COMPLETE, 13, 13)
    assert (again.step, again.having, again.embedded, again.empty) == (Step.COMPLETE, 13, 0, 0)
    assert told == expected


# What is embedded where memories come in


async def test_an_import_embeds_in_batches_and_what_is_there_not_again(new_store: NewStore) -> None:
    model, calls = Counting(), list[int]()
    async with engine_at("memory:", *FACTS) as engine:
        wholes = [whole async for whole in engine.export(ALL)]

    async def noted() -> None:
        calls.append(len(model.asked))

    model.before = noted
    async with engine_at(new_store(), embedder=model, config={"remember": {"batchItems": 4}}) as engine:
        first = [receipt.written async for receipt in engine.import_stream(wholes, ALL)]
        again = [receipt.written async for receipt in engine.import_stream(wholes, ALL)]
        coverage = (await mode(engine))[0]["coverage"]

    assert (first, again, coverage) == (["stored"] * 10, ["unchanged"] * 10, 1.0)
    assert calls[:3] == [0, 4, 8]
    assert len(model.asked) == 11, "each once, and the question"


async def test_an_import_never_sends_what_is_out_of_reach_by_then(new_store: NewStore) -> None:
    model, scopes = Counting(), [("project:alpha",)]

    class Shrinking:
        async def resolve(self, principal: Principal) -> Principal:
            return replace(principal, scopes=scopes[0])

    hidden = Fact(id="secret", text="a secret plan", scope="project:alpha")
    async with engine_at("memory:", hidden) as engine:
        wholes = [whole async for whole in engine.export(ALL)]

    async def revoking() -> AsyncIterator[Any]:
        for whole in wholes:
            yield whole
        scopes[0] = ()

    async with engine_at(new_store(), embedder=model, authority=Shrinking()) as engine:
        receipts = [receipt async for receipt in engine.import_stream(revoking(), ALL)]

    assert [receipt.code for receipt in receipts] == ["not_authorised"]
    assert model.asked == []


async def test_a_thousand_updates_leave_no_vector_behind(new_other_store: NewStore) -> None:
    """C11.7, in small: each version has its vectors, and takes those of the one before with it."""
    model = Counting()
    async with engine_at(new_other_store(), embedder=model) as engine:
        for number in range(40):
            await taken_in(engine, [Fact(id=f"f{at}", text=f"version {number} of {at}") for at in range(25)])
        doctor = await engine.doctor()
        spaces = await engine.store.spaces(everything(NOW))

    assert doctor.faults == ()
    assert spaces == {"m1/3": 25}


# Questions


async def test_forgetting_drops_the_vectors_of_the_orgs_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    items = (*FACTS, Fact(id="o", text="lighthouse", org="other"))
    async with (
        behind(monkeypatch, answering("m1"), "m1", ["acme", "other"]) as (provider, config),
        engine_at("memory:", *items, config=config) as engine,
    ):
        for principal in (ALL, other := Principal(actor="bob", org="other", scopes="*"), ALL, other):
            await engine.recall(Request(query="lighthouse"), principal)
        asked = [each.json["input"] for each in provider.asked].count(["lighthouse"])
        kept = [len(engine.kit.streams.cache)]
        for dry_run in (True, False):
            await engine.forget(["fact:f01"], ALL, dry_run=dry_run)
            kept.append(len(engine.kit.streams.cache))

    assert asked == 3, "each org's question once, and the memory of the other that says the same"
    assert kept == [2, 2, 1]
