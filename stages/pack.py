"""Packing: fill the caller's context with what is still missing in it, best first, and never above its room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import anyio

from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Card, Fresh, MemoryId
from remit.stages.excerpts import longest_excerpt
from remit.stages.measure import Measure
from remit.stages.ports import TokenCounter
from remit.stages.render import Format, Quote, passage, whole
from remit.stages.report import Reason, Staged
from remit.stages.similar import Heard, Said, Wants, opponents

OTHER_SIDES = 8
"""So many other sides of a dispute are named in a passage, best ranked first; a longer list would cost more than it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The packed context to be filled: `tokens` in all, of which instructions, tools and the reserve for the answer are taken."""

    tokens: int
    passages: int
    instructions: int = 0
    tools: int = 0
    reserve: int = 0
    format: str = Format.MARKDOWN

    @property
    def left(self) -> int:
        return max(0, self.tokens - self.instructions - self.tools - self.reserve)


class Dropped(NamedTuple):
    """A memory that is not in the context, and why; `repeats` names the packed one that says the same."""

    id: MemoryId
    reason: Reason
    repeats: MemoryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The packed context. `tokens` counts `text` as a whole and is never above `room`; `cut` are memories shown in part."""

    text: str
    tokens: int
    budget: int
    room: int
    passages: int
    dropped: tuple[Dropped, ...] = ()
    cut: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed(Staged[Card]):
    """What pack kept, with every card it received, in rank order, and the context. Of a card not looked at `tokens` is 0."""

    cards: tuple[Card, ...]
    context: Context


async def pack(
    fresh: Sequence[Fresh],
    *,
    questions: Sequence[str],
    words_of: Callable[[str], frozenset[str]],
    counter: TokenCounter,
    room: Room,
    repeats: float,
    excerpts: bool,
    ceiling: Ceiling,
) -> Packed:
    """Cards of `fresh`, in its order (best first), and a context of as many of them as there is room for.

    Next is always what covers most of the words of the questions that nothing covered yet, then what makes most new claims, then the
    best ranked. The other side of a dispute comes right after the first, and every passage names the numbers of those that dispute it,
    packed or not. A passage that says what a packed one says (`repeats` is the part of their words they share) is left out; one that
    does not fit is skipped; one larger than the whole room is, with `excerpts`, cut at a sentence to what the others left. When
    `ceiling.seconds` ends, only what was counted as a whole is packed.
    Raises what `counter` raises.
    """
    budget = room.tokens if ceiling.tokens is None else min(room.tokens, ceiling.tokens)
    disputes = opponents([each.memory for each in fresh])
    if budget < room.tokens:
        room = replace(room, tokens=budget)
    with anyio.move_on_after(ceiling.seconds) as scope:
        measure = Measure(counter, Format(room.format), scope.deadline)
        packing = _Packing(fresh[: ceiling.items], room, measure, words_of, repeats, disputes)
        if ceiling.seconds > 0 and packing.opened():
            await packing.fill(questions)
            if excerpts:
                await packing.fill_with_excerpts()
            await packing.settle()
            await packing.count_the_rest()
    return _told(fresh, packing, budget, disputes)


