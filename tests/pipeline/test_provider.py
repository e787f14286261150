"""A remote provider: asked within bounds, believed only when its answer is sound, and left alone when it fails."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import DIMENSIONS, MODEL, free_port
from providers import NEVER, Answers, Asked, Provider, embedding_of, embeddings, honest, reply, serving

from remit.pipeline.calling import Caller, CallFault
from remit.pipeline.config import OpenAI, load
from remit.pipeline.cooling import CoolDown, CoolRules, cool_seconds, stated_seconds
from remit.pipeline.embedding.batch import Unsound
from remit.pipeline.embedding.provider import PASSAGES, QUESTIONS, Remote, Trouble, space_of
from remit.pipeline.errors import ConfigError, ProviderFailed, UnsoundBatch
from remit.pipeline.outbound import Address, address

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
RULES = CoolRules(first=5.0, longest=60.0, longest_stated=3600.0)
PATIENT = {"questionSeconds": 60.0, "passageSeconds": 60.0}


def settings(**changes: Any) -> OpenAI:
    return load({"embedding": {"openai": {"model": "toy", "dimensions": 4, **PATIENT, **changes}}}).embedding.openai


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Asking:
    """A provider's two embedders with the caller they share."""

    def __init__(self, url: str, *, key: str | None = None, clock: Callable[[], float] | None = None, fair: float = 60.0, **changes: Any):
        places = {QUESTIONS: 2, PASSAGES: 1}
        self.clock = clock or Clock()
        where = Address(url=url, key=key)
        self.caller = Caller(where, places=places, rules=RULES, fair_seconds=fair, clock=lambda: NOW, monotonic=self.clock)
        self.trouble = Trouble()
        self.questions = Remote(self.caller, settings(**changes), kind=QUESTIONS, trouble=self.trouble)
        self.passages = Remote(self.caller, settings(**changes), kind=PASSAGES, trouble=self.trouble)

    async def fails(self, text: str = "a question") -> str:
        with pytest.raises((ProviderFailed, UnsoundBatch)) as failed:
            await self.questions.embed([text])
        error: Any = failed.value
        return str(error.code)


@asynccontextmanager
async def asking(answers: Answers, *, hang_up: bool = False, **options: Any) -> AsyncIterator[tuple[Asking, Provider]]:
    async with serving(answers, hang_up=hang_up) as provider:
        both = Asking(provider.url, **options)
        try:
            yield both, provider
        finally:
            await both.caller.aclose()


# What is sent, and what comes back


async def test_texts_go_to_the_provider_and_come_back_as_vectors_in_order() -> None:
    async with asking(honest, key="k-1") as (both, provider):
        vectors = await both.passages.embed(["an apple", "", "a pear", " \n"])

    assert np.allclose(vectors[0], unit(embedding_of("an apple")))
    assert np.allclose(vectors[2], unit(embedding_of("a pear")))
    assert not vectors[[1, 3]].any()
    (asked,) = provider.asked
    assert asked.line == "POST /v1/embeddings HTTP/1.1"
    assert asked.headers["authorization"] == "Bearer k-1"
    assert asked.json == {"model": "toy", "input": ["an apple", "a pear"], "encoding_format": "float"}


async def test_nothing_is_sent_for_nothing() -> None:
    async with asking(honest) as (both, provider):
        assert (await both.passages.embed([])).shape == (0, 4)
        assert not (await both.questions.embed([" "])).any()

    assert provider.connections == 0


async def test_each_side_has_its_prefix_and_both_are_of_one_space() -> None:
    prefixes = {"questionPrefix": "query: ", "passagePrefix": "passage: "}
    async with asking(honest, **prefixes) as (both, provider):
        await both.questions.embed(["why"])
        await both.passages.embed(["because"])

    assert [asked.json["input"] for asked in provider.asked] == [["query: why"], ["passage: because"]]
    assert both.questions.space == both.passages.space


def test_a_space_is_named_after_all_that_makes_vectors_comparable() -> None:
    changes = [{}, {"model": "other"}, {"revision": "2"}, {"dimensions": 8}, {"questionPrefix": "q: "}, {"passagePrefix": "q: "}]

    assert space_of(settings()) == "toy/4/plain"
    assert space_of(settings(revision="2")) == "toy@2/4/plain"
    assert len({space_of(settings(**each)) for each in changes}) == len(changes)


async def test_long_texts_are_cut_and_half_characters_replaced() -> None:
    async with asking(honest, textCharacters=5) as (both, provider):
        await both.questions.embed(["a\ud83dbcdefgh"])

    assert provider.asked[0].json["input"] == ["a\ufffdbcd"]


