"""Freshness: look at the store and the sources again, best first, until the page is full or the work runs out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio

from remit.stages.access import Access, Approval, Label
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Fresh, Memory, Outline, PassageId, Ranked, Reused, Verdict
from remit.stages.ports import Checker, Reader
from remit.stages.report import Degradation, Reason, Staged
from remit.stages.request import Source
from remit.stages.shares import Filling, Page

REASONS = {
    Verdict.CHANGED: Reason.CHANGED,
    Verdict.MISSING: Reason.MISSING,
    Verdict.INACCESSIBLE: Reason.INACCESSIBLE,
    Verdict.UNVERIFIED: Reason.UNVERIFIED,
}

MARKS = {Verdict.UNWATCHED: Degradation.UNWATCHED, Verdict.UNVERIFIED: Degradation.UNVERIFIED}

AT_ONCE = timedelta()

USABLE = frozenset({Verdict.FRESH, Verdict.UNWATCHED})


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
    walk = _Walk(ranked, access, Filling(page), clock, USABLE | {Verdict.UNVERIFIED} if keep_unverified else USABLE)
    if ceiling.seconds > 0:
        with anyio.move_on_after(ceiling.seconds) as scope:
            while few := walk.next_few(min(batch, ceiling.items - walk.looked_at)):
                if walk.looked_at and anyio.current_time() >= scope.deadline:
                    break
                walk.begin(few)
                standing = await walk.read_again(reader)
                walk.judge(await _verdicts(standing, access, checker), standing)
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
    if access.stands(label):
        return None
    if label.approval is not Approval.APPROVED:
        return Reason.WITHDRAWN
    return Reason.SUPERSEDED if label.superseded else Reason.EXPIRED


async def _verdicts(standing: Mapping[int, Memory], access: Access, checker: Checker) -> Sequence[object]:
    """What the checker says of each; nothing at all when it fails, for one that is down must not make evidence look fresh."""
    if not standing:
        return ()
    memories = tuple(standing.values())
    try:
        answers = await checker.still_true(memories, access)
        return [answers.get(memory.passage.memory) for memory in memories]
    except Exception:  # noqa: BLE001 - a checker is a host's code: whatever it raises, its memories are unverified and the recall goes on
        return [None] * len(memories)


def _seen(answer: object) -> tuple[Verdict, timedelta]:
    """What a checker answered and how long ago that was seen; anything that is no answer is unverified."""
    if isinstance(answer, Reused):
        return answer.verdict, answer.age
    return (answer if isinstance(answer, Verdict) else Verdict.UNVERIFIED), AT_ONCE


@dataclass(slots=True)
class _Walk:
    """The way down the ranked list: what is settled, what was looked at, and which places are open.

    `asked` is what is being looked at and not yet judged, `known` what was found of what was looked at and is not yet settled.
    """

    ranked: Sequence[Ranked]
    access: Access
    page: Filling
    clock: Callable[[], datetime]
    usable: Set[Verdict]
    looked_at: int = 0
    asked: Sequence[int] = ()
    at: int = 0
    known: dict[int, Fresh | Reason] = field(default_factory=dict)
    stale: dict[Source, int] = field(default_factory=dict)
    kept: list[Fresh] = field(default_factory=list)
    lost: list[tuple[PassageId, Reason]] = field(default_factory=list)
    rejected: dict[Reason, int] = field(default_factory=dict)

    def next_few(self, most: int) -> Sequence[int]:
        """The next memories to look at, as if all of them were fresh, and a few more when many were stale."""
        self._settle()
        if self.page.full or self.at == len(self.ranked):
            return ()
        few: list[int] = []
        hoped = Filling(self.page.page, self.stale)
        for place in range(self.at, len(self.ranked)):
            if len(few) >= most or not hoped.places:
                break
            source = self.ranked[place].candidate.outline.passage.memory.source
            found = self.known.get(place)
            if not isinstance(found, Reason) and hoped.closed_to(source) is None:
                hoped.take(source)
                if found is None:
                    few.append(place)
        return few

    def begin(self, few: Sequence[int]) -> None:
        self.asked = few
        self.looked_at += len(few)

    async def read_again(self, reader: Reader) -> dict[int, Memory]:
        """Those of the batch that still stand in the store, by place; the others are known to be stale."""
        outlines = [self.ranked[place].candidate.outline for place in self.asked]
        found = await reader.read([outline.passage for outline in outlines], self.access)
        standing: dict[int, Memory] = {}
        for place, outline in zip(self.asked, outlines, strict=True):
            memory = found.get(outline.passage)
            fault = fault_of(outline, memory, self.access)
            if memory is not None and fault is None:
                standing[place] = memory
            else:
                self._note_stale(place, fault or Reason.GONE)
        return standing

    def judge(self, answers: Sequence[object], standing: Mapping[int, Memory]) -> None:
        """Notes what was found of each of the batch, which is over then."""
        self.asked = ()
        if not standing:
            return
        now = self.clock()
        ranked, known, usable, fresh = self.ranked, self.known, self.usable, Verdict.FRESH
        for (place, memory), answer in zip(standing.items(), answers, strict=True):
            verdict, age = _seen(answer)
            if verdict in usable:
                seen_at = (now - age if age else now) if verdict is fresh else None
                known[place] = Fresh(ranked[place], memory, seen_at, verdict)
            else:
                self._note_stale(place, REASONS[verdict])

    def told(self, ceiling: Ceiling) -> Verified:
        self._settle()
        unfinished = set(self.asked) - self.known.keys()
        for place in range(self.at, len(self.ranked)):
            self._decided(place, Reason.UNFINISHED if place in unfinished else Reason.OVER_CEILING)
        verdicts = {fresh.verdict for fresh in self.kept}
        return Verified(
            received=len(self.ranked),
            kept=tuple(self.kept),
            rejected=self.rejected,
            exhausted=self._exhausted(ceiling),
            degraded=tuple(degradation for verdict, degradation in MARKS.items() if verdict in verdicts),
            page=self.page.page,
            looked_at=self.looked_at,
            lost=tuple(self.lost),
        )

    def _exhausted(self, ceiling: Ceiling) -> Limit | None:
        if Reason.UNFINISHED in self.rejected:
            return Limit.SECONDS
        if Reason.OVER_CEILING in self.rejected:
            return Limit.ITEMS if self.looked_at >= ceiling.items else Limit.SECONDS
        return None

    def _note_stale(self, place: int, reason: Reason) -> None:
        source = self.ranked[place].candidate.outline.passage.memory.source
        self.known[place] = reason
        self.stale[source] = self.stale.get(source, 0) + 1

    def _settle(self) -> None:
        """Decides in order, as far as each memory is known or has no place; a better one always has its turn first."""
        while self.at < len(self.ranked) and not self.page.full and self._decided(self.at, None):
            self.at += 1

    def _decided(self, place: int, unknown: Reason | None) -> bool:
        """Decides on one memory, if it is known, has no place, or `unknown` says what becomes of what is not known."""
        passage = self.ranked[place].candidate.outline.passage
        found = self.known.get(place)
        if not isinstance(found, Reason):
            found = self.page.closed_to(passage.memory.source) or found or unknown
        if found is None:
            return False
        if isinstance(found, Fresh):
            self.kept.append(found)
            self.page.take(passage.memory.source)
        else:
            self.lost.append((passage, found))
            self.rejected[found] = self.rejected.get(found, 0) + 1
        return True
