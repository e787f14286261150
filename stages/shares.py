"""Shares: how many places of the page each source may fill, and what is left of them while walking best first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import floor, inf

from remit.stages.report import Reason
from remit.stages.request import Source


def share_of(source: Source, limit: int, sources: Collection[Source], shares: Mapping[Source, float]) -> int:
    """Places of `limit` that a source may fill: its share rounded down, and at least one.

    A recall of a single source has no share to keep, and a share of 1 is the whole limit. The share counts as it is written in
    decimal, so 0.29 of 100 is 29 although its nearest float is below that.
    """
    if len(set(sources)) <= 1:
        return limit
    return max(1, floor(limit * Decimal(str(shares[source]))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The places of an answer: `limit` in all, `caps` for each source asked, `taken` so far. A source not asked has none."""

    limit: int
    caps: Mapping[Source, int]
    taken: Mapping[Source, int] = field(default_factory=dict)

    @classmethod
    def of(cls, limit: int, sources: Collection[Source], shares: Mapping[Source, float]) -> Page:
        """An empty page for a recall of these sources."""
        return cls(limit=limit, caps={source: share_of(source, limit, sources, shares) for source in sources})

    @property
    def full(self) -> bool:
        """No memory of any source still has a place."""
        return Filling(self).full

    def closed_to(self, source: Source) -> Reason | None:
        """Why one more memory of this source has no place: its share is used up, or the limit is reached; None when it has one."""
        return Filling(self).closed_to(source)


class Filling:
    """A page while memories take their places, with `more` places for each source, and as many more in all.

    Counted in place, for every memory of a long list asks whether there is one left.
    """

    def __init__(self, page: Page, more: Mapping[Source, int] | None = None) -> None:
        more = more or {}
        limit, self._began, self._taken = page.limit + sum(more.values()), page, dict(page.taken)
        self.places = max(0, limit - sum(self._taken.values()))
        caps = {source: cap + more.get(source, 0) for source, cap in page.caps.items()}
        self._left = {source: cap - self._taken.get(source, 0) if cap < limit else inf for source, cap in caps.items()}
        self.full = self._is_full()

    @property
    def page(self) -> Page:
        """The page as it stands now, without the places that it was given in addition."""
        return Page(limit=self._began.limit, caps=self._began.caps, taken=dict(self._taken))

    def closed_to(self, source: Source) -> Reason | None:
        """As `Page.closed_to`."""
        if self._left.get(source, 0) <= 0:
            return Reason.SHARE
        return None if self.places else Reason.LIMIT

    def take(self, source: Source) -> None:
        """A memory of this source, to which it is not closed, takes a place."""
        self._taken[source] = self._taken.get(source, 0) + 1
        self._left[source] -= 1
        self.places -= 1
        if not self._left[source] or not self.places:
            self.full = self._is_full()

    def _is_full(self) -> bool:
        return not self.places or max(self._left.values(), default=0) <= 0
