"""Gathering: rows and counts of one org that wait to be written together, neighbours in an index after one another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import merge
from struct import Struct
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import ALIAS, Passage, Record, worth_keeping
from remit.pipeline.storage.sqlite.line import rows
from remit.pipeline.storage.sqlite.phrases import phrased, phrased_org
from remit.pipeline.storage.sqlite.rows import INDEX_OF, dumped

PIECE = 8192
"""Words sorted in one go: a few milliseconds."""

_packed = Struct("<qIIB").pack
"""Packs an entry of `rows.ENTRY`."""

_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """How the passages of a memory stand, as the indexes note it."""

    shelf: int
    approved: bool
    superseded: bool
    valid_from: int | None
    valid_until: int | None

    @property
    def always(self) -> bool:
        return self.approved and not self.superseded and self.valid_from is None and self.valid_until is None


class Gathering:
    """Takes rows and counts, and writes them when it is told to: first memories, then what belongs to their passages."""

    def __init__(self, db: apsw.Connection, sql: Mapping[str, str], org: str) -> None:
        self._db, self._sql, self._org = db, sql, org
        self._phrased_org = phrased_org(org)
        self.memories: list[_Row] = []
        self.derived: list[_Row] = []
        self._clear()

    def _clear(self) -> None:
        self._of = set[int]()
        self._tags: list[_Row] = []
        self._passages: list[_Row] = []
        self._postings = defaultdict[str, list[_Row]](list)
        self._vectors: list[_Row] = []
        self._phrases: list[_Row] = []
        self._uses = defaultdict[int, Counter[str]](Counter)
        self._on_shelf = defaultdict[int, list[int]](lambda: [0, 0])
        self._embedded = defaultdict[tuple[str, int], int](int)

    def holds(self, memory: int) -> bool:
        """Whether tags or passages of this memory wait here."""
        return memory in self._of

    def add_tags(self, memory: int, tags: Iterable[str]) -> None:
        self._of.add(memory)
        self._tags += [(self._org, memory, tag) for tag in tags]

    def add(self, record: Record, passage: Passage, key: int, memory: int, standing: Standing) -> None:
        """A passage and, when it is approved, what it is found by."""
        vectors = sound(passage.vectors)
        self._of.add(memory)
        self._passages.append(
            (
                key,
                self._org,
                memory,
                passage.ordinal,
                standing.shelf,
                standing.approved,
                standing.superseded,
                standing.valid_from,
                standing.valid_until,
                passage.length,
                passage.start,
                passage.end,
                _named(tuple(vectors)),
                None if passage.text == record.text else passage.text,
                dumped(list(passage.words)),
            )
        )
        if standing.approved:
            self._index(passage, key, standing, INDEX_OF[record.id.source])
            for space, vector in vectors.items():
                self.add_vector(space, key, standing, vector)
            self.count(standing, passage.words.keys(), passage.length, vectors, 1)

    def add_vector(self, space: str, key: int, standing: Standing, vector: bytes) -> None:
        stands = (standing.superseded, standing.valid_from, standing.valid_until)
        self._vectors.append((self._org, space, standing.shelf, key, *stands, vector))

    def count(self, standing: Standing, words: Collection[str], length: int, spaces: Iterable[str], sign: int) -> None:
        """Keeps the counters of an approved passage that comes (1) or goes (-1)."""
        uses = self._uses[standing.shelf]
        if sign > 0:
            uses.update(words)
        else:
            uses.subtract(words)
        if standing.always:
            self.count_standing(standing.shelf, length, spaces, sign)

    def count_standing(self, shelf: int, length: int, spaces: Iterable[str], sign: int) -> None:
        on_shelf = self._on_shelf[shelf]
        on_shelf[0] += sign
        on_shelf[1] += sign * length
        for space in spaces:
            self._embedded[space, shelf] += sign

    def count_vectors(self, space: str, shelf: int, number: int) -> None:
        self._embedded[space, shelf] += number

    def write_memories(self) -> None:
        if self.memories:
            memories, self.memories = self.memories, []
            derived, self.derived = self.derived, []
            self.many("add_memory", memories)
            self.many("add_derived", derived)

    def write(self) -> None:
        """All of it. Sorted, because neighbours in an index are cheap to write after one another."""
        self.write_memories()
        self.many("add_passage", self._passages)
        self.many("add_posting", self._places())
        self.many("add_vector", self._vectors)
        self.many("add_phrases", self._phrases)
        self.many("add_tag", self._tags)
        for shelf in sorted(self._uses):
            self._write_uses(shelf, self._uses[shelf])
        self.many("count_vectors", [(self._org, space, shelf, number) for (space, shelf), number in self._embedded.items()])
        for shelf, (passages, length) in self._on_shelf.items():
            rows(self._db, self._sql["count_on_shelf"], {"org": self._org, "shelf": shelf, "passages": passages, "words": length})
        self._clear()

    def _index(self, passage: Passage, key: int, standing: Standing, source: int) -> None:
        shelf, stands = standing.shelf, (standing.superseded, standing.valid_from, standing.valid_until)
        postings, places = self._postings, dict[int, _Row]()
        for word, count in passage.words.items():
            place = places.get(count)
            if place is None:
                places[count] = place = (shelf, key, *stands, _packed(key, count, passage.length, source))
            postings[word].append(place)
        self._phrases.append((key, self._phrased_org, phrased(passage.plain)))

    def _places(self) -> Iterator[_Row]:
        """Where words stand, one row after another, as it is written."""
        postings = self._postings
        for word in _in_order(list(postings)):
            head = (self._org, word)
            for place in sorted(postings[word]):
                yield head + place

    def _write_uses(self, shelf: int, uses: Counter[str]) -> None:
        """Names that are matched whole are no words."""
        org, words = self._org, _in_order([word for word, number in uses.items() if number and word[:1] != ALIAS])
        self.many("use_word", [(org, shelf, len(word), word, uses[word]) for word in words])
        self.many("forget_word", [(org, shelf, len(word), word) for word in words if uses[word] < 0])

    def many(self, name: str, rows: Iterable[_Row]) -> None:
        """Runs a statement once for each of the rows."""
        if rows:
            self._db.executemany(self._sql[name], rows)


def sound(vectors: Mapping[str, NDArray[np.float32]]) -> dict[str, bytes]:
    """The vectors that are kept, little-endian."""
    return {space: vector.astype("<f4", copy=False).tobytes() for space, vector in vectors.items() if worth_keeping(vector)}


@lru_cache(64)
def _named(spaces: tuple[str, ...]) -> str:
    """Few and always the same."""
    return dumped(spaces)


def _in_order(words: list[str]) -> Sequence[str]:
    """Sorted, in pieces, for one sort of them all would hold the interpreter too long."""
    pieces = [sorted(words[start : start + PIECE]) for start in range(0, len(words), PIECE)]
    return pieces[0] if len(pieces) == 1 else list(merge(*pieces))
