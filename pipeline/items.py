"""Items: facts, sessions and docs as their owner states them, and the checked record each becomes before it is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from types import NoneType
from typing import Any, ClassVar

from remit.pipeline.authority import Grants, scope_at
from remit.pipeline.config import Config, Limits
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import (
    TooLarge,
    flag_at,
    list_at,
    member_at,
    mended,
    name_at,
    names_at,
    number_at,
    text_at,
)
from remit.pipeline.storage.entry import Record
from remit.pipeline.times import BEGINNING, END, moment_at
from remit.stages.access import GLOBAL, Approval, Label, Shelf
from remit.stages.evidence import Claim, MemoryId, Origin, Status, Trust
from remit.stages.request import Source

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_FIELDS: dict[type[Any], tuple[tuple[str, Any], ...]] = {
    kind: tuple((each.name, each.default) for each in fields(kind)) for kind in (Record, Label, Shelf, Origin, Claim)
}
_DEFAULTS = dict(_FIELDS[Record])
_PLAIN = (str, int, float, NoneType)

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What all memories have. Times are `datetime` or ISO 8601 text, naive is UTC; `org` None is the principal's own.

    References are written `source:id`; a claim is a text or a `Claim`. Nothing is checked before `record_of`.
    """

    source: ClassVar[Source]

    id: str
    text: str
    title: str = ""
    org: str | None = None
    scope: str = GLOBAL
    created_at: datetime | str | None = None
    valid_from: datetime | str | None = None
    valid_until: datetime | str | None = None
    expires_at: datetime | str | None = None
    approval: Approval | str = Approval.APPROVED
    supersedes: tuple[MemoryId | str, ...] = ()
    disputes: tuple[MemoryId | str, ...] = ()
    derived_from: tuple[MemoryId | str, ...] = ()
    origin: Origin | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    claims: tuple[Claim | str, ...] = ()
    trust: Trust | str = Trust.STATED
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Item):
    """A short statement. `importance` is 0…1; a pinned fact is always in the start-up brief."""

    source: ClassVar[Source] = Source.FACT

    importance: float = 0.0
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Item):
    """A conversation. Its age is counted from `ended_at`, else from `created_at`."""

    source: ClassVar[Source] = Source.SESSION

    ended_at: datetime | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc(Item):
    """A document, given whole."""

    source: ClassVar[Source] = Source.DOC

    status: Status | str = Status.ACTIVE


def record_of(item: Item, grants: Grants, config: Config, now: datetime) -> Record:
    """The record of an item: every field checked, times aware and in UTC, NUL and halves of characters gone from its texts.

    `created_at` is `now` when it is not stated, and then no part of the digest, so that the same item is the same again tomorrow.
    Raises `InvalidRequest` naming the wrong field as on the wire; `TooLarge` when it is a matter of size.
    Whether the principal may write it is not asked here.
    """
    limits, most = config.limits, config.limits.name_characters
    memory = MemoryId(item.source, name_at("id", item.id, most))
    stated: dict[str, Any] = {
        "id": memory,
        "label": _label(item, grants, limits),
        "title": _title(item.title, limits),
        "text": _text("text", item.text, limits.text_characters),
    }
    if item.created_at is not None:
        stated["created_at"] = moment_at("createdAt", item.created_at)
    stated |= {
        "trust": member_at("trust", item.trust, Trust),
        "origin": None if item.origin is None else _origin(item.origin, limits),
        "aliases": names_at("aliases", item.aliases, most=limits.list_items, characters=most),
        "tags": names_at("tags", item.tags, most=limits.list_items, characters=most),
        "claims": _claims(item.claims, limits),
        "supersedes": _references("supersedes", item.supersedes, memory, limits),
        "disputes": _references("disputes", item.disputes, memory, limits),
        "derived_from": _references("derivedFrom", item.derived_from, memory, limits),
    }
    key = None if item.key is None else name_at("key", item.key, most)
    stated |= _own_fields(item)
    _check_size(stated, limits)
    return Record(**{"created_at": now} | stated, digest=_digest(stated), actor=grants.actor, key=key)


def memory_id(field: str, value: object, limits: Limits) -> MemoryId:
    """The memory that `source:id` names."""
    if not isinstance(value, str | MemoryId):
        raise InvalidRequest(field, "must be source:id")
    source, id_ = value if isinstance(value, MemoryId) else value.partition(":")[::2]
    return MemoryId(member_at(field, source, Source), name_at(field, id_, limits.name_characters))


def repaired(item: Item) -> tuple[str, ...]:
    """The fields in which `record_of` takes out NUL or puts U+FFFD for half a character."""
    texts = {"text": item.text, "title": item.title}
    if item.claims:
        texts["claims"] = "".join([f"{each.about or ''}{each.says}" if isinstance(each, Claim) else each for each in item.claims])
    return tuple([name for name, text in texts.items() if text != mended(text)])


