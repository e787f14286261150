"""Counting: a count is right, or it is a fault with a name; it is never nothing by mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.counting import ENCODINGS, INLINE_CHARACTERS, HostCounter, counter_named
from remit.pipeline.errors import ConfigError, CounterFailed, RemitError


@pytest.mark.parametrize("name, tokens", [("o200k", 8), ("cl100k", 9), ("llama3", 7), ("qwen3", 7)])
async def test_a_model_counter_counts(name: str, tokens: int) -> None:
    assert counter_named(name).name == name
    assert await counter_named(name).count("今月の売上レポート") == tokens
    assert await counter_named(name).count("") == 0


@pytest.mark.parametrize("name", ENCODINGS)
async def test_special_token_text_counts_as_plain_text(name: str) -> None:
    special = "<|endoftext|> <|im_end|> <|eot_id|> <|begin_of_text|>"

    assert await counter_named(name).count(special) > 8


async def test_a_lone_surrogate_is_counted_as_a_question_mark() -> None:
    counter = counter_named("o200k")

    assert await counter.count("ok \ud83d") == await counter.count("ok ?")


async def test_a_long_text_is_counted_as_a_short_one_is() -> None:
    counter = counter_named("o200k")
    line = "one more line\n"
    lines = 2 + INLINE_CHARACTERS // len(line)

    assert await counter.count(line * lines) == lines * await counter.count(line)


@given(st.text(st.characters()))
def test_any_text_has_at_most_a_token_a_byte(text: str) -> None:
    assert 0 <= counter_named("o200k").tokens_in(text) <= len(text.encode("utf-8", "surrogatepass"))


def test_an_unknown_counter_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"context\.counter: 'bytes' is not one of o200k, cl100k, llama3, qwen3"):
        counter_named("bytes")


async def words_async(text: str) -> int:
    return len(text.split())


class Words:
    async def __call__(self, text: str) -> int:
        return len(text.split())


@pytest.mark.parametrize("counts", [lambda text: len(text.split()), words_async, Words()])
async def test_a_host_counts_with_its_own_callable(counts: Callable[[str], Any]) -> None:
    assert await HostCounter(counts).count("three short words") == 3
    assert await HostCounter(counts).count("word " * INLINE_CHARACTERS) == INLINE_CHARACTERS


def raises(text: str) -> int:
    raise KeyError(text)


@pytest.mark.parametrize(
    "counts",
    [raises, lambda _: None, lambda text: text, lambda _: -1, lambda _: 2.0, lambda _: "3", lambda _: True, lambda _: float("nan")],
)
@pytest.mark.parametrize("text", ["secret", "secret " * INLINE_CHARACTERS])
async def test_a_host_that_does_not_count_is_a_fault_that_tells_no_text(counts: Callable[[str], Any], text: str) -> None:
    with pytest.raises(CounterFailed) as caught:
        await HostCounter(counts).count(text)

    assert isinstance(caught.value, RemitError)
    assert "secret" not in str(caught.value)
