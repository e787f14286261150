"""Shelves in reach: what an access may search, how much stands there, and what was in reach the last time, which saves asking first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remit.pipeline.recent import Recent
from remit.pipeline.storage.postgres.rows import reach
from remit.pipeline.storage.postgres.wire import encoded, int8s
from remit.stages.access import Access
from remit.stages.request import Source

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shelves:
    """The shelves an access reaches, ready to be sent: all, and those of each source. `told` is what the database said of them.

    `passages` and `words` stand on them at every time, `vectors` counts those of each source and space; `turns` says whether any holds what
    was said in a conversation.
    """

    told: bytes
    all: bytes
    of_source: Mapping[Source, bytes]
    source_of: Mapping[int, Source]
    passages: int
    words: int
    vectors: Mapping[tuple[Source, str], int]
    turns: bool

    @classmethod
    def of(cls, told: bytes | None, before: Shelves | None = None) -> Shelves:
        """`before` itself when it was told the same."""
        if before is not None and (told or b"[]") == before.told:
            return before
        reached = json.loads(told or b"[]")
        of_source: dict[Source, list[int]] = {}
        vectors: Counter[tuple[Source, str]] = Counter()
        for number, name, _, _, spaces, _ in reached:
            source = Source(name)
            of_source.setdefault(source, []).append(number)
            for space, count in spaces.items():
                vectors[source, space] += count
        return cls(
            told=told or b"[]",
            all=int8s([shelf[0] for shelf in reached]),
            of_source={source: int8s(numbers) for source, numbers in of_source.items()},
            source_of={number: source for source, numbers in of_source.items() for number in numbers},
            passages=sum(shelf[2] for shelf in reached),
            words=sum(shelf[3] for shelf in reached),
            vectors=vectors,
            turns=any(shelf[5] for shelf in reached),
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands on shelves now: what always does, and what is bound to a time and inside it, of which `timed` is what was told."""

    timed: bytes
    passages: int
    words: int
    vectors: Mapping[tuple[Source, str], int]
    turns: bool

    @classmethod
    def of(cls, shelves: Shelves, timed: bytes | None, before: Standing | None = None) -> Standing:
        """`before` itself, which was of the same shelves, when it was told the same."""
        timed = timed or b"[]"
        if before is not None and timed == before.timed:
            return before
        passages, words, vectors = shelves.passages, shelves.words, Counter(shelves.vectors)
        for shelf, spaces, number, length in json.loads(timed):
            passages, words = passages + number, words + length
            for space in spaces:
                vectors[shelves.source_of[shelf], space] += number
        return cls(timed, passages, words, vectors, shelves.turns)


@dataclass(slots=True)
class Known:
    """An access as it is sent, time aside, and the shelves it reached the last time with what stood there: a guess, to be checked."""

    reach: Mapping[str, bytes | None]
    shelves: Shelves | None = None
    standing: Standing | None = None


class Remembered:
    """What is known of accesses, for the `most` that were seen last."""

    def __init__(self, most: int) -> None:
        self._known: Recent[Key, Known] = Recent(most)

    def get(self, access: Access) -> Known:
        key = access.org, access.granted, access.sources, access.scopes, access.fact_scopes
        known = self._known.get(key)
        if known is None:
            known = Known({name: encoded(value) for name, value in reach(access).items() if name != "now"})
            self._known.keep(key, known)
        return known
