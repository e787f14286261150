"""Backfill: vectors for what was taken in without, page by page, beside whoever writes and whoever else does the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

import anyio
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.authority import Grants, access_to_write
from remit.pipeline.calling import CallFault
from remit.pipeline.config import BackfillSettings
from remit.pipeline.embedding.batch import Embedded
from remit.pipeline.embedding.streams import State, Stream, Streams
from remit.pipeline.storage.entry import NOTHING, Dropped, Lacking, Lent, or_nothing
from remit.stages.access import Access
from remit.stages.evidence import Lane

Asking = Callable[[], Awaitable[Grants]]
"""Asks the authority what is granted now."""

Embeds = Callable[[Sequence[Lacking], Access], Awaitable[Embedded]]
"""Embeds passages, each on its own: one that cannot be embedded now costs the others nothing."""


class Step(StrEnum):
    """Where the backfill of a stream is. The list is closed; `ops/runbook.md` explains each."""

    EMBEDDING = "embedding"
    COOLING = "cooling"
    WAITING = "waiting"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNAVAILABLE = "unavailable"
    DISABLED = "disabled"
    NO_ROOM = "no_room"


OVER = frozenset({Step.COMPLETE, Step.INCOMPLETE, Step.UNAVAILABLE, Step.DISABLED, Step.NO_ROOM})
"""The steps after which a stream does nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """How far a stream has come: `having` of the `passages` that stand now in reach have a vector, and what this run did for that.

    `embedded` were given theirs; `changed` were replaced, withdrawn or given one by somebody else before that; `empty` have nothing to
    embed, and count as having theirs; `failed` counts what kept others from a vector. `seconds` is how long it waits now, or would have to.
    """

    stream: Lane
    space: str
    step: Step
    having: int = 0
    passages: int = 0
    embedded: int = 0
    changed: int = 0
    empty: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class Lends(Protocol):
    """A store that lends passages without a vector; see `remit.pipeline.storage.store.Store`."""

    async def coverage(self, space: str, access: Access) -> tuple[int, int]: ...

    async def lend_passages(self, space: str, after: int, most: int, until: datetime, access: Access) -> Lent: ...

    async def keep_vectors(self, space: str, vectors: Mapping[int, NDArray[np.float32] | None], access: Access) -> int: ...


class Drops(Protocol):
    """A store that vectors are dropped from; see `remit.pipeline.storage.store.Store`."""

    async def drop_vectors(self, keep: Collection[str], after: int, access: Access) -> Dropped: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What backfills work with. `rate` is the most texts a second, None for as many as can be; `pause` waits for seconds of `time`."""

    store: Lends
    granted: Asking
    settings: BackfillSettings
    clock: Callable[[], datetime]
    rate: float | None = None
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
    time: Callable[[], float] = anyio.current_time

    @property
    def page(self) -> int:
        """Texts of a page, not more than a second's worth, so that the rate holds inside a page as well."""
        most = self.settings.page_texts
        return most if self.rate is None else max(1, min(most, int(self.rate)))


async def backfills(
    chosen: Sequence[Stream], embeds: Callable[[Stream], Embeds], means: Means, *, streams: Streams, longest: int | None
) -> AsyncGenerator[Embedding, None]:
    """The backfills of several streams, one after the other; of one that the org may not use, or that makes longer vectors than the store
    keeps, only that is told."""
    org = (await means.granted()).org
    for stream in chosen:
        refused = None if streams.allows(stream, org) else Step.DISABLED
        if refused is None and longest is not None and stream.passages.dimensions > longest:
            refused = Step.NO_ROOM
        if refused is not None:
            yield Embedding(stream=stream.lane, space=stream.space, step=refused)
            continue
        async with aclosing(backfill(stream, embeds(stream), means)) as steps:
            async for step in steps:
                yield step


async def backfill(stream: Stream, embeds: Embeds, means: Means) -> AsyncGenerator[Embedding, None]:
    """Embeds what lacks a vector of this stream's space, and tells after each page how far it has come; the last step is one of `OVER`.

    It may be stopped at any time and begun again: what was kept is not embedded again, and what was lent when it was killed is lent to
    nobody before the lease is over. What is granted is asked again for each page. What fails is tried again as long as others succeed;
    several pages in a row of which nothing could be embedded, or a provider that wants to be left alone for too long, end it.
    Raises `StorageUnavailable`.
    """
    filling = _Filling(stream, embeds, means)
    async with aclosing(filling.steps()) as steps:
        async for step, seconds in steps:
            yield await filling.told(step, seconds)


async def prune(keep: Collection[str], granted: Asking, *, store: Drops, clock: Callable[[], datetime]) -> int:
    """Drops the vectors in reach of all spaces but these, a bounded number of passages at a time, and tells how many there were."""
    number, after = 0, 0
    while True:
        dropped = await store.drop_vectors(keep, after, access_to_write(await granted(), clock()))
        number += dropped.vectors
        if dropped.after is None:
            return number
        after = dropped.after


