"""The wire: camelCase JSON to the values of our Python and back; the one translator of every face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic.alias_generators import to_camel

from remit.pipeline.brief import Brief
from remit.pipeline.carrying import Carried, CarriedEvent, CarriedKey, Event, Whole
from remit.pipeline.doctor import Examination
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import mapping_at, member_at, unknown
from remit.pipeline.items import Doc, Fact, Item, Session
from remit.pipeline.life import Forgotten
from remit.pipeline.remember import Receipt
from remit.pipeline.why import Explanation
from remit.stages.evidence import Claim, Origin
from remit.stages.request import ContextWanted, Request, Source, TagFilter

T = TypeVar("T")

_KINDS: dict[Source, type[Item]] = {kind.source: kind for kind in (Fact, Session, Doc)}
_OWNERS = {to_camel(own.name): source for source, kind in _KINDS.items() for own in fields(kind) if own.name not in Item.__slots__}


def request_from(mapping: object) -> Request:
    """The request of a JSON object. `null` is as if it were not there; values are checked by `remit.pipeline.asking`.

    Raises `InvalidRequest` naming a field that is unknown, at any depth, or missing.
    """
    given = _stated(mapping_at("request", mapping))
    if "tags" in given:
        given["tags"] = _built(TagFilter, _stated(mapping_at("tags", given["tags"])), within="tags")
    if "context" in given:
        given["context"] = _built(ContextWanted, _stated(mapping_at("context", given["context"])), within="context")
    return _built(Request, given)


def item_from(mapping: object) -> Item:
    """The fact, session or doc of a JSON object. `null` is as if it were not there; values are checked by `remit.pipeline.items`.

    Raises `InvalidRequest` naming a field that is unknown, at any depth, missing, or of another kind of memory.
    """
    given = _stated(mapping_at("item", mapping))
    if "source" not in given:
        raise InvalidRequest("source", "is missing")
    source = member_at("source", given.pop("source"), Source)
    for name in given:
        if (owner := _OWNERS.get(name, source)) is not source:
            raise InvalidRequest(name, f"only a {owner} has it")
    if "origin" in given:
        given["origin"] = _built(Origin, _stated(mapping_at("origin", given["origin"])), within="origin")
    if isinstance(given.get("claims"), list):
        given["claims"] = tuple(_claim(f"claims[{place}]", each) for place, each in enumerate(given["claims"]))
    return _built(_KINDS[source], given)


def receipt_to(receipt: Receipt) -> dict[str, Any]:
    """A receipt as JSON; `version` only of what is stored, `code` and `detail` only where there is one."""
    told = {"id": receipt.id, "written": str(receipt.written), "version": receipt.version, "code": receipt.code, "detail": receipt.detail}
    return {name: value for name, value in told.items() if value or name in ("id", "written")}


def forgotten_to(forgotten: Forgotten) -> dict[str, Any]:
    """What was forgotten as JSON; `receipts` are of memories that were named."""
    receipts = [receipt_to(each) for each in forgotten.receipts]
    return {"dryRun": forgotten.dry_run, "counts": dict(forgotten.counts), "receipts": receipts}


def event_to(event: Event) -> dict[str, Any]:
    """An event of a history as JSON; of what is not a version there is no digest, title and text."""
    by = None if event.by is None else str(event.by)
    told = {"digest": event.digest, "title": event.title, "text": event.text, "by": by}
    head = {"what": event.what.value, "version": event.version, "actor": event.actor, "at": time_to(event.at)}
    return head | {name: value for name, value in told.items() if value}


def whole_to(whole: Whole) -> dict[str, Any]:
    """All there is of a memory as a line of an export: what `remit add` takes, and what became of it since."""
    record = whole.entry.record
    label, shelf = record.label, record.label.shelf
    times = {"validFrom": label.valid_from, "validUntil": label.valid_until, "expiresAt": label.expires_at, "endedAt": record.ended_at}
    origin = None if record.origin is None else {name: value for name, value in asdict(record.origin).items() if value is not None}
    told: dict[str, Any] = {
        "source": record.id.source.value,
        "id": record.id.id,
        "org": shelf.org,
        "scope": shelf.scope,
        "title": record.title,
        "text": record.text,
        "createdAt": time_to(record.created_at),
        **{name: None if when is None else time_to(when) for name, when in times.items()},
        "approval": label.approval.value,
        "supersedes": list(map(str, record.supersedes)),
        "disputes": list(map(str, record.disputes)),
        "derivedFrom": list(map(str, record.derived_from)),
        "origin": origin,
        "aliases": list(record.aliases),
        "tags": list(record.tags),
        "claims": [each.says if each.about is None else {"about": each.about, "says": each.says} for each in record.claims],
        "importance": record.importance or None,
        "pinned": record.pinned,
        "status": record.status.value if record.id.source is Source.DOC else None,
        "trust": record.trust.value,
        "key": record.key,
        "version": whole.version,
        "actor": record.actor,
        "writtenAt": time_to(whole.written_at),
        "digest": record.digest,
        "superseded": label.superseded,
        "history": [event_to(each) for each in whole.past],
        "keys": [asdict(each) for each in whole.keys],
    }
    return {name: value for name, value in told.items() if value not in (None, [], "", False)}


def carried_from(mapping: object) -> Carried:
    """The memory of a line of an export; values are checked by `remit.pipeline.carrying`.

    Raises `InvalidRequest` naming a field that is unknown, at any depth, or missing.
    """
    given = _stated(mapping_at("item", mapping))
    own = {to_camel(each.name) for each in fields(Carried)} - {"item"}
    carried: dict[str, Any] = {name: value for name, value in given.items() if name in own}
    for name, kind in (("history", CarriedEvent), ("keys", CarriedKey)):
        listed = carried.get(name, [])
        if not isinstance(listed, list):
            raise InvalidRequest(name, "must be a list")
        carried[name] = [_built(kind, _stated(mapping_at(f"{name}[{at}]", each)), within=f"{name}[{at}]") for at, each in enumerate(listed)]
    return _built(Carried, carried | {"item": item_from({name: value for name, value in given.items() if name not in own})})


def time_to(when: datetime) -> str:
    """An aware time as ISO 8601 in UTC, with Z."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def brief_to(brief: Brief) -> dict[str, Any]:
    return {
        "text": brief.text,
        "tokens": brief.tokens,
        "budget": brief.budget,
        "lines": [{"id": str(line.id), "scope": line.scope, "group": line.group, "text": line.text} for line in brief.lines],
        "leftOut": [{"id": str(memory), "reason": reason.value} for memory, reason in brief.left_out],
    }


