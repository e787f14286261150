"""Streams: what each org may use, in what state each is, what is remembered for whom, and what is taken in without a vector."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from providers import Asked, honest, reply, serving

from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.embedding.caching import QuestionCache, Remembering
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.embedding.minilm import MiniLMModel
from remit.pipeline.embedding.streams import State, Streams, Wholly, state_of, streams_of
from remit.pipeline.errors import ConfigError, ProviderFailed, UnsoundBatch
from remit.pipeline.outbound import Outbound, Outward
from remit.pipeline.storage.entry import Entry, Passage, Record
from remit.pipeline.vectors import with_vectors
from remit.stages.access import Label, Shelf
from remit.stages.evidence import Lane, MemoryId
from remit.stages.ports import Embedder
from remit.stages.report import Degradation
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ANALYSER = Analyser("english")


def streams(provider: str = "local", *, url: str = "", own: Embedder | None = None, orgs: Any = ("acme",), **changes: Any) -> Streams:
    config = load(
        {
            "embedding": {"provider": provider, "openai": {"model": "toy", "dimensions": 4, "questionSeconds": 60.0, **changes}},
            "outbound": {"embeddingOrgs": orgs if orgs == "*" else list(orgs)},
        }
    )
    environment = {"REMIT_EMBEDDINGS_URL": url} if url else {}
    model = MiniLMModel(threads=1, run_tokens=512)
    return streams_of(config, ANALYSER, own=own, model=model, environment=environment, clock=lambda: NOW)


@asynccontextmanager
async def remote(answers: Callable[[Asked], bytes] = honest, **options: Any) -> AsyncIterator[tuple[Streams, Any]]:
    async with serving(answers) as provider:
        opened = streams("openai", url=provider.url, **options)
        yield opened, provider
        await opened.aclose()


class Toy:
    """An embedder of a host: three numbers a text, of the text's own, and a record of what it was asked."""

    lane = Lane.SEMANTIC
    space = "toy/3"
    dimensions = 3

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return np.asarray(self.answer)
        return np.array([[len(text), text.count("e"), 1.0] for text in texts], np.float32).reshape(-1, 3)


def lanes(embedders: Sequence[Embedder]) -> list[Lane]:
    return [each.lane for each in embedders]


# What a configuration gives


@pytest.mark.parametrize("provider, expected", [("local", [Lane.LOCAL]), ("none", []), ("minilm", [Lane.SEMANTIC, Lane.LOCAL])])
def test_the_configured_streams_are_there_for_every_org(provider: str, expected: list[Lane]) -> None:
    assert lanes(streams(provider).questions("any")) == expected


def test_a_hosts_own_embedder_takes_the_place_of_all() -> None:
    own = Toy()

    assert streams("minilm", own=own).questions("any") == (own,)


def test_a_provider_without_address_or_model_is_refused_when_the_engine_opens() -> None:
    with pytest.raises(ConfigError, match=r"\$REMIT_EMBEDDINGS_URL"):
        streams("openai")
    with pytest.raises(ConfigError, match=r"embedding\.openai\.model"):
        streams("openai", url="http://127.0.0.1:9/v1", model="")


def test_nobodys_text_leaves_until_an_org_is_named() -> None:
    shipped = load()

    assert not any(Outbound.of(shipped.outbound).allows(way, "local") for way in Outward)
    assert shipped.embedding.provider == "local"


@pytest.mark.parametrize("org, allowed", [("acme", True), ("acm", False), ("acme2", False), ("Acme", False), ("", False), ("*", False)])
def test_orgs_are_named_by_their_whole_names(org: str, allowed: bool) -> None:
    assert Outbound(embedding=frozenset({"acme"})).allows(Outward.EMBEDDING, org) is allowed
    assert not Outbound(embedding=frozenset({"acme"})).allows(Outward.RERANKING, org)
    assert Outbound(embedding=None).allows(Outward.EMBEDDING, org)


# What an org may use


