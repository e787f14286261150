"""The answer of a recall: cards, best first, and what they cost to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any, TypeVar

from remit.pipeline.asking import Plan
from remit.pipeline.continuing import Stopped, told_on
from remit.pipeline.embedding.streams import Streams
from remit.pipeline.outcome import Because, Code, Evidence, Outcome, decided
from remit.pipeline.recall import Recalled
from remit.pipeline.stopping import stopped_at
from remit.pipeline.storage.entry import ALIAS
from remit.pipeline.trail import StageReport, Trail
from remit.stages.evidence import Card, Lane, Origin, Ranked, Route
from remit.stages.generate import Generated
from remit.stages.pack import Packed
from remit.stages.report import Degradation, Reason, StageName
from remit.stages.request import Source

T = TypeVar("T")


class Wire(dict[str, Any]):
    """A JSON object as it goes over the wire, with camelCase keys. Its values can also be read as attributes, in snake_case."""

    def __getattr__(self, name: str) -> Any:
        first, *rest = name.split("_")
        key = name if name in self else first + "".join(part.capitalize() for part in rest)
        try:
            return self[key]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a recall gives: `outcome`, `data` (cards, best first) and `meta`, as `{"data": […], "meta": {…}}` goes over the wire."""

    outcome: Outcome
    data: Sequence[Wire]
    meta: Wire

    def wire(self) -> dict[str, Any]:
        return {"data": list(self.data), "meta": self.meta}


def card(given: Card) -> Wire:
    """One card as it goes over the wire."""
    ranked, memory, checked_at, verdict = given.fresh
    source, name = memory.passage.memory
    return Wire(
        rank=given.rank,
        id=name,
        source=str(source),
        scope=memory.label.shelf.scope,
        title=memory.title,
        text=memory.text,
        score=ranked.score,
        matchedBy=str(ranked.matched_by),
        ranks=_by_lane(ranked.ranks),
        shares=_by_lane(ranked.shares),
        parts={"fused": ranked.fused, "boost": ranked.boost, "scope": ranked.scope},
        chunks=ranked.chunks,
        version=memory.version,
        origin=None if memory.origin is None else _origin(memory.origin),
        createdAt=moment(memory.created_at),
        freshness=str(verdict),
        verifiedAt=None if checked_at is None else moment(checked_at),
        trust=str(memory.trust),
        tags=list(memory.tags),
        packed=given.packed,
        cite=given.cite,
        tokens=given.tokens,
        disputedBy=[str(other) for other in given.disputed_by],
    )


def _by_lane(numbers: Mapping[Lane, T]) -> dict[str, T]:
    return {str(lane): number for lane, number in sorted(numbers.items())} if numbers else {}


def _origin(origin: Origin) -> Wire:
    return Wire(uri=origin.uri, version=origin.version, sha256=origin.sha256, project=origin.project, conversation=origin.conversation)


def moment(when: datetime) -> str:
    """A time on the wire: ISO 8601 in UTC with a Z."""
    return _in_utc(when.astimezone(UTC))


@lru_cache(maxsize=1024)
def _in_utc(when: datetime) -> str:
    """Remembered, for memories are looked at together, and were often taken in together.

    Of times in UTC alone: the two that a zone has of an hour in autumn are equal, and would be told alike.
    """
    return when.isoformat().replace("+00:00", "Z")


def stage(report: StageReport) -> Wire:
    """One entry of `meta.stages`. `received == returned + sum(rejected)` in every one."""
    limits = (("items", report.ceiling.items), ("seconds", report.ceiling.seconds), ("tokens", report.ceiling.tokens))
    return Wire(
        stage=str(report.stage),
        received=report.received,
        returned=report.returned,
        rejected={str(reason): count for reason, count in sorted(report.rejected.items()) if count},
        ceiling={name: limit for name, limit in limits if limit is not None and isfinite(limit)},
        exhausted=None if report.exhausted is None else str(report.exhausted),
        degraded=[str(each) for each in report.degraded],
        outcome=report.outcome,
        seconds=round(report.seconds, 6),
    )


def because(each: Because) -> Wire:
    return Wire(
        stage=None if each.stage is None else str(each.stage),
        code=str(each.code),
        detail=each.detail,
        owner=str(each.owner),
        retryable=each.retryable,
        next=each.next,
    )


