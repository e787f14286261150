"""Counting: how many tokens a text is to the model that will read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from hashlib import blake2b
from inspect import isawaitable
from pathlib import Path
from typing import Any, Protocol

import anyio.to_thread
import quicktok

from remit.pipeline.errors import ConfigError, CounterFailed
from remit.pipeline.recent import Recent
from remit.stages.ports import TokenCounter

ENCODINGS = {"o200k": "o200k_base", "cl100k": "cl100k_base", "llama3": "llama3", "qwen3": "qwen3"}

INLINE_CHARACTERS = 20_000
"""Counted where the caller stands: at most 8 ms (a run of hyphens, 2.7 characters a microsecond), 0.2 ms of prose."""

FILE_INLINE_CHARACTERS = 4_000
"""The same for a tokenizer of a file, which takes some 0.7 ms for them."""


BEGINS_A_PART = frozenset(chr(place) for place in range(ord("!"), ord("~") + 1)) - {"/"}
"""What stands after a line feed where a text can be parted, as `TokenCounter.adds_up` says."""


class _Encoding(Protocol):
    """Raises `TypeError` for a text that has no UTF-8. Counts up to `inline` characters fast enough to do so on the event loop.

    No token of it stands for more than `longest` characters; None when that cannot be said. `adds_up` as in `TokenCounter`.
    """

    inline: int
    longest: int | None
    adds_up: bool

    def count(self, text: str) -> int: ...


class ModelCounter:
    """Counts as a model's tokenizer does, offline. Special-token text counts as plain text, a lone surrogate as one `?`.

    The tokenizers let other threads run while they count (a 0.2 s count held the event loop 0.6 ms), but not while they read a vocabulary,
    which takes 0.1-0.4 s once in a process: `load` does that when the host starts, else the first count does. Both raise `ConfigError`
    for a file that is no tokenizer. A count that nobody waits for any more goes on in its thread to its end, and delays nobody.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> None:
        _encoding(self.name)

    @property
    def adds_up(self) -> bool:
        return _encoding(self.name).adds_up

    def tokens_in(self, text: str) -> int:
        return _counted(_encoding(self.name), text)

    async def count(self, text: str) -> int:
        tokens = self.at_once(text)
        return await anyio.to_thread.run_sync(self.tokens_in, text, abandon_on_cancel=True) if tokens is None else tokens

    def at_once(self, text: str) -> int | None:
        encoding = _encoding(self.name)
        return _counted(encoding, text) if len(text) <= encoding.inline else None

    def at_least(self, text: str) -> int:
        longest = _encoding(self.name).longest
        return 0 if longest is None else -(-len(text) // longest)


class HostCounter:
    """Counts with the host's own callable, sync or async. A sync one is called in a thread for long texts, and should not wait.

    Raises `CounterFailed` when it raises, or gives anything but a whole number from 0 up: a wrong count is never taken for none.
    """

    name = "host"
    adds_up = False

    def __init__(self, counts: Callable[[str], int | Awaitable[int]]) -> None:
        self._counts = counts

    async def count(self, text: str) -> int:
        try:
            if len(text) <= INLINE_CHARACTERS:
                (counted,) = self._called(text)
            else:
                (counted,) = await anyio.to_thread.run_sync(self._called, text, abandon_on_cancel=True)
            tokens = await counted if isawaitable(counted) else counted
        except Exception as error:
            raise CounterFailed(f"it raised {type(error).__name__}") from error
        if type(tokens) is not int or tokens < 0:
            raise CounterFailed("it gave a negative number" if type(tokens) is int else f"it gave {type(tokens).__name__}")
        return tokens

    def at_once(self, _text: str) -> None:
        return None

    def at_least(self, _text: str) -> int:
        return 0

    def _called(self, text: str) -> tuple[int | Awaitable[int]]:
        return (self._counts(text),)  # wrapped, because trio lets no thread return a coroutine


def counter_named(name: str) -> ModelCounter:
    """The counter of one of `ENCODINGS`, or of the `tokenizer.json` at a path. Raises `ConfigError` for any other name."""
    if name not in ENCODINGS and not name.endswith(".json"):
        raise ConfigError(f"context.counter: {name!r} is not one of {', '.join(ENCODINGS)}, nor a path that ends in .json")
    return ModelCounter(name)


class Counts:
    """How many tokens texts had that were counted before: at most `most` of them, the longest unused ones going first.

    A memory's text is quoted alike in every recall that finds it, below a line that differs. Texts are kept as digests only, and an org
    finds nothing that was counted for another: how fast an answer comes tells nobody what others keep.
    """

    def __init__(self, counter: TokenCounter, most: int) -> None:
        self._counter = counter
        self._tokens: Recent[tuple[str, bytes], int] = Recent(most)

    def __len__(self) -> int:
        return len(self._tokens)

    def of(self, org: str) -> TokenCounter:
        """The counter for one org; where texts do not add up, every one is counted as a whole."""
        return Remembering(self._counter, self._tokens, org) if self._tokens.most and self._counter.adds_up else self._counter

    def forget(self, org: str) -> None:
        self._tokens.drop_all(lambda key: key[0] == org)


class Remembering:
    """A counter, for one org, of short texts whose first line differs and the rest may have been counted before; else as the counter."""

    adds_up = True

    def __init__(self, counter: TokenCounter, counts: Recent[tuple[str, bytes], int], org: str) -> None:
        self.name, self.count, self.at_least = counter.name, counter.count, counter.at_least
        self._counter, self._counts, self._org = counter, counts, org

    def at_once(self, text: str) -> int | None:
        start = text.find("\n") + 1
        if not 0 < start < len(text) <= INLINE_CHARACTERS or text[start] not in BEGINS_A_PART:
            return self._counter.at_once(text)
        rest = text[start:]
        key = self._org, blake2b(rest.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        line, tokens = self._counter.at_once(text[:start]), self._counts.get(key)
        if tokens is None:
            tokens = self._counter.at_once(rest)
            if tokens is not None:
                self._counts.keep(key, tokens)
        return None if line is None or tokens is None else line + tokens


class _Bundled:
    """A vocabulary that quicktok brings with it.

    All four add up. A text is first split by a pattern, and each piece is counted by itself. No alternative of the patterns goes on after a
    line feed but with white space or, in o200k, a slash; none looks back; and where white space ends in a line feed, `\\s*[\\r\\n]+`
    takes it to there before `\\s+(?!\\S)` could ask what follows. Of what qwen3 makes NFC nothing joins a line feed with what is beside it.

    In a loop of nothing else it counts a thousand characters of prose in 7 µs, of made-up words in 14 to 18; of these among the other work
    of a recall, when its tables of some 60 MB are not in the processor's caches, in 33. It has nothing faster: a batch takes as long.
    """

    inline = INLINE_CHARACTERS
    longest: int | None
    adds_up = True

    def __init__(self, name: str) -> None:
        encoding = quicktok.get_encoding(ENCODINGS[name])
        self.count: Callable[[str], int] = encoding.count
        self.longest = max(map(len, encoding.token_byte_values()))  # bytes, of which a character has one or more


class _FromFile:
    """Any tokenizer of the Hugging Face format. What the file says of cutting and filling texts up is for training, and left out."""

    inline = FILE_INLINE_CHARACTERS
    longest: int | None = None  # one unknown word may be one token, however long, and a normaliser may leave characters out
    adds_up = False  # what splits its texts could be anything

    def __init__(self, path: str) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ConfigError("context.counter: a tokenizer.json needs the package `tokenizers`, as the extra `local` has it") from None
        try:
            self._tokenizer: Any = Tokenizer.from_str(Path(path).expanduser().read_text(encoding="utf-8"))
        except Exception as error:  # noqa: BLE001 - the package raises nothing narrower
            raise ConfigError(f"context.counter: {Path(path).name} cannot be read as a tokenizer ({type(error).__name__})") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True

    def count(self, text: str) -> int:
        # Of one text, because only the counting of several lets other threads run.
        (encoded,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return len(encoded)


def _counted(encoding: _Encoding, text: str) -> int:
    try:
        return encoding.count(text)
    except TypeError:
        return encoding.count(text.encode("utf-8", "replace").decode())


@lru_cache
def _encoding(name: str) -> _Encoding:
    return _Bundled(name) if name in ENCODINGS else _FromFile(name)
