"""Verify: fresh evidence in rank order, bounded looking, and a reason for everything else."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.stages.access import Access, Approval, Label, Shelf
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Candidate, Lane, Memory, MemoryId, Outline, PassageId, Ranked, Reused, Route, Verdict
from remit.stages.report import Degradation, Reason
from remit.stages.request import Source
from remit.stages.shares import Filling, Page
from remit.stages.verify import Verified, verify

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ACCESS = Access(actor="ada", org="acme", granted=None, as_of=NOW)
SHARES = {Source.FACT: 0.25, Source.SESSION: 0.5, Source.DOC: 1.0}


def ranked(*sources: Source) -> list[Ranked]:
    return [ranked_as(MemoryId(source, f"{place:04}")) for place, source in enumerate(sources)]


def ranked_as(memory: MemoryId) -> Ranked:
    outline = Outline(key=1, passage=PassageId(memory, 0), scope="global", version=1, aged_from=NOW)
    candidate = Candidate(outline=outline, ranks={Lane.LEXICAL: 0}, routes=(Route.LEXICAL,))
    return Ranked(candidate=candidate, ranks=candidate.ranks, fused=1.0, boost=1.0, scope=1.0, score=1.0)


def memory_of(passage: PassageId, **changes: Any) -> Memory:
    label = Label(
        shelf=Shelf(org=changes.pop("org", "acme"), source=passage.memory.source),
        approval=changes.pop("approval", Approval.APPROVED),
        superseded=changes.pop("superseded", False),
        valid_from=changes.pop("valid_from", None),
        valid_until=changes.pop("valid_until", None),
        expires_at=changes.pop("expires_at", None),
    )
    return Memory(passage=passage, version=changes.pop("version", 1), label=label, title="", text="", created_at=NOW)


class Shop:
    """A store and its sources: some memories are gone, some are otherwise than they were ranked, some are stale at their source."""

    def __init__(
        self,
        *,
        gone: Collection[MemoryId] = (),
        changes: Mapping[MemoryId, Mapping[str, Any]] | None = None,
        verdicts: Mapping[MemoryId, Any] | None = None,
    ) -> None:
        self.gone, self.changes, self.verdicts = gone, changes or {}, verdicts or {}
        self.batches: list[int] = []
        self.checked: list[MemoryId] = []

    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        self.batches.append(len(passages))
        return {each: memory_of(each, **self.changes.get(each.memory, {})) for each in passages if each.memory not in self.gone}

    async def still_true(self, memories: Sequence[Memory], access: Access) -> Mapping[MemoryId, Verdict]:
        self.checked += [memory.id for memory in memories]
        return {memory.id: self.verdicts.get(memory.id, Verdict.FRESH) for memory in memories}


async def look(
    those: Sequence[Ranked],
    shop: Any,
    *,
    checker: Any = None,
    limit: int = 20,
    sources: Sequence[Source] = tuple(Source),
    page: Page | None = None,
    batch: int = 32,
    ceiling: Ceiling | None = None,
    keep_unverified: bool = False,
) -> Verified:
    return await verify(
        those,
        access=ACCESS,
        reader=shop,
        checker=checker or shop,
        page=page or Page.of(limit, sources, SHARES),
        batch=batch,
        clock=lambda: NOW,
        ceiling=ceiling or Ceiling(items=500, seconds=60),
        keep_unverified=keep_unverified,
    )


def ids(verified: Verified) -> list[str]:
    return [fresh.memory.id.id for fresh in verified.kept]


DOCS = (Source.DOC,)


async def test_what_is_fresh_is_kept_in_order_until_the_page_is_full() -> None:
    shop = Shop()

    verified = await look(ranked(*DOCS * 9), shop, limit=3)

    assert ids(verified) == ["0000", "0001", "0002"]
    assert [fresh.checked_at for fresh in verified.kept] == [NOW] * 3
    assert (verified.rejected, verified.exhausted) == ({Reason.LIMIT: 6}, None)
    assert (verified.looked_at, len(shop.checked)) == (3, 3)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"version": 2}, Reason.REVISED),
        ({"approval": Approval.PROPOSED}, Reason.WITHDRAWN),
        ({"approval": Approval.REJECTED}, Reason.WITHDRAWN),
        ({"superseded": True}, Reason.SUPERSEDED),
        ({"expires_at": NOW}, Reason.EXPIRED),
        ({"valid_until": NOW}, Reason.EXPIRED),
        ({"valid_from": NOW + timedelta(seconds=1)}, Reason.EXPIRED),
        ({"org": "globex"}, Reason.GONE),
    ],
)
async def test_what_no_longer_stands_in_the_store_is_named_and_its_source_is_not_asked(changes: Mapping[str, Any], reason: Reason) -> None:
    those = ranked(*DOCS * 2)
    shop = Shop(changes={those[0].outline.memory: changes})

    verified = await look(those, shop)

    assert ids(verified) == ["0001"]
    assert verified.rejected == {reason: 1}
    assert shop.checked == [those[1].outline.memory]


async def test_what_is_gone_from_the_store_is_gone() -> None:
    those = ranked(*DOCS * 2)

    verified = await look(those, Shop(gone={those[0].outline.memory}))

    assert verified.lost == ((those[0].outline.passage, Reason.GONE),)


@pytest.mark.parametrize(
    "verdict, reason",
    [
        (Verdict.CHANGED, Reason.CHANGED),
        (Verdict.MISSING, Reason.MISSING),
        (Verdict.INACCESSIBLE, Reason.INACCESSIBLE),
        (Verdict.UNVERIFIED, Reason.UNVERIFIED),
        (None, Reason.UNVERIFIED),
        ("fresh, trust me", Reason.UNVERIFIED),
        (1, Reason.UNVERIFIED),
        ([], Reason.UNVERIFIED),
    ],
)
async def test_what_the_checker_does_not_vouch_for_is_not_fresh(verdict: Any, reason: Reason) -> None:
    those = ranked(*DOCS * 2)

    verified = await look(those, Shop(verdicts={those[0].outline.memory: verdict}))

    assert ids(verified) == ["0001"]
    assert verified.rejected == {reason: 1}


class Answering:
    """A checker that gives one and the same answer, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def still_true(self, memories: Sequence[Memory], access: Access) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


