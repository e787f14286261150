"""Excerpts: as many whole sentences of a text as fit, and a mark where the rest was left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import TypeVar

from remit.stages.similar import SENTENCE_END

T = TypeVar("T")

CUT = "[…]"
"""Stands where the rest of a passage was left out."""


async def longest_excerpt(text: str, fitted: Callable[[str], Awaitable[T | None]]) -> T | None:
    """What `fitted` makes of the longest excerpt that it does not answer with None. Doubling first, so that a huge text is never tried."""
    ends: list[int] = []
    more = sentence_ends(text)
    best, low, high = None, 0, 1
    while True:
        ends += islice(more, high - len(ends))
        cut = await fitted(excerpt(text, ends[high - 1])) if len(ends) >= high else None
        if cut is None:
            break
        best, low, high = cut, high, 2 * high
    high = min(high, len(ends) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        cut = await fitted(excerpt(text, ends[middle - 1]))
        best, low, high = (best, low, middle) if cut is None else (cut, middle, high)
    return best


def excerpt(text: str, end: int) -> str:
    return f"{text[:end].rstrip()} {CUT}"


def sentence_ends(text: str) -> Iterator[int]:
    """Where a text may be cut: after each of its sentences and paragraphs but the last."""
    last = len(text.rstrip())
    return (found.end() for found in SENTENCE_END.finditer(text) if found.end() < last and not text[: found.end()].isspace())
