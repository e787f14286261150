"""Reuse: what a look saw may count again for a stated short time, never for longer because it was read, and not after a change was told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from remit.pipeline.recent import Recent
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, Origin, Reused, Verdict


class Start(NamedTuple):
    """When a look began, on the clock of `Reuse`, and how many changes had been told by then."""

    at: float
    changes: int


class _Key(NamedTuple):
    """Who saw what: another access, another version or another statement of the origin is another look."""

    who: str
    org: str
    memory: MemoryId
    version: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class _Seen:
    verdict: Verdict
    at: float


class Reuse:
    """Remembers at most `most` verdicts, those not used for the longest time going first.

    A fresh verdict counts for `seconds` from when its look began, one that denies (changed, missing, inaccessible) for `deny_seconds`;
    what could not be verified is looked at again. `clock` gives seconds that never run backwards. 0 seconds remember nothing.
    """

    def __init__(self, *, seconds: float, deny_seconds: float, most: int, clock: Callable[[], float]) -> None:
        denials = dict.fromkeys((Verdict.CHANGED, Verdict.MISSING, Verdict.INACCESSIBLE), deny_seconds)
        self._lasts = {verdict: lasts for verdict, lasts in ({Verdict.FRESH: seconds} | denials).items() if lasts > 0}
        self._clock = clock
        self._changes = 0
        self._seen: Recent[_Key, _Seen] = Recent(most)

    def who(self, access: Access) -> str:
        """What tells this access from every other one, its time aside; empty when nothing is remembered anyway."""
        if not self._lasts:
            return ""
        held = (access.granted, access.sources, access.scopes, access.fact_scopes)
        stated = [access.actor, access.org, *(None if each is None else sorted(each) for each in held)]
        return hashlib.sha256(repr(stated).encode("utf-8", "surrogatepass")).hexdigest()

    def start(self) -> Start:
        return Start(self._clock(), self._changes)

    def verdict(self, who: str, memory: Memory) -> Reused | None:
        """What an earlier look of the same access at the same version saw, if it still counts."""
        if not len(self._seen) or memory.origin is None:
            return None
        key = _key(who, memory, memory.origin)
        seen = self._seen.get(key)
        if seen is None:
            return None
        age = self._clock() - seen.at
        if not 0 <= age < self._lasts[seen.verdict]:
            self._seen.drop(key)
            return None
        return Reused(seen.verdict, timedelta(seconds=age))

    def keep(self, who: str, memory: Memory, verdict: Verdict, start: Start) -> None:
        """Remembers what a look saw. Not when a change was told while it ran: nobody knows what it saw of that."""
        if verdict not in self._lasts or memory.origin is None or start.changes != self._changes:
            return
        self._seen.keep(_key(who, memory, memory.origin), _Seen(verdict, start.at))

    def forget(self, *uris: str) -> None:
        """What was seen at these origins counts no more. Whatever their case: one forgotten too many only costs a look."""
        self._changes += 1
        told = {uri.casefold() for uri in uris}
        self._seen.drop_all(lambda key: key.origin.uri.casefold() in told)

    def forget_all(self) -> None:
        self._changes += 1
        self._seen.drop_all(lambda _: True)


def _key(who: str, memory: Memory, origin: Origin) -> _Key:
    return _Key(who, memory.label.shelf.org, memory.id, memory.version, origin)
