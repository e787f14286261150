"""C13, B3: a provider that fails costs an answer its vectors and nothing else, a write nothing at all. Rule 11."""

from __future__ import annotations

import math
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from providers import NEVER, Asked, Provider, embedding_of, embeddings, honest, reply, serving
from stories.world import ADA, NewStore, engine_at, ids, laid

from remit.pipeline import Answer, Engine, Fact, Request
from remit.pipeline.authority import access_to_write, checked
from remit.stages.evidence import Lane

ROWS = [
    Fact(id="key", text="The deploy key rotates every month."),
    Fact(id="queue", text="Queue workers crash after a deploy."),
    Fact(id="noon", text="The ferry leaves at noon."),
]
QUESTION = Request(query="deploy key")
QUICK = {"fairSeconds": 0.05}
PROVIDED: dict[str, Any] = {
    "embedding": {"provider": "openai", "openai": {"model": "toy", "dimensions": 4, "questionSeconds": 60.0, "passageSeconds": 60.0}},
    "outbound": {"embeddingOrgs": ["acme"], **QUICK},
}


def provided(**openai: Any) -> dict[str, Any]:
    return laid(PROVIDED, {"embedding": {"openai": openai}})


@asynccontextmanager
async def provider_of(monkeypatch: pytest.MonkeyPatch, answers: Callable[[Asked], bytes], **options: Any) -> AsyncIterator[Provider]:
    async with serving(answers, **options) as provider:
        monkeypatch.setenv("REMIT_EMBEDDINGS_URL", provider.url)
        yield provider


class Turning:
    """A provider that is honest until it is told otherwise."""

    def __init__(self, otherwise: Callable[[Asked], bytes]) -> None:
        self.otherwise, self.turned = otherwise, False

    def __call__(self, asked: Asked) -> bytes:
        return self.otherwise(asked) if self.turned else honest(asked)


async def semantic(engine: Engine, space: str = "toy/4/plain") -> tuple[int, int]:
    """How many passages have a vector of the provider's space, and how many there are."""
    return await engine.store.coverage(space, access_to_write(checked(ADA, engine.config.limits), engine.kit.clock()))


def without_the_provider(answer: Answer, why: str) -> None:
    """Words answer as ever, no vector of the provider's was compared, and the mode says why."""
    assert answer.outcome == "enough"
    assert "key" in ids(answer)
    assert why in answer.meta.mode.degraded
    if why != "embedding_pending":
        assert not [route for route in answer.meta.mode.routes if route.startswith("semantic")]
    assert all("semantic" not in card.ranks for card in answer.data)


def of_numbers(change: Callable[[list[float]], Any]) -> Callable[[Asked], bytes]:
    def answers(asked: Asked) -> bytes:
        answer = embeddings(asked.json["input"])
        return reply({**answer, "data": [{**each, "embedding": change(each["embedding"])} for each in answer["data"]]})

    return answers


def of_data(change: Callable[[list[Any]], Any]) -> Callable[[Asked], bytes]:
    def answers(asked: Asked) -> bytes:
        answer = embeddings(asked.json["input"])
        return reply({**answer, "data": change(answer["data"])})

    return answers


