"""Rerankers: token vectors on this machine and a provider, asked within bounds and only for orgs that allow it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from providers import NEVER, Asked, Provider, reply, serving

from remit.pipeline.calling import CallFault
from remit.pipeline.config import load
from remit.pipeline.embedding.batch import Unsound
from remit.pipeline.embedding.minilm import MiniLMModel
from remit.pipeline.errors import ConfigError, ProviderFailed, UnsoundBatch
from remit.pipeline.reranking import MaxSim, Rerankers, rerankers_of
from remit.stages.ports import Reranker

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MODEL = MiniLMModel(threads=1, run_tokens=512)


def rerankers(provider: str, *, url: str = "", own: Reranker | None = None, **changes: Any) -> Rerankers:
    config = load({"reranking": {"provider": provider, "model": "judge", **changes}, "outbound": {"rerankingOrgs": ["acme"]}})
    environment = {"REMIT_RERANKING_URL": url, "REMIT_RERANKING_KEY": "k-1"} if url else {}
    return rerankers_of(config, own=own, model=MODEL, environment=environment, clock=lambda: NOW)


# Token vectors


async def test_maxsim_prefers_what_answers_the_question() -> None:
    passages = ["Invoices are paid within thirty days.", "The ferry leaves the harbour at noon every day.", "The cat sleeps.", ""]
    scores = await MaxSim(MODEL, tokens=96, k=60).similarities("When does the boat leave the port?", passages)

    assert max(range(4), key=lambda place: scores[place]) == 1
    assert scores[3] == -1.0
    assert all(-1.0 <= score <= 1.0 for score in scores)


async def test_maxsim_scores_a_text_alike_whatever_stands_beside_it() -> None:
    judge = MaxSim(MODEL, tokens=96, k=60)
    passages = ["The ferry leaves at noon.", "A much longer text about cats, sofas and afternoons. " * 3]
    together = await judge.similarities("When?", passages)

    assert [(await judge.similarities("When?", [each]))[0] for each in passages] == pytest.approx(together, abs=1e-5)


async def test_maxsim_looks_at_so_many_tokens_of_a_passage() -> None:
    judge = MaxSim(MODEL, tokens=8, k=60)
    one, other = await judge.similarities("ferry", ["cats and dogs and birds and fish " + tail for tail in ("ferry", "invoice")])

    assert one == other


async def test_a_question_without_words_orders_nothing() -> None:
    assert await MaxSim(MODEL, tokens=96, k=60).similarities(" ", ["a", "b"]) == [-1.0, -1.0]
    assert await MaxSim(MODEL, tokens=96, k=60).similarities("why", []) == []


async def test_maxsim_is_a_vote_beside_the_order_so_far() -> None:
    class Fixed(MaxSim):
        async def similarities(self, question: str, passages: Sequence[str]) -> Sequence[float]:
            return [float(passage) for passage in passages]

    judge = Fixed(MODEL, tokens=96, k=60)

    assert await judge.scores("why", ["0.1", "0.9", "0.5"]) == [1 / 60 + 1 / 62, 1 / 61 + 1 / 60, 1 / 62 + 1 / 61]
    assert await judge.scores("why", ["0.5", "0.5000000001"]) == [1 / 60 + 1 / 60, 1 / 61 + 1 / 61]
    assert await judge.scores("why", []) == []


# A provider


def honest(asked: Asked) -> bytes:
    texts = asked.json["documents"]
    results = [{"index": place, "relevance_score": len(text) / 100} for place, text in enumerate(texts)]
    return reply({"model": "judge", "results": results[::-1]})


@asynccontextmanager
async def remote(answers: Callable[[Asked], bytes] = honest, **changes: Any) -> AsyncIterator[tuple[Reranker, Provider]]:
    async with serving(answers) as provider:
        opened = rerankers("remote", url=provider.url, seconds=60.0, **changes)
        judge = opened.of("acme")
        assert judge
        yield judge, provider
        await opened.aclose()


async def test_a_provider_scores_the_passages_in_their_order() -> None:
    async with remote(textCharacters=5) as (judge, provider):
        scores = await judge.scores("a question", ["one", "three and more", "\ud83d"])

    assert scores == (0.03, 0.05, 0.01)
    (asked,) = provider.asked
    assert asked.line == "POST /v1/rerank HTTP/1.1"
    assert asked.headers["authorization"] == "Bearer k-1"
    expected = {"model": "judge", "query": "a que", "documents": ["one", "three", "\ufffd"], "top_n": 3, "return_documents": False}
    assert asked.json == expected


UNSOUND = {
    "one missing": (lambda _: reply({"results": [{"index": 0, "relevance_score": 0.5}]}), Unsound.COUNT),
    "one twice": (lambda _: reply({"results": [{"index": 0, "relevance_score": 0.5}] * 2}), Unsound.INDEX_REPEATED),
    "other model": (lambda _: reply({"model": "other", "results": []}), Unsound.MODEL),
    "HTML": (lambda _: reply(b"<html>", content_type="text/html"), Unsound.CONTENT_TYPE),
    "huge": (lambda _: reply(b" " * 1_000_000), Unsound.TOO_LARGE),
    "503": (lambda _: reply(b"", status=503), CallFault.SERVER_UNAVAILABLE),
}


@pytest.mark.parametrize("answers, code", UNSOUND.values(), ids=UNSOUND)
async def test_a_provider_that_fails_is_left_alone(answers: Callable[[Asked], bytes], code: str) -> None:
    async with remote(answers) as (judge, provider):
        for expected in (code, CallFault.COOLING):
            with pytest.raises((ProviderFailed, UnsoundBatch)) as failed:
                await judge.scores("why", ["a", "b"])
            error: Any = failed.value
            assert error.code == expected

    assert len(provider.asked) == 1


async def test_a_provider_that_never_answers_is_given_up() -> None:
    async with serving(lambda _: NEVER) as provider:
        opened = rerankers("remote", url=provider.url, seconds=0.05)
        judge = opened.of("acme")
        assert judge
        with pytest.raises(ProviderFailed):
            await judge.scores("why", ["a"])
        await opened.aclose()


# Which an org may use


async def test_an_org_that_keeps_its_text_in_has_no_remote_reranker() -> None:
    async with serving(honest) as provider:
        opened = rerankers("remote", url=provider.url)
        assert opened.of("globex") is None
        assert opened.of("acme") is not None
        await opened.aclose()

    assert provider.connections == 0


def test_what_stays_on_this_machine_is_everybodys() -> None:
    own = MaxSim(MODEL, tokens=8, k=60)

    assert isinstance(rerankers("maxsim").of("globex"), MaxSim)
    assert rerankers("remote", own=own).of("globex") is own
    assert rerankers("none").of("acme") is None


def test_a_provider_without_address_or_model_is_refused_when_the_engine_opens() -> None:
    with pytest.raises(ConfigError, match=r"\$REMIT_RERANKING_URL"):
        rerankers("remote")
    with pytest.raises(ConfigError, match=r"reranking\.model"):
        rerankers("remote", url="http://127.0.0.1:9/v1", model="")
