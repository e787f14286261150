"""Shelves in reach: what an access may search, how much stands there, and what was in reach the last time, which saves asking first."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remit.pipeline.storage.postgres.wire import int8s
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
    """What stands on shelves now: what always does, and what is bound to a time and inside it."""

    passages: int
    words: int
    vectors: Mapping[tuple[Source, str], int]
    turns: bool

    @classmethod
    def of(cls, shelves: Shelves, timed: bytes | None) -> Standing:
        if timed is None:
            return cls(shelves.passages, shelves.words, shelves.vectors, shelves.turns)
        passages, words, vectors = shelves.passages, shelves.words, Counter(shelves.vectors)
        for shelf, spaces, number, length in json.loads(timed):
            passages, words = passages + number, words + length
            for space in spaces:
                vectors[shelves.source_of[shelf], space] += number
        return cls(passages, words, vectors, shelves.turns)


class Remembered:
    """The shelves that accesses reached the last time, for the `most` accesses seen last. Only ever a guess, to be checked."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._shelves: OrderedDict[Key, tuple[Shelves, Standing]] = OrderedDict()

    def get(self, access: Access) -> tuple[Shelves, Standing] | None:
        found = self._shelves.get(_key(access))
        if found is not None:
            self._shelves.move_to_end(_key(access))
        return found

    def keep(self, access: Access, shelves: Shelves, standing: Standing) -> None:
        self._shelves[_key(access)] = (shelves, standing)
        if len(self._shelves) > self._most:
            self._shelves.popitem(last=False)


def _key(access: Access) -> Key:
    return access.org, access.granted, access.sources, access.scopes, access.fact_scopes