STRANGER = MemoryId(Source.DOC, "stranger")


@pytest.mark.parametrize("answer", [ConnectionError("down"), {}, None, "yes", 7, [Verdict.FRESH], {STRANGER: Verdict.FRESH}])
async def test_a_checker_that_fails_or_answers_for_others_leaves_its_memories_unverified(answer: Any) -> None:
    verified = await look(ranked(*DOCS * 3), Shop(), checker=Answering(answer))

    assert (verified.kept, verified.rejected) == ((), {Reason.UNVERIFIED: 3})
    assert verified.exhausted is None


async def test_what_nobody_can_look_at_is_kept_and_said() -> None:
    those = ranked(*DOCS * 2)

    verified = await look(those, Shop(verdicts={those[0].outline.memory: Verdict.UNWATCHED}))

    assert [fresh.checked_at for fresh in verified.kept] == [None, NOW]
    assert verified.degraded == (Degradation.UNWATCHED,)


@pytest.mark.parametrize("answer", [Verdict.UNVERIFIED, Reused(Verdict.UNVERIFIED, timedelta()), None, "fresh, trust me"])
async def test_what_could_not_be_verified_is_kept_and_said_where_that_is_wanted(answer: Any) -> None:
    those = ranked(*DOCS * 3)
    first, second, third = (each.outline.memory for each in those)
    shop = Shop(verdicts={first: answer, second: Verdict.UNWATCHED})

    verified = await look(those, shop, keep_unverified=True)

    assert [(fresh.memory.id, fresh.verdict, fresh.checked_at) for fresh in verified.kept] == [
        (first, Verdict.UNVERIFIED, None),
        (second, Verdict.UNWATCHED, None),
        (third, Verdict.FRESH, NOW),
    ]
    assert (verified.rejected, set(verified.degraded)) == ({}, {Degradation.UNVERIFIED, Degradation.UNWATCHED})


@pytest.mark.parametrize("verdict", [Verdict.CHANGED, Verdict.MISSING, Verdict.INACCESSIBLE])
async def test_what_is_known_to_be_stale_or_denied_goes_whatever_is_wanted(verdict: Verdict) -> None:
    verified = await look(ranked(*DOCS), Shop(verdicts={MemoryId(Source.DOC, "0000"): verdict}), keep_unverified=True)

    assert (verified.kept, verified.degraded) == ((), ())


async def test_a_checker_that_fails_costs_nothing_where_unverified_evidence_is_wanted() -> None:
    verified = await look(ranked(*DOCS * 3), Shop(), checker=Answering(ConnectionError("down")), keep_unverified=True)

    assert (ids(verified), verified.degraded) == (["0000", "0001", "0002"], (Degradation.UNVERIFIED,))


