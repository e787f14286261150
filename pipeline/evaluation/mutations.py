"""Mutations: changes to a copy of a user's own memory that must not change its answers, or must change them in one way only."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.authority import AsStated, Authority, Principal, access_to_write, granted
from remit.pipeline.engine import Engine
from remit.pipeline.envelope import Answer
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.evaluation.canaries import canaries_for, records_of
from remit.pipeline.evaluation.gold import Case
from remit.pipeline.items import Fact, Item, Session
from remit.pipeline.times import BEGINNING, moment_at
from remit.stages.access import GLOBAL
from remit.stages.ports import Embedder

STRANGERS = "strangers-of-an-evaluation"
HIDDEN = "project:hidden-from-an-evaluation"
COPIES = 5
UNLIKE = ("seconds", "traceId", "verifiedAt")
"""What differs between two answers that say the same."""


class Opening(Protocol):
    """Opens the copy, as `open_engine` does; a test may switch a guard off in what it opens."""

    def __call__(self, *, embedder: Embedder | None = None, authority: Authority | None = None) -> AbstractAsyncContextManager[Engine]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one mutation showed: the property it is about, whether it holds, for which cases it does not, and on what kind of store."""

    name: str
    promise: str
    holds: bool
    detail: str
    store: str = ""
    cases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherModel(Embedder):
    """The same vectors under another model's name: what a changed model is to a store that only looks at dimensions."""

    inner: Embedder
    space: str = field(init=False)
    lane: Any = field(init=False)
    dimensions: int = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (("lane", self.inner.lane), ("dimensions", self.inner.dimensions), ("space", f"another/{self.inner.space}")):
            object.__setattr__(self, name, value)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await self.inner.embed(texts)


class Revoking(Authority):
    """Grants nobody anything but what every member of an org has."""

    async def resolve(self, principal: Principal) -> Principal:
        return replace(principal, scopes=())


async def mutated(open_copy: Opening, cases: Sequence[Case], *, told: Callable[[int], None] = lambda _: None) -> list[Finding]:
    """Applies every mutation to the copy, in this order, and asks all cases each time. The copy is not fit for use afterwards."""
    findings = []
    async with open_copy() as engine:
        store = (await engine.store.capabilities()).facts["store"]
        before = await _asked(engine, cases)
    for number, check in enumerate((_control, _foreign, _stale, _other_model, _revoked), start=1):
        findings.append(replace(await check(open_copy, cases, before), store=store))
        told(number)
    return findings


async def copied(source: Engine, target: Engine, orgs: Sequence[str]) -> int:
    """Carries everything of these orgs into another store, as it stands, whatever anybody is granted; how many memories that was.

    Raises `InvalidRequest` when the other store refuses one: properties of a part of a memory would say little.
    """
    count, vouched = 0, AsStated()
    for org in orgs:
        everything = Principal(actor="evaluation", org=org, scopes="*")
        whole = replace(source, authority=vouched).export(everything)
        async for receipt in replace(target, authority=vouched).import_stream(whole, everything):
            if receipt.code is not None:
                raise InvalidRequest("copy", f"refused {receipt.id}: {receipt.code}")
            count += 1
    return count


async def as_granted(engine: Engine, cases: Sequence[Case]) -> list[Case]:
    """The cases, their principals stating what they are granted now: in a copy nobody was granted anything."""
    told = []
    for case in cases:
        scopes = (await granted(case.principal, engine.authority, engine.config.limits)).scopes
        stated: Any = "*" if scopes is None else tuple(sorted(scopes - {GLOBAL}))
        told.append(replace(case, principal=replace(case.principal, scopes=stated)))
    return told


async def _control(open_copy: Opening, cases: Sequence[Case], before: Sequence[Answer]) -> Finding:
    changed = _differing(cases, before, await _answers(open_copy, cases), said)
    return _finding("control", "asked again with nothing changed, every answer is the same", changed)


async def _foreign(open_copy: Opening, cases: Sequence[Case], before: Sequence[Answer]) -> Finding:
    """Strangers of another org and of a scope nobody was granted say what each question asks, better than anything else can."""
    async with open_copy() as engine:
        for org in sorted({STRANGERS, *(case.principal.org for case in cases)}):
            own = [case for case in cases if org == STRANGERS or (case.principal.org == org and case.principal.scopes != "*")]
            items = [item for place, case in enumerate(own) for item in _echoes(case, place, GLOBAL if org == STRANGERS else HIDDEN)]
            await _taken_in(engine, items, Principal(actor="evaluation", org=org, scopes="*"))
    changed = _differing(_narrow(cases), _of_narrow(cases, before), await _answers(open_copy, _narrow(cases)), said)
    return _finding("foreign population", "memories that a caller may not read change nothing of its answers, not a count", changed)


