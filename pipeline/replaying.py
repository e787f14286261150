"""Replaying: what a recall came to as a receipt says it, beside what the same request comes to now as of then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from remit.pipeline.envelope import Answer
from remit.pipeline.receipts import Kept
from remit.stages.ceiling import Limit


class Verdict(StrEnum):
    """What a replay says of a receipt."""

    IDENTICAL = "identical"
    DRIFTED = "drifted"
    NOT_CHECKABLE = "not_checkable"


class Drift(StrEnum):
    """How a memory of an answer, or the answer itself, is another now; one that is missing has the reason that `why` gives."""

    VERSION = "version_changed"
    SCORE = "score_changed"
    PLACE = "place_changed"
    FOUND = "newly_found"
    OUTCOME = "outcome_changed"


class Around(StrEnum):
    """What is not as it was then, whether or not it changed the answer."""

    CONFIG = "config_changed"
    ANALYSER = "analyser_changed"
    SPACES = "spaces_changed"
    REVOKED = "scope_revoked"
    GRANTED = "scope_granted"
    COUNTS = "counts_changed"


class Uncheckable(StrEnum):
    """Why nothing can be said of a receipt."""

    NO_REQUEST = "no_request"
    CONTINUATION = "continuation"
    UNAVAILABLE_THEN = "unavailable_then"
    UNAVAILABLE_NOW = "unavailable_now"
    OUT_OF_TIME = "out_of_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is another now; `id` is None for the answer as a whole."""

    id: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of one receipt: the verdict, what drifted or why it cannot be checked, and what is not as it was around it."""

    number: int
    hash: str
    verdict: Verdict
    changes: tuple[Change, ...] = ()
    around: tuple[Around, ...] = ()
    why: Uncheckable | None = None

    @classmethod
    def uncheckable(cls, kept: Kept, why: Uncheckable, around: tuple[Around, ...] = ()) -> Replayed:
        return cls(number=kept.number, hash=kept.hash, verdict=Verdict.NOT_CHECKABLE, around=around, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a recall took place: the store by its name, who asked with which scopes, the request and the config by their digests."""

    store: str
    org: str
    actor: str
    scopes: tuple[str, ...] | str | None
    request: str
    config: str
    analyser: str
    spaces: Mapping[str, str]


def receipt_of(answer: Answer, setting: Setting, at: str) -> dict[str, Any]:
    """What a receipt says of an answer: names, versions, scores, counts and codes, and nothing that anybody wrote."""
    meta = answer.meta
    return {
        "at": at,
        "store": setting.store,
        "org": setting.org,
        "actor": setting.actor,
        "scopes": list(setting.scopes) if isinstance(setting.scopes, tuple) else setting.scopes,
        "request": setting.request,
        "config": setting.config,
        "analyser": setting.analyser,
        "spaces": dict(setting.spaces),
        "asOf": meta.asOf,
        "outcome": answer.outcome.value,
        "because": [each.code for each in meta.because],
        "degraded": list(meta.mode.degraded),
        "items": [[f"{card.source}:{card.id}", card.version, repr(card.score)] for card in answer.data],
        "stages": {each.stage: {name: each[name] for name in ("received", "returned", "rejected", "exhausted")} for each in meta.stages},
    }


async def compared(kept: Kept, now: Mapping[str, Any], lost: Callable[[str], Awaitable[str]]) -> Replayed:
    """A receipt beside that of the same request now; `lost` says of a memory why it is not found any more."""
    then = kept.line
    around = tuple(_around(then, now))
    if (why := _uncheckable(then, now)) is not None:
        return Replayed.uncheckable(kept, why, around)
    changes = [Change(id=None, reason=Drift.OUTCOME)] if _outcome(then) != _outcome(now) else []
    was, is_now = _by_id(then), _by_id(now)
    changes += [Change(id=name, reason=await lost(name)) for name in was if name not in is_now]
    changes += [Change(id=name, reason=reason) for name, reason in _moved(was, is_now)]
    changes += [Change(id=name, reason=Drift.FOUND) for name in is_now if name not in was]
    verdict = Verdict.DRIFTED if changes else Verdict.IDENTICAL
    return Replayed(number=kept.number, hash=kept.hash, verdict=verdict, changes=tuple(changes), around=around)


def _uncheckable(then: Mapping[str, Any], now: Mapping[str, Any]) -> Uncheckable | None:
    if then["outcome"] == "unavailable":
        return Uncheckable.UNAVAILABLE_THEN
    if now["outcome"] == "unavailable":
        return Uncheckable.UNAVAILABLE_NOW
    cut = any(stage["exhausted"] == Limit.SECONDS for told in (then, now) for stage in told["stages"].values())
    return Uncheckable.OUT_OF_TIME if cut else None


def _around(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[Around]:
    for name, change in (("config", Around.CONFIG), ("analyser", Around.ANALYSER), ("spaces", Around.SPACES)):
        if then[name] != now[name]:
            yield change
    held, holds = _scopes(then), _scopes(now)
    if holds != held and holds is not None and (held is None or held - holds):
        yield Around.REVOKED
    if holds != held and held is not None and (holds is None or holds - held):
        yield Around.GRANTED
    if then["stages"] != now["stages"]:
        yield Around.COUNTS


def _scopes(told: Mapping[str, Any]) -> frozenset[str] | None:
    """The scopes that were granted; None for every one of the org."""
    return None if told["scopes"] == "*" else frozenset(told["scopes"] or ())


def _outcome(told: Mapping[str, Any]) -> tuple[str, list[str]]:
    return told["outcome"], told["because"]


def _by_id(told: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    return {name: (version, score) for name, version, score in told["items"]}


def _moved(was: Mapping[str, tuple[int, str]], is_now: Mapping[str, tuple[int, str]]) -> Iterable[tuple[str, Drift]]:
    """What both hold and is another version, has another score, or stands elsewhere among the rest."""
    before, after = [name for name in was if name in is_now], [name for name in is_now if name in was]
    for place, name in enumerate(before):
        if was[name][0] != is_now[name][0]:
            yield name, Drift.VERSION
        elif was[name][1] != is_now[name][1]:
            yield name, Drift.SCORE
        elif after[place] != name:
            yield name, Drift.PLACE