def _label(item: Item, grants: Grants, limits: Limits) -> Label:
    most = limits.name_characters
    since = None if item.valid_from is None else moment_at("validFrom", item.valid_from)
    until = None if item.valid_until is None else moment_at("validUntil", item.valid_until)
    expires = None if item.expires_at is None else moment_at("expiresAt", item.expires_at)
    if since is not None and until is not None and until < since:
        raise InvalidRequest("validUntil", "is earlier than validFrom")
    origin = item.origin if isinstance(item.origin, Origin) else None
    return _labelled(
        grants.org if item.org is None else name_at("org", item.org, most),
        item.source,
        scope_at("scope", item.scope, limits),
        _name_or_none("origin.project", origin and origin.project, most),
        _name_or_none("origin.conversation", origin and origin.conversation, most),
        member_at("approval", item.approval, Approval),
        None if since == BEGINNING else since,
        None if until == END else until,
        None if expires == END else expires,
    )


@lru_cache(1024)
def _labelled(
    org: str, source: Source, scope: str, project: str | None, conversation: str | None, approval: Approval, *times: datetime | None
) -> Label:
    """Most of what is taken in together has the same label."""
    since, until, expires = times
    shelf = Shelf(org=org, source=source, scope=scope, project=project, conversation=conversation)
    return Label(shelf=shelf, approval=approval, valid_from=since, valid_until=until, expires_at=expires)


def _own_fields(item: Item) -> dict[str, Any]:
    """The fields that only one kind of memory has."""
    if isinstance(item, Fact):
        return {"importance": number_at("importance", item.importance, 0, 1), "pinned": flag_at("pinned", item.pinned)}
    if isinstance(item, Session) and item.ended_at is not None:
        return {"ended_at": moment_at("endedAt", item.ended_at)}
    if isinstance(item, Doc):
        return {"status": member_at("status", item.status, Status)}
    return {}


def _name_or_none(field: str, value: object, most: int) -> str | None:
    return None if value is None else name_at(field, value, most)


def _text(field: str, value: object, most: int) -> str:
    return mended(text_at(field, value, most))


def _title(value: object, limits: Limits) -> str:
    return "" if value == "" else _text("title", value, limits.text_characters)


def _origin(value: object, limits: Limits) -> Origin:
    if not isinstance(value, Origin):
        raise InvalidRequest("origin", "must be an object with a uri")
    uri = name_at("origin.uri", value.uri, limits.text_characters)
    if not _URI.fullmatch(uri):
        raise InvalidRequest("origin.uri", "must begin with a scheme, as file: or https:")
    return Origin(
        uri=uri,
        version=_name_or_none("origin.version", value.version, limits.name_characters),
        sha256=None if value.sha256 is None else _hash_at("origin.sha256", value.sha256),
        project=value.project,
        conversation=value.conversation,
    )


def _hash_at(field: str, value: object) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise InvalidRequest(field, "must be 64 hexadecimal digits")
    return value.lower()


def _claims(value: object, limits: Limits) -> tuple[Claim, ...]:
    given = list_at("claims", value, limits.list_items)
    return tuple([_claim(f"claims[{place}]", each, limits) for place, each in enumerate(given)]) if given else ()


def _claim(field: str, value: object, limits: Limits) -> Claim:
    most = limits.text_characters
    if not isinstance(value, Claim):
        return Claim(says=_text(field, value, most))
    about = None if value.about is None else _text(f"{field}.about", value.about, most)
    return Claim(says=_text(f"{field}.says", value.says, most), about=about)


def _references(field: str, value: object, own: MemoryId, limits: Limits) -> tuple[MemoryId, ...]:
    given = list_at(field, value, limits.list_items)
    if not given:
        return ()
    references = [memory_id(f"{field}[{place}]", each, limits) for place, each in enumerate(given)]
    if own in references:
        raise InvalidRequest(f"{field}[{references.index(own)}]", "is the memory itself")
    return tuple(dict.fromkeys(references))


def _check_size(stated: Mapping[str, Any], limits: Limits) -> None:
    texts = [stated["text"], stated["title"], *stated["aliases"], *stated["tags"]]
    for claim in stated["claims"]:
        texts += (claim.says, claim.about or "")
    if stated["origin"] is not None:
        texts.append(stated["origin"].uri)
    characters = sum(map(len, texts))
    if characters > limits.text_characters:
        raise TooLarge("text", f"{characters} characters with all that belongs to it, {limits.text_characters} are allowed")


def _digest(stated: Mapping[str, Any]) -> str:
    """Of the fields of a record but those that hold their default, so that a field added one day changes no digest of today."""
    told = {name: _told(held) for name, held in stated.items() if held is not (usual := _DEFAULTS[name]) and held != usual}
    return sha256(_canonical(told).encode()).hexdigest()


def _told(value: Any) -> Any:
    """A value as JSON, fields that hold their default left out."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple):
        return [_told(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    told = {}
    for name, default in _FIELDS[type(value)]:
        held = getattr(value, name)
        if held is not default and held != default:
            told[name] = _told(held)
    return told