async def test_an_org_that_keeps_its_text_in_makes_no_connection() -> None:
    async with remote() as (opened, provider):
        for embedder in opened.questions("globex"):
            await embedder.embed(["a secret plan"])
        for embedder in opened.passages("globex"):
            await embedder.embed_each(["a secret plan"])
        assert lanes(opened.questions("globex")) == [Lane.LOCAL]
        assert opened.states("globex", {})[Lane.SEMANTIC] is State.DISABLED
        assert opened.degraded("globex", {}) == (Degradation.EMBEDDING_DISABLED,)
        assert provider.connections == 0

        for embedder in opened.questions("acme"):  # the control: the same, for an org that allows it
            await embedder.embed(["a plan"])
        assert provider.connections == 1


async def test_every_org_may_be_allowed() -> None:
    async with remote(orgs="*") as (opened, _):
        assert lanes(opened.questions("any")) == [Lane.SEMANTIC, Lane.LOCAL]


# States


def test_states_are_kept_apart() -> None:
    states = {
        (allowed, health, missing): state_of(allowed=allowed, health=health, missing=missing)
        for allowed in (True, False)
        for health in (State.READY, State.FAILING, State.INCOMPATIBLE)
        for missing in (0, 3)
    }

    assert {state for (allowed, *_), state in states.items() if not allowed} == {State.DISABLED}
    assert [states[True, State.READY, missing] for missing in (0, 3)] == [State.READY, State.PENDING]
    assert [states[True, State.FAILING, missing] for missing in (0, 3)] == [State.FAILING] * 2
    assert [states[True, State.INCOMPATIBLE, missing] for missing in (0, 3)] == [State.INCOMPATIBLE] * 2


async def test_each_state_of_a_provider_is_told() -> None:
    answers: Mapping[State, Callable[[Asked], bytes]] = {
        State.READY: honest,
        State.FAILING: lambda _: reply(b"", status=503),
        State.INCOMPATIBLE: lambda _: reply({"model": "other", "data": []}),
    }
    for state, answer in answers.items():
        async with remote(answer) as (opened, _):
            semantic, _local = opened.questions("acme")
            with nullcontext() if state is State.READY else pytest.raises((ProviderFailed, UnsoundBatch)):
                await semantic.embed(["why"])
            assert opened.states("acme", {})[Lane.SEMANTIC] is state
            (stream,) = (each for each in opened.all if each.lane is Lane.SEMANTIC)
            assert (stream.cooling() > 0) is (state is not State.READY)


def test_what_is_not_there_and_what_is_not_finished_are_told_apart() -> None:
    having = {Lane.LOCAL: (7, 10)}

    assert streams("none").states("acme", {}) == {Lane.SEMANTIC: State.NOT_CONFIGURED, Lane.LOCAL: State.NOT_CONFIGURED}
    assert streams("none").degraded("acme", {}) == (Degradation.EMBEDDINGS_OFF,)
    assert streams("local").states("acme", having) == {Lane.SEMANTIC: State.NOT_CONFIGURED, Lane.LOCAL: State.PENDING}
    assert streams("local").degraded("acme", having) == (Degradation.EMBEDDING_PENDING,)
    assert streams("local").degraded("acme", {Lane.LOCAL: (10, 10)}) == ()


# Remembered questions


async def test_a_question_asked_again_is_not_embedded_again() -> None:
    own, cache = Toy(), QuestionCache(10)
    embedder = Remembering(own, cache, "acme")
    first = await embedder.embed(["why", "when"])
    again = await embedder.embed(["when", "where", "why"])

    assert own.asked == ["why", "when", "where"]
    assert np.array_equal(again[[2, 0]], first)


async def test_no_org_finds_what_another_one_asked() -> None:
    own, cache = Toy(), QuestionCache(10)
    for org in ("acme", "globex", "acme"):
        await Remembering(own, cache, org).embed(["why"])

    assert own.asked == ["why", "why"]


async def test_no_space_finds_what_was_embedded_in_another() -> None:
    cache = QuestionCache(10)
    old, new = Toy(), Toy()
    new.space = "toy@2/3"
    for own in (old, new):
        await Remembering(own, cache, "acme").embed(["why"])

    assert (old.asked, new.asked) == (["why"], ["why"])


