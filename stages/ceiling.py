"""Ceilings: the most work a stage may do, and the names of the limits that cut it short."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import NamedTuple


class Limit(StrEnum):
    """Which limit cut a stage's work."""

    ITEMS = "items"
    SECONDS = "seconds"
    TOKENS = "tokens"
    ROUNDS = "rounds"
    POSTINGS = "postings"


class Ceiling(NamedTuple):
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