def mode(generated: Sequence[Generated], reports: Sequence[StageReport], streams: Streams, org: str, untold: Sequence[Degradation]) -> Wire:
    """How the answer was found: which routes ran, what was done without (`untold` by the stages too), and which vectors were compared."""
    last = generated[-1] if generated else None
    routes: dict[Route, str] = {}
    near: dict[str, Sequence[str]] = {}
    for each in generated:
        routes.update(each.routes)
        near.update(each.near)
    spaces, coverage = streams.spaces(), dict(last.coverage) if last else {}
    degraded = dict.fromkeys([*untold, *(each for report in reports for each in report.degraded)])
    return Wire(
        routes={str(route): said for route, said in sorted(routes.items())},
        degraded=sorted(map(str, degraded)),
        embedding={
            str(lane): Wire(space=spaces.get(lane), coverage=_fraction(last, lane), state=str(state))
            for lane, state in streams.states(org, coverage).items()
        },
        near={word: list(close) for word, close in sorted(near.items())},
        leftOut=[word for word in last.left_out if not word.startswith(ALIAS)] if last else [],
    )


def _fraction(generated: Generated | None, lane: Lane) -> float | None:
    """The part of the passages in reach that has a vector of this lane's space; None when it was not looked at."""
    having, passages = generated.coverage.get(lane, (0, 0)) if generated else (0, 0)
    return round(having / passages, 4) if passages else None


def by_source(sources: Sequence[Source], ranked: Sequence[Ranked], cards: Sequence[Card]) -> Wire:
    """Per source asked: how many are returned, and how many memories matched that the caller may read."""
    matched = [each.candidate.outline.passage.memory.source for each in ranked]
    returned = [each.fresh.memory.passage.memory.source for each in cards]
    return Wire({str(source): Wire(returned=returned.count(source), matched=matched.count(source)) for source in sources})


def context(packed: Packed | None, budget: int) -> Wire:
    """The packed context, and what did not get into it and why."""
    if packed is None:
        return Wire(text="", tokens=0, budget=budget, passages=0, dropped=[])
    dropped = [
        Wire(id=str(each.id), reason=str(each.reason), **({"repeats": str(each.repeats)} if each.repeats else {}))
        for each in packed.context.dropped
    ]
    return Wire(text=packed.context.text, tokens=packed.context.tokens, budget=budget, passages=packed.context.passages, dropped=dropped)


def answered(
    plan: Plan,
    recalled: Recalled,
    trail: Trail,
    *,
    scope_filter: Mapping[str, Any],
    token_at: Callable[[Stopped], str | None],
    streams: Streams,
    org: str,
    trace: str | None,
) -> Answer:
    """The answer of a recall that came to its end, however it ended; `token_at` makes what an exhausted one is gone on with."""
    cards = recalled.packed.cards if recalled.packed else ()
    reports = trail.reports
    evidence = Evidence(
        fresh=len(cards),
        full=recalled.page.full and len(cards) > 0,
        packed=recalled.packed.context.passages if recalled.packed else 0,
        minimum=max(1, plan.evidence_minimum - sum(plan.onward.taken.values())),
        context_asked=plan.room.passages > 0,
        behind=recalled.left_behind,
    )
    coverage = recalled.generated[-1].coverage if recalled.generated else {}
    degraded = streams.degraded(org, coverage)
    outcome, reasons = decided(reports, evidence, recalled.faults, degraded)
    token = None
    if outcome is Outcome.EXHAUSTED and all(each.code is not Code.TOO_FEW for each in reasons):
        parts, allowed = plan.onward.part, plan.continuations
        token = token_at(stopped_at(recalled, reports, reasons)) if parts < allowed else None
        reasons = told_on(reasons, token, parts=parts, allowed=allowed)
    sources = by_source(plan.question.sources, recalled.ranked, cards)
    meta = Wire(
        outcome=str(outcome),
        because=[because(each) for each in reasons],
        mode=mode(recalled.generated, list(reports.values()), streams, org, degraded),
        bySource=sources,
        truncated=_truncated(reports.values()),
        available=sum([each["matched"] for each in sources.values()]),
        scopeFilter=Wire(scope_filter),
        stages=[stage(report) for report in reports.values()],
        context=context(recalled.packed, plan.room.tokens),
        continuation=token,
        receipt=None,
        asOf=moment(plan.question.as_of),
        traceId=trace,
    )
    return Answer(outcome=outcome, data=[card(each) for each in cards], meta=meta)


def with_receipt(answer: Answer, kept: str | None) -> Answer:
    """The answer with the hash of its receipt, or with the word that it could not be kept."""
    mode = Wire(answer.meta.mode)
    if kept is None:
        mode["degraded"] = sorted([*mode["degraded"], str(Degradation.RECEIPT_FAILED)])
    return replace(answer, meta=Wire({**answer.meta, "mode": mode, "receipt": kept}))


def _truncated(reports: Iterable[StageReport]) -> bool:
    """Whether a share, the limit or a ceiling kept something out of the list of cards."""
    found = [report for report in reports if report.stage is not StageName.PACK]
    return any(report.exhausted or report.rejected.get(Reason.SHARE) or report.rejected.get(Reason.LIMIT) for report in found)
