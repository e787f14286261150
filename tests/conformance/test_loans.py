"""Loans: passages that lack a vector are lent to one at a time, what comes back is kept if it still fits, and old spaces are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from conformance.answers import filled
from conformance.worlds import EVERYTHING, NOW, SPACE, direction, memory, seen_from, wanting

from remit.pipeline.storage.entry import NOTHING, Change, Forgetting, Lent, Written
from remit.pipeline.storage.store import Store
from remit.stages.access import Access, Approval
from remit.stages.evidence import Lane, MemoryId
from remit.stages.request import Source

pytestmark = pytest.mark.anyio

OTHER = "other:2"
WHILE = NOW + timedelta(minutes=2)
LATER = replace(EVERYTHING, as_of=WHILE)


async def lent(store: Store, most: int = 9, access: Access = EVERYTHING, *, space: str = SPACE, after: int = 0) -> Lent:
    return await store.lend_passages(space, after, most, access.as_of + timedelta(minutes=2), access)


def names(loan: Lent) -> Sequence[str]:
    return [f"{each.memory}#{each.ordinal}" for each in loan.passages]


async def test_what_lacks_a_vector_in_reach_is_lent_in_pieces_and_in_order(store: Store) -> None:
    await filled(
        store,
        [
            memory("a", "red", degrees=5),
            memory("b", source=Source.DOC, parts=["one", "two", "three"]),
            memory("hidden", "x", scope="project:beta"),
            memory("proposed", "x", approval=Approval.PROPOSED),
            memory("ended", "blue", valid_until=NOW),
            memory("older", "x"),
            memory("newer", "x", degrees=5, supersedes=(MemoryId(Source.FACT, "older"),)),
            memory("theirs", "x", org="other"),
        ],
    )

    first = await lent(store, 2, seen_from())
    second = await lent(store, 9, seen_from(), after=first.after or 0)

    assert (names(first), names(second)) == (["doc:b#0", "doc:b#1"], ["doc:b#2", "fact:ended#0"])
    assert [(each.title, each.text) for each in first.passages] == [("b", "one"), ("b", "two")]
    assert first.after is not None
    assert second.after is None


async def test_what_is_lent_is_lent_to_nobody_else_until_it_comes_back_or_its_time_is_over(store: Store) -> None:
    await filled(store, [memory(name, "red") for name in "abc"])
    first = await lent(store, 2)

    assert [names(first), names(await lent(store, after=0))] == [["fact:a#0", "fact:b#0"], ["fact:c#0"]]
    nothing = await lent(store)
    assert (nothing.passages, nothing.elsewhere) == ((), 3)
    assert names(await lent(store, space=OTHER)) == ["fact:a#0", "fact:b#0", "fact:c#0"]

    assert await store.keep_vectors(SPACE, {first.passages[0].key: None}, EVERYTHING) == 0
    assert names(await lent(store)) == ["fact:a#0"]
    assert names(await lent(store, access=LATER)) == ["fact:a#0", "fact:b#0", "fact:c#0"]


async def test_vectors_that_are_brought_are_found_and_counted(store: Store) -> None:
    await filled(store, [memory("a", "red"), memory("b", "red", valid_until=WHILE), memory("c", "red", degrees=90)])
    loan = await lent(store)

    kept = await store.keep_vectors(SPACE, {each.key: direction(10) for each in loan.passages}, EVERYTHING)

    assert kept == 2
    assert await store.coverage(SPACE, EVERYTHING) == (3, 3)
    assert await store.coverage(SPACE, LATER) == (2, 2)
    assert (await lent(store)).passages == ()
    assert await store.spaces(EVERYTHING) == {SPACE: 2}
    assert await store.faults() == []


async def test_what_changed_meanwhile_or_is_no_vector_is_left_as_it_is(store: Store) -> None:
    everyone = ["forgotten", "rejected", "replaced", "moved", "given", "zero", "wrong", "superseded", "fine"]
    await filled(store, [memory(name, "red", scope="project:alpha") for name in everyone])
    loan = {each.memory.id: each.key for each in (await lent(store, 99)).passages}
    await store.forget(Forgetting(names=(MemoryId(Source.FACT, "forgotten"),)), EVERYTHING)
    await store.change([Change(what=Written.REJECTED, id=MemoryId(Source.FACT, "rejected"))], EVERYTHING)
    await filled(
        store,
        [
            memory("replaced", "blue", scope="project:alpha"),
            memory("moved", "blue", scope="project:beta"),
            memory("by", "x", degrees=1, supersedes=(MemoryId(Source.FACT, "superseded"),)),
        ],
    )
    assert await store.keep_vectors(SPACE, {loan["given"]: direction(1)}, EVERYTHING) == 1
    wrong = {"zero": direction(0) * 0, "wrong": direction(0) * float("nan")}

    kept = await store.keep_vectors(
        SPACE, {loan[name]: wrong.get(name, direction(2)) for name in everyone}, seen_from(granted=["project:alpha"])
    )

    assert kept == 2, "fine, and superseded, which may be restored"
    assert await store.faults() == []
    assert names(await lent(store, 99)) == ["fact:zero#0", "fact:wrong#0", "fact:replaced#0", "fact:moved#0"]
    assert await store.coverage(SPACE, EVERYTHING) == (3, 7)
    await store.change([Change(what=Written.RESTORED, id=MemoryId(Source.FACT, "superseded"))], EVERYTHING)
    assert await store.coverage(SPACE, EVERYTHING) == (4, 8)
    assert await store.faults() == []


async def test_what_has_nothing_to_embed_counts_as_embedded_and_is_compared_with_nothing(store: Store) -> None:
    await filled(
        store,
        [
            memory("always", "red"),
            memory("timed", "red", valid_until=WHILE),
            memory("superseded", "red"),
            memory("forgotten", "red"),
            memory("found", "red", degrees=5),
        ],
    )
    loan = {each.memory.id: each.key for each in (await lent(store)).passages}
    assert sorted(loan) == ["always", "forgotten", "superseded", "timed"]

    assert await store.keep_vectors(SPACE, dict.fromkeys(loan.values(), NOTHING), EVERYTHING) == 4

    assert await store.coverage(SPACE, EVERYTHING) == (5, 5)
    assert await store.coverage(SPACE, LATER) == (4, 4)
    assert (await lent(store)).passages == ()
    found = await store.find(wanting(near=5), EVERYTHING)
    outlines = await store.outlines([key for near in found.neighbours for key in near.keys.tolist()], EVERYTHING)
    assert [each.passage.memory.id for each in outlines.values()] == ["found"]
    assert found.compared[Lane.LOCAL] == 5
    await filled(store, [memory("by", "x", degrees=1, supersedes=(MemoryId(Source.FACT, "superseded"),))])
    await store.forget(Forgetting(names=(MemoryId(Source.FACT, "forgotten"),)), EVERYTHING)
    assert await store.coverage(SPACE, EVERYTHING) == (4, 4)
    assert await store.faults() == []
    assert (await store.drop_vectors([OTHER], 0, EVERYTHING)).vectors == 5
    assert await store.coverage(SPACE, EVERYTHING) == (0, 4)
    assert await store.faults() == []


async def test_vectors_are_only_taken_for_what_is_in_reach(store: Store) -> None:
    await filled(store, [memory("a", "red", scope="project:alpha"), memory("theirs", "red", org="other")])
    loan = [*(await lent(store)).passages, *(await lent(store, access=seen_from("other", None))).passages]
    given = {each.key: direction(1) for each in loan}

    assert await store.keep_vectors(SPACE, given, seen_from()) == 0
    assert await store.keep_vectors(SPACE, given, EVERYTHING) == 1
    assert await store.coverage(SPACE, seen_from("other", None)) == (0, 1)


async def test_spaces_are_dropped_from_what_is_in_reach_and_from_nothing_else(store: Store) -> None:
    await filled(
        store,
        [
            memory("a", "red", degrees=5),
            memory("hidden", "red", degrees=5, scope="project:beta"),
            memory("timed", "red", degrees=5, valid_until=WHILE),
            memory("older", "red", degrees=5),
            memory("newer", "red", degrees=5, supersedes=(MemoryId(Source.FACT, "older"),)),
            memory("theirs", "red", degrees=5, org="other"),
        ],
    )
    loan = await lent(store, space=OTHER)
    await store.keep_vectors(OTHER, {each.key: direction(7) for each in loan.passages}, EVERYTHING)
    assert await store.spaces(EVERYTHING) == {SPACE: 3, OTHER: 3}

    dropped = await store.drop_vectors([OTHER, "never there"], 0, seen_from())

    assert (dropped.vectors, dropped.after) == (4, None)
    assert await store.spaces(EVERYTHING) == {SPACE: 1, OTHER: 3}
    assert await store.coverage(SPACE, EVERYTHING) == (1, 4)
    assert await store.coverage(OTHER, EVERYTHING) == (4, 4)
    assert await store.coverage(SPACE, seen_from("other", None)) == (1, 1)
    assert (await store.drop_vectors([OTHER], 0, seen_from())).vectors == 0
    assert await store.faults() == []


async def test_rows_out_of_reach_change_nothing_of_what_is_lent(store: Store) -> None:
    mine = [memory(name, "red") for name in "ab"]
    await filled(store, [*[memory(f"{n}", "red", org="other") for n in range(3)], *mine, memory("hidden", "red", scope="project:beta")])

    loan = await lent(store, 9, seen_from())

    assert names(loan) == ["fact:a#0", "fact:b#0"]
    assert (loan.after, loan.elsewhere) == (None, 0)