class _Filling:
    """The backfill of one stream. `failed` are passages that this pass could not embed, `hopeless` those that are not tried again."""

    def __init__(self, stream: Stream, embeds: Embeds, means: Means) -> None:
        self._stream, self._embeds, self._means = stream, embeds, means
        self._embedded = self._changed = self._fruitless = 0
        self._empty: set[int] = set()
        self._failed: dict[int, str] = {}
        self._hopeless: Mapping[int, str] = {}
        self._elsewhere = False
        self._not_before = 0.0

    async def steps(self) -> AsyncGenerator[tuple[Step, float], None]:
        """Each step as it is reached, with the seconds it waits."""
        yield Step.EMBEDDING, 0.0
        going_on = True
        while going_on:
            before, self._failed, self._elsewhere = self._embedded, {}, False
            async with aclosing(self._pass()) as steps:
                async for step, seconds in steps:
                    yield step, seconds
                    if step in OVER:
                        return
            gained = self._embedded > before
            self._hopeless = {} if gained else self._failed
            if self._elsewhere and not gained:
                yield Step.WAITING, self._means.settings.poll_seconds
                await self._means.pause(self._means.settings.poll_seconds)
            going_on = self._elsewhere or (gained and bool(self._failed))
        yield self._end(), 0.0

    def _end(self) -> Step:
        """How it ends when nothing more can be gained."""
        if not self._failed:
            return Step.COMPLETE
        return Step.INCOMPLETE if self._stream.health() is State.READY else Step.UNAVAILABLE

    async def told(self, step: Step, seconds: float) -> Embedding:
        having, passages = await self._means.store.coverage(self._stream.space, await self._access())
        return Embedding(
            stream=self._stream.lane,
            space=self._stream.space,
            step=step,
            having=having,
            passages=passages,
            embedded=self._embedded,
            changed=self._changed,
            empty=len(self._empty),
            failed=dict(sorted(Counter(self._failed.values()).items())),
            seconds=seconds,
        )

    async def _pass(self) -> AsyncGenerator[tuple[Step, float], None]:
        """Once through everything that lacks a vector."""
        after: int | None = 0
        while after is not None:
            if (left := self._stream.cooling()) > self._means.settings.longest_wait_seconds:
                yield Step.UNAVAILABLE, left
                return
            if left > 0:
                yield Step.COOLING, left
            await self._means.pause(max(left, self._not_before - self._means.time(), 0.0))
            access = await self._access()
            lent = await self._lent(after, access)
            after, self._elsewhere = lent.after, self._elsewhere or lent.elsewhere > 0
            if lent.passages:
                await self._fill(lent.passages, access)
                yield Step.UNAVAILABLE if self._given_up() else Step.EMBEDDING, self._stream.cooling()

    async def _lent(self, after: int, access: Access) -> Lent:
        until = access.as_of + timedelta(seconds=self._means.settings.lease_seconds)
        return await self._means.store.lend_passages(self._stream.space, after, self._means.page, until, access)

    async def _fill(self, passages: Sequence[Lacking], access: Access) -> None:
        """Embeds a page and has its vectors kept; what has none is given back, whatever happens."""
        space, nothing = self._stream.space, dict.fromkeys(each.key for each in passages)
        asked = [each for each in passages if each.key not in self._hopeless and each.key not in self._empty]
        try:
            embedded = await self._in_time(asked, access)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._means.store.keep_vectors(space, nothing, access)
            raise
        made = {each.key: or_nothing(vector) for each, vector in zip(asked, embedded.vectors, strict=True)}
        vectors = {key: vector for key, vector in made.items() if vector.size}
        empty = made.keys() - vectors.keys() - {asked[place].key for place in embedded.failed}
        if empty:
            await self._means.store.keep_vectors(space, dict.fromkeys(sorted(empty), NOTHING), await self._access())
        kept = await self._means.store.keep_vectors(space, {**nothing, **vectors}, await self._access())
        self._embedded += kept
        self._changed += len(vectors) - kept
        self._failed |= {each.key: self._hopeless[each.key] for each in passages if each.key in self._hopeless}
        self._failed |= {asked[place].key: code for place, code in embedded.failed.items()}
        self._empty |= empty
        self._fruitless = self._fruitless + 1 if embedded.failed and not vectors else 0
        if self._means.rate is not None:
            self._not_before = max(self._not_before, self._means.time()) + len(asked) / self._means.rate

    async def _in_time(self, asked: Sequence[Lacking], access: Access) -> Embedded:
        """Before the lease is over, or not at all: then somebody else may be at it."""
        with anyio.move_on_after(self._means.settings.lease_seconds):
            return await self._embeds(asked, access)
        nothing = np.zeros((len(asked), self._stream.passages.dimensions), np.float32)
        return Embedded(vectors=nothing, failed=dict.fromkeys(range(len(asked)), CallFault.OUT_OF_TIME))

    def _given_up(self) -> bool:
        return self._fruitless >= self._means.settings.tries or (self._fruitless > 0 and self._stream.health() is State.INCOMPATIBLE)

    async def _access(self) -> Access:
        return access_to_write(await self._means.granted(), self._means.clock())
