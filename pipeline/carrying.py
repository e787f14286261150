"""Carrying memories from one store to another: everything in reach goes out page by page, and comes in exactly as it stood."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from remit.pipeline.authority import Grants, access_to_write
from remit.pipeline.config import Config, Limits
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import WHOLE, TooLarge, flag_at, list_at, member_at, mended, name_at, shown, whole_at
from remit.pipeline.items import Item, memory_id, record_of
from remit.pipeline.storage.entry import Entry, Event, Keyed, Receipt, Record, Refusal, Whole, Written, in_order, refused
from remit.pipeline.times import moment_at
from remit.stages.access import Access
from remit.stages.evidence import MemoryId

__all__ = ["Carried", "CarriedEvent", "Event", "Keyed", "Whole", "exported", "imported"]

Asking = Callable[[], Awaitable[Grants]]
"""Asks the authority what is granted now."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedEvent:
    """An event of a history as a line of an export states it; nothing is checked before `whole_of`."""

    what: Any
    version: Any
    actor: Any
    at: Any
    digest: Any = ""
    title: Any = ""
    text: Any = ""
    by: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedKey:
    """An idempotency key as a line of an export states it."""

    actor: Any
    key: Any
    digest: Any
    written: Any
    version: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A memory as a line of an export states it; nothing is checked before `whole_of`."""

    item: Item
    version: Any
    actor: Any
    written_at: Any
    digest: Any
    superseded: Any = False
    history: tuple[CarriedEvent, ...] = ()
    keys: tuple[CarriedKey, ...] = ()


class Carries(Protocol):
    """A store that memories leave and enter as they stand; see `remit.pipeline.storage.store.Store`."""

    async def exported(self, after: MemoryId | None, most: int, access: Access) -> Sequence[Whole]: ...

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]: ...

    async def imported(self, wholes: Sequence[Whole], access: Access) -> list[Receipt]: ...


class Indexes(Protocol):
    """Gives records of one org the passages, words and vectors they are found by; those `without` no vectors of models."""

    async def entries(self, records: Sequence[Record], *, without: Collection[MemoryId]) -> Sequence[Entry]: ...


async def exported(granted: Asking, *, store: Carries, page: int, clock: Callable[[], datetime]) -> AsyncGenerator[Whole, None]:
    """Every memory on shelves that the principal reaches, whether or not it stands, in order of source and id.

    Each page is one moment of the store, and what is granted is asked before each: what is written or revoked meanwhile may be missing.
    """
    after: MemoryId | None = None
    while wholes := await store.exported(after, page, access_to_write(await granted(), clock())):
        for whole in wholes:
            yield whole
        after = wholes[-1].entry.record.id


async def imported(
    memories: Iterable[Carried | Whole] | AsyncIterable[Carried | Whole],
    granted: Asking,
    *,
    store: Carries,
    indexer: Indexes,
    config: Config,
    clock: Callable[[], datetime],
) -> AsyncGenerator[Receipt, None]:
    """Writes memories as they stood, a batch in a transaction; one receipt each, in order, when it is durable.

    Indexes are made anew, and a batch is embedded together. One that is wrong costs the others nothing. Begun again after it was stopped,
    what is there is `unchanged`, and not embedded again.
    """
    written = partial(_written, granted=granted, store=store, indexer=indexer, clock=clock)
    grants, batch, characters = await granted(), list[Whole | Receipt](), 0
    async for memory in _each(memories):
        batch.append(_prepared(memory, grants, config, clock()))
        characters += _characters(batch[-1])
        if len(batch) >= config.remember.batch_items or characters >= config.remember.batch_characters:
            for receipt in await written(batch):
                yield receipt
            grants, batch, characters = await granted(), [], 0
    for receipt in await written(batch):
        yield receipt


def whole_of(carried: Carried, grants: Grants, config: Config, now: datetime) -> Whole:
    """All of a memory that a line of an export states, checked. Raises `InvalidRequest` naming the wrong field as on the wire."""
    limits = config.limits
    record = record_of(carried.item, grants, config, now)
    record = replace(
        record,
        label=replace(record.label, superseded=flag_at("superseded", carried.superseded)),
        digest=_digest_at("digest", carried.digest),
        actor=name_at("actor", carried.actor, limits.name_characters),
    )
    events = [_event(f"history[{place}]", each, limits) for place, each in enumerate(list_at("history", carried.history, WHOLE))]
    keys = [_keyed(f"keys[{place}]", each, limits) for place, each in enumerate(list_at("keys", carried.keys, WHOLE))]
    return Whole(
        entry=Entry(record=record, passages=()),
        version=whole_at("version", carried.version, 1, WHOLE),
        written_at=moment_at("writtenAt", carried.written_at),
        past=in_order(events),
        keys=tuple(sorted(keys, key=lambda each: (each.key, each.actor))),
    )


def _event(field: str, event: CarriedEvent, limits: Limits) -> Event:
    versioned = event.digest != ""
    return Event(
        what=member_at(f"{field}.what", event.what, Written),
        version=whole_at(f"{field}.version", event.version, 1, WHOLE),
        actor=name_at(f"{field}.actor", event.actor, limits.name_characters),
        at=moment_at(f"{field}.at", event.at),
        digest=_digest_at(f"{field}.digest", event.digest) if versioned else "",
        title=_text_at(f"{field}.title", event.title, limits),
        text=_text_at(f"{field}.text", event.text, limits),
        by=None if event.by is None else memory_id(f"{field}.by", event.by, limits),
    )


def _keyed(field: str, keyed: CarriedKey, limits: Limits) -> Keyed:
    return Keyed(
        actor=name_at(f"{field}.actor", keyed.actor, limits.name_characters),
        key=name_at(f"{field}.key", keyed.key, limits.name_characters),
        digest=_digest_at(f"{field}.digest", keyed.digest),
        written=member_at(f"{field}.written", keyed.written, Written),
        version=whole_at(f"{field}.version", keyed.version, 1, WHOLE),
    )


def _digest_at(field: str, value: object) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise InvalidRequest(field, "must be 64 hexadecimal digits")
    return value


def _text_at(field: str, value: object, limits: Limits) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(field, "must be a text")
    if len(value) > limits.text_characters:
        raise TooLarge(field, f"{len(value)} characters, {limits.text_characters} are allowed")
    return mended(value)


def _prepared(memory: Carried | Whole, grants: Grants, config: Config, now: datetime) -> Whole | Receipt:
    try:
        return memory if isinstance(memory, Whole) else whole_of(memory, grants, config, now)
    except InvalidRequest as error:
        item = memory.item if isinstance(memory, Carried) else None
        code = Refusal.TOO_LARGE if isinstance(error, TooLarge) else Refusal.INVALID
        name = f"{item.source}:{shown(item.id)}" if item is not None else ""
        return Receipt(id=name, written=Written.REFUSED, code=code, detail=error.fact)


async def _written(
    batch: Sequence[Whole | Receipt], granted: Asking, store: Carries, indexer: Indexes, clock: Callable[[], datetime]
) -> list[Receipt]:
    access = access_to_write(await granted(), clock())
    batch = [each if isinstance(each, Receipt) else _in_reach(each, access) for each in batch]  # before text goes to whoever embeds it
    wholes = [each for each in batch if isinstance(each, Whole)]
    if wholes:
        records = [whole.entry.record for whole in wholes]
        here = await store.wholes([record.id for record in records], access)
        entries = await indexer.entries(records, without=here.keys())
        wholes = [replace(whole, entry=entry) for whole, entry in zip(wholes, entries, strict=True)]
    receipts = iter(await store.imported(wholes, access_to_write(await granted(), clock())) if wholes else ())
    return [each if isinstance(each, Receipt) else next(receipts) for each in batch]


def _in_reach(whole: Whole, access: Access) -> Whole | Receipt:
    record = whole.entry.record
    return whole if access.reaches(record.label.shelf) else refused(record.id, Refusal.NOT_AUTHORISED)


def _characters(prepared: Whole | Receipt) -> int:
    return len(prepared.entry.record.text) + sum(len(each.text) for each in prepared.past) if isinstance(prepared, Whole) else 0


async def _each(memories: Iterable[Carried | Whole] | AsyncIterable[Carried | Whole]) -> AsyncIterator[Carried | Whole]:
    if isinstance(memories, AsyncIterable):
        async for memory in memories:
            yield memory
    else:
        for memory in memories:
            yield memory
