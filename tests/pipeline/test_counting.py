"""Counting: a count is right, or it is a fault with a name; it is never nothing by mistake."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from tokenizers.processors import TemplateProcessing

from remit.pipeline.counting import ENCODINGS, FILE_INLINE_CHARACTERS, INLINE_CHARACTERS, Counts, HostCounter, counter_named
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


@given(st.text(st.characters()), st.sampled_from(sorted(ENCODINGS)))
def test_any_text_has_at_most_a_token_a_byte(text: str, name: str) -> None:
    assert 0 <= counter_named(name).tokens_in(text) <= len(text.encode("utf-8", "surrogatepass"))


@given(st.text(st.characters()) | st.text("- a", max_size=900), st.sampled_from(sorted(ENCODINGS)))
def test_no_text_has_fewer_tokens_than_its_length_alone_says(text: str, name: str) -> None:
    assert counter_named(name).at_least(text) <= counter_named(name).tokens_in(text)


def test_of_a_text_far_too_long_it_is_known_without_counting_and_of_a_host_or_a_file_nothing_is(files: dict[str, str]) -> None:
    assert counter_named("o200k").at_least("-" * 1_000_000) > 6000
    assert (HostCounter(len).at_least("-" * 1_000_000), counter_named(files["words"]).at_least("x" * 1_000_000)) == (0, 0)


PIECES = [
    "\n",
    "\r\n",
    " ",
    "\t",
    "/",
    "//",
    "!",
    "'s",
    "don't",
    "```",
    '}",',
    "</a>",
    "é",
    "e\u0301",
    "\u0301",
    "\u2028",
    "\u3000",
    "数",
    "한",
    "1234",
    "<|endoftext|>",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=4), max_size=9).map("".join)
PRINTING = "".join(chr(place) for place in range(33, 127) if chr(place) != "/")


@given(TEXTS, st.sampled_from(PRINTING), TEXTS, st.sampled_from(sorted(ENCODINGS)))
@settings(max_examples=300)
def test_parts_of_a_text_that_meet_at_a_line_have_together_the_tokens_of_the_whole(before: str, first: str, after: str, name: str) -> None:
    counter, one, other = counter_named(name), f"{before}\n", first + after

    assert counter.adds_up
    assert counter.tokens_in(one + other) == counter.tokens_in(one) + counter.tokens_in(other)


@pytest.mark.parametrize("one, other", [(".\n", "/"), ("\n", "\n"), ("!", "\n"), ("to", "ken")])
def test_parts_that_meet_elsewhere_need_not(one: str, other: str) -> None:
    count = counter_named("o200k").tokens_in

    assert count(one + other) < count(one) + count(other)


def test_of_the_parts_that_a_host_or_a_file_counts_nothing_is_said(files: dict[str, str]) -> None:
    assert (HostCounter(len).adds_up, counter_named(files["bytes"]).adds_up) == (False, False)


def test_short_texts_are_counted_at_once_and_those_of_a_host_never(files: dict[str, str]) -> None:
    counter, file = counter_named("o200k"), counter_named(files["bytes"])

    assert [counter.at_once("a " * times) for times in (3, 1 + INLINE_CHARACTERS // 2)] == [counter.tokens_in("a a a "), None]
    assert [file.at_once("a" * times) for times in (FILE_INLINE_CHARACTERS, FILE_INLINE_CHARACTERS + 1)] == [FILE_INLINE_CHARACTERS, None]
    assert HostCounter(len).at_once("a") is None


# Counts that are remembered


class Listening:
    """A counter that tells what it was asked to count."""

    name, adds_up = "listening", True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def at_once(self, text: str) -> int | None:
        self.asked.append(text)
        return counter_named("o200k").at_once(text)

    async def count(self, text: str) -> int:
        return counter_named("o200k").tokens_in(text)

    def at_least(self, text: str) -> int:
        return 0


@given(TEXTS, st.sampled_from(PRINTING) | st.just(""), TEXTS, TEXTS, st.sampled_from(sorted(ENCODINGS)))
@settings(max_examples=300)
def test_a_text_below_another_line_has_the_tokens_that_it_has_when_counted_as_a_whole(
    line: str, first: str, rest: str, other: str, name: str
) -> None:
    counter = counter_named(name)
    remembering = Counts(counter, 100).of("acme")

    for text in (f"{line}\n{first}{rest}", f"{other}\n{first}{rest}", f"{line}{first}{rest}", f"{other}\n{first}{rest}\n{first}{rest}"):
        assert [remembering.at_once(text), remembering.at_once(text)] == [counter.tokens_in(text)] * 2
        assert remembering.at_least(text) == counter.at_least(text)


async def test_what_stands_below_the_first_line_is_counted_once() -> None:
    counter = Listening()
    remembering = Counts(counter, 10).of("acme")
    for line in ("[1]", "[2]", "[3]"):
        assert remembering.at_once(f"{line}\n```\nIt is.\n```") == await remembering.count(f"{line}\n```\nIt is.\n```")

    assert counter.asked == ["[1]\n", "```\nIt is.\n```", "[2]\n", "[3]\n"]


@pytest.mark.parametrize(
    "text", ["one line", "[1]\n", "[1]\n/path", "[1]\n\nword", "[1]\n word", "[1]\néa", "[1]\n" + "a " * INLINE_CHARACTERS]
)
def test_what_need_not_add_up_and_what_is_long_is_counted_as_a_whole_each_time(text: str) -> None:
    counter = Listening()
    counts = Counts(counter, 10)
    asked = [counts.of("acme").at_once(text) for _ in range(2)]

    assert asked == [counter_named("o200k").at_once(text)] * 2
    assert (counter.asked, len(counts)) == ([text, text], 0)


def test_no_org_finds_what_was_counted_for_another() -> None:
    counter = Listening()
    counts = Counts(counter, 10)
    for org in ("acme", "globex", "acme"):
        counts.of(org).at_once("[1]\nword")

    assert counter.asked.count("word") == 2


def test_counts_that_were_not_used_for_longest_go_first() -> None:
    counter = Listening()
    remembering = Counts(counter, 2).of("acme")
    for text in ("a", "b", "a", "c", "a", "b"):
        remembering.at_once(f"[1]\n{text}")

    assert [text for text in counter.asked if text != "[1]\n"] == ["a", "b", "c", "b"]


def test_no_count_is_remembered_without_room_nor_after_it_was_forgotten_nor_of_texts_that_do_not_add_up() -> None:
    counter, host = Listening(), HostCounter(len)
    assert Counts(counter, 0).of("acme") is counter
    assert Counts(host, 10).of("acme") is host

    counts = Counts(counter, 10)
    for org in ("acme", "globex"):
        counts.of(org).at_once("[1]\nword")
    counts.forget("acme")
    assert len(counts) == 1


async def test_a_long_count_that_nobody_waits_for_any_more_holds_nobody_up() -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(_text: str) -> int:
        started.set()
        go_on.wait()
        return 1

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(HostCounter(slow).count, "word " * INLINE_CHARACTERS)
            await anyio.to_thread.run_sync(started.wait)
            scope.cancel()

    assert not go_on.is_set()
    go_on.set()


def test_an_unknown_counter_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"context\.counter: 'bytes' is not one of o200k, cl100k, llama3, qwen3"):
        counter_named("bytes")


# Any tokenizer.json

BYTES = sorted(ByteLevel.alphabet())


def byte_pairs() -> Tokenizer:
    """A tokenizer of bytes, and one pair of them."""
    made = Tokenizer(BPE(vocab={token: place for place, token in enumerate([*BYTES, "ab"])}, merges=[("a", "b")]))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["<|end|>"])
    made.post_processor = TemplateProcessing(single="<|end|> $A <|end|>", special_tokens=[("<|end|>", 257)])
    return made


def word_pieces() -> Tokenizer:
    """The kind of embedding models, which knows few words, and no others."""
    made = Tokenizer(WordPiece(vocab={"[UNK]": 0, "deploy": 1, "##s": 2}, unk_token="[UNK]", max_input_chars_per_word=10))  # noqa: S106
    made.normalizer, made.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    return made


MADE = {"bytes": byte_pairs, "words": word_pieces}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tokenizers")
    for name, made in MADE.items():
        made().save(str(folder / f"{name}.json"))
    return {name: str(folder / f"{name}.json") for name in MADE}


@pytest.mark.parametrize(
    "name, text, tokens",
    [
        ("bytes", "", 0),
        ("bytes", "abba", 3),
        ("bytes", "ü", 2),
        ("bytes", "<|end|>", 7),
        ("words", "Deploys, deploy", 4),
        ("words", "x" * 99, 1),
    ],
)
async def test_a_tokenizer_of_a_file_counts_plain_text_and_nothing_around_it(
    files: dict[str, str], name: str, text: str, tokens: int
) -> None:
    assert await counter_named(files[name]).count(text) == tokens


async def test_what_a_file_says_of_cutting_and_filling_up_is_left_out(tmp_path: Path) -> None:
    made = byte_pairs()
    made.enable_truncation(max_length=4)
    made.enable_padding(length=64)
    made.save(str(tmp_path / "tokenizer.json"))

    assert await counter_named(str(tmp_path / "tokenizer.json")).count("ab" * 100) == 100


async def test_a_file_counts_a_long_text_and_a_broken_one(files: dict[str, str]) -> None:
    counter = counter_named(files["bytes"])

    assert await counter.count("a " * FILE_INLINE_CHARACTERS) == 2 * FILE_INLINE_CHARACTERS
    assert await counter.count("ok \ud83d") == await counter.count("ok ?")


@given(text=st.text(st.characters()), name=st.sampled_from(sorted(MADE)))
def test_a_tokenizer_of_a_file_never_raises(files: dict[str, str], text: str, name: str) -> None:
    assert counter_named(files[name]).tokens_in(text) >= 0


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b"no json", b"\xff", b'{"model": {"type": "Unheard"}}'])
def test_a_file_that_is_no_tokenizer_is_refused_without_its_folder(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=r"context\.counter: tokenizer\.json") as caught:
        counter_named(str(path)).load()
    assert str(tmp_path) not in str(caught.value)


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
