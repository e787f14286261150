"""Cool-down: after a provider failed nobody calls it for a while, as long as it asked for or as its failures suggest."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

DIGITS = 12
"""Seconds of more digits than this are no time anybody waits for, and need not be read exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolRules:
    """Seconds: after one failure; the most that repeated failures double it to; the most that a provider may ask for."""

    first: float
    longest: float
    longest_stated: float


def stated_seconds(retry_after: str | None, now: datetime) -> float | None:
    """What a `Retry-After` asks for: seconds or an HTTP date, RFC 9110. None when there is none, or it lies in the past or says nothing."""
    text = (retry_after or "").strip()
    if re.fullmatch(r"[0-9]+", text):
        return float(text[:DIGITS])
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds()
    return seconds if seconds > 0 else None


def cool_seconds(failures: int, stated: float | None, rules: CoolRules) -> float:
    """How long to leave a provider alone after so many failures in a row (one or more), given what it asked for itself."""
    own = rules.longest
    if failures <= 64:  # beyond that doubling has long met its most
        own = min(rules.longest, rules.first * 2.0 ** (failures - 1))
    return own if stated is None else max(own, min(stated, rules.longest_stated))


class CoolDown:
    """The state one provider is in for everybody. `clock` is monotonic seconds."""

    def __init__(self, rules: CoolRules, clock: Callable[[], float]) -> None:
        self._rules, self._clock = rules, clock
        self._failures = 0
        self._until = 0.0

    def left(self) -> float:
        """Seconds until it may be called again; 0 when it may be now."""
        return max(0.0, self._until - self._clock()) if self._until else 0.0

    def failed(self, stated: float | None = None) -> None:
        self._failures += 1
        self._until = max(self._until, self._clock() + cool_seconds(self._failures, stated, self._rules))

    def succeeded(self) -> None:
        """Failures are no longer in a row. A cool-down that another call brought about stays: this call's answer may have been luck."""
        self._failures = 0
