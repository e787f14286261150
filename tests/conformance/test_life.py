"""The life of a memory: approved, rejected, superseded, restored, disputed, forgotten, carried over; indexes follow at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from conformance.answers import everything_told, found, names_of
from conformance.conftest import Open
from conformance.worlds import EVERYTHING, NOW, SPACE, memory, seen_from, wanting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.pipeline.storage.entry import PARTS, Change, Entry, Event, Forgetting, Forgotten, Keyed, Receipt, Whole, Written
from remit.pipeline.storage.store import Store
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId, Origin, PassageId, Trust
from remit.stages.request import Source

pytestmark = pytest.mark.anyio
several = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ALPHA = seen_from(granted=["project:alpha"])
BOB = replace(EVERYTHING, actor="bob", as_of=NOW + timedelta(days=1))


def fact(name: str) -> MemoryId:
    return MemoryId(Source.FACT, name)


def told(receipts: Sequence[Receipt]) -> list[str]:
    return [str(receipt.code or receipt.written) for receipt in receipts]


async def put(store: Store, *entries: Entry, access: Access = EVERYTHING) -> list[str]:
    return told(await store.put(entries, access))


async def change(store: Store, what: Written, name: str, access: Access = EVERYTHING, **rest: Any) -> str:
    return told(await store.change([Change(what=what, id=fact(name), **rest)], access))[0]


async def approve(store: Store, entry: Entry, access: Access = EVERYTHING, seen: int = 1) -> str:
    return await change(store, Written.APPROVED, entry.record.id.id, access, entry=entry, seen=seen)


async def standing(store: Store, word: str, access: Access = EVERYTHING) -> list[str]:
    """Who is found by a word, and by a vector that all of them have, which must be the same."""
    answer = await found(store, wanting(word, near=0), access)
    near = sorted(name for *_, rows in answer["neighbours"] for name, _ in rows)
    by_word = [name.partition("#")[0].removeprefix("fact:") for name, *_ in answer["postings"][word]]
    assert [name.partition("#")[0].removeprefix("fact:") for name in near] == by_word
    return by_word


async def whole(store: Store, name: str) -> Whole:
    return (await store.wholes([fact(name)], EVERYTHING))[fact(name)]


async def happened(store: Store, name: str) -> list[tuple[str, int, str]]:
    return [(event.what.value, event.version, event.actor) for event in (await whole(store, name)).history]


def red(name: str, **stated: Any) -> Entry:
    return memory(name, "red", degrees=0, **stated)


def proposed(name: str, **stated: Any) -> Entry:
    return red(name, approval=Approval.PROPOSED, **stated)


# Approval


async def test_what_is_proposed_is_found_once_it_is_approved_and_no_more_when_it_is_rejected(store: Store) -> None:
    await put(store, proposed("one"), red("two"))
    assert await standing(store, "red") == ["two"]
    assert await store.coverage(SPACE, EVERYTHING) == (1, 1)

    assert await approve(store, proposed("one"), BOB) == "approved"
    assert await standing(store, "red") == ["one", "two"]
    assert await approve(store, proposed("one")) == "unchanged"

    assert await change(store, Written.REJECTED, "one") == "rejected"
    assert await standing(store, "red") == ["two"]
    assert await store.vocabulary(1, 9, EVERYTHING) == ["red"]
    assert await change(store, Written.REJECTED, "one") == "unchanged"
    assert await happened(store, "one") == [("stored", 1, "ada"), ("approved", 1, "bob"), ("rejected", 1, "ada")]
    assert await store.faults() == []


async def test_an_approval_outlives_the_same_proposal_and_ends_with_another(store: Store) -> None:
    await put(store, proposed("one"))
    await approve(store, proposed("one"))

    assert await put(store, proposed("one")) == ["unchanged"]
    assert await standing(store, "red") == ["one"]
    assert await put(store, proposed("one", importance=1.0)) == ["replaced"]
    assert await standing(store, "red") == []
    assert await store.faults() == []


@pytest.mark.parametrize("entry, seen", [(proposed("one", pinned=True), 1), (proposed("one"), 2), (None, 1)])
async def test_what_was_written_anew_since_it_was_looked_at_is_not_approved(store: Store, entry: Entry | None, seen: int) -> None:
    await put(store, proposed("one"))

    assert await change(store, Written.APPROVED, "one", entry=entry, seen=seen) == "revised"
    assert await standing(store, "red") == []


async def test_a_proposal_takes_the_place_of_another_memory_when_it_is_approved(store: Store) -> None:
    newer = proposed("new", supersedes=(fact("old"),))
    await put(store, red("old"), newer)
    assert await standing(store, "red") == ["old"]

    assert await approve(store, newer) == "approved"
    assert await standing(store, "red") == ["new"]
    assert (await whole(store, "old")).history[-1] == Event(
        what=Written.SUPERSEDED, version=1, actor="ada", at=EVERYTHING.as_of, by=fact("new")
    )
    assert await store.faults() == []


@pytest.mark.parametrize("gone", ["forgotten", "out of reach"])
async def test_a_proposal_is_not_approved_when_what_it_supersedes_is_gone_or_out_of_reach_alike(store: Store, gone: str) -> None:
    newer = proposed("new", supersedes=(fact("old"),))
    await put(store, red("old", scope="project:beta" if gone == "out of reach" else "global"), newer)
    if gone == "forgotten":
        await store.forget(Forgetting(names=(fact("old"),)), EVERYTHING)

    assert await approve(store, newer, seen_from()) == "unknown_reference"
    assert await standing(store, "red", seen_from()) == []


# Superseding, restoring, disputing


async def test_a_proposal_that_was_superseded_meanwhile_takes_nobodys_place(store: Store) -> None:
    await put(store, red("old"), proposed("idea", supersedes=(fact("old"),)), red("better", supersedes=(fact("idea"),)))

    assert await approve(store, proposed("idea", supersedes=(fact("old"),))) == "not_standing"
    assert await standing(store, "red") == ["better", "old"]
    assert await change(store, Written.RESTORED, "idea") == "restored"
    assert await approve(store, proposed("idea", supersedes=(fact("old"),))) == "approved"
    assert await standing(store, "red") == ["better", "idea"]


async def test_a_memory_takes_the_place_of_another_which_may_be_restored(store: Store) -> None:
    await put(store, red("old"), red("new"), red("newest"))

    assert await change(store, Written.SUPERSEDED, "old", by=fact("new")) == "superseded"
    assert await change(store, Written.SUPERSEDED, "old", by=fact("new")) == "unchanged"
    assert await standing(store, "red") == ["new", "newest"]
    assert await change(store, Written.SUPERSEDED, "old", by=fact("newest")) == "superseded"
    assert [(await whole(store, name)).entry.record.supersedes for name in ("new", "newest")] == [(fact("old"),)] * 2

    assert await change(store, Written.RESTORED, "old", BOB) == "restored"
    assert await change(store, Written.RESTORED, "old") == "unchanged"
    assert await standing(store, "red") == ["new", "newest", "old"]
    assert await happened(store, "old") == [
        *[("stored", 1, "ada"), ("superseded", 1, "ada"), ("superseded", 1, "ada"), ("restored", 1, "bob")],
    ]
    assert await store.faults() == []


@pytest.mark.parametrize("timed", [{}, {"valid_from": NOW}, {"expires_at": NOW + timedelta(days=9)}, {"approval": Approval.PROPOSED}])
async def test_marks_come_and_go_whatever_else_a_memory_is(store: Store, timed: dict[str, Any]) -> None:
    await put(store, red("old", **timed), red("new"))
    before = await everything_told(store, EVERYTHING, [PassageId(fact("old"), 0)], wanting("red", near=0))

    await change(store, Written.SUPERSEDED, "old", by=fact("new"))
    assert await store.faults() == []
    await change(store, Written.RESTORED, "old")

    assert await everything_told(store, EVERYTHING, [PassageId(fact("old"), 0)], wanting("red", near=0)) == before
    assert await store.faults() == []


async def test_what_does_not_stand_itself_takes_nobodys_place(store: Store) -> None:
    await put(store, red("old"), red("new"), proposed("idea"))
    await change(store, Written.SUPERSEDED, "old", by=fact("new"))

    assert await change(store, Written.SUPERSEDED, "new", by=fact("old")) == "not_standing"
    assert await change(store, Written.SUPERSEDED, "new", by=fact("idea")) == "not_standing"
    assert await standing(store, "red") == ["new"]


async def test_a_dispute_is_noted_and_goes_with_the_version(store: Store) -> None:
    await put(store, red("one"), red("two"))

    assert await change(store, Written.DISPUTED, "one", by=fact("two")) == "disputed"
    assert await change(store, Written.DISPUTED, "one", by=fact("two")) == "unchanged"
    read = await store.read([PassageId(fact("one"), 0)], EVERYTHING)
    assert [each.disputes for each in read.values()] == [(fact("two"),)]
    assert await put(store, red("one")) == ["unchanged"]
    await put(store, red("one", pinned=True))
    assert (await whole(store, "one")).entry.record.disputes == ()
    assert await happened(store, "one") == [("stored", 1, "ada"), ("disputed", 1, "ada"), ("replaced", 2, "ada")]


CHANGES = (Written.APPROVED, Written.REJECTED, Written.SUPERSEDED, Written.RESTORED, Written.DISPUTED)


@pytest.mark.parametrize("what", CHANGES)
async def test_what_may_not_be_touched_and_what_is_not_there_are_told_alike(store: Store, what: Written) -> None:
    await put(store, red("hidden", scope="project:beta"), red("origin", project="beta"), red("mine"))
    before = await store.exported(None, 9, EVERYTHING)

    said = [await change(store, what, name, ALPHA, by=fact("mine")) for name in ("hidden", "origin", "nobody")]

    assert said == ["unknown_memory"] * 3
    assert await store.exported(None, 9, EVERYTHING) == before


@pytest.mark.parametrize("what", [Written.SUPERSEDED, Written.DISPUTED])
async def test_the_other_memory_is_told_alike_too(store: Store, what: Written) -> None:
    await put(store, red("hidden", scope="project:beta"), red("mine"))

    said = [await change(store, what, "mine", ALPHA, by=name) for name in (fact("hidden"), fact("nobody"), fact("mine"), None)]

    assert said == ["unknown_reference"] * 4


# History


async def test_earlier_versions_are_kept_with_who_wrote_them_and_when(store: Store) -> None:
    first, second = memory("one", "red"), replace_actor(memory("one", "blue", tags=("x",)), "bob")
    await put(store, first)
    await put(store, second, access=BOB)

    kept = await whole(store, "one")

    assert (kept.version, kept.written_at) == (2, BOB.as_of)
    assert kept.history == (
        Event(what=Written.STORED, version=1, actor="ada", at=EVERYTHING.as_of, digest=first.record.digest, title="one", text="red"),
        Event(what=Written.REPLACED, version=2, actor="bob", at=BOB.as_of, digest=second.record.digest, title="one", text="blue"),
    )
    assert await store.wholes([fact("one"), fact("nobody")], seen_from("other")) == {}


def replace_actor(entry: Entry, actor: str) -> Entry:
    return replace(entry, record=replace(entry.record, actor=actor))


# Trust


async def test_trust_is_never_above_the_lowest_of_what_a_memory_is_derived_from(store: Store) -> None:
    parents = (fact("a"), fact("b"))
    await put(store, red("a", trust=Trust.VERIFIED), red("b", trust=Trust.UNTRUSTED))

    assert await put(store, red("child", trust=Trust.VERIFIED, derived_from=parents)) == ["stored"]
    assert await put(store, red("grandchild", trust=Trust.STATED, derived_from=(fact("child"),))) == ["stored"]
    assert await put(store, red("child", trust=Trust.VERIFIED, derived_from=parents)) == ["unchanged"]

    assert [await trust_of(store, name) for name in ("child", "grandchild")] == [Trust.UNTRUSTED] * 2


async def trust_of(store: Store, name: str) -> Trust:
    return (await whole(store, name)).entry.record.trust


async def test_when_a_memory_loses_trust_so_does_what_is_derived_from_it_wherever_it_lies(store: Store) -> None:
    await put(
        store,
        red("parent", trust=Trust.VERIFIED),
        red("child", trust=Trust.VERIFIED, derived_from=(fact("parent"),), scope="project:beta"),
        red("grandchild", trust=Trust.STATED, derived_from=(fact("child"),)),
        red("beside", trust=Trust.VERIFIED),
    )
    await put(store, red("parent", trust=Trust.STATED), access=seen_from())
    assert [await trust_of(store, name) for name in ("child", "grandchild", "beside")] == [Trust.STATED, Trust.STATED, Trust.VERIFIED]

    await put(store, red("parent", trust=Trust.UNTRUSTED), access=seen_from())
    assert [await trust_of(store, name) for name in ("child", "grandchild", "beside")] == [
        *[Trust.UNTRUSTED, Trust.UNTRUSTED, Trust.VERIFIED],
    ]
    read = await store.read([PassageId(fact("child"), 0)], EVERYTHING)
    assert [each.trust for each in read.values()] == [Trust.UNTRUSTED]

    await put(store, red("parent", trust=Trust.VERIFIED), access=seen_from())
    assert await trust_of(store, "child") is Trust.UNTRUSTED, "trust that was lost is not won back by itself"
    assert await store.faults() == []


async def test_what_a_memory_is_derived_from_must_be_there_and_in_reach_and_both_are_told_alike(store: Store) -> None:
    await put(store, red("hidden", scope="project:beta"))

    assert await put(store, *(red("child", derived_from=(fact(name),)) for name in ("hidden", "nobody")), red("beside"), access=ALPHA) == [
        "unknown_reference",
        "unknown_reference",
        "stored",
    ]


# Forgetting


def counted(**parts: int) -> dict[str, int]:
    return dict.fromkeys(PARTS, 0) | parts


async def forget(store: Store, access: Access = EVERYTHING, *, dry_run: bool = False, **what: Any) -> Forgotten:
    return await store.forget(Forgetting(**what), access, dry_run=dry_run)


async def test_nothing_is_left_of_what_is_forgotten(store: Store) -> None:
    doc = MemoryId(Source.DOC, "d")
    await put(
        store,
        memory("d", source=Source.DOC, parts=["red a", "red b"], degrees=[0, 0], tags=("x", "y"), aliases=("fox",), key="k1"),
        memory("d", source=Source.DOC, parts=["red c", "blue"], degrees=[0, 0], tags=("x",), aliases=("fox",), key="k2"),
        memory("other", "red", degrees=0),
    )

    done = await forget(store, names=(doc,))

    assert done.counts == counted(memories=1, passages=2, words=5, vectors=2, tags=1, versions=1, keys=2)
    assert done.receipts == (Receipt(id="doc:d", written=Written.FORGOTTEN, version=2),)
    assert await standing(store, "red") == ["other"]
    assert await store.vocabulary(1, 9, EVERYTHING) == ["red"]
    assert await store.coverage(SPACE, EVERYTHING) == (1, 1)
    assert await store.passages_of(doc, EVERYTHING) == []
    assert await store.wholes([doc], EVERYTHING) == {}
    assert [each.entry.record.id for each in await store.exported(None, 9, EVERYTHING)] == [fact("other")]
    assert await store.faults() == []


async def test_a_late_repeat_does_not_bring_back_what_was_forgotten_but_a_new_write_may(store: Store) -> None:
    first = red("one", key="k")
    await put(store, first, red("one", key="k2", pinned=True))
    await forget(store, names=(fact("one"),))

    assert await put(store, first, red("two", key="k2"), red("three", key="k3")) == ["key_forgotten", "key_forgotten", "stored"]
    assert await put(store, red("one")) == ["stored"]
    assert await happened(store, "one") == [("stored", 1, "ada")]
    assert await put(store, red("one", key="k", org="other"), access=seen_from("other")) == ["stored"], "another org's key is another key"


async def test_a_dry_run_counts_the_same_and_changes_nothing(store: Store) -> None:
    await put(store, red("one", key="k"), red("one", key="k2", pinned=True), red("two"))
    before = await store.exported(None, 9, EVERYTHING)

    would = await forget(store, names=(fact("one"), fact("nobody")), dry_run=True)

    assert await store.exported(None, 9, EVERYTHING) == before
    assert would == replace(await forget(store, names=(fact("one"), fact("nobody"))), dry_run=True)
    assert told(would.receipts) == ["forgotten", "unknown_memory"]


SCOPES = ["project:team", "project:team-b", "project:tea", "project:Team", "project:te_m", "project:te%", "person:team"]


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_scope_is_forgotten_by_its_whole_name(store: Store, scope: str) -> None:
    await put(store, *(red(each, scope=each) for each in SCOPES))

    assert (await forget(store, scope=scope)).counts["memories"] == 1

    assert await standing(store, "red") == sorted(each for each in SCOPES if each != scope)
    assert await store.faults() == []


async def test_an_origin_is_forgotten_by_its_whole_uri(store: Store) -> None:
    uris = ["file:///a", "file:///a/b", "file:///A", "file:///a%", "file:///_"]
    await put(store, *(red(uri, origin=Origin(uri=uri)) for uri in uris), red("none"))

    assert (await forget(store, origin="file:///a")).counts["memories"] == 1
    assert await standing(store, "red") == sorted([*uris[1:], "none"])


async def test_all_that_an_actor_wrote_is_forgotten_also_what_others_replaced(store: Store) -> None:
    await put(store, replace_actor(red("bobs", key="b"), "bob"), replace_actor(red("shared"), "bob"), red("adas"))
    await put(store, red("shared", pinned=True))

    would = await forget(store, actor="bob", dry_run=True)
    done = await forget(store, actor="bob")

    assert done.counts == would.counts == counted(memories=1, passages=1, words=1, vectors=1, versions=1, keys=1)
    assert await standing(store, "red") == ["adas", "shared"]
    assert await happened(store, "shared") == [("replaced", 2, "ada")]


async def test_what_expired_is_swept_and_what_is_only_no_longer_valid_is_not(store: Store) -> None:
    later = NOW + timedelta(microseconds=1)
    await put(store, red("now", expires_at=NOW), red("later", expires_at=later), red("invalid", valid_until=NOW), red("free"))

    assert (await forget(store, expired=True)).counts["memories"] == 1
    assert sorted(each.entry.record.id.id for each in await store.exported(None, 9, EVERYTHING)) == ["free", "invalid", "later"]
    assert await forget(store, expired=True) == Forgotten(counts=counted())


async def test_of_several_conditions_all_must_hold(store: Store) -> None:
    await put(store, red("both", scope="project:alpha", expires_at=NOW), red("scope", scope="project:alpha"), red("time", expires_at=NOW))

    assert (await forget(store, scope="project:alpha", expired=True)).counts["memories"] == 1
    assert sorted(each.entry.record.id.id for each in await store.exported(None, 9, EVERYTHING)) == ["scope", "time"]


@pytest.mark.parametrize(
    "what", [{"names": (fact("hidden"), fact("origin"), fact("nobody"))}, {"scope": "project:beta"}, {"actor": "eve"}, {"expired": True}]
)
async def test_what_is_out_of_reach_is_neither_forgotten_nor_counted(store: Store, what: dict[str, Any]) -> None:
    hidden = [red("hidden", scope="project:beta", expires_at=NOW), red("origin", project="beta", expires_at=NOW)]
    await put(store, *(replace_actor(each, "eve") for each in hidden))
    before = await store.exported(None, 9, EVERYTHING)

    done = await forget(store, ALPHA, **what)

    assert done.counts == counted()
    assert set(told(done.receipts)) <= {"unknown_memory"}
    assert await store.exported(None, 9, EVERYTHING) == before
    assert (await forget(store, seen_from("other", None), **what)).counts == counted()


async def test_a_name_that_is_forgotten_stands_in_no_history_and_what_it_replaced_stays_replaced(store: Store) -> None:
    await put(store, red("old"), red("new", supersedes=(fact("old"),)))
    await forget(store, names=(fact("new"),))

    assert await standing(store, "red") == []
    assert [event.by for event in (await whole(store, "old")).history] == [None, None]
    assert await change(store, Written.RESTORED, "old") == "restored"
    assert await standing(store, "red") == ["old"]


# Carrying


async def test_a_memory_that_is_carried_over_stands_there_exactly_as_it_did(open_store: Open, open_oracle: Open) -> None:
    world = [
        memory("d", source=Source.DOC, parts=["red a", "red b"], degrees=[0, 10], tags=("x",), aliases=("fox",), key="k1"),
        memory("d", source=Source.DOC, parts=["red c"], degrees=[0], key="k2", expires_at=NOW + timedelta(days=1)),
        red("old", importance=0.1 + 0.2),
        proposed("idea", pinned=True),
        red("new", supersedes=(fact("old"),), trust=Trust.UNTRUSTED, origin=Origin(uri="file:///a", sha256="0" * 64)),
        red("child", derived_from=(fact("new"),), disputes=(fact("nobody"),)),
        red("hidden", scope="project:beta"),
    ]
    async with open_store() as here, open_oracle() as there, open_store() as back:
        await put(here, *world)
        await change(here, Written.REJECTED, "child", BOB)
        out = await here.exported(None, 99, seen_from())
        assert told(await there.imported(indexed(out, world), seen_from())) == ["stored"] * 5
        over = await there.exported(None, 99, EVERYTHING)
        assert told(await back.imported(indexed(over, world), seen_from())) == ["stored"] * 5

        assert over == out == await back.exported(None, 99, EVERYTHING)
        names = names_of(world)
        want = wanting("red", "c", near=0)
        assert await everything_told(back, seen_from(), names, want) == await everything_told(here, seen_from(), names, want)
        assert told(await back.imported(indexed(over, world), seen_from())) == ["unchanged"] * 5
        assert await put(back, world[0], world[1]) == ["stored", "replaced"], "keys came along"
        assert await back.faults() == []


def indexed(wholes: Sequence[Whole], world: Sequence[Entry]) -> list[Whole]:
    """The same with their passages, as an indexer would make them again."""
    passages = {entry.record.digest: entry.passages for entry in world}
    return [replace(each, entry=replace(each.entry, passages=passages[each.entry.record.digest])) for each in wholes]


async def test_an_export_goes_page_by_page(store: Store) -> None:
    await put(store, *(red(name) for name in "dbeca"), memory("x", "red", source=Source.DOC))

    pages, after = [], None
    while page := await store.exported(after, 2, EVERYTHING):
        pages.append([str(each.entry.record.id) for each in page])
        after = page[-1].entry.record.id

    assert pages == [["doc:x", "fact:a"], ["fact:b", "fact:c"], ["fact:d", "fact:e"]]


async def test_an_import_takes_nothing_over_and_writes_nowhere_it_may_not(store: Store) -> None:
    await put(store, red("here", key="k"), red("hidden", scope="project:beta"), red("gone", key="old"))
    await forget(store, names=(fact("gone"),))
    cases = [
        (red("here", pinned=True), "other_content"),
        (red("hidden"), "not_authorised"),
        (red("new", scope="project:beta"), "not_authorised"),
        (red("foreign", org="other"), "not_authorised"),
        (red("keyed", key="k"), "key_conflict"),
        (red("forgotten", key="old"), "key_forgotten"),
        (red("fine"), "stored"),
    ]

    assert told(await store.imported([carried(entry) for entry, _ in cases], ALPHA)) == [code for _, code in cases]
    assert await standing(store, "red") == ["fine", "here", "hidden"]
    assert await store.faults() == []


def carried(entry: Entry, version: int = 1) -> Whole:
    key = entry.record.key
    keys = () if key is None else (Keyed(actor="ada", key=key, digest=entry.record.digest, written=Written.STORED, version=version),)
    return Whole(entry=entry, version=version, written_at=NOW, keys=keys)


async def test_trust_holds_whichever_of_parent_and_child_is_carried_over_first(store: Store) -> None:
    child, parent = red("child", trust=Trust.VERIFIED, derived_from=(fact("parent"),)), red("parent", trust=Trust.UNTRUSTED)

    await store.imported([carried(child)], EVERYTHING)
    assert await trust_of(store, "child") is Trust.VERIFIED
    await store.imported([carried(parent), carried(child)], EVERYTHING)
    assert await trust_of(store, "child") is Trust.UNTRUSTED


async def test_a_write_and_a_forgetting_that_are_cancelled_anywhere_are_whole_or_did_not_happen(store: Store) -> None:
    for waits in range(8):
        name, key = f"m{waits}", f"k{waits}"
        await cancelled(waits, store.put, [red(name, key=key, tags=("x",))], EVERYTHING)
        assert await put(store, red(name, key=key, tags=("x",))) == ["stored"], "the key settles what is unknown"
        assert await happened(store, name) == [("stored", 1, "ada")]

        await cancelled(waits, store.forget, Forgetting(names=(fact(name),)), EVERYTHING)
        await change(store, Written.RESTORED, "nobody")  # comes after what its caller left behind
        left = await store.wholes([fact(name)], EVERYTHING)
        assert await standing(store, "red") == [name] * len(left)
        await forget(store, names=(fact(name),))
    assert await store.faults() == []


async def cancelled(waits: int, call: Callable[..., Awaitable[object]], *arguments: object) -> None:
    """Calls, and leaves after so many turns of the event loop."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, *arguments)
        for _ in range(waits):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


