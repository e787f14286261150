"""Rows: how values of Remit are written down in SQLite, and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import Event, Keyed, Record, Written
from remit.stages.access import Approval, Label, Shelf
from remit.stages.evidence import Claim, Memory, MemoryId, Origin, Outline, PassageId, Status, Trust
from remit.stages.request import Source

SOURCES = tuple(Source)
INDEX_OF = {source: index for index, source in enumerate(SOURCES)}
ENTRY = np.dtype([("passage", "<i8"), ("count", "<u4"), ("length", "<u4"), ("source", "u1")])

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

dumped = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def micros(when: datetime | None) -> int | None:
    """Microseconds since 1970 in UTC."""
    return None if when is None else (when - _BEGINNING) // _MICROSECOND


def moment(number: int | None) -> datetime | None:
    return None if number is None else _BEGINNING + timedelta(microseconds=number)


def until(label: Label) -> int | None:
    """When a memory stops to stand, whichever of its two ends comes first."""
    ends = [end for end in (label.valid_until, label.expires_at) if end is not None]
    return micros(min(ends, default=None))


def shelf_row(shelf: Shelf) -> dict[str, Any]:
    return {
        "org": shelf.org,
        "scope": shelf.scope,
        "source": str(shelf.source),
        "project": "" if shelf.project is None else f"project:{shelf.project}",
        "conversation": "" if shelf.conversation is None else f"conversation:{shelf.conversation}",
    }


def shelf_of(org: str, scope: str, source: str, project: str, conversation: str) -> Shelf:
    return Shelf(
        org=org,
        source=_SOURCE[source],
        scope=scope,
        project=project.removeprefix("project:") if project else None,
        conversation=conversation.removeprefix("conversation:") if conversation else None,
    )


def numbers(joined: str | None) -> NDArray[np.int64]:
    """The whole numbers of a text, parted by spaces."""
    return np.fromstring(joined, dtype=np.int64, sep=" ") if joined else np.zeros(0, dtype=np.int64)


def listed(values: Sequence[Any]) -> str:
    """Most lists of a memory are empty."""
    return dumped(values) if values else "[]"


def ids(names: Iterable[MemoryId]) -> list[list[str]]:
    return [[name.source, name.id] for name in names]


def memory_row(record: Record, key: int, shelf: int, version: int, superseded: bool, written_at: datetime) -> tuple[Any, ...]:
    """The columns of a memory, in the order of the statement `add_memory`. The outline is what ranking needs of it; see `outlines_of`."""
    label, (source, name) = record.label, record.id
    created_at, ended_at = micros(record.created_at), micros(record.ended_at)
    aged_from = created_at if ended_at is None else ended_at
    return (
        key,
        label.shelf.org,
        str(source),
        name,
        shelf,
        version,
        record.digest,
        str(label.approval),
        superseded,
        micros(label.valid_from),
        micros(label.valid_until),
        micros(label.expires_at),
        created_at,
        ended_at,
        aged_from,
        record.importance,
        record.pinned,
        str(record.status),
        str(record.trust),
        dumped([source, name, label.shelf.scope, version, aged_from, record.importance, record.pinned, record.status]),
        record.actor,
        micros(written_at),
        record.key,
        record.title,
        None if record.origin is None else dumped(asdict(record.origin)),
        listed(record.aliases),
        listed(record.tags),
        listed([[claim.says, claim.about] for claim in record.claims]),
        listed(ids(record.supersedes)),
        listed(ids(record.disputes)),
        listed(ids(record.derived_from)),
        record.text,
    )


def outlines_of(joined: str | None) -> dict[int, Outline]:
    """Key → outline, of what the statement `outlines` gives."""
    found = {}
    for key, ordinal, (source, name, scope, version, aged_from, importance, pinned, status) in json.loads(joined or "[]"):
        passage = PassageId(MemoryId(_SOURCE[source], name), ordinal)
        found[key] = Outline(key, passage, scope, version, moment_of(aged_from), importance, pinned, _STATUS[status])
    return found


def memories_of(org: str, found: Iterable[tuple[Any, ...]]) -> dict[PassageId, Memory]:
    """Passages with their provenance, of rows of the statement `read`. Those that stand alike on one shelf share a label."""
    labels: dict[tuple[Any, ...], Label] = {}
    memories = (_memory_of(org, row, labels) for row in found)
    return {memory.passage: memory for memory in memories}


def _memory_of(org: str, row: tuple[Any, ...], labels: dict[tuple[Any, ...], Label]) -> Memory:
    (source, name, ordinal, starts, ends, text, version, _, approval, superseded, valid_from, valid_until, expires_at, title) = row[:14]
    (created_at, ended_at, importance, pinned, status, trust, origin, tags, claims, disputes, derived_from, *shelf) = row[14:]
    standing = row[7:13]
    if (label := labels.get(standing)) is None:
        on = shelf_of(org, shelf[0], source, shelf[1], shelf[2])
        label = labels[standing] = label_of(on, approval, superseded, valid_from, valid_until, expires_at)
    return Memory(
        passage=PassageId(MemoryId(_SOURCE[source], name), ordinal),
        version=version,
        label=label,
        title=title,
        text=text,
        created_at=moment_of(created_at),
        ended_at=moment(ended_at),
        importance=importance,
        pinned=bool(pinned),
        status=_STATUS[status],
        trust=_TRUST[trust],
        origin=origin_of(origin),
        tags=tuple(_list(tags)),
        claims=claims_of(claims),
        disputes=names_of(disputes),
        derived_from=names_of(derived_from),
        start=starts,
        end=ends,
    )


def record_of(row: Sequence[Any]) -> tuple[str, Record]:
    """Org and record, of a row of the statement `records`."""
    (org, source, name, approval, superseded, valid_from, valid_until, expires_at, title, text, created_at, digest, actor) = row[:13]
    (ended_at, importance, pinned, status, trust, origin, aliases, tags, claims, supersedes, disputes, derived_from, key, *shelf) = row[13:]
    return org, Record(
        id=MemoryId(_SOURCE[source], name),
        label=label_of(shelf_of(org, shelf[0], source, shelf[1], shelf[2]), approval, superseded, valid_from, valid_until, expires_at),
        title=title,
        text=text,
        created_at=moment_of(created_at),
        digest=digest,
        actor=actor,
        ended_at=moment(ended_at),
        importance=importance,
        pinned=bool(pinned),
        status=_STATUS[status],
        trust=_TRUST[trust],
        origin=origin_of(origin),
        aliases=tuple(_list(aliases)),
        tags=tuple(_list(tags)),
        claims=claims_of(claims),
        supersedes=names_of(supersedes),
        disputes=names_of(disputes),
        derived_from=names_of(derived_from),
        key=key,
    )


def event_row(event: Event) -> dict[str, Any]:
    """The columns of an event of the past."""
    return {
        "what": str(event.what),
        "version": event.version,
        "actor": event.actor,
        "at": micros(event.at),
        "digest": event.digest,
        "title": event.title,
        "text": event.text,
        "by": None if event.by is None else name_text(event.by),
    }


def event_of(row: Sequence[Any]) -> Event:
    """The event of a row of the statement `past_of`, its memory left out."""
    what, version, actor, at, digest, title, text, by = row
    return Event(
        what=Written(what),
        version=version,
        actor=actor,
        at=moment_of(at),
        digest=digest,
        title=title,
        text=text,
        by=None if by is None else names_of(f"[{by}]")[0],
    )


def keyed_of(row: Sequence[Any]) -> Keyed:
    """The key of a row of the statement `keys_of`, its memory left out."""
    actor, key, digest, written, version = row
    return Keyed(actor=actor, key=key, digest=digest, written=Written(written), version=version)


def name_text(name: MemoryId) -> str:
    """A name as one text."""
    return dumped([name.source, name.id])


def label_of(
    shelf: Shelf, approval: str, superseded: int, valid_from: int | None, valid_until: int | None, expires_at: int | None
) -> Label:
    return Label(
        shelf=shelf,
        approval=_APPROVAL[approval],
        superseded=bool(superseded),
        valid_from=moment(valid_from),
        valid_until=moment(valid_until),
        expires_at=moment(expires_at),
    )


def origin_of(text: str | None) -> Origin | None:
    return None if text is None else Origin(**json.loads(text))


def claims_of(text: str) -> tuple[Claim, ...]:
    return tuple(Claim(says=says, about=about) for says, about in _list(text))


def names_of(text: str) -> tuple[MemoryId, ...]:
    return tuple(MemoryId(_SOURCE[source], name) for source, name in _list(text))


def _list(text: str) -> Sequence[Any]:
    """What `listed` wrote."""
    return () if text == "[]" else json.loads(text)


def moment_of(number: int) -> datetime:
    return _BEGINNING + timedelta(microseconds=number)


_SOURCE = {str(source): source for source in Source}
_STATUS = {str(status): status for status in Status}
_TRUST = {str(trust): trust for trust in Trust}
_APPROVAL = {str(approval): approval for approval in Approval}
