"""Indexing: a memory becomes passages that its words, its title, its headings and its other names find."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.typing import NDArray

from remit.pipeline.analysis import Analyser
from remit.pipeline.config import Chunking
from remit.pipeline.counting import HostCounter, counter_named
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.embedding.streams import Stream, Streams, Wholly
from remit.pipeline.indexing import Indexer
from remit.pipeline.outbound import Outbound
from remit.pipeline.storage.entry import NOTHING, Record
from remit.pipeline.vectors import Completing
from remit.stages.access import Label, Shelf
from remit.stages.evidence import Lane, MemoryId
from remit.stages.request import Source

ANALYSER = Analyser("english")
LOCAL = LocalHash(ANALYSER)


def indexer(*hashes: LocalHash, tokens: int = 320) -> Indexer:
    return Indexer(ANALYSER, hashes, Chunking(tokens=tokens, overlap=0), counter_named("o200k"))


def record(text: str, source: Source = Source.FACT, title: str = "", aliases: tuple[str, ...] = ()) -> Record:
    return Record(
        id=MemoryId(source, "m1"),
        label=Label(shelf=Shelf(org="acme", source=source)),
        title=title,
        text=text,
        created_at=datetime(2026, 11, 30, tzinfo=UTC),
        digest="",
        actor="ada",
        aliases=aliases,
    )


@pytest.mark.parametrize("source", [Source.FACT, Source.SESSION])
async def test_a_fact_or_session_is_one_passage_with_the_whole_text(source: Source) -> None:
    stated = record("  # Größe\n\ntells\n# More\nhere ", source)

    (passage,) = (await indexer().entry(stated)).passages

    assert (passage.ordinal, passage.start, passage.end, passage.text) == (0, 0, len(stated.text.encode()), stated.text)


async def test_words_are_those_of_text_and_title_and_the_names_it_goes_by() -> None:
    stated = record("Crashes of workers", title="Deploy crash", aliases=("Big  Outages", "big outages", "--"))

    (passage,) = (await indexer().entry(stated)).passages

    assert passage.words == {"crash": 2, "of": 1, "worker": 1, "deploy": 1, "=big outages": 1}
    assert passage.length == 5
    assert passage.plain == "deploy crash crashes of workers"


async def test_a_doc_is_cut_and_every_passage_has_title_headings_and_names() -> None:
    text = "# Guide\n\n## Install\n\nrun the programme\n\n## Ask\n\nread the answer\n"
    stated = record(text, Source.DOC, title="Guide", aliases=("handbook",))

    install, ask = (await indexer(tokens=16).entry(stated)).passages

    assert (install.ordinal, ask.ordinal) == (0, 1)
    assert text.encode()[ask.start : ask.end].decode() == ask.text == "## Ask\n\nread the answer"
    assert ask.words == {"ask": 2, "read": 1, "the": 1, "answer": 1, "guid": 1, "=handbook": 1}
    assert ask.length == 6
    assert install.plain == "guide guide install run the programme"
    assert ask.plain == "ask read the answer"


async def test_a_doc_without_text_has_no_passage_and_a_fact_has_one() -> None:
    assert (await indexer(LOCAL).entry(record(" \n", Source.DOC))).passages == ()
    (passage,) = (await indexer(LOCAL).entry(record("!"))).passages
    assert (passage.words, passage.length, passage.plain) == ({}, 0, "")
    assert passage.vectors[LOCAL.space] is NOTHING


async def test_vectors_are_of_text_title_and_headings_without_the_names() -> None:
    (passage,) = (await indexer(LOCAL).entry(record("workers crash", title="deploy", aliases=("Outage",)))).passages

    assert list(passage.vectors) == [LOCAL.space]
    assert passage.vectors[LOCAL.space].tobytes() == LOCAL.vector_of("workers crash deploy").tobytes()


class Lengths:
    """An embedder of two dimensions; a text of one character is nothing to it."""

    lane, space, dimensions = Lane.SEMANTIC, "lengths/2", 2

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[len(text) > 1, 0] for text in texts], np.float32).reshape(-1, 2)


async def test_an_embedder_of_the_host_adds_its_vectors_and_a_zero_vector_is_noted_as_nothing() -> None:
    lengths = Stream(lane=Lane.SEMANTIC, questions=Lengths(), passages=Wholly(Lengths()))
    local = Stream(lane=Lane.LOCAL, questions=LOCAL, passages=Wholly(LOCAL))
    whole = Completing(indexer(LOCAL), Streams([lengths, local], Outbound(), most_cached=1))
    made = [(await whole.entry(record(text))).passages[0].vectors for text in ("crash", "c")]

    assert [{space: vector.size for space, vector in vectors.items()} for vectors in made] == [
        {"lengths/2": 2, LOCAL.space: 128},
        {"lengths/2": 0, LOCAL.space: 128},
    ]


async def test_without_embedders_there_are_no_vectors() -> None:
    assert (await indexer().entry(record("workers crash"))).passages[0].vectors == {}


async def test_a_long_doc_has_the_same_passages_as_its_chunks_alone() -> None:
    text = "\n\n".join(f"# Part {number}\n\n" + "workers crash after a deploy. " * 20 for number in range(200))

    passages = (await indexer(LOCAL).entry(record(text, Source.DOC))).passages

    assert [passage.ordinal for passage in passages] == list(range(len(passages)))
    assert len(passages) == 200
    (alone,) = (await indexer(LOCAL).entry(record(passages[150].text, Source.DOC))).passages
    assert (passages[150].words, passages[150].length) == (alone.words, alone.length)
    assert passages[150].vectors[LOCAL.space].tobytes() == alone.vectors[LOCAL.space].tobytes()


async def test_a_doc_of_200_000_distinct_words_keeps_them_all() -> None:
    entry = await indexer().entry(record(" ".join(f"w{number:x}" for number in range(200_000)), Source.DOC))

    words = set().union(*(passage.words for passage in entry.passages))
    assert {"w0", "w30d3f"} <= words
    assert sum(passage.length for passage in entry.passages) == 200_000


async def test_a_host_that_counts_itself_is_not_asked_about_chunks() -> None:
    def never(text: str) -> int:
        raise AssertionError(text)

    own = Indexer(ANALYSER, (), Chunking(tokens=16, overlap=0), HostCounter(never))

    assert len((await own.entry(record("word " * 50, Source.DOC))).passages) > 1
