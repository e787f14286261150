"""Rows: how values of Remit are written down in Postgres, and read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from remit.pipeline.storage.entry import Entry, Event, Keyed, Record, Whole, Written, in_order
from remit.stages.access import GLOBAL, Access, Approval, Label, Shelf
from remit.stages.evidence import Claim, Memory, MemoryId, Origin, Outline, PassageId, Status, Trust
from remit.stages.request import Source

SOURCES = tuple(Source)
INDEX_OF = {source: index for index, source in enumerate(SOURCES)}

EVERY = "*"
SEPARATOR = "\x02"
"""Parts the scopes of an identity. No spelled text holds it."""

LONGEST_WORD = 1000
"""Bytes of the longest word that an index holds as it is; Postgres allows about 2,700 for all columns together."""

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ODD = re.compile("[\x00-\x02\ud800-\udfff]")
_SPELLED = re.compile("\x01([abc]|d....)")
_OF_ODD = {"\x00": "\x01a", "\x01": "\x01b", "\x02": "\x01c"}
_ODD_OF = {spelled[1]: odd for odd, spelled in _OF_ODD.items()}

dumped = partial(json.dumps, separators=(",", ":"))


def spelled(text: str) -> str:
    """Any text in such a spelling that Postgres can hold it and sorts it by code point as before: it takes no NUL and no half character.

    No two texts are spelled alike, and a part of a text is spelled as the same part of its spelling.
    """
    return _ODD.sub(_mended, text) if _ODD.search(text) else text


def unspelled(text: str) -> str:
    return _SPELLED.sub(_restored, text) if "\x01" in text else text


def word_key(word: str) -> str:
    """How a word stands in the index: spelled, and as its hash when it is too long for one."""
    key = spelled(word)
    if len(key) * 4 > LONGEST_WORD and len(key.encode()) > LONGEST_WORD:
        return "\x01e" + sha256(key.encode()).hexdigest()
    return key


def _mended(odd: re.Match[str]) -> str:
    return _OF_ODD.get(odd[0]) or f"\x01d{ord(odd[0]):04x}"


def _restored(code: re.Match[str]) -> str:
    return _ODD_OF.get(code[1]) or chr(int(code[1][1:], 16))


def micros(when: datetime | None) -> int | None:
    """Microseconds since 1970 in UTC."""
    return None if when is None else (when - _BEGINNING) // _MICROSECOND


def moment(number: int | None) -> datetime | None:
    return None if number is None else _BEGINNING + timedelta(microseconds=number)


def until(label: Label) -> int | None:
    """When a memory stops to stand, whichever of its two ends comes first."""
    ends = [end for end in (label.valid_until, label.expires_at) if end is not None]
    return micros(min(ends, default=None))


def scopes_setting(granted: Iterable[str] | None) -> str:
    """The setting app.scopes: whole scope names, `global` among them, or `*`."""
    return EVERY if granted is None else SEPARATOR.join([GLOBAL, *sorted(map(spelled, granted))])


def reach(access: Access) -> dict[str, Any]:
    """What the statements that apply the visibility rule need of an access."""
    return {
        "org": spelled(access.org),
        "now": micros(access.as_of),
        "granted": None if access.granted is None else [GLOBAL, *sorted(map(spelled, access.granted))],
        "sources": sorted(access.sources),
        "scopes": None if access.scopes is None else sorted(map(spelled, access.scopes)),
        "fact_scopes": None if access.fact_scopes is None else sorted(map(spelled, access.fact_scopes)),
    }


def place_of(shelf: Shelf) -> tuple[str, str, str, str]:
    """scope, source, project and conversation as columns: origins are whole scope names, '' for none."""
    return (
        spelled(shelf.scope),
        str(shelf.source),
        "" if shelf.project is None else spelled(f"project:{shelf.project}"),
        "" if shelf.conversation is None else spelled(f"conversation:{shelf.conversation}"),
    )


def shelf_of(org: str, scope: str, source: str, project: str, conversation: str) -> Shelf:
    return Shelf(
        org=org,
        source=_SOURCE[source],
        scope=unspelled(scope),
        project=unspelled(project.removeprefix("project:")) if project else None,
        conversation=unspelled(conversation.removeprefix("conversation:")) if conversation else None,
    )


def ids(names: Iterable[MemoryId]) -> list[list[str]]:
    return [[name.source, name.id] for name in names]


def stated(record: Record) -> str:
    """What an owner said of a memory beside the columns, as JSON; see `_Stated`."""
    return dumped(
        [
            record.key,
            micros(record.ended_at),
            record.status,
            None if record.origin is None else [getattr(record.origin, name) for name in _ORIGIN],
            record.aliases,
            record.tags,
            [[claim.says, claim.about] for claim in record.claims],
            ids(record.supersedes),
            ids(record.disputes),
            ids(record.derived_from),
        ]
    )


def outline(record: Record, key: int, ordinal: int, version: int) -> str:
    """What ranking needs of a passage; see `outlines_of`."""
    aged_from = micros(record.ended_at or record.created_at)
    scope, name = record.label.shelf.scope, record.id
    return dumped([key, ordinal, name.source, name.id, scope, version, aged_from, record.importance, record.pinned, record.status])


def outlines_of(joined: str | bytes | None) -> dict[int, Outline]:
    """Key → outline, of a JSON array of outlines."""
    found = {}
    for key, ordinal, source, name, scope, version, aged_from, importance, pinned, status in json.loads(joined or "[]"):
        found[key] = Outline(
            key=key,
            passage=PassageId(MemoryId(_SOURCE[source], name), ordinal),
            scope=scope,
            version=version,
            aged_from=_BEGINNING + timedelta(microseconds=aged_from),
            importance=importance,
            pinned=pinned,
            status=_STATUS[status],
        )
    return found


def memories_of(org: str, joined: str | bytes | None) -> dict[PassageId, Memory]:
    """The passages with their provenance, of the JSON array of rows that `read` gives."""
    found = {}
    shelves: dict[tuple[str, ...], Shelf] = {}
    for row in json.loads(joined or "[]"):
        memory = _memory(org, row, shelves)
        found[memory.passage] = memory
    return found


def _memory(org: str, row: Sequence[Any], shelves: dict[tuple[str, ...], Shelf]) -> Memory:
    """Of a row; shelves are made once for all."""
    source, name, ordinal, starts, ends, text, version, title, created_at, importance, pinned = row[:11]
    approval, superseded, valid_from, valid_until, expires_at, scope, project, conversation, trust, said = row[11:]
    _, ended_at, status, origin, _, tags, claims, _, disputes, derived_from = said
    if (shelf := shelves.get((scope, source, project, conversation))) is None:
        shelf = shelves[scope, source, project, conversation] = shelf_of(org, scope, source, project, conversation)
    return Memory(
        passage=PassageId(MemoryId(_SOURCE[source], unspelled(name)), ordinal),
        version=version,
        label=label_of(shelf, approval, superseded, valid_from, valid_until, expires_at),
        title=unspelled(title),
        text=unspelled(text),
        created_at=_moment(created_at),
        ended_at=moment(ended_at),
        importance=float(importance),
        pinned=pinned,
        status=_STATUS[status],
        trust=_TRUST[trust],
        origin=_origin(origin),
        tags=tuple(tags),
        claims=_claims(claims),
        disputes=_names(disputes),
        derived_from=_names(derived_from),
        start=starts,
        end=ends,
    )


def record_of(row: Sequence[Any]) -> Record:
    """The record of a row of `records`."""
    org, source, name, title, text, digest, created_at, importance, pinned = row[:9]
    approval, superseded, valid_from, valid_until, expires_at, scope, project, conversation, actor, trust, said = row[9:]
    key, ended_at, status, origin, aliases, tags, claims, supersedes, disputes, derived_from = said
    shelf = shelf_of(unspelled(org), scope, source, project, conversation)
    return Record(
        id=MemoryId(_SOURCE[source], unspelled(name)),
        label=label_of(shelf, approval, superseded, valid_from, valid_until, expires_at),
        title=unspelled(title),
        text=unspelled(text),
        created_at=_moment(created_at),
        digest=digest,
        actor=unspelled(actor),
        ended_at=moment(ended_at),
        importance=float(importance),  # JSON made by Postgres has 1 for 1.0
        pinned=pinned,
        status=_STATUS[status],
        trust=_TRUST[trust],
        origin=_origin(origin),
        aliases=tuple(aliases),
        tags=tuple(tags),
        claims=_claims(claims),
        supersedes=_names(supersedes),
        disputes=_names(disputes),
        derived_from=_names(derived_from),
        key=key,
    )


def whole_of(row: Sequence[Any]) -> Whole:
    """All there is of a memory, of a row of `wholes`."""
    stated, version, written_at, past, keys = row
    held = [
        Keyed(actor=unspelled(actor), key=unspelled(key), digest=digest, written=Written(told), version=number)
        for actor, key, digest, told, number in keys or ()
    ]
    return Whole(
        entry=Entry(record=record_of(stated), passages=()),
        version=version,
        written_at=_moment(written_at),
        past=in_order(map(_event, past or ())),
        keys=tuple(sorted(held, key=lambda each: (each.key, each.actor))),
    )


def _event(row: Sequence[Any]) -> Event:
    what, version, actor, at, digest, title, text, other = row
    return Event(
        what=Written(what),
        version=version,
        actor=unspelled(actor),
        at=_moment(at),
        digest=digest,
        title=unspelled(title),
        text=unspelled(text),
        by=None if other is None else _names([json.loads(other)])[0],
    )


def name_text(name: MemoryId) -> str:
    """A name as one text."""
    return dumped([name.source, name.id])


SUPERSEDES, DISPUTES = 7, 8
"""Where in what is stated of a memory its references stand."""


def references_of(said: Sequence[Any], place: int) -> tuple[MemoryId, ...]:
    return _names(said[place])


def with_references(said: Sequence[Any], place: int, names: Iterable[MemoryId]) -> str:
    """What is stated of a memory with other references, as JSON."""
    return dumped([*said[:place], ids(names), *said[place + 1 :]])


def label_of(
    shelf: Shelf, approval: str, superseded: bool, valid_from: int | None, valid_until: int | None, expires_at: int | None
) -> Label:
    return Label(
        shelf=shelf,
        approval=_APPROVAL[approval],
        superseded=superseded,
        valid_from=moment(valid_from),
        valid_until=moment(valid_until),
        expires_at=moment(expires_at),
    )


def _origin(said: Sequence[Any] | None) -> Origin | None:
    return None if said is None else Origin(**dict(zip(_ORIGIN, said, strict=True)))


def _claims(said: Iterable[tuple[str, str | None]]) -> tuple[Claim, ...]:
    return tuple(Claim(says=says, about=about) for says, about in said)


def _names(said: Iterable[tuple[str, str]]) -> tuple[MemoryId, ...]:
    return tuple(MemoryId(_SOURCE[source], name) for source, name in said)


def _moment(number: int) -> datetime:
    return _BEGINNING + timedelta(microseconds=number)


_ORIGIN = ("uri", "version", "sha256", "project", "conversation")
_SOURCE: Mapping[str, Source] = {str(source): source for source in Source}
_STATUS: Mapping[str, Status] = {str(status): status for status in Status}
_TRUST: Mapping[str, Trust] = {str(trust): trust for trust in Trust}
_APPROVAL: Mapping[str, Approval] = {str(approval): approval for approval in Approval}
