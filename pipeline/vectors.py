"""The vectors of what is taken in: made together for many memories, and left out, not waited for, where they cannot be had now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio.lowlevel
import numpy as np

from remit.pipeline.embedding.batch import Embedded, PassageEmbedder
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.embedding.precision import keeping
from remit.pipeline.embedding.streams import Stream, Streams
from remit.pipeline.indexing import Indexer
from remit.pipeline.storage.entry import Entry, Lacking, Passage, Record, Whole, or_nothing
from remit.stages.access import Access
from remit.stages.evidence import MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectored:
    """The entries in their order, with the vectors that could be had; `pending` says for each of the others what kept it from one."""

    entries: tuple[Entry, ...]
    pending: Mapping[int, str] = field(default_factory=dict)


async def with_vectors(entries: Sequence[Entry], embedders: Sequence[PassageEmbedder]) -> Vectored:
    """Adds each embedder's vectors to the passages of entries of one org, whose embedders these must be. Never raises.

    A passage is embedded with its memory's title above it. One that stays without is found by its words until its vector is made.
    """
    if not embedders:
        return Vectored(entries=tuple(entries))
    passages = [list(entry.passages) for entry in entries]
    pending: dict[int, str] = {}
    where = [(row, column) for row, entry in enumerate(entries) for column in range(len(entry.passages))]
    texts = [embedded_text(entries[row].record.title, passages[row][column].text) for row, column in where]
    for embedder in embedders if texts else ():
        embedded = await embedder.embed_each(texts)
        for place, (row, column) in enumerate(where):
            if place not in embedded.failed:
                passage = passages[row][column]
                vector = np.ascontiguousarray(or_nothing(embedded.vectors[place]))
                passages[row][column] = replace(passage, vectors={**passage.vectors, embedder.space: vector})
        for place, code in embedded.failed.items():
            pending.setdefault(where[place][0], code)
    return Vectored(entries=tuple(replace(entry, passages=tuple(passages[row])) for row, entry in enumerate(entries)), pending=pending)


class Completing:
    """Indexes memories, with the vectors of every stream that the memories' org may use."""

    def __init__(self, indexer: Indexer, streams: Streams) -> None:
        self._indexer, self._streams = indexer, streams

    async def entry(self, record: Record) -> Entry:
        return (await self.entries([record]))[0]

    async def entries(self, records: Sequence[Record], *, without: Collection[MemoryId] = ()) -> Sequence[Entry]:
        """Those of records of one org, embedded together; those `without` get no vectors of models."""
        entries = []
        for record in records:
            entries.append(await self._indexer.entry(record))
            await anyio.lowlevel.checkpoint()
        places = [place for place, record in enumerate(records) if record.id not in without]
        if places:
            embedders = self._streams.passages(records[0].label.shelf.org)
            vectored = await with_vectors([entries[place] for place in places], embedders)
            for place, entry in zip(places, vectored.entries, strict=True):
                entries[place] = entry
        return entries


class Wholes(Protocol):
    """A store that gives all there is of memories; see `remit.pipeline.storage.store.Store`."""

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]: ...


class Later:
    """Embeds passages that a store holds, for one stream, with just the vectors they would have been taken in with.

    A model is given their text. The local hash is made of their words and those of the headings above, so they are indexed once more;
    of a passage that would be cut otherwise by now it is made of its text.
    """

    def __init__(self, stream: Stream, indexer: Indexer, store: Wholes) -> None:
        self._stream, self._indexer, self._store = stream, indexer, store

    async def __call__(self, passages: Sequence[Lacking], access: Access) -> Embedded:
        embedded = await keeping(self._stream.passages).embed_each([embedded_text(each.title, each.text) for each in passages])
        if not isinstance(self._stream.questions, LocalHash):
            return embedded
        vectors, indexed = embedded.vectors.copy(), await self._indexed({each.memory for each in passages}, access)
        for place, each in enumerate(passages):
            passage = indexed.get((each.memory, each.ordinal))
            if passage is not None and passage.text == each.text and self._stream.space in passage.vectors:
                vectors[place] = passage.vectors[self._stream.space] if passage.vectors[self._stream.space].size else 0.0
        return replace(embedded, vectors=vectors)

    async def _indexed(self, names: Collection[MemoryId], access: Access) -> dict[tuple[MemoryId, int], Passage]:
        wholes = await self._store.wholes(sorted(names), access)
        entries = await self._indexer.entries([whole.entry.record for whole in wholes.values()])
        return {(entry.record.id, passage.ordinal): passage for entry in entries for passage in entry.passages}


def embedded_text(title: str, text: str) -> str:
    """What is embedded of a passage."""
    return f"{title}\n{text}" if title else text
