"""Harness: asks every case through the engine's front door, and keeps what was found, what was lost, and what leaked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from remit.pipeline.authority import access_to_write, granted
from remit.pipeline.engine import Engine
from remit.pipeline.envelope import Answer
from remit.pipeline.errors import RemitError
from remit.pipeline.evaluation.canaries import Canaries, canaries_for, records_of
from remit.pipeline.evaluation.gold import Case
from remit.pipeline.evaluation.measures import MEASURES, distribution, gain, mean_of, part, precision, right_and_wrong
from remit.pipeline.evaluation.taps import Heard, tapped
from remit.pipeline.storage.entry import Record
from remit.pipeline.times import moment_at
from remit.stages.report import StageName

BOUNDARIES = ("candidates", "embedderInput", "rerankerInput", "logs", "spans", "packedText", "errors", "counts")

Ears = Mapping[str, Callable[[], str]]
"""What else can be overheard, by boundary (`logs`, `spans`): each call gives all that was told since the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """One piece of evidence that did not get into the context: which stage let it go, why, and what the stage could spend."""

    case: str
    id: str
    stage: str | None
    reason: str
    budget: Mapping[str, Any]
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One case, asked: its figures by measure (None: not a question of it), what was returned and packed, and what it cost."""

    case: Case
    answer: Answer | None
    error: str | None
    measures: Mapping[str, float | None]
    found: tuple[str, ...]
    packed: tuple[str, ...]
    lost: tuple[Lost, ...]
    exposure: Mapping[str, int]
    seconds: float
    readable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A whole run. `facts` is what the store tells of itself, and so of the plans it can make."""

    asked: tuple[Asked, ...]
    k: int
    facts: Mapping[str, str]

    def measures(self) -> dict[str, float | None]:
        return {name: mean_of([each.measures[name] for each in self.asked]) for name in MEASURES}

    def returned(self) -> dict[str, float | int]:
        """All cards of all cases together: how many were relevant, how many were neither that nor related, how many must not have been."""
        right = wrong = forbidden = 0
        for each in self.asked:
            good, bad = right_and_wrong(each.found, each.case.relevant, each.case.related)
            right, wrong = right + good, wrong + bad
            forbidden += len(set(each.found) & set(each.case.must_not))
        return {"relevant": right, "wrong": wrong, "mustNot": forbidden, "precision": right / (right + wrong) if right + wrong else 1.0}

    def exposure(self) -> dict[str, int]:
        return {name: sum(each.exposure[name] for each in self.asked) for name in BOUNDARIES}

    def exposed(self) -> list[str]:
        """The cases at which something leaked."""
        return [each.case.name for each in self.asked if any(each.exposure.values())]

    def lost(self) -> list[Lost]:
        return [lost for each in self.asked for lost in each.lost]

    def latency(self) -> dict[str, Any]:
        """Milliseconds of whole recalls, all together and by how many memories the caller may read."""
        shapes: dict[str, list[float]] = defaultdict(list)
        for each in self.asked:
            shapes[shape_of(each.readable)].append(each.seconds * 1000)
        told = distribution([each.seconds * 1000 for each in self.asked])
        return {"unit": "ms", **told, "byReadable": {shape: distribution(times) for shape, times in sorted(shapes.items())}}

    def tokens(self) -> dict[str, float]:
        return distribution([float(each.answer.meta["context"]["tokens"]) for each in self.asked if each.answer])

    def funnel(self) -> list[dict[str, Any]]:
        """Per stage, all cases together: what it received, returned and let go, for which reasons."""
        told = []
        for stage in StageName:
            entries = [entry for each in self.asked if each.answer for entry in each.answer.meta["stages"] if entry["stage"] == stage]
            rejected: Counter[str] = Counter()
            for entry in entries:
                rejected.update(entry["rejected"])
            told.append(
                {
                    "stage": stage.value,
                    "received": sum(entry["received"] for entry in entries),
                    "returned": sum(entry["returned"] for entry in entries),
                    "rejected": dict(rejected.most_common()),
                    "exhausted": sum(entry["exhausted"] is not None for entry in entries),
                    "ms": distribution([entry["seconds"] * 1000 for entry in entries]),
                }
            )
        return told

    def route(self) -> dict[str, Any]:
        """Which routes ran and why others did not, what was done without, in which spaces vectors were compared; and the store's facts."""
        routes: dict[str, Counter[str]] = defaultdict(Counter)
        degraded: Counter[str] = Counter()
        spaces: dict[str, str] = {}
        for mode in (each.answer.meta["mode"] for each in self.asked if each.answer):
            for name, said in mode["routes"].items():
                routes[name][said] += 1
            degraded.update(mode["degraded"])
            spaces |= {lane: stream["space"] for lane, stream in mode["embedding"].items()}
        return {
            "routes": {name: dict(said) for name, said in sorted(routes.items())},
            "degraded": dict(degraded.most_common()),
            "spaces": spaces,
            "plan": dict(self.facts),
        }


def shape_of(readable: int) -> str:
    """How large a memory is, in round numbers that sort."""
    for most in (100, 1_000, 10_000, 100_000):
        if readable <= most:
            return f"≤ {most:>7,}"
    return "> 100,000"


