"""Ceilings: the most work a stage may do, and the names of the limits that cut it short."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf


class Limit(StrEnum):
    """Which limit cut a stage's work."""

    ITEMS = "items"
    SECONDS = "seconds"
    TOKENS = "tokens"
    ROUNDS = "rounds"
    POSTINGS = "postings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The most a stage may do: items looked at, seconds spent, tokens emitted, rounds gone. 0 does no work."""

    items: int
    seconds: float = inf
    tokens: int | None = None
    rounds: int = 1

    def having(self, *, items: int | None = None, seconds: float | None = None) -> Ceiling:
        """The same with other items or seconds."""
        return Ceiling(
            items=self.items if items is None else items,
            seconds=self.seconds if seconds is None else seconds,
            tokens=self.tokens,
            rounds=self.rounds,
        )

    def lowered_to(self, other: Ceiling) -> Ceiling:
        """The lower of two ceilings, limit by limit; `tokens=None` means no limit of that kind."""
        tokens = [each for each in (self.tokens, other.tokens) if each is not None]
        return Ceiling(
            items=min(self.items, other.items),
            seconds=min(self.seconds, other.seconds),
            tokens=min(tokens) if tokens else None,
            rounds=min(self.rounds, other.rounds),
        )