async def test_fewer_dimensions_are_asked_for_only_where_a_model_can_do_that() -> None:
    async with asking(honest, shortened=True) as (both, provider):
        await both.questions.embed(["why"])

    assert provider.asked[0].json["dimensions"] == 4


async def test_many_texts_go_in_batches_of_bounded_number_and_length() -> None:
    async with asking(honest, batchTexts=3, batchCharacters=20) as (both, provider):
        vectors = await both.passages.embed(["a", "bb", "ccc", "dddd", "e" * 19, "f" * 30])

    assert [len(asked.json["input"]) for asked in provider.asked] == [3, 1, 1, 1]
    assert vectors.any(axis=1).all()


def unit(numbers: list[float]) -> Any:
    return np.array(numbers) / np.linalg.norm(numbers)


# Splitting


def failing_at(*bad: str, how: Callable[[Asked], bytes]) -> Answers:
    """Honest, unless a text is among those sent that it cannot bear."""
    return lambda asked: how(asked) if set(bad) & set(asked.json["input"]) else honest(asked)


def with_nan(asked: Asked) -> bytes:
    answer = embeddings(asked.json["input"])
    answer["data"][0]["embedding"][1] = math.nan
    return reply(json.dumps(answer).encode())


BROKEN: Mapping[str, Callable[[Asked], bytes]] = {
    "500": lambda _: reply(b"json: unsupported value: NaN", status=500, content_type="text/plain"),
    "400": lambda _: reply({"error": "too long"}, status=400),
    "413": lambda _: reply(b"", status=413),
    "NaN": with_nan,
}


@pytest.mark.parametrize("how", BROKEN.values(), ids=BROKEN)
async def test_one_text_that_cannot_be_embedded_costs_the_seven_others_nothing(how: Callable[[Asked], bytes]) -> None:
    texts = [f"text {number}" for number in range(8)]
    async with asking(failing_at("text 4", how=how), extraCalls=6) as (both, provider):
        embedded = await both.passages.embed_each(texts)

        assert list(embedded.failed) == [4]
        assert embedded.vectors.any(axis=1).tolist() == [number != 4 for number in range(8)]
        assert len(provider.asked) == 7
        assert both.caller.cooling.left() == 0
        assert both.trouble.code is None


async def test_splitting_ends_at_the_ceiling_of_calls() -> None:
    texts = [f"text {number}" for number in range(64)]
    async with asking(failing_at(*texts, how=BROKEN["500"]), extraCalls=5) as (both, provider):
        embedded = await both.passages.embed_each(texts)

        assert len(provider.asked) == 6
        assert set(embedded.failed) == set(range(64))
        assert both.caller.cooling.left() > 0


async def test_a_question_that_fails_is_asked_once() -> None:
    async with asking(BROKEN["500"]) as (both, provider):
        assert await both.fails() == CallFault.SERVER_ERROR
        assert await both.fails() == CallFault.COOLING

    assert len(provider.asked) == 1


async def test_a_text_that_is_refused_alone_says_nothing_of_the_provider() -> None:
    async with asking(failing_at("poison", how=BROKEN["400"])) as (both, _):
        assert await both.fails("poison") == CallFault.TEXT_REFUSED

        assert (await both.questions.embed(["honest"])).any()
        assert both.trouble.code is None


# Faults of calls


STATUSES = {
    "500": (500, CallFault.SERVER_ERROR),
    "502": (502, CallFault.SERVER_UNAVAILABLE),
    "503": (503, CallFault.SERVER_UNAVAILABLE),
    "504": (504, CallFault.SERVER_UNAVAILABLE),
    "429": (429, CallFault.RATE_LIMITED),
    "401": (401, CallFault.NOT_ALLOWED),
    "403": (403, CallFault.NOT_ALLOWED),
    "404": (404, CallFault.UNEXPECTED_STATUS),
    "204": (204, CallFault.UNEXPECTED_STATUS),
    "304": (304, CallFault.REDIRECTED),
}


@pytest.mark.parametrize("status, code", STATUSES.values(), ids=STATUSES)
async def test_a_provider_that_fails_is_left_alone_for_a_while(status: int, code: CallFault) -> None:
    async with asking(lambda _: reply(b"", status=status)) as (both, provider):
        assert await both.fails() == code
        assert await both.fails() == CallFault.COOLING
        embedded = await both.passages.embed_each(["a", "b"])

    assert set(embedded.failed.values()) == {CallFault.COOLING}
    assert len(provider.asked) == 1


