"""Runs: what a whole evaluation came to, case by case, and what that is in figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from remit.pipeline.envelope import Answer
from remit.pipeline.evaluation.gold import Case
from remit.pipeline.evaluation.measures import MEASURES, distribution, mean_of, right_and_wrong
from remit.pipeline.evaluation.taps import Checks
from remit.pipeline.storage.store import Plan
from remit.stages.report import StageName

BOUNDARIES = ("candidates", "embedderInput", "rerankerInput", "logs", "spans", "packedText", "errors", "counts")
"""Where what a principal may not read is looked for."""


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
    checks: Checks
    readable: int

    def returned_by(self, stage: StageName) -> list[int]:
        """How many came out of a stage, all rounds together; nothing for a recall that failed."""
        entries = self.answer.meta["stages"] if self.answer else ()
        return [sum(entry["returned"] for entry in entries if entry["stage"] == stage)] if entries else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A whole run. `facts` is what the store tells of itself, `plans` how it goes about the statements of a search."""

    asked: tuple[Asked, ...]
    k: int
    facts: Mapping[str, str]
    plans: tuple[Plan, ...] = ()

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

    def work(self) -> dict[str, Any]:
        """Of each case: how many candidates were left after each stage, how many memories were looked at again at their sources, in how
        many looks, and for how long; and what all of these turned out to be."""
        verdicts = sum((each.checks.verdicts for each in self.asked), Counter[str]())
        return {
            "candidates": {
                stage.value: distribution([float(count) for each in self.asked for count in each.returned_by(stage)]) for stage in StageName
            },
            "checks": {
                "memories": distribution([float(each.checks.verdicts.total()) for each in self.asked]),
                "looks": distribution([float(each.checks.looks) for each in self.asked]),
                "ms": distribution([each.checks.seconds * 1000 for each in self.asked]),
                "verdicts": dict(verdicts.most_common()),
            },
        }

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
            "store": dict(self.facts),
        }


def shape_of(readable: int) -> str:
    """How large a memory is, in round numbers that sort."""
    for most in (100, 1_000, 10_000, 100_000):
        if readable <= most:
            return f"≤ {most:>7,}"
    return "> 100,000"