async def test_the_longest_unused_go_first() -> None:
    own = Toy()
    embedder = Remembering(own, QuestionCache(2), "acme")
    for text in ("a", "b", "a", "c", "a", "b"):
        await embedder.embed([text])

    assert own.asked == ["a", "b", "c", "b"]


async def test_nothing_is_remembered_without_room_nor_after_it_was_forgotten() -> None:
    own, cache = Toy(), QuestionCache(0)
    await Remembering(own, cache, "acme").embed(["why"])
    assert len(cache) == 0

    cache = QuestionCache(10)
    for org in ("acme", "globex"):
        await Remembering(own, cache, org).embed(["why"])
    cache.forget("acme")
    assert len(cache) == 1


async def test_what_cannot_be_used_is_not_remembered() -> None:
    own, cache = Toy([[0.0, 0.0, 0.0]]), QuestionCache(10)
    await Remembering(own, cache, "acme").embed(["why"])
    own.answer = [[np.nan, 0.0, 1.0]]
    await Remembering(own, cache, "acme").embed(["why"])
    own.answer = RuntimeError()
    with pytest.raises(RuntimeError):
        await Remembering(own, cache, "acme").embed(["why"])

    assert len(cache) == 0


async def test_a_remembered_vector_cannot_be_changed_from_outside() -> None:
    embedder = Remembering(Toy(), QuestionCache(10), "acme")
    for _ in range(2):
        (await embedder.embed(["why"]))[:] = 7.0

    assert (await embedder.embed(["why"]))[0].tolist() == [3.0, 0.0, 1.0]


# What is taken in


def entry(number: int, *texts: str, title: str = "") -> Entry:
    record = Record(
        id=MemoryId(Source.DOC, f"d{number}"),
        label=Label(shelf=Shelf(org="acme", source=Source.DOC)),
        text="".join(texts),
        title=title,
        created_at=NOW,
        digest="",
        actor="ada",
    )
    passages = [
        Passage(ordinal=place, start=0, end=0, text=text, words={}, length=0, plain="", vectors={"other": np.ones(2, np.float32)})
        for place, text in enumerate(texts)
    ]
    return Entry(record=record, passages=tuple(passages))


async def test_vectors_of_many_memories_are_made_in_one_go() -> None:
    own = Toy()
    vectored = await with_vectors([entry(1, "one", "two", title="Numbers"), entry(2), entry(3, "three")], [Wholly(own)])

    assert own.asked == ["Numbers\none", "Numbers\ntwo", "three"]
    assert [len(each.passages) for each in vectored.entries] == [2, 0, 1]
    assert [sorted(passage.vectors) for each in vectored.entries for passage in each.passages] == [["other", "toy/3"]] * 3
    assert np.allclose(vectored.entries[2].passages[0].vectors["toy/3"], np.array([5.0, 2.0, 1.0]) / np.sqrt(30.0))
    assert vectored.pending == {}


@pytest.mark.parametrize("answer", [RuntimeError("down"), [[1.0]], [["a", "b", "c"]], [], [[np.inf, 0.0, 0.0]]])
async def test_an_embedder_that_fails_fails_no_write(answer: Any) -> None:
    given = [entry(1, "one")]
    vectored = await with_vectors(given, [Wholly(Toy(answer))])

    assert list(vectored.entries) == given
    assert list(vectored.pending) == [0]


async def test_only_the_memory_that_cannot_be_embedded_stays_without() -> None:
    def answers(asked: Asked) -> bytes:
        return reply(b"", status=500) if any("poison" in text for text in asked.json["input"]) else honest(asked)

    async with remote(answers) as (opened, _):
        texts = [f"text {number}" if number != 5 else "poison" for number in range(8)]
        vectored = await with_vectors([entry(number, text) for number, text in enumerate(texts)], opened.passages("acme"))

    (space,) = {stream.space for stream in opened.all if stream.lane is Lane.SEMANTIC}
    assert [space in each.passages[0].vectors for each in vectored.entries] == [number != 5 for number in range(8)]
    assert vectored.pending == {5: "server_error"}


def test_the_local_hash_is_no_passage_embedder() -> None:
    """It is made of the words that are counted anyway."""
    assert streams("local").passages("acme") == ()
    assert isinstance(streams("local").questions("acme")[0], LocalHash)
