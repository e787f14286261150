"""The watch: asks the check for each origin, so many at a time, and lets no check spoil another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from remit.pipeline.freshness.reuse import Reuse
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, Reused, Verdict


class Check(Protocol):
    """Looks again at one memory's origin, and says whether this access may still read it there.

    True means fresh, False changed, and a verdict or its word that verdict. Raising `PermissionError` means inaccessible; whatever else
    it raises or answers is unverified. When verdicts are reused, it may not tell two accesses apart by their `as_of` alone.
    """

    async def __call__(self, memory: Memory, access: Access, /) -> Verdict | bool | str: ...


class Watch:
    """Keeps the port `Checker`: asks the check for each origin's URI scheme.

    At most `workers` checks run at a time, for all recalls together, and each for `check_seconds`, waiting for its turn not counted.
    A memory without an origin is fresh, for the store is its source; one whose scheme has no check is unwatched. A check that raises,
    is late or answers nonsense leaves its own memory unverified, and delays no other beyond its own seconds. With `reuse` a look of a
    short while ago may take the place of a new one.
    """

    def __init__(self, checks: Mapping[str, Check], *, workers: int, check_seconds: float, reuse: Reuse | None = None) -> None:
        self._checks = {scheme.lower(): check for scheme, check in checks.items()}
        self._workers = workers
        self._turns = anyio.CapacityLimiter(workers)
        self._seconds = check_seconds
        self._reuse = reuse or Reuse(seconds=0, deny_seconds=0, most=0, clock=time.monotonic)

    def forget(self, *uris: str) -> None:
        """What was or is being seen at these origins is not used again. To be called before a change there is acknowledged."""
        self._reuse.forget(*uris)

    def forget_all(self) -> None:
        """As `forget`, of every origin: for a change of rights of which nobody lists the origins."""
        self._reuse.forget_all()

    async def still_true(self, memories: Sequence[Memory], access: Access) -> Mapping[MemoryId, Verdict | Reused]:
        who = self._reuse.who(access)
        verdicts: dict[MemoryId, Verdict | Reused] = {}
        waiting: list[tuple[Check, Memory]] = []
        for memory in memories:
            if memory.origin is None:
                verdicts[memory.id] = Verdict.FRESH
            elif (check := self._checks.get(scheme_of(memory.origin.uri))) is None:
                verdicts[memory.id] = Verdict.UNWATCHED
            elif (earlier := self._reuse.verdict(who, memory)) is not None:
                verdicts[memory.id] = earlier
            else:
                waiting.append((check, memory))
        if waiting:
            queue = iter(waiting)
            async with anyio.create_task_group() as tasks:
                for _ in range(min(self._workers, len(waiting))):
                    tasks.start_soon(self._work, queue, access, who, verdicts)
        return verdicts

    async def _work(
        self, queue: Iterator[tuple[Check, Memory]], access: Access, who: str, verdicts: dict[MemoryId, Verdict | Reused]
    ) -> None:
        for check, memory in queue:
            async with self._turns:
                start = self._reuse.start()
                verdict = await self._look(check, memory, access)
                self._reuse.keep(who, memory, verdict, start)
                verdicts[memory.id] = verdict

    async def _look(self, check: Check, memory: Memory, access: Access) -> Verdict:
        verdict = Verdict.UNVERIFIED
        with anyio.move_on_after(self._seconds) as scope:
            try:
                verdict = verdict_of(await check(memory, access))
            except anyio.get_cancelled_exc_class():
                await checkpoint_if_cancelled()  # nobody cancelled us: it was something of the check's own
            except Exception as error:  # noqa: BLE001 - a check is a host's code: whatever it raises is about this one memory
                verdict = Verdict.INACCESSIBLE if denied(error) else Verdict.UNVERIFIED
        return Verdict.UNVERIFIED if verdict is Verdict.FRESH and scope.cancel_called else verdict


def scheme_of(uri: str) -> str:
    """The lower-case scheme of a URI, empty when it has none."""
    scheme, colon, _ = uri.partition(":")
    return scheme.lower() if colon else ""


def verdict_of(answer: object) -> Verdict:
    """A check's answer as a verdict: True is fresh, False changed, a verdict's own word that verdict, all else unverified."""
    if isinstance(answer, bool):
        return Verdict.FRESH if answer else Verdict.CHANGED
    return Verdict(answer) if isinstance(answer, str) and answer in list(Verdict) else Verdict.UNVERIFIED


def denied(error: Exception) -> bool:
    """Whether it says that something may not be read, also from within a group."""
    return isinstance(error, PermissionError) or (isinstance(error, ExceptionGroup) and error.subgroup(PermissionError) is not None)
