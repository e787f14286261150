"""What becomes of a write: receipts, versions, keys, references, and nothing left of what was replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from conformance.answers import found
from conformance.worlds import EVERYTHING, NOW, SPACE, memory, seen_from, wanting

from remit.pipeline.storage.entry import Entry, Forgetting, Receipt, Refusal, Written
from remit.pipeline.storage.store import Store
from remit.stages.access import Access, Approval
from remit.stages.evidence import Memory, MemoryId, PassageId
from remit.stages.report import Reason
from remit.stages.request import Filters, Source, TagFilter

pytestmark = pytest.mark.anyio

ALPHA = seen_from(granted=["project:alpha"])


def fact(name: str) -> MemoryId:
    return MemoryId(Source.FACT, name)


async def put(store: Store, *entries: Entry, access: Access = EVERYTHING) -> list[tuple[Written | Refusal, int]]:
    return [(_told(receipt), receipt.version) for receipt in await store.put(entries, access)]


def _told(receipt: Receipt) -> Written | Refusal:
    return receipt.written if receipt.code is None else Refusal(receipt.code)


async def standing(store: Store, *words: str, access: Access = EVERYTHING) -> dict[str, list[str]]:
    answer = await found(store, wanting(*words), access)
    return {word: [row[0] for row in rows] for word, rows in answer["postings"].items()}


async def the(store: Store, name: MemoryId) -> Memory:
    passage = PassageId(name, 0)
    return (await store.read([passage], EVERYTHING))[passage]


async def test_new_then_the_same_then_another_text(store: Store) -> None:
    assert await put(store, memory("one", "red")) == [(Written.STORED, 1)]
    assert await put(store, memory("one", "red")) == [(Written.UNCHANGED, 1)]
    assert await put(store, memory("one", "blue")) == [(Written.REPLACED, 2)]
    assert (await the(store, fact("one"))).version == 2
    assert await standing(store, "red", "blue") == {"red": [], "blue": ["fact:one#0"]}


async def test_the_same_memory_twice_in_one_write_is_taken_in_order(store: Store) -> None:
    assert await put(store, memory("one", "red"), memory("one", "blue", degrees=0), memory("one", "blue", degrees=0)) == [
        (Written.STORED, 1),
        (Written.REPLACED, 2),
        (Written.UNCHANGED, 2),
    ]
    assert await standing(store, "red", "blue") == {"red": [], "blue": ["fact:one#0"]}
    assert await store.faults() == []


async def test_tags_of_what_had_no_passages_go_with_it_in_the_same_write_too(store: Store) -> None:
    empty = replace(memory("one", source=Source.DOC, tags=("old",)), passages=())
    await put(store, empty, memory("one", "red", source=Source.DOC, tags=("new",)))

    tagged = {tag: await found(store, wanting("red", filters=Filters(tags=TagFilter(any=(tag,)))), EVERYTHING) for tag in ("old", "new")}

    assert {tag: answer["eligible"] for tag, answer in tagged.items()} == {"old": [], "new": ["doc:one#0"]}


async def test_nothing_is_left_of_a_longer_earlier_version(store: Store) -> None:
    await put(store, memory("one", source=Source.DOC, parts=["a red", "b red", "c red", "d red", "e old"], degrees=[1, 2, 3, 4, 5]))
    await put(store, memory("one", source=Source.DOC, parts=["a new", "b new"], degrees=[6, 7]))

    answer = await found(store, wanting("red", "old", "new", near=0), EVERYTHING)

    assert [len(rows) for rows in answer["postings"].values()] == [0, 0, 2]
    assert answer["passages"] == (2, 4)
    assert [len(rows) for *_, rows in answer["neighbours"]] == [2]
    assert await store.passages_of(MemoryId(Source.DOC, "one"), EVERYTHING) == [PassageId(MemoryId(Source.DOC, "one"), at) for at in (0, 1)]
    assert await store.vocabulary(1, 9, EVERYTHING) == ["a", "b", "new"]
    assert await store.coverage(SPACE, EVERYTHING) == (2, 2)
    assert await store.faults() == []


async def test_a_memory_may_move_to_another_shelf_that_its_writer_reaches(store: Store) -> None:
    await put(store, memory("one", "red", degrees=0), memory("two", "red"))
    await put(store, memory("one", "red", degrees=0, scope="project:alpha"))

    assert await standing(store, "red", access=seen_from()) == {"red": ["fact:two#0"]}
    assert await standing(store, "red", access=ALPHA) == {"red": ["fact:one#0", "fact:two#0"]}
    assert await store.coverage(SPACE, seen_from()) == (0, 1)
    assert await store.faults() == []


@pytest.mark.parametrize(
    "entry",
    [
        memory("new", "red", scope="project:beta"),
        memory("new", "red", org="other"),
        memory("new", "red", project="beta"),
        memory("new", "red", conversation="42"),
        memory("hidden", "mine now"),
    ],
    ids=["scope", "org", "project of origin", "conversation of origin", "standing where the writer cannot see"],
)
async def test_what_the_writer_does_not_reach_is_refused_and_stays_as_it_was(store: Store, entry: Entry) -> None:
    await put(store, memory("hidden", "red", scope="project:beta"))

    assert await put(store, entry, memory("beside", "red"), access=ALPHA) == [(Refusal.NOT_AUTHORISED, 0), (Written.STORED, 1)]

    assert await standing(store, "red") == {"red": ["fact:beside#0", "fact:hidden#0"]}


async def test_a_key_used_again_with_the_same_content_gives_the_first_receipt(store: Store) -> None:
    first = memory("one", "red", key="k")

    assert await put(store, first, first) == [(Written.STORED, 1), (Written.STORED, 1)]
    await put(store, memory("one", "blue"))
    assert await put(store, first) == [(Written.STORED, 1)], "a late repeat of the first write changes nothing"
    assert (await the(store, fact("one"))).text == "blue"


@pytest.mark.parametrize("entry", [memory("one", "blue", key="k"), memory("two", "red", key="k")], ids=["content", "memory"])
async def test_a_key_used_again_for_something_else_is_refused(store: Store, entry: Entry) -> None:
    await put(store, memory("one", "red", key="k"))

    assert await put(store, entry, memory("three", "red")) == [(Refusal.KEY_CONFLICT, 0), (Written.STORED, 1)]

    assert await standing(store, "red", "blue") == {"red": ["fact:one#0", "fact:three#0"], "blue": []}


async def test_two_orgs_may_use_the_same_key(store: Store) -> None:
    await put(store, memory("one", "red", key="k", org="other"), access=seen_from("other"))

    assert await put(store, memory("two", "blue", key="k")) == [(Written.STORED, 1)]


async def test_two_actors_may_use_the_same_key_and_learn_nothing_of_each_other(store: Store) -> None:
    await put(store, memory("one", "red", key="k", scope="project:beta"))
    bob = replace(seen_from(), actor="bob")

    assert await put(store, by("bob", memory("two", "red", key="k")), access=bob) == [(Written.STORED, 1)]
    assert await put(store, by("bob", memory("two", "blue", key="k")), access=bob) == [(Refusal.KEY_CONFLICT, 0)]
    await store.forget(Forgetting(names=(fact("two"),)), bob)
    assert await put(store, memory("one", "red", key="k", scope="project:beta")) == [(Written.STORED, 1)], "the first receipt, as before"
    assert await put(store, by("bob", memory("two", "red", key="k")), access=bob) == [(Refusal.KEY_FORGOTTEN, 0)]


def by(actor: str, entry: Entry) -> Entry:
    return replace(entry, record=replace(entry.record, actor=actor))


@pytest.mark.parametrize("wrong", [{"supersedes": (fact("nobody"),)}, {"derived_from": (fact("nobody"),)}])
async def test_a_write_that_is_wrong_in_itself_is_told_so_whatever_stands_out_of_reach(store: Store, wrong: dict[str, Any]) -> None:
    await put(store, memory("hidden", "red", scope="project:beta", key="k"))

    told = await put(store, memory("hidden", "blue", **wrong), memory("absent", "blue", **wrong), access=ALPHA)

    assert told == [(Refusal.UNKNOWN_REFERENCE, 0)] * 2
    assert await standing(store, "red", "blue") == {"red": ["fact:hidden#0"], "blue": []}


async def test_of_two_memories_that_would_take_each_others_place_one_always_stands(store: Store) -> None:
    await put(store, memory("a", "red"))
    await put(store, memory("b", "red", supersedes=(fact("a"),)))

    assert await put(store, memory("a", "red again", supersedes=(fact("b"),))) == [(Refusal.NOT_STANDING, 0)]
    assert await standing(store, "red") == {"red": ["fact:b#0"]}
    assert await put(store, memory("a", "red again", supersedes=(fact("b"),), approval=Approval.PROPOSED)) == [(Written.REPLACED, 2)]
    assert await standing(store, "red") == {"red": ["fact:b#0"]}


async def test_what_was_superseded_may_be_written_again_with_what_it_superseded_itself(store: Store) -> None:
    await put(store, memory("a", "red"))
    await put(store, memory("b", "red", supersedes=(fact("a"),)))
    await put(store, memory("c", "red", supersedes=(fact("b"),)))

    assert await put(store, memory("b", "red too", supersedes=(fact("a"),))) == [(Written.REPLACED, 2)]
    assert await standing(store, "red") == {"red": ["fact:c#0"]}


async def test_a_refused_write_does_not_use_up_its_key(store: Store) -> None:
    await put(store, memory("two", "red", key="k", supersedes=(fact("nobody"),)))

    assert await put(store, memory("one", "red", key="k")) == [(Written.STORED, 1)]


async def test_identical_writes_with_one_key_at_once_become_one_memory_and_equal_answers(store: Store) -> None:
    receipts = []

    async def write() -> None:
        receipts.extend(await put(store, memory("one", "red", key="k")))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(write)

    assert receipts == [(Written.STORED, 1)] * 20
    assert await standing(store, "red") == {"red": ["fact:one#0"]}


async def test_what_is_superseded_no_longer_stands_and_is_counted_as_dead(store: Store) -> None:
    await put(store, memory("old", "red", degrees=0, pinned=True), memory("new", "red", degrees=0, supersedes=(fact("old"),)))

    answer = await found(store, wanting("red", near=0), EVERYTHING)

    assert [row[0] for row in answer["postings"]["red"]] == ["fact:new#0"]
    assert [len(rows) for *_, rows in answer["neighbours"]] == [1]
    assert answer["dead"] == {Reason.SUPERSEDED: 1}
    assert answer["passages"] == (1, 1)
    assert [each.id for each in await store.brief(EVERYTHING, pinned=9, important=9, recent=9)] == [fact("new")]
    assert (await the(store, fact("old"))).label.superseded
    assert await store.faults() == []


async def test_what_was_superseded_stays_so_when_it_is_written_again(store: Store) -> None:
    await put(store, memory("old", "red"), memory("new", "red", supersedes=(fact("old"),)), memory("old", "red again"))

    assert await standing(store, "red", "again") == {"red": ["fact:new#0"], "again": []}
    assert await store.faults() == []


async def test_a_memory_that_is_not_approved_supersedes_nothing(store: Store) -> None:
    await put(store, memory("old", "red"), memory("new", "red", supersedes=(fact("old"),), approval=Approval.PROPOSED))

    assert await standing(store, "red") == {"red": ["fact:old#0"]}


@pytest.mark.parametrize("name", ["nobody", "hidden", "theirs", "new"], ids=["not there", "out of scope", "of another org", "itself"])
async def test_a_reference_out_of_reach_is_refused_like_one_to_nothing(store: Store, name: str) -> None:
    await put(store, memory("hidden", "red", scope="project:beta"))
    await put(store, memory("theirs", "red", org="other"), access=seen_from("other"))

    receipts = await store.put([memory("new", "blue", supersedes=(fact(name),))], ALPHA)

    assert receipts == [Receipt(id="fact:new", written=Written.REFUSED, code=Refusal.UNKNOWN_REFERENCE)]
    assert await standing(store, "red", "blue") == {"red": ["fact:hidden#0"], "blue": []}


@pytest.mark.parametrize("approval", [Approval.PROPOSED, Approval.REJECTED])
async def test_what_is_not_approved_can_be_read_by_name_and_not_be_found(store: Store, approval: Approval) -> None:
    await put(store, memory("one", "red", degrees=0, approval=approval))

    answer = await found(store, wanting("red", near=0), EVERYTHING)

    assert (answer["postings"], answer["neighbours"], answer["passages"], answer["dead"]) == ({"red": []}, [], (0, 0), {})
    assert await store.vocabulary(1, 9, EVERYTHING) == []
    assert (await the(store, fact("one"))).label.approval is approval


async def test_approving_makes_it_found(store: Store) -> None:
    await put(store, memory("one", "red", degrees=0, approval=Approval.PROPOSED), memory("one", "red", degrees=0))

    assert await standing(store, "red") == {"red": ["fact:one#0"]}
    assert await store.coverage(SPACE, EVERYTHING) == (1, 1)
    assert await store.faults() == []


async def test_everything_stated_comes_back_as_it_was(store: Store) -> None:
    from remit.stages.evidence import Claim, Origin, Status, Trust

    stated = memory(
        "Ω 'one' \\ \x00 \"\U0001f98a",
        source=Source.DOC,
        parts=["red \x00 fox", "ﬁle\u2028 \"blue'"],
        scope="project:alpha",
        project="alpha",
        conversation="",
        valid_from=NOW.replace(year=1),
        valid_until=NOW.replace(year=9999, microsecond=999_999),
        expires_at=NOW.replace(microsecond=123_457),
        aliases=("Red Fox",),
        created_at=NOW.replace(year=1970, microsecond=1),
        ended_at=NOW.replace(year=1969, microsecond=999_999),
        importance=0.1 + 0.2,
        pinned=True,
        status=Status.ARCHIVED,
        trust=Trust.UNTRUSTED,
        origin=Origin(uri="file:///a b", version="7", sha256="00", project="alpha", conversation=""),
        tags=("x", "é"),
        claims=(Claim(says="it is red"), Claim(says="blue", about="colour")),
        disputes=(fact("other"),),
        derived_from=(MemoryId(Source.SESSION, "s\x00"),),
        key="k",
    )
    await put(store, memory("s\x00", source=Source.SESSION), stated)

    assert (await store.records(None, 9))[0] == ("acme", replace(stated, passages=()))
    read = await store.read([PassageId(stated.record.id, 1)], EVERYTHING)
    (passage,) = read.values()
    assert _shared(passage) == {name: getattr(stated.record, name) for name in _shared(passage)}
    assert (passage.text, passage.start, passage.end) == (stated.passages[1].text, stated.passages[1].start, stated.passages[1].end)
    answer = await store.find(wanting("red"), EVERYTHING)
    (outline,) = (await store.outlines(answer.postings["red"].keys.tolist(), EVERYTHING)).values()
    assert (outline.passage, outline.aged_from, outline.importance, outline.pinned, outline.status) == (
        PassageId(stated.record.id, 0),
        stated.record.ended_at,
        0.1 + 0.2,
        True,
        Status.ARCHIVED,
    )


def _shared(memory: Memory) -> dict[str, object]:
    names: Sequence[str] = (
        *("id", "label", "title", "created_at", "ended_at", "importance", "pinned", "status", "trust", "origin"),
        *("tags", "claims", "disputes", "derived_from"),
    )
    return {name: getattr(memory, name) for name in names}