async def test_after_the_cool_down_it_is_asked_again_and_may_have_recovered() -> None:
    answers = iter([reply(b"", status=503), reply(b"", status=503)])
    async with asking(lambda asked: next(answers, None) or honest(asked)) as (both, provider):
        await both.fails()
        both.clock.seconds += 5.0  # type: ignore[attr-defined]
        assert await both.fails() == CallFault.SERVER_UNAVAILABLE
        both.clock.seconds += 9.9  # type: ignore[attr-defined]
        assert await both.fails() == CallFault.COOLING  # twice as long after the second failure in a row
        both.clock.seconds += 0.1  # type: ignore[attr-defined]

        assert (await both.questions.embed(["why"])).any()
        assert len(provider.asked) == 3
        assert both.trouble.code is None


async def test_a_hundred_requests_while_limited_make_two_calls_at_most() -> None:
    clock = Clock()
    async with asking(lambda _: reply(b"", status=429, Retry_After="120"), clock=clock) as (both, provider):
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(both.fails, f"question {number}")
        assert len(provider.asked) <= 2

        clock.seconds += 119.9
        assert await both.fails() == CallFault.COOLING
        before = len(provider.asked)
        clock.seconds += 0.2
        assert await both.fails() == CallFault.RATE_LIMITED
        assert len(provider.asked) == before + 1


async def test_questions_and_what_is_taken_in_cool_down_together() -> None:
    async with asking(lambda _: reply(b"", status=429)) as (both, provider):
        await both.passages.embed_each(["a"])
        assert await both.fails() == CallFault.COOLING

    assert len(provider.asked) == 1


async def test_a_redirect_is_not_followed() -> None:
    async with (
        serving(honest) as other,
        asking(lambda _: reply(b"", status=307, Location=f"{other.url}/embeddings"), key="k-1") as (both, _),
    ):
        assert await both.fails() == CallFault.REDIRECTED

    assert other.connections == 0


async def test_a_provider_that_never_answers_is_given_up_in_its_time() -> None:
    async with asking(lambda _: NEVER, clock=anyio.current_time, fair=0.0, questionSeconds=0.05) as (both, provider):
        assert await both.fails() == CallFault.TIMED_OUT
        assert await both.fails() == CallFault.COOLING

    assert len(provider.asked) == 1


async def test_a_slow_drip_ends_with_the_time_of_the_call() -> None:
    async with asking(lambda _: reply(b"{", Content_Length="1000"), clock=anyio.current_time, fair=0.0, questionSeconds=0.05) as (both, _):
        assert await both.fails() == CallFault.TIMED_OUT


async def test_whoever_hangs_up_early_tells_nothing_of_the_provider() -> None:
    async with asking(lambda _: NEVER, clock=anyio.current_time) as (both, _):
        with anyio.move_on_after(0.05) as waited:
            await both.questions.embed(["why"])

        assert waited.cancelled_caught
        assert both.caller.cooling.left() == 0


async def test_a_fair_time_of_silence_counts_whoever_hung_up() -> None:
    async with asking(lambda _: NEVER, clock=anyio.current_time, fair=0.01) as (both, _):
        with anyio.move_on_after(0.05):
            await both.questions.embed(["why"])

        assert both.caller.cooling.left() > 0


async def test_without_time_left_nothing_is_called() -> None:
    async with asking(honest) as (both, provider):
        with anyio.CancelScope(deadline=anyio.current_time() - 1):
            await both.questions.embed(["why"])

    assert provider.connections == 0


async def test_a_connection_that_breaks_is_a_fault_of_the_provider() -> None:
    async with asking(lambda _: b"HTTP/1.1 200 OK\r\nContent-Len", hang_up=True) as (both, _):
        assert await both.fails() == CallFault.UNREACHABLE
    async with asking(lambda _: reply(b"{", Content_Length="9"), hang_up=True) as (both, _):
        assert await both.fails() == CallFault.UNREACHABLE
    async with asking(lambda _: b"220 mail.example ready\r\n", hang_up=True) as (both, _):
        assert await both.fails() == CallFault.UNREACHABLE


async def test_nobody_there_is_a_fault_of_the_provider() -> None:
    both = Asking(f"http://127.0.0.1:{free_port()}/v1")

    assert await both.fails() == CallFault.UNREACHABLE
    await both.caller.aclose()


async def test_a_server_without_tls_is_a_fault_of_the_provider() -> None:
    async with serving(honest) as provider:
        both = Asking(provider.url.replace("http:", "https:"))
        assert await both.fails() == CallFault.UNREACHABLE
        await both.caller.aclose()

    assert provider.asked == []


