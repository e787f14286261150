"""The life of a memory after it was taken in: approved or rejected, superseded, restored, disputed, forgotten, and its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from remit.pipeline.authority import Grants, access_to_write, scope_at
from remit.pipeline.config import Limits
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import list_at, name_at
from remit.pipeline.items import memory_id
from remit.pipeline.storage.entry import Change, Entry, Event, Forgetting, Forgotten, Receipt, Record, Whole, Written
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId

__all__ = ["Event", "Forgotten", "Name", "approve", "changed", "forget", "forgetting", "history", "paired"]

Name = str | MemoryId
"""A memory's name, as `source:id` or as a `MemoryId`."""


class Lives(Protocol):
    """A store in which memories have a life; see `remit.pipeline.storage.store.Store`."""

    async def change(self, changes: Sequence[Change], access: Access) -> list[Receipt]: ...

    async def forget(self, what: Forgetting, access: Access, *, dry_run: bool = False) -> Forgotten: ...

    async def wholes(self, names: Sequence[MemoryId], access: Access) -> Mapping[MemoryId, Whole]: ...


class Indexes(Protocol):
    """Gives a record the passages, words and vectors it is found by."""

    async def entry(self, record: Record) -> Entry: ...


async def approve(
    memories: Sequence[Name], grants: Grants, *, store: Lives, indexer: Indexes, limits: Limits, now: datetime
) -> list[Receipt]:
    """Approves memories; each enters the indexes, and takes the place of what it supersedes, in the transaction that approves it.

    One that was written anew since it was read here is refused `revised`: what nobody looked at is not approved.
    """
    names, access = names_at(memories, limits), access_to_write(grants, now)
    known = await store.wholes(names, access)
    changes = []
    for name in names:
        whole = known.get(name)
        waits = whole is not None and whole.entry.record.label.approval is not Approval.APPROVED
        entry = await indexer.entry(_as_approved(whole.entry.record)) if whole is not None and waits else None
        changes.append(Change(what=Written.APPROVED, id=name, entry=entry, seen=0 if whole is None else whole.version))
    return await store.change(changes, access)


async def changed(what: Written, memories: Sequence[Name], grants: Grants, *, store: Lives, limits: Limits, now: datetime) -> list[Receipt]:
    """Rejects or restores memories, one receipt each, in order."""
    changes = [Change(what=what, id=name) for name in names_at(memories, limits)]
    return await store.change(changes, access_to_write(grants, now))


async def paired(what: Written, memory: Name, by: Name, grants: Grants, *, store: Lives, limits: Limits, now: datetime) -> Receipt:
    """Lets `by` take the place of a memory, or dispute it."""
    name, other = memory_id("memory", memory, limits), memory_id("by", by, limits)
    if name == other:
        raise InvalidRequest("by", "is the memory itself")
    (receipt,) = await store.change([Change(what=what, id=name, by=other)], access_to_write(grants, now))
    return receipt


def forgetting(
    memories: Sequence[Name] | None, *, origin: object, scope: object, actor: object, expired: bool, limits: Limits
) -> Forgetting:
    """What is to be forgotten, checked: named memories, or conditions. Raises `InvalidRequest`, also when nothing is stated at all."""
    stated: dict[str, Any] = {
        "origin": None if origin is None else name_at("origin", origin, limits.text_characters),
        "scope": None if scope is None else scope_at("scope", scope, limits),
        "actor": None if actor is None else name_at("actor", actor, limits.name_characters),
    }
    conditions = [name for name, value in stated.items() if value is not None] + (["expired"] if expired else [])
    if memories is not None and conditions:
        raise InvalidRequest(conditions[0], "memories are named already: conditions are for all that they hold for")
    if memories is None and not conditions:
        raise InvalidRequest("memories", "name some, or state an origin, a scope, an actor or that they are expired")
    names = None if memories is None else tuple(names_at(memories, limits))
    return Forgetting(names=names, expired=expired, **stated)


async def forget(what: Forgetting, grants: Grants, *, store: Lives, now: datetime, dry_run: bool) -> Forgotten:
    """Takes memories out of everything, or counts what would go."""
    return await store.forget(what, access_to_write(grants, now), dry_run=dry_run)


async def history(memory: Name, grants: Grants, *, store: Lives, limits: Limits, now: datetime) -> tuple[Event, ...]:
    """What happened to a memory; nothing for one that is not there or may not be read, alike."""
    name = memory_id("memory", memory, limits)
    whole = (await store.wholes([name], access_to_write(grants, now))).get(name)
    return () if whole is None else whole.history


def names_at(memories: Sequence[Name], limits: Limits) -> list[MemoryId]:
    """The memories of a list of names, each once."""
    names = [memory_id(f"memories[{place}]", each, limits) for place, each in enumerate(list_at("memories", memories, limits.list_items))]
    return list(dict.fromkeys(names))


def _as_approved(record: Record) -> Record:
    return replace(record, label=replace(record.label, approval=Approval.APPROVED))