FAULTS: Mapping[str, tuple[Callable[[Asked], bytes], str]] = {
    "500": (lambda _: reply(b"", status=500), "server_error"),
    "502": (lambda _: reply(b"", status=502), "server_unavailable"),
    "503": (lambda _: reply(b"", status=503, Retry_After="Mon, 30 Nov 2026 12:02:00 GMT"), "server_unavailable"),
    "429": (lambda _: reply(b"", status=429), "rate_limited"),
    "429 for two minutes": (lambda _: reply(b"", status=429, Retry_After="120"), "rate_limited"),
    "429 for less than nothing": (lambda _: reply(b"", status=429, Retry_After="-5"), "rate_limited"),
    "429 for ever": (lambda _: reply(b"", status=429, Retry_After="9" * 400), "rate_limited"),
    "redirect": (lambda _: reply(b"", status=307, Location="http://127.0.0.1:9/v1/embeddings"), "redirected"),
    "other model": (lambda asked: reply({**embeddings(asked.json["input"]), "model": "other"}), "model"),
    "one short": (of_data(lambda data: data[:-1]), "count"),
    "one too many": (of_data(lambda data: [*data, data[0]]), "count"),
    "no index": (of_data(lambda data: [{"embedding": each["embedding"]} for each in data]), "index"),
    "twice": (of_data(lambda data: [{**each, "index": 0} for each in [*data[1:], data[0]]]), "index_repeated"),
    "ragged": (of_data(lambda data: [{**data[0], "embedding": [0.5]}, *data[1:]]), "ragged"),
    "no dimensions": (of_numbers(lambda _: []), "no_dimensions"),
    "too many dimensions": (of_numbers(lambda _: [0.5] * 20_000), "too_large"),
    "NaN": (of_numbers(lambda numbers: [math.nan, *numbers[1:]]), "not_finite"),
    "infinite": (of_numbers(lambda numbers: [-math.inf, *numbers[1:]]), "not_finite"),
    "null": (of_numbers(lambda numbers: [None, *numbers[1:]]), "not_finite"),
    "texts": (of_numbers(lambda numbers: [*map(str, numbers)]), "not_numbers"),
    "bools": (of_numbers(lambda _: [True] * 4), "not_numbers"),
    "ints": (of_numbers(lambda _: [1, 2, 3, 4]), "not_numbers"),
    "nested": (of_numbers(lambda numbers: [numbers]), "dimensions"),
    "1e39": (of_numbers(lambda numbers: [1e39, *numbers[1:]]), "out_of_range"),
    "1e-46": (of_numbers(lambda numbers: [1e-46, *numbers[1:]]), "out_of_range"),
    "zeros": (of_numbers(lambda _: [0.0, -0.0, 0.0, 0.0]), "all_zero"),
    "a page": (lambda _: reply(b"<html>", content_type="text/html"), "content_type"),
    "a page that says it is JSON": (lambda _: reply(b"<html>"), "not_json"),
    "half an answer": (lambda asked: reply(honest(asked).partition(b"\r\n\r\n")[2][:-5]), "not_json"),
    "nothing": (lambda _: reply(b""), "empty"),
    "another list": (lambda _: reply([]), "shape"),
    "a huge answer": (lambda _: reply(b"[" + b" " * 2_000_000 + b"]"), "too_large"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_b3_whatever_a_provider_answers_words_carry_recall_and_write(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, code = FAULTS[fault]
    async with provider_of(monkeypatch, answers) as provider, engine_at("memory:", config=provided(extraCalls=4)) as engine:
        receipts = await engine.remember(ROWS, ADA)
        asked_to_write = len(provider.asked)
        answers_then = [await engine.recall(QUESTION, ADA) for _ in range(3)]
        stored = await semantic(engine)

    assert [receipt.written for receipt in receipts] == ["stored"] * 3
    assert {receipt.detail for receipt in receipts} <= {f"vector pending: {each}" for each in (code, "out_of_calls")}
    assert f"vector pending: {code}" in {receipt.detail for receipt in receipts}
    assert stored == (0, 3)
    for answer in answers_then:
        why = "embedding_incompatible" if code in ("model", "dimensions") else "embedding_failed"
        without_the_provider(answer, why)
    assert 1 <= asked_to_write <= 1 + 4
    assert len(provider.asked) - asked_to_write <= 1, "it is left alone after it failed"


SOME = {"503": "cooling", "429 for two minutes": "cooling", "redirect": "cooling", "other model": "cooling", "NaN": "not_finite"}
"""What a write is told right after a question met the fault; what may be one text's own says nothing of the provider."""


@pytest.mark.parametrize("fault", SOME)
async def test_b3_a_provider_that_turns_costs_every_store_its_vectors_only(
    fault: str, new_other_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    turning = Turning(FAULTS[fault][0])
    async with provider_of(monkeypatch, turning) as provider, engine_at(new_other_store(), *ROWS, config=PROVIDED) as engine:
        assert await semantic(engine) == (3, 3)
        turning.turned, before = True, len(provider.asked)
        answer = await engine.recall(QUESTION, ADA)
        (late,) = await engine.remember([Fact(id="late", text="The deploy key is blue.")], ADA)
        found = await engine.recall(Request(query="blue"), ADA)

        without_the_provider(answer, "embedding_incompatible" if fault == "other model" else "embedding_failed")
        assert (late.written, late.detail) == ("stored", f"vector pending: {SOME[fault]}")
        assert ids(found) == ["late"]
        assert await semantic(engine) == (3, 4)
        assert len(provider.asked) - before == (1 if SOME[fault] == "cooling" else 3), "once for each that asked, at most"


async def test_b3_1_a_question_waits_for_no_retry_and_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    turning = Turning(lambda _: NEVER)
    config = laid(PROVIDED, {"embedding": {"openai": {"questionSeconds": 0.2, "passageSeconds": 0.2}}})
    async with provider_of(monkeypatch, turning), engine_at("memory:", *ROWS, config=config) as engine:
        turning.turned = True
        without_the_provider(await engine.recall(QUESTION, ADA), "embedding_failed")
        (late,) = await engine.remember([Fact(id="late", text="The deploy key is blue.")], ADA)
        assert (late.written, late.detail) == ("stored", "vector pending: cooling")


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"])
async def test_b3_1_a_connection_that_breaks_is_no_answer(begins: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        provider_of(monkeypatch, lambda _: begins or b" ", hang_up=True),
        engine_at("memory:", config=PROVIDED) as engine,
    ):
        receipts = await engine.remember(ROWS, ADA)
        assert {receipt.detail for receipt in receipts} == {"vector pending: unreachable"}
        without_the_provider(await engine.recall(QUESTION, ADA), "embedding_failed")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_b3_1_nobody_there_and_no_tls_are_no_answer(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(honest) as provider:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1" if scheme == "http" else provider.url.replace("http:", "https:")
            monkeypatch.setenv("REMIT_EMBEDDINGS_URL", url)
            async with engine_at("memory:", config=PROVIDED) as engine:
                receipts = await engine.remember(ROWS, ADA)
                assert {receipt.detail for receipt in receipts} == {"vector pending: unreachable"}
                without_the_provider(await engine.recall(QUESTION, ADA), "embedding_failed")
        assert provider.asked == []


async def test_b3_1_no_redirect_is_followed_to_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(honest) as other:
        elsewhere = reply(b"", status=308, Location=f"{other.url}/embeddings")
        async with provider_of(monkeypatch, lambda _: elsewhere), engine_at("memory:", config=PROVIDED) as engine:
            await engine.remember(ROWS, ADA)
            without_the_provider(await engine.recall(QUESTION, ADA), "embedding_failed")
        assert other.connections == 0


async def test_c13_1_a_short_batch_pairs_no_text_with_anothers_vector(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    four = [Fact(id=f"f{at}", text=f"Note {at} on deploys.") for at in range(4)]
    async with (
        provider_of(monkeypatch, of_data(lambda data: data[:-1])) as provider,
        engine_at(new_store(), config=PROVIDED) as engine,
    ):
        receipts = await engine.remember(four, ADA)

        assert len(provider.asked[0].json["input"]) == 4
        assert [(receipt.written, receipt.detail) for receipt in receipts] == [("stored", "vector pending: count")] * 4
        assert await semantic(engine) == (0, 4)


async def test_c13_3_another_model_of_the_same_dimensions_is_compared_with_nothing_until_it_is_embedded(
    new_other_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_other_store()

    def any_model(asked: Asked) -> bytes:
        return reply(embeddings(asked.json["input"], model=asked.json["model"]))

    async with provider_of(monkeypatch, any_model):
        async with engine_at(url, *ROWS, config=PROVIDED):
            """The first model."""
        async with engine_at(url, config=provided(model="toy2")) as engine:
            before = await engine.recall(QUESTION, ADA)
            done = [step async for step in engine.embed(ADA)][-1]
            after = await engine.recall(QUESTION, ADA)

    without_the_provider(before, "embedding_pending")
    assert (done.having, done.passages) == (3, 3)
    assert "embedding_pending" not in after.meta.mode.degraded
    assert "semantic" in after.data[0].ranks


async def test_c13_5_a_change_of_dimensions_costs_vectors_and_no_write(new_other_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_other_store()
    async with provider_of(monkeypatch, honest) as provider:
        async with engine_at(url, *ROWS, config=PROVIDED):
            """Four dimensions, as the provider gives them."""
        async with engine_at(url, config=provided(dimensions=8)) as engine:
            (late,) = await engine.remember([Fact(id="late", text="The deploy key is blue.")], ADA)
            answer = await engine.recall(QUESTION, ADA)
            assert await semantic(engine, "toy/8/plain") == (0, 4)

    assert (late.written, late.detail) == ("stored", "vector pending: dimensions")
    assert "late" in ids(answer)
    without_the_provider(answer, "embedding_incompatible")
    assert len(provider.asked) == 2


async def test_c13_6_one_text_that_no_provider_bears_costs_seven_others_nothing(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ollama(asked: Asked) -> bytes:
        return reply(b"", status=500) if any("poison" in text for text in asked.json["input"]) else honest(asked)

    eight = [Fact(id=f"f{at}", text="A poisonous note on deploys." if at == 4 else f"Note {at} on deploys.") for at in range(8)]
    async with provider_of(monkeypatch, ollama) as provider, engine_at(new_store(), config=PROVIDED) as engine:
        receipts = await engine.remember(eight, ADA)
        calls = len(provider.asked)
        answer = await engine.recall(Request(query="deploys", sources=("fact",)), ADA)

        assert [receipt.detail for receipt in receipts] == [""] * 4 + ["vector pending: server_error"] + [""] * 3
        assert await semantic(engine) == (7, 8)
        assert calls <= 1 + 14
        assert answer.outcome == "enough"
        assert sorted(ids(answer)) == [f"f{at}" for at in range(8)]


async def test_c13_11_a_provider_that_is_away_is_called_once_and_then_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    turning = Turning(lambda _: reply(b"", status=503))
    async with provider_of(monkeypatch, turning) as provider, engine_at("memory:", *ROWS, config=PROVIDED) as engine:
        turning.turned, before = True, len(provider.asked)
        for number in range(31):
            answer = await engine.recall(Request(query=f"deploy key {number}"), ADA)
            without_the_provider(answer, "embedding_failed")
        assert len(provider.asked) - before == 1


async def test_c13_12_who_is_asked_to_wait_is_not_asked_again_by_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    turning = Turning(lambda _: reply(b"", status=429, Retry_After="120"))
    async with provider_of(monkeypatch, turning) as provider, engine_at("memory:", *ROWS, config=PROVIDED) as engine:
        turning.turned, before = True, len(provider.asked)
        for number in range(100):
            without_the_provider(await engine.recall(Request(query=f"deploy key {number}"), ADA), "embedding_failed")
        assert len(provider.asked) - before <= 2
        assert any(119 < each.cooling() <= 120 for each in engine.kit.streams.all)


async def test_c13_7_a_zero_vector_is_like_nothing_and_never_first(new_store: NewStore) -> None:
    class Axes:
        lane, space, dimensions = Lane.SEMANTIC, "axes/2", 2
        rows: Mapping[str, tuple[float, float]] = {"zero": (0, 0), "nan": (math.nan, 0), "near": (0.9, 0.4), "far": (0.8, 0.6)}

        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.array([self.rows.get(text, (1, 0)) for text in texts], dtype=np.float32)

    rows = [Fact(id=text, text=text) for text in Axes.rows]
    async with engine_at(new_store(), *rows, embedder=Axes()) as engine:
        answer = await engine.recall(Request(query="a question", sources=("fact",)), ADA)

    assert ids(answer) == ["near", "far"]


async def test_what_is_forgotten_takes_the_orgs_remembered_questions_along(monkeypatch: pytest.MonkeyPatch) -> None:
    async with provider_of(monkeypatch, honest) as provider, engine_at("memory:", *ROWS, config=PROVIDED) as engine:
        written = len(provider.asked)
        for _ in range(2):
            await engine.recall(QUESTION, ADA)
        assert len(provider.asked) - written == 1
        await engine.forget(["fact:noon"], ADA, dry_run=True)
        await engine.recall(QUESTION, ADA)
        assert len(provider.asked) - written == 1
        await engine.forget(["fact:noon"], ADA)
        await engine.recall(QUESTION, ADA)
        assert len(provider.asked) - written == 2


async def test_c13_10_what_did_not_embed_is_not_named_as_if_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async with provider_of(monkeypatch, FAULTS["503"][0]), engine_at("memory:", *ROWS, config=PROVIDED) as engine:
        mode = (await engine.recall(QUESTION, ADA)).wire()["meta"]["mode"]

    assert mode["embedding"]["semantic"]["state"] == "failing"
    assert mode["embedding"]["semantic"]["coverage"] is None
    assert "semantic.exact" not in mode["routes"]


def scores(asked: Asked) -> Sequence[dict[str, Any]]:
    return [{"index": place, "relevance_score": embedding_of(text)[0]} for place, text in enumerate(asked.json["documents"])]


RERANK_FAULTS: Mapping[str, Callable[[Asked], bytes]] = {
    "503": lambda _: reply(b"", status=503),
    "one short": lambda asked: reply({"model": "toy", "results": scores(asked)[1:]}),
    "NaN": lambda asked: reply({"model": "toy", "results": [{**each, "relevance_score": math.nan} for each in scores(asked)]}),
    "other model": lambda asked: reply({"model": "other", "results": scores(asked)}),
    "never": lambda _: NEVER,
}


@pytest.mark.parametrize("fault", RERANK_FAULTS)
async def test_a_reranker_that_fails_leaves_the_fused_order_and_the_mode_says_so(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain: dict[str, Any] = {"outbound": {"rerankingOrgs": ["acme"], **QUICK}}
    remote = laid(plain, {"reranking": {"provider": "remote", "model": "toy", "seconds": 0.2 if fault == "never" else 60.0}})
    request = Request(query="deploy key", profile="answer")
    async with engine_at("memory:", *ROWS) as engine:
        fused = await engine.recall(request, ADA)
    async with serving(RERANK_FAULTS[fault]) as provider:
        monkeypatch.setenv("REMIT_RERANKING_URL", provider.url)
        async with engine_at("memory:", *ROWS, config=remote) as engine:
            first, second = [await engine.recall(request, ADA) for _ in range(2)]
        assert len(provider.asked) == (2 if fault == "NaN" else 1), "it is left alone after it failed, unless a text may have done that"

    for answer in (first, second):
        assert (ids(answer), "reranker_failed" in answer.meta.mode.degraded) == (ids(fused), True)


async def test_a_reranker_is_shown_what_the_caller_may_read_and_nothing_else(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "reranking": {"provider": "remote", "model": "toy", "seconds": 60.0},
        "outbound": {"rerankingOrgs": ["acme"]},
    }
    hidden = [Fact(id="beta", text="The deploy key of beta.", scope="project:beta"), Fact(id="rival", text="The deploy key.", org="rival")]
    async with serving(lambda asked: reply({"model": "toy", "results": scores(asked)})) as provider:
        monkeypatch.setenv("REMIT_RERANKING_URL", provider.url)
        async with engine_at(new_store(), *ROWS, *hidden, config=config) as engine:
            answer = await engine.recall(Request(query="deploy key", profile="answer"), ADA)

    (asked,) = provider.asked
    assert sorted(asked.json["documents"]) == sorted(row.text for row in ROWS if row.id in ids(answer))
    assert "reranker_failed" not in answer.meta.mode.degraded