# Whatever happens, in whatever order

NAMES = ("one", "two", "three")
names = st.sampled_from(NAMES).map(fact)
lives = st.lists(
    st.one_of(
        st.builds(
            memory,
            st.sampled_from(NAMES),
            parts=st.sampled_from([["red"], ["red blue", "fox"], ["blue"]]),
            degrees=st.sampled_from([None, 0.0]),
            scope=st.sampled_from(["global", "project:alpha"]),
            approval=st.sampled_from([Approval.APPROVED, Approval.APPROVED, Approval.PROPOSED]),
            expires_at=st.sampled_from([None, None, NOW]),
            supersedes=st.sampled_from([(), (), (fact("two"),)]),
            derived_from=st.sampled_from([(), (), (fact("three"),)]),
            trust=st.sampled_from(Trust),
            tags=st.sampled_from([(), ("x",)]),
            key=st.sampled_from([None, None, "k", "l"]),
        ),
        st.builds(Change, what=st.sampled_from(CHANGES), id=names, by=st.none() | names),
        st.builds(Forgetting, names=st.lists(names, max_size=2).map(tuple)),
        st.builds(Forgetting, scope=st.sampled_from([None, "project:alpha"]), expired=st.just(True), actor=st.sampled_from([None, "ada"])),
    ),
    max_size=8,
)


