"""Remembering: each item is checked, indexed and written on its own account, in batches, with a receipt for every one in order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from remit.pipeline.authority import Grants, access_to_write
from remit.pipeline.config import Config, Remember
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import TooLarge, shown
from remit.pipeline.items import Item, record_of, repaired
from remit.pipeline.storage.entry import Entry, Receipt, Record, Refusal, Written
from remit.pipeline.vectors import Vectored
from remit.stages.access import Access
from remit.stages.evidence import Origin

__all__ = ["Receipt", "Refusal", "Written", "remember_stream"]

TURN = 16
"""Items prepared together, before others have their turn."""

Complete = Callable[[Sequence[Entry]], Awaitable[Vectored]]
"""Adds the vectors of models to a batch of entries of one org."""

Resolve = Callable[[Origin], Awaitable[Origin]]
"""Looks at an origin and gives it back with what was found."""

Asking = Callable[[], Awaitable[Grants]]
"""Asks the authority what is granted now."""


class Indexes(Protocol):
    """Gives records the passages, words and vectors they are found by."""

    async def entries(self, records: Sequence[Record]) -> Sequence[Entry]: ...


class Writes(Protocol):
    """Writes what an access may write, one receipt an entry, in order; durable when it returns."""

    async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An item on its way into the store, checked and then indexed, or the receipt of its refusal.

    `seen` is its origin as it was looked at for this write.
    """

    outcome: Record | Entry | Receipt
    note: str = ""
    characters: int = 0
    seen: Origin | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Items that are written together; the `last` is known for one when it was not filled."""

    items: Sequence[Prepared]
    last: bool = False


async def remember_stream(
    items: Iterable[Item] | AsyncIterable[Item],
    grants: Grants,
    *,
    store: Writes,
    indexer: Indexes,
    config: Config,
    now: datetime,
    resolve: Resolve | None = None,
    granted: Asking | None = None,
    complete: Complete | None = None,
) -> AsyncGenerator[Receipt, None]:
    """Takes in items as they come, holding no more than two batches of them; one receipt each, in order, when its batch is durable.

    An item that is wrong, or that the principal may not write, is refused and costs the others nothing. `resolve` fills in the content hash
    of a `file:` origin that states none, and looks at it again right before the batch is written: an item whose file changed meanwhile is
    refused `origin_changed`. `granted` is asked again then, too, so that what was revoked meanwhile is not written.
    `complete` adds the vectors of models, for a whole batch at a time, after all of that was authorised and resolved.
    Raises `StorageUnavailable` when the store cannot be asked; what was acknowledged stays written.
    """
    access = access_to_write(grants, now)
    writes = partial(_written, store=store, resolve=resolve)

    async def flushed(batch: Sequence[Prepared]) -> list[Receipt]:
        completed = await _completed(batch, complete)
        return await writes(completed, access if granted is None else access_to_write(await granted(), now))

    checking = partial(_checked, grants=grants, access=access, config=config, now=now, resolve=resolve)
    awaited = isinstance(items, AsyncIterable)
    async with aclosing(_batches(items, checking, indexer, config.remember)) as batches:
        batch = await anext(batches, None)
        while batch is not None:
            following: Batch | Exception | None
            if batch.last or awaited:
                # What comes when it comes is not waited for before what came is acknowledged.
                receipts, following = await flushed(batch.items), None
            else:
                receipts, following = await _beside(partial(flushed, batch.items), batches)
            for receipt in receipts:
                yield receipt
            if isinstance(following, Exception):
                raise following
            batch = await anext(batches, None) if awaited else following


async def _batches(
    items: Iterable[Item] | AsyncIterable[Item], checking: Callable[[Any], Awaitable[Prepared]], indexer: Indexes, settings: Remember
) -> AsyncGenerator[Batch, None]:
    """The items, prepared, as many together as are written together."""
    batch: list[Prepared] = []
    turn: list[Prepared] = []
    characters = 0
    async with aclosing(_each(items)) as coming:
        async for item in coming:
            turn.append(await checking(item))
            characters += turn[-1].characters
            full = len(batch) + len(turn) >= settings.batch_items or characters >= settings.batch_characters
            if full or len(turn) == TURN:
                batch += await _indexed(turn, indexer)
                turn = []
                await anyio.lowlevel.checkpoint()
            if full:
                yield Batch(batch)
                batch, characters = [], 0
    if turn:
        batch += await _indexed(turn, indexer)
    if batch:
        yield Batch(batch, last=True)


async def _beside(
    write: Callable[[], Awaitable[list[Receipt]]], batches: AsyncGenerator[Batch, None]
) -> tuple[list[Receipt], Batch | Exception | None]:
    """The receipts of one batch, and the next, prepared while the store was busy with the first; or what went wrong with the next."""
    done: list[list[Receipt] | Exception] = []

    async def writing() -> None:
        try:
            done.append(await write())
        except Exception as error:  # noqa: BLE001 - raised again below, as it is and not in a group
            done.append(error)

    following: Batch | Exception | None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writing)
        try:
            following = await anext(batches, None)
        except Exception as error:  # noqa: BLE001 - raised by the caller, once what is durable has been acknowledged
            following = error
    if isinstance(done[0], Exception):
        raise done[0]
    return done[0], following


async def _each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncGenerator[Item, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def _indexed(turn: Sequence[Prepared], indexer: Indexes) -> list[Prepared]:
    """The same with all that they are found by, which is made together."""
    entries = iter(await indexer.entries([each.outcome for each in turn if isinstance(each.outcome, Record)]))
    return [Prepared(outcome=next(entries), note=each.note, seen=each.seen) if isinstance(each.outcome, Record) else each for each in turn]


async def _checked(item: Any, *, grants: Grants, access: Access, config: Config, now: datetime, resolve: Resolve | None) -> Prepared:
    if not isinstance(item, Item):
        return _refused("", Refusal.INVALID, "item: must be a Fact, a Session or a Doc")
    try:
        record = record_of(item, grants, config, now)
    except InvalidRequest as error:
        name = f"{item.source}:{shown(item.id)}"
        return _refused(name, Refusal.TOO_LARGE if isinstance(error, TooLarge) else Refusal.INVALID, error.fact)
    if (field := _out_of_reach(record, access)) is not None:
        return _refused(str(record.id), Refusal.NOT_AUTHORISED, f"{field}: not granted")
    seen = None
    if resolve is not None and (origin := record.origin) is not None and origin.uri.lower().startswith("file:"):
        found = await resolve(replace(origin, sha256=None))
        seen = found if found.sha256 is not None and origin.sha256 in (None, found.sha256) else None
        if origin.sha256 is None and seen is not None:
            # Stated again with its hash, because the digest must tell this version of the file from the next.
            record = record_of(replace(item, origin=found), grants, config, now)
    note = ", ".join([f"{field}: characters that cannot be stored were removed" for field in repaired(item)])
    return Prepared(outcome=record, note=note, characters=len(record.text), seen=seen)


def _out_of_reach(record: Record, access: Access) -> str | None:
    """The field that puts the memory on a shelf which the principal may not write, if one does."""
    shelf = record.label.shelf
    if access.reaches(shelf):
        return None
    if shelf.org != access.org:
        return "org"
    if not access.reaches(replace(shelf, project=None, conversation=None)):
        return "scope"
    if not access.reaches(replace(shelf, conversation=None)):
        return "origin.project"
    return "origin.conversation"


def _refused(name: str, code: Refusal, detail: str) -> Prepared:
    return Prepared(outcome=Receipt(id=name, written=Written.REFUSED, code=code, detail=detail))


async def _completed(batch: Sequence[Prepared], complete: Complete | None) -> list[Prepared]:
    """The batch with the vectors of models; what could not have one now says so in its receipt, and is found by its words."""
    places = [place for place, each in enumerate(batch) if isinstance(each.outcome, Entry)]
    whole = list(batch)
    if complete is None or not places:
        return whole
    vectored = await complete([each.outcome for each in batch if isinstance(each.outcome, Entry)])
    for number, place in enumerate(places):
        if vectored.entries[number] is batch[place].outcome and number not in vectored.pending:
            continue
        pending = f"vector pending: {vectored.pending[number]}" if number in vectored.pending else ""
        note = "; ".join(filter(None, (batch[place].note, pending)))
        whole[place] = replace(batch[place], outcome=vectored.entries[number], note=note)
    return whole


async def _written(batch: Sequence[Prepared], access: Access, *, store: Writes, resolve: Resolve | None) -> list[Receipt]:
    changed = await _changed([each.seen for each in batch if each.seen is not None], resolve)
    batch = [_revised(each) if each.seen is not None and each.seen.uri in changed else each for each in batch]
    entries = [each.outcome for each in batch if isinstance(each.outcome, Entry)]
    receipts = iter(await store.put(entries, access) if entries else ())
    return [each.outcome if isinstance(each.outcome, Receipt) else _noted(next(receipts), each.note) for each in batch]


async def _changed(seen: Sequence[Origin], resolve: Resolve | None) -> frozenset[str]:
    """The origins that are not what they were a moment ago, each looked at once."""
    if resolve is None or not seen:
        return frozenset()
    now = {uri: (await resolve(replace(origin, sha256=None))).sha256 for uri, origin in {each.uri: each for each in seen}.items()}
    return frozenset(each.uri for each in seen if each.sha256 != now[each.uri])


def _revised(prepared: Prepared) -> Prepared:
    assert isinstance(prepared.outcome, Entry)  # noqa: S101 - only what is on its way into the store was looked at
    return _refused(str(prepared.outcome.record.id), Refusal.ORIGIN_CHANGED, "origin: changed while it was taken in")


def _noted(receipt: Receipt, note: str) -> Receipt:
    return replace(receipt, detail="; ".join(filter(None, (receipt.detail, note)))) if note else receipt
