"""The vectors of what is taken in: made together for many memories, and left out, not waited for, where they cannot be had now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from remit.pipeline.embedding.streams import PassageEmbedder, Streams
from remit.pipeline.indexing import Indexer
from remit.pipeline.storage.entry import Entry, Passage, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectored:
    """The entries in their order, with the vectors that could be had; `pending` says for each of the others what kept it from one."""

    entries: tuple[Entry, ...]
    pending: Mapping[int, str] = field(default_factory=dict)


async def with_vectors(entries: Sequence[Entry], embedders: Sequence[PassageEmbedder]) -> Vectored:
    """Adds each embedder's vectors to the passages of entries of one org, whose embedders these must be. Never raises.

    A passage is embedded with its memory's title above it. One that stays without is found by its words until its vector is made.
    """
    passages = [list(entry.passages) for entry in entries]
    pending: dict[int, str] = {}
    where = [(row, column) for row, entry in enumerate(entries) for column in range(len(entry.passages))]
    texts = [_text(entries[row], passages[row][column]) for row, column in where]
    for embedder in embedders if texts else ():
        embedded = await embedder.embed_each(texts)
        for place, (row, column) in enumerate(where):
            if embedded.vectors[place].any():
                passage = passages[row][column]
                vector = np.ascontiguousarray(embedded.vectors[place])
                passages[row][column] = replace(passage, vectors={**passage.vectors, embedder.space: vector})
        for place, code in embedded.failed.items():
            pending.setdefault(where[place][0], code)
    return Vectored(entries=tuple(replace(entry, passages=tuple(passages[row])) for row, entry in enumerate(entries)), pending=pending)


class Completing:
    """Indexes memories one at a time, with the vectors of every stream that the memory's org may use."""

    def __init__(self, indexer: Indexer, streams: Streams) -> None:
        self._indexer, self._streams = indexer, streams

    async def entry(self, record: Record) -> Entry:
        entry = await self._indexer.entry(record)
        return (await with_vectors([entry], self._streams.passages(record.label.shelf.org))).entries[0]


def _text(entry: Entry, passage: Passage) -> str:
    return f"{entry.record.title}\n{passage.text}" if entry.record.title else passage.text