async def lived(store: Store, step: Entry | Change | Forgetting, access: Access) -> Any:
    if isinstance(step, Entry):
        return told(await store.put([step], access))
    if isinstance(step, Forgetting):
        return await store.forget(step, access)
    if step.what is Written.APPROVED and (kept := (await store.wholes([step.id], access)).get(step.id)):
        record = kept.entry.record
        entry = replace(memory(record.id.id, parts=record.text.split("\n"), degrees=0.0), record=record)
        step = replace(step, entry=entry, seen=kept.version)
    return told(await store.change([step], access))


@several
@given(steps=lives, access=st.sampled_from([EVERYTHING, EVERYTHING, ALPHA, seen_from()]))
async def test_every_store_lives_as_the_plainest_one_and_its_indexes_follow(
    open_other: Open, open_oracle: Open, steps: list[Entry | Change | Forgetting], access: Access
) -> None:
    passages = [PassageId(fact(name), at) for name in NAMES for at in (0, 1)]
    async with open_other() as store, open_oracle() as oracle:
        for step in steps:
            assert await lived(store, step, access) == await lived(oracle, step, access)
            assert await store.faults() == []
        assert await store.exported(None, 99, EVERYTHING) == await oracle.exported(None, 99, EVERYTHING)
        for look in (EVERYTHING, seen_from()):
            wanted = wanting("red", "fox", near=0)
            assert await everything_told(store, look, passages, wanted) == await everything_told(oracle, look, passages, wanted)
