"""The local feature hash: a vector of the words a text has, made here, of no model and of no meaning beyond the words."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import log, sqrt

import anyio.to_thread
import numpy as np
from numpy.typing import ArrayLike, NDArray

from remit.pipeline.analysis import Analyser
from remit.stages.evidence import Lane

DIMENSIONS = 128
BINS_A_WORD = 4
STEPS = 1024
"""Weights are whole steps of 1/1024: sums of whole numbers are the same bits in any order and on any machine."""

FEW = 16
"""Words of a question, of which the bins are filled sooner one by one than by calls that take all of them at once."""

CACHED_WORDS = 65_536
INLINE_CHARACTERS = 8_192
"""About 2 ms of work; a longer batch goes to a thread."""


class LocalHash:
    """Embeds texts in `local-feature-hash-v1`. Texts with the same words are near; nothing is known of what words mean.

    Each indexed word (stop words only when there is nothing else) adds 1 + ln(count) to four of 128 bins, with signs; bins and signs
    are a hash of the word. The sum has length 1. A text without words is the zero vector.
    """

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser
        self.lane = Lane.LOCAL
        self.dimensions = DIMENSIONS
        self.space = f"local-feature-hash-v1/{DIMENSIONS}/{blake2b(analyser.signature.encode(), digest_size=4).hexdigest()}"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 of shape (len(texts), 128); a zero row for a text without words. Long batches are made in a thread, piece by piece."""
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        start = 0
        for end in _batches(texts):
            batch = texts[start:end]
            inline = sum(map(len, batch)) <= INLINE_CHARACTERS
            vectors[start:end] = self._all(batch) if inline else await anyio.to_thread.run_sync(self._all, batch)
            start = end
        return vectors

    def at_once(self, text: str) -> NDArray[np.float32] | None:
        """float32 of shape (128,), as `embed` gives it, of a text short enough to be read where the caller stands; None of any other."""
        return self.vector_of(text) if len(text) <= INLINE_CHARACTERS else None

    def vector_of(self, text: str) -> NDArray[np.float32]:
        """float32 of shape (128,): the text's unit vector, or zero."""
        return self.vector_of_words(self._analyser.indexed(text)[0])

    def vector_of_words(self, words: Mapping[str, int]) -> NDArray[np.float32]:
        """The same from words that were counted already (`Analyser.indexed`)."""
        content = self._analyser.subject(words)
        if not content:
            return np.zeros(DIMENSIONS, np.float32)
        sums = _sums_of_few(content) if len(content) <= FEW else _sums([content])[0]
        length = sqrt(sums @ sums)
        return (sums / length if length else sums).astype(np.float32)

    def vectors_of_words(self, texts: Sequence[Mapping[str, int]]) -> NDArray[np.float32]:
        """The same of several texts, float32 of shape (len(texts), 128)."""
        if len(texts) == 1:
            return self.vector_of_words(texts[0]).reshape(1, DIMENSIONS)
        sums = _sums([self._analyser.subject(words) for words in texts])
        lengths: NDArray[np.float64] = np.sqrt((sums * sums).sum(axis=1).astype(np.float64))
        lengths[lengths == 0] = 1.0
        return (sums / lengths[:, None]).astype(np.float32)

    def _all(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.vectors_of_words([self._analyser.indexed(text)[0] for text in texts])


def similarity(one: ArrayLike, other: ArrayLike) -> float:
    """Cosine of two vectors, in float64. 0.0 when shapes differ or one is empty, zero or not finite."""
    left, right = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if left.shape != right.shape or left.ndim != 1:
        return 0.0
    lengths = np.linalg.norm(left) * np.linalg.norm(right)
    if not lengths > 0 or not np.isfinite(lengths):
        return 0.0
    return float(np.clip(left @ right / lengths, -1.0, 1.0))


def _sums_of_few(words: Mapping[str, int]) -> NDArray[np.int64]:
    """What is in each bin."""
    sums = array("q", bytes(8 * DIMENSIONS))
    for word, count in words.items():
        steps = _steps(count)
        for each in _bins(word):
            sums[each & 127] += -steps if each >> 7 else steps
    return np.frombuffer(sums, np.int64)


def _sums(texts: Sequence[Mapping[str, int]]) -> NDArray[np.int64]:
    """The same of each text, all words at once."""
    hashed = np.frombuffer(b"".join([_bins(word) for words in texts for word in words]), np.uint8).astype(np.int64)
    steps = np.array([_steps(count) for words in texts for count in words.values()], np.int64)
    firsts = np.repeat(np.arange(len(texts)) * DIMENSIONS, [len(words) * BINS_A_WORD for words in texts])
    signed = (1 - 2 * (hashed >> 7)) * np.repeat(steps, BINS_A_WORD)
    sums = np.bincount(firsts + (hashed & 127), signed, len(texts) * DIMENSIONS)  # whole numbers, so exact in float64
    return sums.astype(np.int64).reshape(len(texts), DIMENSIONS)


@lru_cache(CACHED_WORDS)
def _bins(word: str) -> bytes:
    """One byte a bin: seven bits say which, the eighth its sign."""
    return blake2b(word.encode(), digest_size=BINS_A_WORD, person=b"remit-local-v1").digest()


@lru_cache(256)
def _steps(count: int) -> int:
    return round((1 + log(count)) * STEPS)


def _batches(texts: Sequence[str]) -> list[int]:
    """Where to cut a batch so that each piece is short enough to be waited for when cancelled."""
    ends, characters = [], 0
    for place, text in enumerate(texts, 1):
        characters += len(text)
        if characters > 8 * INLINE_CHARACTERS or place == len(texts):
            ends.append(place)
            characters = 0
    return ends