def explanation_to(explanation: Explanation) -> dict[str, Any]:
    stage = None if explanation.stage is None else explanation.stage.value
    return {
        "id": explanation.id,
        "stage": stage,
        "reason": explanation.reason,
        "numbers": dict(explanation.numbers),
        "details": dict(explanation.details),
    }


def examination_to(examination: Examination) -> dict[str, Any]:
    faults = [{"code": each.code, "detail": each.detail, "fix": each.fix} for each in examination.faults]
    return {"healthy": examination.healthy, "facts": dict(examination.facts), "faults": faults}


def laid_over(below: object, above: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A request as it goes over the wire with fields of another laid over it, and the names of those that said something else.

    Objects (`tags`, `context`) are laid over field by field. Raises `InvalidRequest` when `below` is no object.
    """
    merged, clashes = dict(mapping_at("request", below)), []
    for name, value in above.items():
        beneath = merged.get(name)
        if isinstance(value, Mapping) and isinstance(beneath, Mapping):
            merged[name], inner = laid_over(beneath, value)
            clashes += [f"{name}.{each}" for each in inner]
            continue
        if beneath is not None and beneath != value:
            clashes.append(name)
        merged[name] = value
    return merged, clashes


def _claim(field: str, value: object) -> Any:
    return _built(Claim, _stated(value), within=field) if isinstance(value, Mapping) else value


def _stated(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: value for name, value in mapping.items() if value is not None}


def _built(kind: type[T], given: Mapping[Any, Any], within: str = "") -> T:
    """A dataclass of ours from camelCase names; lists become tuples."""
    known = {to_camel(each.name): each for each in fields(kind)}  # type: ignore[arg-type]  # a dataclass type
    for name in given:
        if name not in known:
            raise unknown(within, name)
    for name, each in known.items():
        if name not in given and each.default is MISSING and each.default_factory is MISSING:
            raise InvalidRequest(f"{within}.{name}" if within else name, "is missing")
    return kind(**{known[name].name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
