"""Indexing: the passages of a memory, with the words and vectors that a store finds them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import anyio
import anyio.to_thread

from remit.pipeline.analysis import Analyser
from remit.pipeline.chunking import Chunk, Count, chunks, stated_in
from remit.pipeline.config import Chunking
from remit.pipeline.counting import ModelCounter, counter_named
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.storage.entry import Entry, Passage, Record, or_nothing
from remit.stages.ports import TokenCounter
from remit.stages.request import Source

INLINE_CHARACTERS = 4_000
"""About 2 ms of work; longer memories are indexed in a thread."""

BATCH = 64
"""Chunks indexed in one go, so that a cancelled write is not waited for longer than some 50 ms."""

Begun = tuple[int, Chunk, Mapping[str, int], Mapping[str, int], int, str]
"""What a passage is made of but for its vectors: ordinal, chunk, words, aliases, length and plain words."""


class Indexer:
    """Makes entries of records. Facts and sessions are one passage, docs one for each chunk.

    The words of a passage are those of its text, the title and, in a doc, the headings above it (in passage 0 what its front matter
    states, too), and the record's aliases as whole names; `length` counts them without the aliases. `plain` are the words of the text, in
    passage 0 after those of the title. The local hash is made of the same words. Work is done in one thread at a time: it is Python, and
    more would only take turns.
    """

    def __init__(self, analyser: Analyser, hashes: Sequence[LocalHash], chunking: Chunking, counter: TokenCounter) -> None:
        self._analyser = analyser
        self._hashes = hashes
        self._chunking = chunking
        self._count = _counting(counter)
        self._thread = anyio.CapacityLimiter(1)

    async def entry(self, record: Record) -> Entry:
        """The record with its passages, none when a doc has no text; vectors of models are added by `remit.pipeline.vectors`."""
        return (await self.entries([record]))[0]

    async def entries(self, records: Sequence[Record]) -> list[Entry]:
        """The same of several records, which takes less than one after the other."""
        begun = {place: self._begun(each, self._cut(each), 0) for place, each in enumerate(records) if _short(each)}
        made = iter(self._made([each for of_one in begun.values() for each in of_one]))
        entries = []
        for place, record in enumerate(records):
            passages = islice(made, len(begun[place])) if place in begun else await self._in_thread(record)
            entries.append(Entry(record=record, passages=tuple(passages)))
        return entries

    async def _in_thread(self, record: Record) -> list[Passage]:
        cut = await anyio.to_thread.run_sync(self._cut, record, limiter=self._thread)
        passages: list[Passage] = []
        for first in range(0, len(cut), BATCH):
            batch = cut[first : first + BATCH]
            passages += await anyio.to_thread.run_sync(self._passages, record, batch, first, limiter=self._thread)
        return passages

    def _cut(self, record: Record) -> list[Chunk]:
        if record.id.source is Source.DOC:
            return chunks(record.text, most_tokens=self._chunking.tokens, count=self._count, overlap=self._chunking.overlap)
        text = record.text
        return [Chunk(0, len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")), text)]

    def _passages(self, record: Record, cut: Sequence[Chunk], first: int) -> list[Passage]:
        return self._made(self._begun(record, cut, first))

    def _begun(self, record: Record, cut: Sequence[Chunk], first: int) -> list[Begun]:
        aliases = {key: 1 for alias in record.aliases if (key := self._analyser.alias(alias))}
        about = stated_in(record.text) if first == 0 and record.id.source is Source.DOC else ""
        return [self._read(record.title, "" if ordinal else about, aliases, chunk, ordinal) for ordinal, chunk in enumerate(cut, first)]

    def _read(self, title: str, about: str, aliases: Mapping[str, int], chunk: Chunk, ordinal: int) -> Begun:
        headings = [heading for heading in chunk.heading if heading != title]
        words, length = self._analyser.indexed("\n".join((chunk.text, title, *headings, about)))
        plain = self._analyser.plain(f"{title}\n{chunk.text}" if title and ordinal == 0 else chunk.text)
        return ordinal, chunk, words, aliases, length, " ".join(plain)

    def _made(self, begun: Sequence[Begun]) -> list[Passage]:
        """Passages with the hashes of their words, which are made all at once."""
        words = [each[2] for each in begun]
        hashed = [(each.space, each.vectors_of_words(words)) for each in self._hashes if words]
        return [
            Passage(
                ordinal=ordinal,
                start=chunk.start,
                end=chunk.end,
                text=chunk.text,
                words={**own, **aliases} if aliases else own,
                length=length,
                plain=plain,
                vectors={space: or_nothing(vectors[place]) for space, vectors in hashed},
            )
            for place, (ordinal, chunk, own, aliases, length, plain) in enumerate(begun)
        ]


def _short(record: Record) -> bool:
    return len(record.text) + len(record.title) <= INLINE_CHARACTERS


def _counting(counter: TokenCounter) -> Count:
    """Chunks are counted piece by piece and so with a tokenizer of ours, also where a host counts contexts itself."""
    return counter.tokens_in if isinstance(counter, ModelCounter) else counter_named("o200k").tokens_in
