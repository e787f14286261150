"""Result: an evaluation as JSON, which is what another run is compared with and what a report is drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remit.pipeline.evaluation.curves import Curve
from remit.pipeline.evaluation.mutations import Finding
from remit.pipeline.evaluation.runs import Asked, Evaluation, Lost
from remit.pipeline.storage.store import Bound, Plan


def result_of(
    evaluation: Evaluation, *, gold: str, curves: Mapping[str, Curve] | None = None, findings: Sequence[Finding] | None = None
) -> dict[str, Any]:
    """The result: `measures`, `exposure`, `lost` and `latency`, then what stands beside them, then each case."""
    told: dict[str, Any] = {
        "gold": gold,
        "cases": len(evaluation.asked),
        "k": evaluation.k,
        "measures": evaluation.measures(),
        "returned": evaluation.returned(),
        "exposure": evaluation.exposure(),
        "exposedCases": evaluation.exposed(),
        "lost": [_lost(each) for each in evaluation.lost()],
        "latency": evaluation.latency(),
        "tokens": evaluation.tokens(),
        "work": evaluation.work(),
        "route": evaluation.route(),
        "plans": [_plan(each) for each in evaluation.plans],
        "funnel": evaluation.funnel(),
    }
    if curves is not None:
        told["curves"] = {stage: [[budget, recall] for budget, recall in points] for stage, points in curves.items()}
    if findings is not None:
        told["mutations"] = [
            {
                "name": each.name,
                "property": each.promise,
                "holds": each.holds,
                "detail": each.detail,
                "store": each.store,
                "cases": list(each.cases),
            }
            for each in findings
        ]
    told["each"] = [_case(each) for each in evaluation.asked]
    return told


def figures_of(result: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Case → its figures, out of a result; cases are told apart by name."""
    return {each["name"]: each["measures"] for each in result["each"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Of another run's result what a comparison needs: figures and questions by case, and at how many cards it looked."""

    k: int
    queries: Mapping[str, str]
    figures: Mapping[str, Mapping[str, float | None]]


def before_of(result: Any) -> Before:
    """Reads a result that was written earlier. Raises `KeyError`, `TypeError`, `ValueError` or `AttributeError` for what is none."""
    figures = figures_of(result)
    for value in (value for measured in figures.values() for value in measured.values()):
        if value is not None and not 0 <= value <= 1:
            raise ValueError(value)
    return Before(k=result["k"], queries={each["name"]: each["query"] for each in result["each"]}, figures=figures)


def loose(result: Mapping[str, Any]) -> list[str]:
    """The statements with a scan that goes by no index, or that nothing keeps within an org."""
    scans = [(plan["statement"], scan) for plan in result["plans"] for scan in plan["scans"]]
    return list(dict.fromkeys(name for name, scan in scans if scan["index"] is None or scan["within"] == Bound.NOTHING))


def _plan(plan: Plan) -> dict[str, Any]:
    scans = [{"table": each.table, "index": each.index, "within": each.within.value} for each in plan.scans]
    return {"statement": plan.statement, "scans": scans, "text": plan.text}


def _lost(lost: Lost) -> dict[str, Any]:
    return {
        "case": lost.case,
        "id": lost.id,
        "stage": lost.stage,
        "reason": lost.reason,
        "budget": dict(lost.budget),
        "numbers": dict(lost.numbers),
    }


def _case(asked: Asked) -> dict[str, Any]:
    return {
        "name": asked.case.name,
        "query": asked.case.query,
        "outcome": asked.answer.outcome.value if asked.answer else None,
        "error": asked.error,
        "expected": asked.case.outcome.value if asked.case.outcome else None,
        "measures": dict(asked.measures),
        "returned": list(asked.found),
        "packed": list(asked.packed),
        "wrong": sorted(set(asked.found) - set(asked.case.relevant) - set(asked.case.related)),
        "missing": [each for each in asked.case.relevant if each not in asked.found],
        "mustNot": sorted(set(asked.found) & set(asked.case.must_not)),
        "exposure": dict(asked.exposure),
        "ms": asked.seconds * 1000,
        "tokens": asked.answer.meta["context"]["tokens"] if asked.answer else None,
        "checked": asked.checks.verdicts.total(),
    }
