"""Streams: the ways this engine has of turning text into vectors, what each org may use of them, and what state each is in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import anyio.to_thread
import numpy as np

from remit.pipeline.analysis import Analyser
from remit.pipeline.config import Config, OutboundSettings
from remit.pipeline.cooling import CoolRules
from remit.pipeline.embedding.batch import Embedded, PassageEmbedder
from remit.pipeline.embedding.caching import QuestionCache, Remembering
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.embedding.minilm import MiniLM, MiniLMModel
from remit.pipeline.embedding.precision import asking, keeping
from remit.pipeline.errors import ConfigError
from remit.pipeline.outbound import EMBEDDINGS_KEY, EMBEDDINGS_URL, Outbound, Outward, address
from remit.pipeline.trail import log
from remit.stages.evidence import Lane
from remit.stages.ports import Embedder
from remit.stages.report import Degradation


class State(StrEnum):
    """How a stream stands for an org. The list is closed; `ops/runbook.md` explains each."""

    READY = "ready"
    NOT_CONFIGURED = "not_configured"
    DISABLED = "disabled"
    FAILING = "failing"
    PENDING = "pending"
    INCOMPATIBLE = "incompatible"


class Wholly:
    """A passage embedder of one that embeds all of a list or fails. Its vectors get length 1, whatever they had."""

    def __init__(self, embedder: Embedder) -> None:
        self.space, self.dimensions = embedder.space, embedder.dimensions
        self._embedder = embedder

    async def embed_each(self, texts: Sequence[str]) -> Embedded:
        try:
            vectors = np.asarray(await self._embedder.embed(texts))
        except Exception as error:  # noqa: BLE001 - an embedder is a host's code: whatever it raises, what is taken in is kept
            log.error("embedder", **{"error.type": type(error).__name__})
            vectors = np.zeros(0, np.float32)
        if vectors.shape != (len(texts), self.dimensions) or vectors.dtype.kind != "f":
            return Embedded(vectors=np.zeros((len(texts), self.dimensions), np.float32), failed=dict.fromkeys(range(len(texts)), "failed"))
        broken = [int(place) for place in np.flatnonzero(~np.isfinite(vectors).all(axis=1))]
        given = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0).astype(np.float64)
        lengths = np.linalg.norm(given, axis=1, keepdims=True)
        units = np.divide(given, lengths, out=given, where=lengths > 0)
        return Embedded(vectors=units.astype(np.float32), failed=dict.fromkeys(broken, "not_finite"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One space, with an embedder for each side of a comparison. `outward`: its text leaves the machine, so an org must allow it.

    `cached` says that a question's vector is worth remembering. `health` is how it stands apart from orgs and stores: ready, failing or
    incompatible; `cooling` the seconds for which nobody should ask it.
    """

    lane: Lane
    questions: Embedder
    passages: PassageEmbedder
    outward: bool = False
    cached: bool = False
    health: Callable[[], State] = lambda: State.READY
    cooling: Callable[[], float] = lambda: 0.0

    @property
    def space(self) -> str:
        return self.questions.space


async def _nothing() -> None:
    pass