# Answers that are no answers


def spoilt(**changes: Any) -> Answers:
    return lambda asked: reply({**embeddings(asked.json["input"]), **changes})


def reshaped(change: Callable[[list[Any]], Any]) -> Answers:
    def answers(asked: Asked) -> bytes:
        answer = embeddings(asked.json["input"])
        return reply({**answer, "data": change(answer["data"])})

    return answers


def of_numbers(change: Callable[[list[float]], Any]) -> Answers:
    return reshaped(lambda data: [{**each, "embedding": change(each["embedding"])} for each in data])


UNSOUND: Mapping[str, tuple[Answers, Unsound | CallFault]] = {
    "other model": (spoilt(model="other"), Unsound.MODEL),
    "n - 1": (reshaped(lambda data: data[:-1]), Unsound.COUNT),
    "n + 1": (reshaped(lambda data: [*data, data[0]]), Unsound.COUNT),
    "none": (reshaped(lambda _: []), Unsound.COUNT),
    "permuted": (reshaped(lambda data: [data[1], data[0], *data[2:]]), Unsound.INDEX_PERMUTED),
    "repeated": (reshaped(lambda data: [data[0], data[0], *data[2:]]), Unsound.INDEX_REPEATED),
    "no dimensions": (of_numbers(lambda _: []), Unsound.NO_DIMENSIONS),
    "more dimensions": (of_numbers(lambda numbers: [*numbers, 0.5]), Unsound.DIMENSIONS),
    "text": (of_numbers(lambda _: "AACAPwAAgD8="), Unsound.NOT_NUMBERS),
    "ints": (of_numbers(lambda _: [1, 2, 3, 4]), Unsound.NOT_NUMBERS),
    "NaN": (of_numbers(lambda numbers: [math.nan, *numbers[1:]]), Unsound.NOT_FINITE),
    "null": (of_numbers(lambda numbers: [None, *numbers[1:]]), Unsound.NOT_FINITE),
    "1e39": (of_numbers(lambda numbers: [1e39, *numbers[1:]]), Unsound.OUT_OF_RANGE),
    "zeros": (of_numbers(lambda _: [0.0] * 4), Unsound.ALL_ZERO),
    "HTML": (lambda _: reply(b"<html>", content_type="text/html"), Unsound.CONTENT_TYPE),
    "HTML as JSON": (lambda _: reply(b"<html>"), Unsound.NOT_JSON),
    "truncated": (lambda asked: reply(honest(asked).partition(b"\r\n\r\n")[2][:-5]), Unsound.NOT_JSON),
    "nothing": (lambda _: reply(b""), Unsound.EMPTY),
    "an error": (lambda _: reply({"error": {"message": "busy"}}), Unsound.SHAPE),
    "compressed": (lambda asked: reply(embeddings(asked.json["input"]), Content_Encoding="gzip"), CallFault.UNEXPECTED_STATUS),
    "fifty megabytes": (lambda _: reply(b"[" + b" " * 50_000_000 + b"]"), Unsound.TOO_LARGE),
}


@pytest.mark.parametrize("answers, code", UNSOUND.values(), ids=UNSOUND)
async def test_an_unsound_answer_gives_no_vector_at_all_and_the_provider_is_left_alone(answers: Answers, code: str) -> None:
    async with asking(answers, extraCalls=3) as (both, provider):
        embedded = await both.passages.embed_each(["one", "two", "three"])

        assert not embedded.vectors.any()
        assert code in embedded.failed.values()
        assert set(embedded.failed) == {0, 1, 2}
        assert await both.fails() == CallFault.COOLING
        assert len(provider.asked) <= 4


async def test_another_model_or_length_is_another_space() -> None:
    for answers in (UNSOUND["other model"][0], UNSOUND["more dimensions"][0]):
        async with asking(answers) as (both, _):
            await both.fails()
            assert both.trouble.other_space
            await both.fails()
            assert both.trouble.other_space  # cooling down, nothing new is learnt


# What is never told


async def test_no_error_tells_key_text_address_or_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="remit")
    secrets = ("k-secret", "my question", "127.0.0.1", "their answer")
    for answers in (
        lambda _: reply(b"their answer", status=401),
        lambda _: reply(b"their answer"),
        lambda _: reply({"data": [], "model": "their answer"}),
    ):
        async with asking(answers, key="k-secret") as (both, _):
            with pytest.raises((ProviderFailed, UnsoundBatch)) as failed:
                await both.questions.embed(["my question"])
        told = [repr(each) + str(each) for each in chain_of(failed.value)] + [caplog.text, repr(both.caller.__dict__["_places"])]
        assert not [secret for secret in secrets for text in told if secret in text]


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__ or error.__cause__


