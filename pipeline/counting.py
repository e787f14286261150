"""Counting: how many tokens a text is to the model that will read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from inspect import isawaitable
from typing import Protocol

import anyio.to_thread
import quicktok

from remit.pipeline.errors import ConfigError, CounterFailed

ENCODINGS = {"o200k": "o200k_base", "cl100k": "cl100k_base", "llama3": "llama3", "qwen3": "qwen3"}

INLINE_CHARACTERS = 20_000
"""Counted where the caller stands: at most 8 ms (a run of hyphens, 2.7 characters a microsecond), 0.2 ms of prose."""


class _Encoding(Protocol):
    def count(self, text: str) -> int: ...


class ModelCounter:
    """Counts as a published model's tokenizer does, offline. Special-token text counts as plain text, a lone surrogate as one `?`.

    quicktok lets other threads run while it counts (a 0.2 s count held the event loop 0.6 ms), but not while it reads a vocabulary,
    which takes 0.1-0.4 s once in a process: `load` does that when the host starts, else the first count does.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> None:
        _encoding(self.name)

    def tokens_in(self, text: str) -> int:
        try:
            return _encoding(self.name).count(text)
        except TypeError:  # what quicktok says of a text that has no UTF-8
            return _encoding(self.name).count(text.encode("utf-8", "replace").decode())

    async def count(self, text: str) -> int:
        if len(text) <= INLINE_CHARACTERS:
            return self.tokens_in(text)
        return await anyio.to_thread.run_sync(self.tokens_in, text)


class HostCounter:
    """Counts with the host's own callable, sync or async. A sync one is called in a thread for long texts, and should not wait.

    Raises `CounterFailed` when it raises, or gives anything but a whole number from 0 up: a wrong count is never taken for none.
    """

    name = "host"

    def __init__(self, counts: Callable[[str], int | Awaitable[int]]) -> None:
        self._counts = counts

    async def count(self, text: str) -> int:
        try:
            if len(text) <= INLINE_CHARACTERS:
                (counted,) = self._called(text)
            else:
                (counted,) = await anyio.to_thread.run_sync(self._called, text)
            tokens = await counted if isawaitable(counted) else counted
        except Exception as error:
            raise CounterFailed(f"it raised {type(error).__name__}") from error
        if type(tokens) is not int or tokens < 0:
            raise CounterFailed("it gave a negative number" if type(tokens) is int else f"it gave {type(tokens).__name__}")
        return tokens

    def _called(self, text: str) -> tuple[int | Awaitable[int]]:
        return (self._counts(text),)  # wrapped, because trio lets no thread return a coroutine


def counter_named(name: str) -> ModelCounter:
    """The counter of one of `ENCODINGS`. Raises `ConfigError` naming them for any other name."""
    if name not in ENCODINGS:
        raise ConfigError(f"context.counter: {name!r} is not one of {', '.join(ENCODINGS)}")
    return ModelCounter(name)


@lru_cache
def _encoding(name: str) -> _Encoding:
    encoding: _Encoding = quicktok.get_encoding(ENCODINGS[name])
    return encoding
