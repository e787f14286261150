"""What the host does with a store: briefs, roots, going through everything, making indexes again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from conformance.answers import filled, found
from conformance.worlds import EVERYTHING, NOW, SPACE, memory, seen_from, wanting

from remit.pipeline.storage.entry import Entry
from remit.pipeline.storage.store import Store
from remit.stages.evidence import MemoryId, PassageId
from remit.stages.request import Source

pytestmark = pytest.mark.anyio


async def test_a_brief_holds_pinned_facts_then_important_ones_then_the_latest_sessions(store: Store) -> None:
    later = NOW + timedelta(days=1)
    await filled(
        store,
        [
            memory("b", "x", pinned=True),
            memory("a", "x", pinned=True),
            memory("top", "x", pinned=True, importance=0.1),
            memory("i1", "x", importance=0.2),
            memory("i2", "x", importance=0.9),
            memory("i0", "x", importance=0.2),
            memory("s1", "x", source=Source.SESSION),
            memory("s2", "x", source=Source.SESSION, ended_at=later),
            memory("s0", "x", source=Source.SESSION, ended_at=later),
            memory("d", "x", source=Source.DOC),
            memory("hidden", "x", scope="project:beta", pinned=True, importance=1.0),
            memory("gone", "x", pinned=True, importance=1.0, valid_until=NOW),
        ],
    )

    whole = await store.brief(seen_from(), pinned=9, important=9, recent=9)
    short = await store.brief(seen_from(), pinned=2, important=1, recent=2)

    assert [each.id.id for each in whole] == ["top", "a", "b", "i2", "i0", "i1", "s0", "s2", "s1"]
    assert [each.id.id for each in short] == ["top", "a", "i2", "s0", "s2"]
    assert await store.brief(seen_from(), pinned=0, important=0, recent=0) == []


async def test_what_is_read_is_what_was_asked_for_and_nothing_else(store: Store) -> None:
    await filled(store, [memory("one", source=Source.DOC, parts=["a", "b"]), memory("two", "c", scope="project:beta")])
    one, two = MemoryId(Source.DOC, "one"), MemoryId(Source.FACT, "two")

    read = await store.read(
        [PassageId(one, 1), PassageId(one, 2), PassageId(two, 0), PassageId(MemoryId(Source.FACT, "one"), 0)], seen_from()
    )

    assert {name: each.text for name, each in read.items()} == {PassageId(one, 1): "b"}
    assert await store.read([], EVERYTHING) == {}
    assert await store.outlines([], EVERYTHING) == {}
    assert await store.outlines([0, -1, 10**12], EVERYTHING) == {}


async def test_roots_are_kept_once_and_in_order_for_the_org_that_named_them(store: Store) -> None:
    for path in ("/b", "/a", "/b"):
        await store.add_root("acme", path)
    await store.add_root("other", "/c")

    assert await store.roots("acme") == ["/a", "/b"]
    assert (await store.drop_root("acme", "/c"), await store.drop_root("acme", "/a")) == (False, True)
    assert [await store.roots(org) for org in ("acme", "other", "nobody")] == [["/b"], ["/c"], []]


async def test_records_go_through_everything_in_order_and_in_pieces(store: Store) -> None:
    entries = [memory(name, "x", org=org, source=source) for org in ("acme", "Other") for source in Source for name in ("b", "a", "Ω")]
    await filled(store, entries)

    seen, after = [], None
    while page := await store.records(after, 4):
        seen += page
        after = (page[-1][0], page[-1][1].record.id)

    expected = sorted(entries, key=lambda entry: (entry.record.label.shelf.org, entry.record.id))
    assert [(org, entry.record) for org, entry in seen] == [(entry.record.label.shelf.org, entry.record) for entry in expected]
    assert all(entry.passages == () for _, entry in seen)


async def test_making_indexes_again_replaces_passages_and_nothing_else(store: Store) -> None:
    old = memory("one", "red blue", degrees=0, supersedes=())
    await filled(store, [old, memory("dead", "red"), memory("new", "x", supersedes=(MemoryId(Source.FACT, "dead"),))])
    dead = next(entry.record for _, entry in await store.records(None, 9) if entry.record.id.id == "dead")

    await store.reindexed(
        [
            _with_words(memory("one", "red blue", degrees=0, supersedes=()), "roja azul", 90),
            _with_words(memory("dead", "red"), "roja", 90),
            memory("nobody", "red"),
            memory("new", "text that changed meanwhile"),
        ]
    )
    await store.signed()

    answer = await found(store, wanting("red", "roja", "meanwhile", near=90), EVERYTHING)
    assert [[row[0] for row in rows] for rows in answer["postings"].values()] == [[], ["fact:one#0"], []]
    assert [vector for *_, rows in answer["neighbours"] for _, vector in rows] == [[pytest.approx(0, abs=1e-6), 1.0]]
    assert await store.vocabulary(1, 9, EVERYTHING) == ["azul", "roja", "x"]
    assert await store.coverage(SPACE, EVERYTHING) == (1, 2)
    read = await store.read([PassageId(old.record.id, 0)], EVERYTHING)
    assert read[PassageId(old.record.id, 0)].version == 1
    assert dead.label.superseded
    assert await store.faults() == []


def _with_words(entry: Entry, text: str, degrees: float) -> Entry:
    """The same record, indexed by another analyser."""
    return Entry(record=entry.record, passages=memory("other", text, degrees=degrees).passages)


async def test_a_store_has_a_name_that_stays(store: Store) -> None:
    name = await store.identity()
    await filled(store, [memory("a", "x")])

    assert await store.identity() == name
    assert len(bytes.fromhex(name)) == 16
