"""Reranking: the rerankers there are, a model's token vectors on this machine and a provider's `/rerank`, and which an org may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.config import Config, Reranking
from remit.pipeline.embedding.batch import Unsound, opened, sound_scores
from remit.pipeline.embedding.minilm import MiniLMModel, Run
from remit.pipeline.embedding.streams import cool_rules
from remit.pipeline.errors import ConfigError, UnsoundBatch
from remit.pipeline.fields import without_surrogates
from remit.pipeline.outbound import RERANKING_KEY, RERANKING_URL, Outbound, Outward, address
from remit.stages.ports import Reranker

if TYPE_CHECKING:
    from remit.pipeline.calling import Caller

CALLS = "reranking"

DECIMALS = 6
"""What float32 can tell apart: similarities that differ by less are equal."""

BYTES_A_SCORE = 512
BYTES_BESIDE = 65_536
"""How long an answer may be when it does not send the passages back, which it is asked not to."""

OF_THE_TEXTS = frozenset({Unsound.NOT_FINITE})
"""What a passage may bring about: it says nothing of the provider."""


class MaxSim:
    """A second vote beside the order so far, by how well each token of the question is matched by the nearest token of a passage.

    Late interaction, Khattab and Zaharia 2020, over the token vectors of a model that was trained for whole sentences: no cross-encoder,
    and not called one. Alone it orders worse than fused lanes do (measured: CACM .467 for .533 nDCG@10), with them better (.543).
    """

    name = "local-maxsim"

    def __init__(self, model: MiniLMModel, *, tokens: int, k: int) -> None:
        self._model, self._tokens, self._k = model, tokens, k
        self._thread = anyio.CapacityLimiter(1)

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """For each passage the reciprocal ranks of its place as given and of its place by similarity, added as in the fusion of lanes."""
        similar = await self.similarities(question, passages)
        places = sorted(range(len(passages)), key=lambda place: (-round(similar[place], DECIMALS), place))
        scores = [1 / (self._k + place) for place in range(len(passages))]
        for place, passage in enumerate(places):
            scores[passage] += 1 / (self._k + place)
        return scores

    async def similarities(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """-1 to 1 for each passage; -1 for one without words. Raises `ConfigError` when the model's files are not there."""
        in_thread = partial(anyio.to_thread.run_sync, limiter=self._thread)
        asked, tokens = await in_thread(self._prepared, question, passages)
        scores = [-1.0] * len(passages)
        if asked is None:
            return scores
        for run in self._model.runs(tokens):
            for place, score in zip(run.places, await in_thread(self._scored, asked, run), strict=True):
                scores[place] = score
        return scores

    def _prepared(self, question: str, passages: Sequence[str]) -> tuple[NDArray[np.float32] | None, list[list[int]]]:
        """The vectors of the question's tokens, none when it has no words, and the tokens of each passage."""
        runs = list(self._model.runs(self._model.tokens([question])))
        return self._model.words(runs[0])[0] if runs else None, self._model.tokens(passages, self._tokens)

    def _scored(self, asked: NDArray[np.float32], run: Run) -> list[float]:
        return [float((asked @ words.T).max(axis=1).mean()) for words in self._model.words(run)]


class RemoteReranker:
    """Asks a provider's `/rerank`, as Jina, Cohere, vLLM and others have it, in one call, for the beginnings of the passages."""

    def __init__(self, caller: Caller, settings: Reranking) -> None:
        self.name = f"remote/{settings.model}"
        self._caller, self._settings = caller, settings

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """One score a passage. Raises `ProviderFailed`, or `UnsoundBatch` when the answer is not one for each of them."""
        texts = [without_surrogates(passage[: self._settings.text_characters]) for passage in passages]
        asked = without_surrogates(question[: self._settings.text_characters])
        payload = {"model": self._settings.model, "query": asked, "documents": texts, "top_n": len(texts), "return_documents": False}
        most_bytes = BYTES_BESIDE + BYTES_A_SCORE * len(texts)
        reply = await self._caller.post("/rerank", payload, kind=CALLS, most_bytes=most_bytes, seconds=self._settings.seconds)
        try:
            answer = opened(reply.body, reply.content_type, most_bytes=most_bytes)
            scores = sound_scores(answer, model=self._settings.model, count=len(texts))
        except UnsoundBatch as error:
            if error.code not in OF_THE_TEXTS:
                self._caller.cooling.failed()
            raise
        self._caller.cooling.succeeded()
        return scores


async def _nothing() -> None:
    pass


class Rerankers:
    """The reranker of an engine, for the orgs that may use it."""

    def __init__(
        self, reranker: Reranker | None, outbound: Outbound, *, outward: bool = False, close: Callable[[], Awaitable[None]] = _nothing
    ) -> None:
        self._reranker, self._outbound, self._outward, self._close = reranker, outbound, outward, close

    def of(self, org: str) -> Reranker | None:
        """What orders this org's passages anew; None when nothing does, or when it would take text out that the org keeps in."""
        allowed = not self._outward or self._outbound.allows(Outward.RERANKING, org)
        return self._reranker if allowed else None

    def tapped(self, tap: Callable[[Reranker], Reranker]) -> Rerankers:
        """The same with something between the reranker and what it is asked, for measuring."""
        reranker = None if self._reranker is None else tap(self._reranker)
        return Rerankers(reranker, self._outbound, outward=self._outward, close=self._close)

    async def aclose(self) -> None:
        await self._close()


def rerankers_of(
    config: Config, *, own: Reranker | None, model: MiniLMModel, environment: Mapping[str, str], clock: Callable[[], datetime]
) -> Rerankers:
    """The reranker that a configuration asks for, or a host's own in its place. Nothing is loaded and nobody is called yet.

    Raises `ConfigError` when a part or an address is missing.
    """
    outbound, settings = Outbound.of(config.outbound), config.reranking
    if own is not None or settings.provider == "none":
        return Rerankers(own, outbound)
    if settings.provider == "maxsim":
        return Rerankers(MaxSim(model, tokens=settings.tokens, k=config.recall.fusion.k), outbound)
    where = address(RERANKING_URL, RERANKING_KEY, environment)
    if not settings.model:
        raise ConfigError("reranking.model: must name the provider's model")
    try:
        from remit.pipeline.calling import Caller
    except ImportError:
        raise ConfigError("reranking.provider: a provider needs the extra `remote` (pip install 'remit[remote]')") from None
    rules, fair = cool_rules(config.outbound), config.outbound.fair_seconds
    caller = Caller(where, places={CALLS: settings.places}, rules=rules, fair_seconds=fair, clock=clock)
    return Rerankers(RemoteReranker(caller, settings), outbound, outward=True, close=caller.aclose)
