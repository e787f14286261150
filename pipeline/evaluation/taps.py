"""Taps: what crosses the boundaries of an engine during one recall, without changing any of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.embedding.streams import Streams
from remit.pipeline.engine import Engine
from remit.pipeline.outbound import Outbound
from remit.pipeline.reranking import Rerankers
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, Outline, Reused, Verdict
from remit.stages.ports import Checker, Embedder, Finder, Found, Reranker, Wanted


@dataclass(slots=True)
class Checks:
    """The work of looking at sources again: in how many looks side by side, what each memory turned out to be, and how long it took."""

    looks: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass(slots=True)
class Heard:
    """Of one recall: ids of the candidates that the store gave, the texts given to embedders and rerankers, and the source checks."""

    candidates: set[str] = field(default_factory=set)
    embedded: list[str] = field(default_factory=list)
    reranked: list[str] = field(default_factory=list)
    checks: Checks = field(default_factory=Checks)

    def clear(self) -> None:
        self.candidates.clear()
        self.embedded.clear()
        self.reranked.clear()
        self.checks = Checks()


class TappedFinder(Finder):
    def __init__(self, inner: Finder, heard: Heard) -> None:
        self._inner, self._heard = inner, heard

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found = await self._inner.find(wanted, access)
        self._hear(found.outlines or {})
        return found

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        outlines = await self._inner.outlines(keys, access)
        self._hear(outlines)
        return outlines

    def _hear(self, outlines: Mapping[int, Outline]) -> None:
        self._heard.candidates.update(str(each.memory) for each in outlines.values())

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        return await self._inner.around(keys, reach, within, access)

    async def vocabulary(self, shortest: int, longest: int, access: Access) -> Sequence[str]:
        return await self._inner.vocabulary(shortest, longest, access)


class TappedEmbedder(Embedder):
    def __init__(self, inner: Embedder, heard: Heard) -> None:
        self._inner, self._heard = inner, heard
        self.lane, self.space, self.dimensions = inner.lane, inner.space, inner.dimensions

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._heard.embedded += texts
        return await self._inner.embed(texts)


class TappedReranker(Reranker):
    def __init__(self, inner: Reranker, heard: Heard) -> None:
        self._inner, self._heard, self.name = inner, heard, inner.name

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        self._heard.reranked += passages
        return await self._inner.scores(question, passages)


class TappedChecker(Checker):
    def __init__(self, inner: Checker, heard: Heard) -> None:
        self._inner, self._heard = inner, heard

    async def still_true(self, memories: Sequence[Memory], access: Access) -> Mapping[MemoryId, Verdict | Reused]:
        checks, began = self._heard.checks, perf_counter()
        checks.looks += 1
        answers: Mapping[MemoryId, Verdict | Reused] = {}
        try:
            answers = await self._inner.still_true(memories, access)
        finally:
            checks.seconds += perf_counter() - began
            checks.verdicts.update(_told(answers.get(memory.id)) for memory in memories)
        return answers


def _told(answer: Verdict | Reused | None) -> str:
    """What came of looking at one memory; what was used again of an earlier look counts apart, for it was no work."""
    if isinstance(answer, Reused):
        return "reused"
    return (answer or Verdict.UNVERIFIED).value


class TappedStreams(Streams):
    """The same streams; what embeds questions is heard."""

    def __init__(self, inner: Streams, heard: Heard) -> None:
        super().__init__(inner.all, inner.outbound, most_cached=1)
        self._inner, self._heard = inner, heard

    def questions(self, org: str) -> tuple[Embedder, ...]:
        return tuple(TappedEmbedder(each, self._heard) for each in self._inner.questions(org))


class TappedRerankers(Rerankers):
    """The same reranker, heard."""

    def __init__(self, inner: Rerankers, heard: Heard, outbound: Outbound) -> None:
        super().__init__(None, outbound)
        self._inner, self._heard = inner, heard

    def of(self, org: str) -> Reranker | None:
        reranker = self._inner.of(org)
        return None if reranker is None else TappedReranker(reranker, self._heard)


def tapped(engine: Engine) -> tuple[Engine, Heard]:
    """The same engine with a tap at each port that a recall's text or ids go through."""
    heard, kit = Heard(), engine.kit
    taps = replace(
        kit,
        finder=TappedFinder(kit.finder, heard),
        checker=TappedChecker(kit.checker, heard),
        streams=TappedStreams(kit.streams, heard),
        rerankers=TappedRerankers(kit.rerankers, heard, kit.streams.outbound),
    )
    return replace(engine, kit=taps), heard