def test_an_address_shows_nothing_of_itself() -> None:
    where = address("URL", "KEY", {"URL": "https://provider.test/v1/", "KEY": "k-secret"})

    assert (where.url, where.key) == ("https://provider.test/v1", "k-secret")
    assert repr(where) == "Address()"


WRONG = {
    "missing": {},
    "blank": {"URL": " "},
    "no scheme": {"URL": "provider.test/v1"},
    "other scheme": {"URL": "file:///etc/passwd"},
    "no host": {"URL": "https:///v1"},
    "user": {"URL": "https://me:k-secret@provider.test/v1"},
    "query": {"URL": "https://provider.test/v1?key=k-secret"},
    "fragment": {"URL": "https://provider.test/v1#k-secret"},
    "port": {"URL": "https://provider.test:k-secret/v1"},
    "line": {"URL": "https://provider.test/\r\nk-secret"},
    "header": {"URL": "https://provider.test", "KEY": "k-secret\r\nX: 1"},
    "in the clear": {"URL": "http://provider.test/v1", "KEY": "k-secret"},
}


@pytest.mark.parametrize("environment", WRONG.values(), ids=WRONG)
def test_a_wrong_address_is_refused_without_being_told(environment: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        address("URL", "KEY", environment)

    assert "k-secret" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:9"])
def test_this_machine_may_be_told_a_key_in_the_clear(host: str) -> None:
    assert address("URL", "KEY", {"URL": f"http://{host}/v1", "KEY": "k"}).key == "k"


# Cooling down


STATED = {
    "seconds": ("120", 120.0),
    "zero": ("0", 0.0),
    "a date": (format_datetime(datetime(2026, 11, 30, 12, 2, tzinfo=UTC), usegmt=True), 120.0),
    "a date with an offset": ("Mon, 30 Nov 2026 13:02:00 +0100", 120.0),
    "a date in the past": (format_datetime(datetime(2026, 11, 30, 11, tzinfo=UTC), usegmt=True), None),
    "absent": (None, None),
    "blank": ("", None),
    "negative": ("-5", None),
    "a fraction": ("1.5", None),
    "words": ("in a moment", None),
    "other digits": ("１２", None),
    "no date": ("Mon, 99 Nov 2026 99:99:99 GMT", None),
}


@pytest.mark.parametrize("header, seconds", STATED.values(), ids=STATED)
def test_what_a_provider_asks_for_is_read(header: str | None, seconds: float | None) -> None:
    assert stated_seconds(header, NOW) == seconds


@pytest.mark.parametrize("header", ["9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_huge_wish_is_granted_up_to_a_limit(header: str) -> None:
    stated = stated_seconds(header, NOW)

    assert stated is not None
    assert cool_seconds(1, stated, RULES) == 3600.0


def test_failures_in_a_row_double_the_time_up_to_its_most() -> None:
    assert [cool_seconds(failures, None, RULES) for failures in (1, 2, 3, 4, 5, 99, 10**6)] == [5, 10, 20, 40, 60, 60, 60]
    assert cool_seconds(3, 1.0, RULES) == 20.0  # a provider cannot make us ask more often than we would


@given(st.text(max_size=40))
def test_any_retry_after_is_seconds_or_nothing(header: str) -> None:
    stated = stated_seconds(header, NOW)

    assert stated is None or 0 <= stated < math.inf


def test_a_success_does_not_end_what_another_call_was_told_to_wait() -> None:
    clock = Clock()
    cooling = CoolDown(RULES, clock)
    cooling.failed(120.0)
    cooling.succeeded()

    assert cooling.left() == 120.0


# A provider of others


async def test_a_real_provider_finds_what_words_do_not(e5: str) -> None:
    both = Asking(e5, model=MODEL, dimensions=DIMENSIONS)
    passages = ["The cat sleeps on the sofa.", "Our ferry leaves the harbour at noon.", "Invoices are paid within thirty days."]

    question = await both.questions.embed(["When does the boat depart?"])
    vectors = await both.passages.embed(passages)

    assert int((vectors @ question[0]).argmax()) == 1
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    await both.caller.aclose()


async def test_a_real_provider_that_answers_for_another_model_is_refused(e5: str) -> None:
    both = Asking(e5, model="e5-query", dimensions=DIMENSIONS)

    assert await both.fails() == Unsound.MODEL
    assert both.trouble.other_space
    assert await both.fails() == CallFault.COOLING
    await both.caller.aclose()