class _Packing:
    """A context being filled: what is in it, how much that is, and why the rest is not."""

    def __init__(
        self,
        fresh: Sequence[Fresh],
        room: Room,
        measure: Measure,
        words_of: Callable[[str], frozenset[str]],
        repeats: float,
        disputes: Mapping[int, frozenset[int]],
    ) -> None:
        sides = {place: tuple([str(other + 1) for other in sorted(others)[:OTHER_SIDES]]) for place, others in disputes.items()}
        self.quotes = [Quote.of(each, mark(place), sides.get(place, ())) for place, each in enumerate(fresh)]
        self.left = room.left
        self.reasons: dict[int, Reason] = {}
        self.twins: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.cuts: dict[int, tuple[str, int]] = {}
        self.settled: tuple[int, ...] = ()
        self.text, self.tokens = "", 0
        self._most, self._form = room.passages, Format(room.format)
        self._measure, self._words_of, self._disputes = measure, words_of, disputes
        self._rendered: dict[int, str] = {}
        self._heard = Heard(repeats)
        self._said: dict[int, Said] = {}
        self.chosen: list[int] = []
        self._join, self._used = 0, 0
        self._counted = True  # whether `_used` is the count of the whole as it stands, or about that

    def opened(self) -> bool:
        """Whether there is any room; without it nothing is counted."""
        if not self.left:
            self.reasons = dict.fromkeys(range(len(self.quotes)), Reason.NO_ROOM)
        return self.left > 0

    async def fill(self, questions: Sequence[str]) -> None:
        """Packs one after the other, until nothing is left to try."""
        self._join = await self._measure.of_frame()
        self._used = self._measure.frame
        wanted = [self._words_of(question) for question in questions]
        wants = Wants([quote.memory for quote in self.quotes], wanted, self._disputes)
        queue = list(range(len(self.quotes)))
        if wants.in_words:
            queue = [place for place in queue if await self._read(place, wants)]
        queue = wants.in_turn(queue)
        while queue and not self._measure.late():
            place = queue.pop(0)
            reason = await self._obstacle(place, wants)
            if reason is not None:
                self.reasons[place] = reason
            else:
                self._take(place, self.sizes[place])
                self._heard.add(place, self._said[place])
                wants.met_by(place)
                queue = wants.in_turn(queue)

    async def fill_with_excerpts(self) -> None:
        """Cuts what is larger than the whole room to what the others left of it, best first."""
        oversized = sorted(place for place, reason in self.reasons.items() if reason is Reason.OVERSIZED)
        for place in oversized:
            if len(self.chosen) >= self._most or self._measure.late():
                return
            if not self._counted:
                await self._recount()
            cut = await self._longest_cut(self.quotes[place])
            if cut is not None:
                del self.reasons[place]
                self.cuts[place] = cut
                self._take(place, cut[1])

    async def settle(self) -> None:
        """Counts the whole as it will be emitted, and takes the last one away until it fits."""
        if not self._counted:
            await self._recount()
        while self.chosen and self._used > self.left:
            place = self.chosen.pop()
            self.reasons[place] = Reason.OVERSIZED if self.cuts.pop(place, None) else Reason.NO_ROOM
            await self._recount()

    async def count_the_rest(self) -> None:
        for place in range(len(self.quotes)):
            if place not in self.sizes and not self._measure.late():
                await self._size(place)

    async def _read(self, place: int, wants: Wants) -> bool:
        """Learns the words of one that could fit at all."""
        await self._measure.give_way()
        if self._measure.late():
            return False
        if self._measure.frame + await self._size(place) > self.left:
            self.reasons[place] = Reason.OVERSIZED
            return False
        wants.words[place] = self._words_of(self.quotes[place].text)
        return True

    async def _obstacle(self, place: int, wants: Wants) -> Reason | None:
        """Why this one cannot be packed now; None when it can."""
        if len(self.chosen) >= self._most:
            return Reason.PASSAGES
        size = await self._size(place)
        if self._measure.frame + size > self.left:
            return Reason.OVERSIZED
        said = self._said[place] = Said(self.quotes[place].text)
        for each in self._heard.repeated_by(said):
            if not wants.disputed(place, each):
                self.twins[place] = each
                return Reason.REPEATS
        if not self._fits(size) and not self._counted:
            await self._recount()
        return None if self._fits(size) else Reason.NO_ROOM

    def _fits(self, size: int) -> bool:
        return self._used + size + (self._join if self.chosen else 0) <= self.left

    def _take(self, place: int, size: int) -> None:
        self._used += size + (self._join if self.chosen else 0)
        self.chosen.append(place)
        self._counted = False

    async def _size(self, place: int) -> int:
        """Its tokens; of one that is too long for the room whatever it says, the least it can have, for counting it could take seconds."""
        if place not in self.sizes:
            rendered = passage(self.quotes[place], self._form)
            least = self._measure.at_least(rendered)
            if self._measure.frame + least > self.left:
                self.sizes[place] = least
            else:
                self._rendered[place] = rendered
                self.sizes[place] = await self._measure.tokens(rendered)
        return self.sizes[place]

    async def _recount(self) -> None:
        shown = [self.cuts.get(place) or (self._rendered[place], self.sizes[place]) for place in sorted(self.chosen)]
        text = whole([rendered for rendered, _ in shown], self._form)
        tokens = await self._measure.together(text, shown) if shown else 0
        self._used, self._counted = (tokens if shown else self._measure.frame), True
        if tokens <= self.left:
            self.settled, self.text, self.tokens = tuple(self.chosen), text, tokens

    async def _longest_cut(self, quote: Quote) -> tuple[str, int] | None:
        """The most whole sentences that fit, rendered, and their size."""

        async def fitted(text: str) -> tuple[str, int] | None:
            rendered = passage(quote._replace(text=text), self._form)
            if not self._fits(self._measure.at_least(rendered)):
                return None
            size = await self._measure.tokens(rendered)
            return (rendered, size) if self._fits(size) else None

        return await longest_excerpt(quote.text, fitted)


