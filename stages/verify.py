"""Freshness: look at the store and the sources again, best first, until the page is full or the work runs out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio

from remit.stages.access import Access, Approval, Label
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Fresh, Memory, MemoryId, Outline, PassageId, Ranked, Reused, Verdict
from remit.stages.ports import Checker, Reader
from remit.stages.report import Degradation, Reason, Staged
from remit.stages.request import Source
from remit.stages.shares import Page

REASONS = {
    Verdict.CHANGED: Reason.CHANGED,
    Verdict.MISSING: Reason.MISSING,
    Verdict.INACCESSIBLE: Reason.INACCESSIBLE,
    Verdict.UNVERIFIED: Reason.UNVERIFIED,
}

MARKS = {Verdict.UNWATCHED: Degradation.UNWATCHED, Verdict.UNVERIFIED: Degradation.UNVERIFIED}

AT_ONCE = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Staged[Fresh]):
    """What verify kept, with what the next round and `why` need.

    `page` is the page as it stands now, `looked_at` how many memories were looked at (never above `ceiling.items`), `lost` every
    memory that was not kept, by its best passage, in order.
    """

    page: Page
    looked_at: int
    lost: tuple[tuple[PassageId, Reason], ...] = ()


async def verify(
    ranked: Sequence[Ranked],
    *,
    access: Access,
    reader: Reader,
    checker: Checker,
    page: Page,
    batch: int,
    clock: Callable[[], datetime],
    ceiling: Ceiling,
    keep_unverified: bool = False,
) -> Verified:
    """Keeps what still stands in the store and at its source, best first, as far as `page` has places.

    At most `batch` memories are looked at side by side, and no more than there are open places plus as many as turned out stale so
    far. Of a doc its best passage is looked at, and the doc goes as a whole when that is stale: version and source are the doc's.
    A checker that raises or says nothing of a memory leaves it unverified, which is not fresh: it goes, or with `keep_unverified`
    stays, marked and reported. What nobody can look at is kept and reported as `unwatched`. When `ceiling.seconds` ends, what was
    kept stays. Raises what `reader` raises.
    """
    usable = {Verdict.FRESH, Verdict.UNWATCHED} | ({Verdict.UNVERIFIED} if keep_unverified else set())
    walk = _Walk(ranked, access, page, clock, usable)
    with anyio.move_on_after(ceiling.seconds) as scope:
        while anyio.current_time() < scope.deadline:
            walk.settle()
            walk.asked = walk.next_few(min(batch, ceiling.items - walk.looked_at))
            if not walk.asked:
                break
            walk.looked_at += len(walk.asked)
            standing = await walk.read_again(reader)
            walk.judge(await _verdicts(standing, access, checker), standing)
            walk.asked = ()
    return walk.told(ceiling)


def fault_of(outline: Outline, memory: Memory | None, access: Access) -> Reason | None:
    """Why a memory, read again, is not what was ranked; None when it still stands. What access does not reach is simply gone."""
    if memory is None or not access.reaches(memory.label.shelf):
        return Reason.GONE
    if memory.version != outline.version:
        return Reason.REVISED
    return lapse_of(memory.label, access)


def lapse_of(label: Label, access: Access) -> Reason | None:
    """Why a memory within reach may not be used; None when it stands."""
    if label.approval is not Approval.APPROVED:
        return Reason.WITHDRAWN
    if label.superseded:
        return Reason.SUPERSEDED
    return None if access.stands(label) else Reason.EXPIRED


async def _verdicts(standing: Mapping[int, Memory], access: Access, checker: Checker) -> Mapping[MemoryId, object]:
    """What the checker says of each; nothing at all when it fails, for one that is down must not make evidence look fresh."""
    if not standing:
        return {}
    try:
        answers = await checker.still_true(tuple(standing.values()), access)
        return {memory.id: answers.get(memory.id) for memory in standing.values()}
    except Exception:  # noqa: BLE001 - a checker is a host's code: whatever it raises, its memories are unverified and the recall goes on
        return {}


def _seen(answer: object) -> tuple[Verdict, timedelta]:
    """What a checker answered and how long ago that was seen; anything that is no answer is unverified."""
    if isinstance(answer, Reused):
        return answer.verdict, answer.age
    return (answer if isinstance(answer, Verdict) else Verdict.UNVERIFIED), AT_ONCE


@dataclass(slots=True)
class _Walk:
    """The way down the ranked list: what is settled, what was looked at, and which places are open."""

    ranked: Sequence[Ranked]
    access: Access
    page: Page
    clock: Callable[[], datetime]
    usable: Set[Verdict]
    looked_at: int = 0
    asked: Sequence[int] = ()
    at: int = 0
    known: dict[int, Fresh | Reason] = field(default_factory=dict)
    closed: dict[Source, Reason | None] = field(default_factory=dict)
    stale: Counter[Source] = field(default_factory=Counter)
    kept: list[Fresh] = field(default_factory=list)
    lost: list[tuple[PassageId, Reason]] = field(default_factory=list)

    def settle(self) -> None:
        """Decides in order, as far as each memory is known or has no place; a better one always has its turn first."""
        while self.at < len(self.ranked) and not self.page.full:
            if self.at not in self.known and self._closed_to(self.at) is None:
                return
            self._decide(self.at, Reason.OVER_CEILING)
            self.at += 1

    def next_few(self, most: int) -> list[int]:
        """The next memories to look at, as if all of them were fresh, and a few more when many were stale."""
        few: list[int] = []
        hoped = self.page.wider_by(self.stale)
        for place in range(self.at, len(self.ranked)) if not self.page.full else ():
            if len(few) >= most or not hoped.places:
                break
            source = self.ranked[place].outline.memory.source
            if hoped.closed_to(source) is None and not isinstance(self.known.get(place), Reason):
                hoped = hoped.with_one(source)
                few += [] if place in self.known else [place]
        return few

    async def read_again(self, reader: Reader) -> dict[int, Memory]:
        """Those of the batch that still stand in the store, by place; the others are known to be stale."""
        found = await reader.read([self.ranked[place].outline.passage for place in self.asked], self.access)
        standing: dict[int, Memory] = {}
        for place in self.asked:
            outline = self.ranked[place].outline
            memory = found.get(outline.passage)
            fault = fault_of(outline, memory, self.access)
            if memory is not None and fault is None:
                standing[place] = memory
            else:
                self._note(place, fault or Reason.GONE)
        return standing

    def judge(self, answers: Mapping[MemoryId, object], standing: Mapping[int, Memory]) -> None:
        now = self.clock() if standing else None
        for place, memory in standing.items():
            verdict, age = _seen(answers.get(memory.id))
            if verdict in self.usable:
                checked_at = now - age if now is not None and verdict is Verdict.FRESH else None
                self._note(place, Fresh(ranked=self.ranked[place], memory=memory, checked_at=checked_at, verdict=verdict))
            else:
                self._note(place, REASONS[verdict])

    def told(self, ceiling: Ceiling) -> Verified:
        self.settle()
        unfinished = set(self.asked) - self.known.keys()
        for place in range(self.at, len(self.ranked)):
            self._decide(place, Reason.UNFINISHED if place in unfinished else Reason.OVER_CEILING)
        rejected = Counter(reason for _, reason in self.lost)
        return Verified(
            received=len(self.ranked),
            kept=tuple(self.kept),
            rejected=dict(rejected),
            exhausted=self._exhausted(rejected, ceiling),
            degraded=tuple(degradation for verdict, degradation in MARKS.items() if any(fresh.verdict is verdict for fresh in self.kept)),
            page=self.page,
            looked_at=self.looked_at,
            lost=tuple(self.lost),
        )

    def _exhausted(self, rejected: Mapping[Reason, int], ceiling: Ceiling) -> Limit | None:
        if Reason.UNFINISHED in rejected:
            return Limit.SECONDS
        if Reason.OVER_CEILING in rejected:
            return Limit.ITEMS if self.looked_at >= ceiling.items else Limit.SECONDS
        return None

    def _note(self, place: int, found: Fresh | Reason) -> None:
        self.known[place] = found
        if isinstance(found, Reason):
            self.stale[self.ranked[place].outline.memory.source] += 1

    def _decide(self, place: int, unknown: Reason) -> None:
        passage = self.ranked[place].outline.passage
        found = self.known.get(place, unknown)
        if place not in self.known or isinstance(found, Fresh):
            found = self._closed_to(place) or found
        if isinstance(found, Fresh):
            self.kept.append(found)
            self.page = self.page.with_one(passage.memory.source)
            self.closed.clear()
        else:
            self.lost.append((passage, found))

    def _closed_to(self, place: int) -> Reason | None:
        """What the page says of this memory's source, asked once for each state of the page: most of a long list is only counted."""
        source = self.ranked[place].outline.memory.source
        if source not in self.closed:
            self.closed[source] = self.page.closed_to(source)
        return self.closed[source]
