"""Canaries: what a principal may not read, as words and ids that would give it away wherever they turn up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from remit.pipeline.storage.entry import Record
from remit.pipeline.storage.store import Store
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId

_WORD = re.compile(r"\w{6,}")
"""Words of six characters and more: shorter ones turn up by accident."""

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """For one access: ids and words that only what it may not read has, and how many memories it may read, by source."""

    ids: frozenset[str]
    words: frozenset[str]
    readable: dict[str, int]

    def in_text(self, text: str, asked: str = "") -> int:
        """How many of the words and ids stand in a text; those of the question itself are the caller's own."""
        words = self.words.intersection(words_of(text)) - words_of(asked)
        return len(words) + sum(1 for each in re.findall(r"\b(?:fact|session|doc):[^\s\"',;\]})]+", text) if each in self.ids)

    def among(self, ids: Iterable[str]) -> int:
        return len(self.ids.intersection(ids))

    def beyond(self, matched: dict[str, int]) -> int:
        """By how many a count, per source, is larger than all that may be read of it."""
        return sum(max(0, count - self.readable.get(source, 0)) for source, count in matched.items())


async def records_of(store: Store) -> list[tuple[str, Record]]:
    """(org, record) of everything in the store: for the host, who evaluates its own."""
    told: list[tuple[str, Record]] = []
    after: tuple[str, MemoryId] | None = None
    while page := await store.records(after, PAGE):
        told += [(org, entry.record) for org, entry in page]
        after = page[-1][0], page[-1][1].record.id
    return told


def canaries_for(access: Access, records: Iterable[tuple[str, Record]], ours: Set[str]) -> Canaries:
    """What would betray a memory to this access: never a word or id that something readable, or a name it knows, has too, nor one of
    `ours`, the words that Remit itself says."""
    readable: dict[str, int] = {}
    own_ids, own_words, hidden_ids, hidden_words = set[str](), set[str](), set[str](), set[str]()
    for _, record in records:
        may = access.reaches(record.label.shelf) and record.label.approval is Approval.APPROVED
        ids, words = (own_ids, own_words) if may else (hidden_ids, hidden_words)
        ids.add(str(record.id))
        for text in _texts(record):
            words |= words_of(text)
        if may:
            readable[record.id.source.value] = readable.get(record.id.source.value, 0) + 1
    known = own_words | set().union(*map(words_of, (*(access.granted or ()), access.org, access.actor)))
    return Canaries(ids=frozenset(hidden_ids - own_ids), words=frozenset(hidden_words - known - ours), readable=readable)


def _texts(record: Record) -> Iterator[str]:
    yield from (record.title, record.text, *record.aliases, *record.tags)
    if record.origin is not None:
        yield record.origin.uri


def words_of(text: str) -> set[str]:
    """The words of a text that are long enough to tell something."""
    return set(_WORD.findall(text.casefold()))