class Streams:
    """All streams of an engine. What an org may not use it is not given, so nothing of it can be sent by mistake."""

    def __init__(
        self,
        streams: Sequence[Stream],
        outbound: Outbound,
        *,
        most_cached: int,
        load: Callable[[], None] = lambda: None,
        close: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self.all = tuple(streams)
        self.outbound = outbound
        self.cache = QuestionCache(most_cached)
        self._load, self._close = load, close

    def questions(self, org: str) -> tuple[Embedder, ...]:
        """What embeds this org's questions, lane by lane."""
        allowed = (stream for stream in self.all if self.allows(stream, org))
        return tuple(asking(Remembering(each.questions, self.cache, org) if each.cached else each.questions) for each in allowed)

    def passages(self, org: str) -> tuple[PassageEmbedder, ...]:
        """What embeds this org's memories, beside the local hash, which is made of their words where those are counted."""
        return tuple(keeping(each.passages) for each in self.all if each.questions not in self.hashes() and self.allows(each, org))

    def lane(self, lane: Lane) -> Stream | None:
        """The stream of a lane, if there is one."""
        return next((each for each in self.all if each.lane is lane), None)

    def allows(self, stream: Stream, org: str) -> bool:
        """Whether an org's text may go where the stream sends it."""
        return not stream.outward or self.outbound.allows(Outward.EMBEDDING, org)

    def hashes(self) -> tuple[LocalHash, ...]:
        """The local hashes among the streams."""
        return tuple(each.questions for each in self.all if isinstance(each.questions, LocalHash))

    def tapped(self, tap: Callable[[Embedder], Embedder]) -> Streams:
        """The same streams with something between each and what it is asked, for measuring."""
        streams = [replace(each, questions=tap(each.questions)) for each in self.all]
        return Streams(streams, self.outbound, most_cached=self.cache.most, load=self._load, close=self._close)

    def spaces(self) -> Mapping[Lane, str]:
        return {stream.lane: stream.space for stream in self.all}

    def states(self, org: str, coverage: Mapping[Lane, tuple[int, int]]) -> Mapping[Lane, State]:
        """How each vector lane stands for an org, given how many passages in its reach have a vector, of how many."""
        of_lane = {stream.lane: stream for stream in self.all}
        return {lane: self._state(of_lane.get(lane), org, coverage.get(lane)) for lane in Lane if lane.vector}

    def degraded(self, org: str, coverage: Mapping[Lane, tuple[int, int]]) -> tuple[Degradation, ...]:
        """What a recall of this org did without, as far as its embedders themselves did not say so."""
        if not self.all:
            return (Degradation.EMBEDDINGS_OFF,)
        states = [self._state(stream, org, coverage.get(stream.lane)) for stream in self.all]
        return tuple(_DEGRADATIONS[state] for state in dict.fromkeys(states) if state in _DEGRADATIONS)

    async def load(self) -> None:
        """Brings models into memory, so that no question waits for that. Raises `ConfigError`."""
        await anyio.to_thread.run_sync(self._load)

    async def aclose(self) -> None:
        await self._close()

    def _state(self, stream: Stream | None, org: str, coverage: tuple[int, int] | None) -> State:
        if stream is None:
            return State.NOT_CONFIGURED
        having, passages = coverage or (0, 0)
        return state_of(allowed=self.allows(stream, org), health=stream.health(), missing=passages - having)


_DEGRADATIONS = {
    State.DISABLED: Degradation.EMBEDDING_DISABLED,
    State.PENDING: Degradation.EMBEDDING_PENDING,
    State.INCOMPATIBLE: Degradation.EMBEDDING_INCOMPATIBLE,
}
"""A failing stream is told by the stage that asked it."""


def state_of(*, allowed: bool, health: State, missing: int) -> State:
    """The state of a stream that is configured: what an org may not use it is told nothing else of; a broken one cannot be waited for."""
    if not allowed:
        return State.DISABLED
    if health is not State.READY:
        return health
    return State.PENDING if missing > 0 else State.READY


def streams_of(
    config: Config,
    analyser: Analyser,
    *,
    own: Embedder | None,
    model: MiniLMModel,
    environment: Mapping[str, str],
    clock: Callable[[], datetime],
) -> Streams:
    """The streams that a configuration asks for, or a host's own embedder in their place. Imports what they need and nothing more.

    Nothing is loaded and nobody is called yet. Raises `ConfigError` when a part or an address is missing.
    """
    outbound = Outbound.of(config.outbound)
    most_cached = config.embedding.cached_questions
    if own is not None:
        return Streams([Stream(lane=own.lane, questions=own, passages=Wholly(own))], outbound, most_cached=most_cached)
    if config.embedding.provider == "none":
        return Streams([], outbound, most_cached=most_cached)
    hashing = LocalHash(analyser)
    local = Stream(lane=Lane.LOCAL, questions=hashing, passages=Wholly(hashing))
    if config.embedding.provider == "minilm":
        semantic = Stream(lane=Lane.SEMANTIC, questions=MiniLM(model), passages=Wholly(MiniLM(model)), cached=True)
        return Streams([semantic, local], outbound, most_cached=most_cached, load=model.load)
    if config.embedding.provider == "openai":
        return _with_provider(local, config, outbound, environment, clock)
    return Streams([local], outbound, most_cached=most_cached)


def _with_provider(
    local: Stream, config: Config, outbound: Outbound, environment: Mapping[str, str], clock: Callable[[], datetime]
) -> Streams:
    settings = config.embedding.openai
    where = address(EMBEDDINGS_URL, EMBEDDINGS_KEY, environment)
    if not settings.model:
        raise ConfigError("embedding.openai.model: must name the provider's model")
    try:
        from remit.pipeline.calling import Caller
        from remit.pipeline.embedding.provider import PASSAGES, QUESTIONS, Remote, Trouble
    except ImportError:
        raise ConfigError("embedding.provider: a provider needs the extra `remote` (pip install 'remit[remote]')") from None
    places = {QUESTIONS: settings.question_places, PASSAGES: settings.passage_places}
    rules = cool_rules(config.outbound)
    caller = Caller(where, places=places, rules=rules, fair_seconds=config.outbound.fair_seconds, clock=clock)
    trouble = Trouble()

    def health() -> State:
        if trouble.other_space:
            return State.INCOMPATIBLE
        return State.FAILING if trouble.code is not None or caller.cooling.left() else State.READY

    semantic = Stream(
        lane=Lane.SEMANTIC,
        questions=Remote(caller, settings, kind=QUESTIONS, trouble=trouble),
        passages=Remote(caller, settings, kind=PASSAGES, trouble=trouble),
        outward=True,
        cached=True,
        health=health,
        cooling=caller.cooling.left,
    )
    return Streams([semantic, local], outbound, most_cached=config.embedding.cached_questions, close=caller.aclose)


def cool_rules(settings: OutboundSettings) -> CoolRules:
    return CoolRules(
        first=settings.cool_seconds, longest=settings.longest_cool_seconds, longest_stated=settings.longest_retry_after_seconds
    )