async def test_what_was_seen_earlier_is_as_old_as_it_is() -> None:
    seen = {
        MemoryId(Source.DOC, "0000"): Reused(Verdict.FRESH, timedelta(seconds=9)),
        MemoryId(Source.DOC, "0001"): Reused(Verdict.MISSING, timedelta()),
    }

    verified = await look(ranked(*DOCS * 3), Shop(verdicts=seen))

    assert [fresh.checked_at for fresh in verified.kept] == [NOW - timedelta(seconds=9), NOW]
    assert verified.rejected == {Reason.MISSING: 1}


async def test_sixty_one_expired_above_two_live_still_give_two() -> None:
    those = ranked(*DOCS * 63)
    shop = Shop(changes={each.outline.memory: {"expires_at": NOW} for each in those[:61]})

    verified = await look(those, shop, limit=2)

    assert ids(verified) == ["0061", "0062"]
    assert verified.rejected == {Reason.EXPIRED: 61}


@pytest.mark.parametrize("items, kept, exhausted", [(500, 0, Limit.ITEMS), (504, 4, Limit.ITEMS), (505, 5, None)])
async def test_fresh_evidence_behind_a_stale_front_is_reported_as_exhausted(items: int, kept: int, exhausted: Limit | None) -> None:
    those = ranked(*DOCS * 505)
    shop = Shop(verdicts={each.outline.memory: Verdict.CHANGED for each in those[:500]})

    verified = await look(those, shop, limit=5, ceiling=Ceiling(items=items, seconds=60))

    assert (len(verified.kept), verified.exhausted) == (kept, exhausted)
    assert verified.rejected[Reason.CHANGED] == 500
    assert verified.looked_at == items


async def test_a_second_round_goes_on_with_the_places_that_are_left() -> None:
    first = await look(ranked(*DOCS * 3), Shop(), limit=4)

    second = await look([ranked_as(MemoryId(Source.DOC, f"b{each}")) for each in range(3)], Shop(), page=first.page)

    assert (ids(second), second.page.full) == (["b0"], True)


async def test_a_source_whose_share_is_full_is_not_looked_at() -> None:
    those = ranked(*[Source.FACT] * 6, *DOCS * 4)
    shop = Shop()

    verified = await look(those, shop, limit=4)

    assert ids(verified) == ["0000", "0006", "0007", "0008"]
    assert verified.rejected == {Reason.SHARE: 5, Reason.LIMIT: 1}
    assert verified.looked_at == 4


async def test_a_better_memory_has_its_turn_before_a_worse_one_that_was_looked_at_earlier() -> None:
    those = ranked(Source.FACT, Source.FACT, *DOCS * 4)
    shop = Shop(verdicts={those[0].outline.memory: Verdict.CHANGED})

    verified = await look(those, shop, limit=4)

    assert ids(verified) == ["0001", "0002", "0003", "0004"]


async def test_no_batch_is_larger_than_asked_for_or_than_the_open_places_and_what_was_stale() -> None:
    those = ranked(*DOCS * 200)
    shop = Shop(verdicts={each.outline.memory: Verdict.CHANGED for each in those[:100]})

    await look(those, shop, limit=5, batch=32)

    assert shop.batches[:4] == [5, 10, 20, 32]
    assert max(shop.batches) == 32


async def test_once_the_page_is_full_nothing_more_is_looked_at() -> None:
    those = ranked(*DOCS * 200)
    shop = Shop(verdicts={each.outline.memory: Verdict.CHANGED for each in those[:5] + those[10:14]})

    verified = await look(those, shop, limit=5)

    assert (ids(verified), shop.batches) == ([f"{place:04}" for place in range(5, 10)], [5, 10])
    assert verified.rejected == {Reason.CHANGED: 9, Reason.LIMIT: 186}


@pytest.mark.parametrize("ceiling", [Ceiling(items=0, seconds=60), Ceiling(items=500, seconds=0)])
async def test_a_ceiling_of_zero_does_no_work(ceiling: Ceiling) -> None:
    shop = Shop()

    verified = await look(ranked(*DOCS * 3), shop, ceiling=ceiling)

    assert (shop.batches, shop.checked, verified.looked_at) == ([], [], 0)
    assert verified.rejected == {Reason.OVER_CEILING: 3}
    assert verified.exhausted is (Limit.SECONDS if ceiling.items else Limit.ITEMS)


@pytest.mark.parametrize("items, exhausted, rejected", [(3, None, {}), (2, Limit.ITEMS, {Reason.OVER_CEILING: 1})])
async def test_a_ceiling_met_exactly_is_not_exhausted(items: int, exhausted: Limit | None, rejected: Mapping[Reason, int]) -> None:
    verified = await look(ranked(*DOCS * 3), Shop(), ceiling=Ceiling(items=items, seconds=60))

    assert (verified.exhausted, verified.rejected) == (exhausted, rejected)


