"""Shares: how many places of the page each source may fill, and what is left of them while walking best first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import floor

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
    def places(self) -> int:
        """How many memories still fit, whatever their source."""
        return max(0, self.limit - sum(self.taken.values()))

    @property
    def full(self) -> bool:
        """No memory of any source still has a place."""
        return all(self.closed_to(source) is not None for source in self.caps)

    def closed_to(self, source: Source) -> Reason | None:
        """Why one more memory of this source has no place: its share is used up, or the limit is reached; None when it has one."""
        cap = self.caps.get(source, 0)
        if cap < self.limit and self.taken.get(source, 0) >= cap:
            return Reason.SHARE
        return None if self.places else Reason.LIMIT

    def with_one(self, source: Source) -> Page:
        """The page after a memory of this source took a place."""
        return Page(limit=self.limit, caps=self.caps, taken={**self.taken, source: self.taken.get(source, 0) + 1})

    def wider_by(self, more: Mapping[Source, int]) -> Page:
        """The page with that many more places for each source, and as many more in all."""
        caps = {source: cap + more.get(source, 0) for source, cap in self.caps.items()}
        return Page(limit=self.limit + sum(more.values()), caps=caps, taken=self.taken)