def mark(place: int) -> str:
    """How a passage is cited, by its place in the ranking."""
    return f"[{place + 1}]"


def _told(fresh: Sequence[Fresh], packing: _Packing, budget: int, disputes: Mapping[int, frozenset[int]]) -> Packed:
    packed, looked_at = frozenset(packing.settled), len(packing.quotes)
    reasons = {place: _reason(place, packing) for place in range(len(fresh)) if place not in packed}
    cuts = {place: packing.cuts[place][1] for place in sorted(packed & packing.cuts.keys())}
    cards = [
        Card(
            rank=place + 1,
            fresh=each,
            cite=mark(place),
            tokens=cuts[place] if place in cuts else packing.sizes.get(place, 0),
            packed=place in packed,
            disputed_by=tuple([fresh[other].memory.id for other in sorted(disputes[place])]) if place in disputes else (),
        )
        for place, each in enumerate(fresh)
    ]
    return Packed(
        received=len(fresh),
        kept=tuple([card for card in cards if card.packed]),
        rejected=dict(Counter(reasons.values())) if reasons else {},
        exhausted=_exhausted(reasons, looked_at),
        cards=tuple(cards),
        context=Context(
            text=packing.text,
            tokens=packing.tokens,
            budget=budget,
            room=packing.left,
            passages=len(packed),
            dropped=tuple(
                [Dropped(id=fresh[place].memory.id, reason=why, repeats=_twin(fresh, packing, place)) for place, why in reasons.items()]
            ),
            cut=tuple([fresh[place].memory.id for place in cuts]),
        ),
    )


def _reason(place: int, packing: _Packing) -> Reason:
    """Why a memory is not in the context; one that was chosen and not counted as a part of the whole in time is unfinished."""
    if place in packing.reasons:
        return packing.reasons[place]
    return Reason.UNFINISHED if place in packing.chosen else Reason.OVER_CEILING


def _twin(fresh: Sequence[Fresh], packing: _Packing, place: int) -> MemoryId | None:
    return fresh[packing.twins[place]].memory.id if place in packing.twins else None


def _exhausted(reasons: dict[int, Reason], looked_at: int) -> Limit | None:
    if any(reason in (Reason.UNFINISHED, Reason.OVER_CEILING) for place, reason in reasons.items() if place < looked_at):
        return Limit.SECONDS
    if Reason.NO_ROOM in reasons.values() or Reason.OVERSIZED in reasons.values():
        return Limit.TOKENS
    return Limit.ITEMS if reasons and max(reasons) >= looked_at else None