async def evaluated(
    engine: Engine, cases: Sequence[Case], *, k: int, ears: Ears | None = None, told: Callable[[int], None] = lambda _: None
) -> Evaluation:
    """Asks all cases, one after the other, so that each one's time is its own.

    Everything in the store is read once, to know what each principal must not get to see.
    """
    records = await records_of(engine.store)
    watched, heard = tapped(engine)
    seen: dict[tuple[Any, ...], Canaries] = {}
    asked = []
    for number, case in enumerate(cases, start=1):
        canaries = await _canaries(engine, case, records, seen)
        asked.append(await _asked(engine, watched, heard, case, canaries, k, ears or {}))
        told(number)
    return Evaluation(asked=tuple(asked), k=k, facts=(await engine.doctor()).facts)


async def _canaries(engine: Engine, case: Case, records: Sequence[tuple[str, Record]], seen: dict[tuple[Any, ...], Canaries]) -> Canaries:
    """What this principal may not read, worked out once for all of its questions."""
    grants = await granted(case.principal, engine.authority, engine.config.limits)
    key = (grants.org, grants.actor, grants.scopes)
    if key not in seen:
        seen[key] = canaries_for(access_to_write(grants, moment_at("asOf", case.request.as_of)), records)
    return seen[key]


async def _asked(engine: Engine, watched: Engine, heard: Heard, case: Case, canaries: Canaries, k: int, ears: Ears) -> Asked:
    heard.clear()
    for ear in ears.values():
        ear()
    answer, error = None, None
    started = perf_counter()
    try:
        answer = await watched.recall(case.request, case.principal)
    except RemitError as raised:
        error = str(raised)
    seconds = perf_counter() - started
    overheard = {name: ear() for name, ear in ears.items()}
    found = tuple(f"{card['source']}:{card['id']}" for card in answer.data) if answer else ()
    packed = tuple(f"{card['source']}:{card['id']}" for card in answer.data if card["packed"]) if answer else ()
    lost = await _lost(engine, case, answer, packed) if answer else ()
    return Asked(
        case=case,
        answer=answer,
        error=error,
        measures=_measured(case, answer, heard.candidates, found, packed, k),
        found=found,
        packed=packed,
        lost=lost,
        exposure=_exposed(case, answer, error, heard, overheard, canaries, found),
        seconds=seconds,
        readable=sum(canaries.readable.values()),
    )


def _measured(
    case: Case, answer: Answer | None, candidates: set[str], found: Sequence[str], packed: Sequence[str], k: int
) -> dict[str, float | None]:
    outcome = answer.outcome if answer else None
    return {
        "candidateRecall": part(case.relevant, candidates),
        "freshValidRecall": part(case.relevant, found),
        "packedCoverage": part(case.relevant, packed),
        "answerSupport": part(case.needs, packed),
        "authorizedRecall@k": part(case.relevant, found[:k]),
        "nDCG@k": gain(found, case.relevant, k),
        "precision": precision(found, case.relevant, case.related),
        "outcomeAccuracy": None if case.outcome is None else float(outcome is case.outcome),
    }


async def _lost(engine: Engine, case: Case, answer: Answer, packed: Sequence[str]) -> tuple[Lost, ...]:
    """Why each piece of evidence is not in the context, by running the question again for it."""
    told = []
    budgets = {entry["stage"]: entry["ceiling"] for entry in answer.meta["stages"]}
    for missing in (each for each in dict.fromkeys((*case.relevant, *case.needs)) if each not in packed):
        why = await engine.why(case.request, missing, case.principal)
        stage = None if why.stage is None else why.stage.value
        budget = dict(budgets.get(stage or "", {}))
        if stage == StageName.PACK:
            budget["tokens"] = answer.meta["context"]["budget"]
        told.append(Lost(case=case.name, id=missing, stage=stage, reason=why.reason, budget=budget, numbers=dict(why.numbers)))
    return tuple(told)


def _exposed(
    case: Case,
    answer: Answer | None,
    error: str | None,
    heard: Heard,
    overheard: Mapping[str, str],
    canaries: Canaries,
    found: Sequence[str],
) -> dict[str, int]:
    """Per boundary, how much of what this principal may not read came across it."""
    asked = case.query
    meta = answer.meta if answer else {}
    reasons = " ".join(f"{each['detail']} {each['next']}" for each in meta.get("because", ()))
    matched = {source: counts["matched"] for source, counts in meta.get("bySource", {}).items()}
    return {
        "candidates": canaries.among(heard.candidates) + canaries.among(found),
        "embedderInput": sum(canaries.in_text(text, asked) for text in heard.embedded),
        "rerankerInput": sum(canaries.in_text(text, asked) for text in heard.reranked),
        "logs": canaries.in_text(overheard.get("logs", ""), asked),
        "spans": canaries.in_text(overheard.get("spans", ""), asked),
        "packedText": canaries.in_text(meta["context"]["text"] if meta else "", asked),
        "errors": canaries.in_text(f"{error or ''} {reasons}", asked),
        "counts": canaries.beyond(matched),
    }