async def test_a_ceiling_met_with_a_full_page_is_not_exhausted() -> None:
    verified = await look(ranked(*DOCS * 9), Shop(), limit=3, ceiling=Ceiling(items=3, seconds=60))

    assert (verified.exhausted, verified.rejected) == (None, {Reason.LIMIT: 6})


class Hanging:
    """A checker that answers its first calls and then never again; it notices when it is told to stop."""

    def __init__(self, answers: int) -> None:
        self.answers, self.running, self.started = answers, 0, anyio.Event()

    async def still_true(self, memories: Sequence[Memory], access: Access) -> Mapping[MemoryId, Verdict]:
        if self.answers:
            self.answers -= 1
            return {memory.id: Verdict.FRESH for memory in memories}
        self.running += 1
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.running -= 1
        return {}


async def test_when_the_seconds_end_what_was_kept_stays_and_the_rest_has_a_reason() -> None:
    checker = Hanging(answers=2)
    those = ranked(*DOCS * 9)

    verified = await look(those, Shop(gone={those[4].outline.memory}), checker=checker, batch=2, ceiling=Ceiling(items=500, seconds=0.05))

    assert ids(verified) == ["0000", "0001", "0002", "0003"]
    assert verified.rejected == {Reason.GONE: 1, Reason.UNFINISHED: 1, Reason.OVER_CEILING: 3}
    assert verified.exhausted is Limit.SECONDS
    assert checker.running == 0


async def test_cancelled_it_leaves_nothing_running_and_the_cancellation_arrives() -> None:
    checker, returned = Hanging(answers=0), False

    async def run() -> None:
        nonlocal returned
        await look(ranked(*DOCS * 9), Shop(), checker=checker, ceiling=Ceiling(items=500, seconds=math.inf))
        returned = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await checker.started.wait()
        tasks.cancel_scope.cancel()

    assert not returned
    assert checker.running == 0


class Broken(Shop):
    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        raise ConnectionError("the store is away")


async def test_a_store_that_cannot_be_read_is_not_an_empty_answer() -> None:
    with pytest.raises(ConnectionError):
        await look(ranked(*DOCS), Broken())


ROWS = st.lists(st.tuples(st.sampled_from(Source), st.sampled_from(["fresh", "changed", "gone", "unwatched", "expired"])), max_size=40)


def shop_of(those: Sequence[Ranked], states: Sequence[str]) -> Shop:
    by_state = {state: {each.outline.memory for each, is_so in zip(those, states, strict=True) if is_so == state} for state in set(states)}
    return Shop(
        gone=by_state.get("gone", set()),
        changes={memory: {"expires_at": NOW} for memory in by_state.get("expired", ())},
        verdicts=dict.fromkeys(by_state.get("changed", ()), Verdict.CHANGED)
        | dict.fromkeys(by_state.get("unwatched", ()), Verdict.UNWATCHED),
    )


def one_by_one(those: Sequence[Ranked], states: Sequence[str], page: Page) -> list[str]:
    """The plainest reading of the promise: walk down, keep what is fresh and has a place."""
    kept, filling = [], Filling(page)
    for each, state in zip(those, states, strict=True):
        if state in ("fresh", "unwatched") and filling.closed_to(each.outline.memory.source) is None:
            kept.append(each.outline.memory.id)
            filling.take(each.outline.memory.source)
    return kept


@given(rows=ROWS, limit=st.integers(1, 12), batch=st.integers(1, 8), items=st.integers(0, 45))
@settings(max_examples=300, deadline=None)
def test_it_balances_keeps_what_a_plain_walk_keeps_and_never_looks_at_more_than_allowed(
    rows: list[tuple[Source, str]], limit: int, batch: int, items: int
) -> None:
    those, states = ranked(*(source for source, _ in rows)), [state for _, state in rows]
    page = Page.of(limit, tuple(Source), SHARES)

    def once() -> tuple[Verified, Shop]:
        shop = shop_of(those, states)

        async def go() -> Verified:
            return await look(those, shop, page=page, batch=batch, ceiling=Ceiling(items=items, seconds=60))

        return anyio.run(go), shop

    verified, shop = once()

    assert verified.looked_at == sum(shop.batches) <= items
    assert len(verified.lost) == sum(verified.rejected.values())
    assert {each for each, _ in verified.lost}.isdisjoint(fresh.memory.passage for fresh in verified.kept)
    assert all(size <= batch for size in shop.batches)
    assert (verified.exhausted is Limit.ITEMS) == (Reason.OVER_CEILING in verified.rejected)
    if verified.exhausted is None:
        assert ids(verified) == one_by_one(those, states, page)
    assert once()[0] == verified