async def _stale(open_copy: Opening, cases: Sequence[Case], before: Sequence[Answer]) -> Finding:
    """Expired memories, worded as the question is, would come first if they still stood."""
    async with open_copy() as engine:
        for org in sorted({case.principal.org for case in cases}):
            own = [case for case in cases if case.principal.org == org]
            over = _day_before(min(map(_moment, own)))
            items = [replace(item, expires_at=over) for place, case in enumerate(own) for item in _echoes(case, place, GLOBAL)]
            await _taken_in(engine, items, Principal(actor="evaluation", org=org, scopes="*"))
    changed = _differing(cases, before, await _answers(open_copy, cases), returned)
    return _finding("stale high-ranked records", "what is no longer valid is not returned, and takes no place from what is", changed)


async def _other_model(open_copy: Opening, cases: Sequence[Case], _: Sequence[Answer]) -> Finding:
    async with open_copy() as engine:
        embedders = [OtherModel(each.questions) for each in engine.kit.streams.all]
    if not embedders:
        return Finding(name="model changed", promise=_MODEL, holds=True, detail="no embedding is configured, so no vector is compared")
    async with open_copy(embedder=embedders[0]) as engine:
        after = [await engine.recall(case.request, case.principal) for case in cases]
    wrong = [case.name for case, answer in zip(cases, after, strict=True) if any(card["matchedBy"] != "lexical" for card in answer.data)]
    return _finding("model changed", _MODEL, wrong)


_MODEL = "vectors of another model are not compared, though they have as many dimensions: words alone answer until they are made anew"


async def _revoked(open_copy: Opening, cases: Sequence[Case], _: Sequence[Answer]) -> Finding:
    wrong = []
    async with open_copy(authority=Revoking()) as engine:
        records, limits = await records_of(engine.store), engine.config.limits
        hidden: dict[str, frozenset[str]] = {}
        for case in cases:
            org = case.principal.org
            if org not in hidden:
                access = access_to_write(await granted(case.principal, engine.authority, limits), _moment(case))
                hidden[org] = canaries_for(access, records, frozenset()).ids
            answer = await engine.recall(case.request, case.principal)
            if not hidden[org].isdisjoint(f"{card['source']}:{card['id']}" for card in answer.data):
                wrong.append(case.name)
    return _finding("revoked grant", "what is no longer granted is not returned, from the next recall on", wrong)


def said(answer: Answer) -> str:
    """An answer as text, without what differs each time."""
    return json.dumps(_without(answer.wire()), sort_keys=True, ensure_ascii=False)


def returned(answer: Answer) -> list[tuple[str, str, float]]:
    """The cards of an answer in order, with their scores."""
    return [(card["source"], card["id"], card["score"]) for card in answer.data]


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(inner) for key, inner in value.items() if key not in UNLIKE}
    return [_without(each) for each in value] if isinstance(value, list) else value


def _differing(cases: Sequence[Case], before: Sequence[Answer], after: Sequence[Answer], as_seen: Callable[[Answer], Any]) -> list[str]:
    told = zip(cases, before, after, strict=True)
    return [case.name for case, old, new in told if as_seen(old) != as_seen(new)]


def _finding(name: str, promise: str, broken: Sequence[str]) -> Finding:
    detail = f"broken for {len(broken)} cases" if broken else "holds for every case"
    return Finding(name=name, promise=promise, holds=not broken, detail=detail, cases=tuple(broken))


def _narrow(cases: Sequence[Case]) -> list[Case]:
    """The cases whose principal is not granted everything, so that something of its own org can be foreign."""
    return [case for case in cases if case.principal.scopes != "*"] or list(cases)


def _of_narrow(cases: Sequence[Case], answers: Sequence[Answer]) -> list[Answer]:
    kept = {case.name for case in _narrow(cases)}
    return [answer for case, answer in zip(cases, answers, strict=True) if case.name in kept]


def _echoes(case: Case, place: int, scope: str) -> list[Item]:
    """Memories that say what the question says, several times over."""
    return [
        kind(id=f"echo-{place}-{copy}", text=f"{case.query} {case.query} {copy}", scope=scope, created_at=_day_before(_moment(case)))
        for kind in (Fact, Session)
        for copy in range(COPIES)
    ]


async def _taken_in(engine: Engine, items: Sequence[Item], principal: Principal) -> None:
    for receipt in await engine.remember(items, principal):
        if receipt.code is not None:
            raise RuntimeError(f"the copy refused {receipt.id}: {receipt.code}")


async def _answers(open_copy: Opening, cases: Sequence[Case]) -> list[Answer]:
    async with open_copy() as engine:
        return await _asked(engine, cases)


async def _asked(engine: Engine, cases: Sequence[Case]) -> list[Answer]:
    return [await engine.recall(case.request, case.principal) for case in cases]


def _moment(case: Case) -> datetime:
    return moment_at("asOf", case.request.as_of)


def _day_before(moment: datetime) -> datetime:
    return moment - min(timedelta(days=1), (moment - BEGINNING) / 2)
