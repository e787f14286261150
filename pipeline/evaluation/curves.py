"""Curves: how much of the evidence is found as each stage is given more to spend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from remit.pipeline.engine import Engine
from remit.pipeline.evaluation.gold import Case
from remit.pipeline.evaluation.measures import mean_of, part
from remit.stages.request import Request

Curve = Sequence[tuple[int, float]]
"""(budget, mean recall of the evidence) in order of budgets."""

STEPS: Mapping[str, tuple[str, str]] = {
    "generate": ("hits of one route and source", "returned"),
    "verify": ("sources looked at", "returned"),
    "page": ("cards of the answer", "returned"),
    "pack": ("tokens of the context", "packed"),
}
"""Stage → what its budget counts, and where the evidence is looked for."""


async def curves(
    engine: Engine, cases: Sequence[Case], *, items: Sequence[int], tokens: Sequence[int], told: Callable[[int], None] = lambda _: None
) -> dict[str, Curve]:
    """Asks the cases that have evidence again, with each budget in turn lowered for one stage only."""
    with_evidence = [case for case in cases if case.relevant]
    drawn: dict[str, Curve] = {}
    done = 0
    for stage, (_, where) in STEPS.items():
        points = []
        for budget in tokens if stage == "pack" else items:
            shares = []
            for case in with_evidence:
                answer = await engine.recall(lowered(case.request, stage, budget), case.principal)
                cards = [card for card in answer.data if where == "returned" or card["packed"]]
                shares.append(part(case.relevant, [f"{card['source']}:{card['id']}" for card in cards]))
                done += 1
            told(done)
            points.append((budget, mean_of(shares) or 0.0))
        drawn[stage] = tuple(points)
    return drawn


def rounds(cases: Sequence[Case], items: Sequence[int], tokens: Sequence[int]) -> int:
    """How many recalls the curves take."""
    return sum(1 for case in cases if case.relevant) * (len(items) * (len(STEPS) - 1) + len(tokens))


def lowered(request: Request, stage: str, budget: int) -> Request:
    """The request with one stage's budget lowered; a case's own lower limit stays."""
    if stage == "page":
        return replace(request, limit=min(budget, request.limit or budget))
    if stage == "pack":
        most = request.context.tokens
        return replace(request, context=replace(request.context, tokens=min(budget, most or budget)))
    ceilings: dict[str, Mapping[str, Any]] = {name: dict(given) for name, given in request.ceilings.items()}
    own = ceilings.get(stage, {}).get("items")
    ceilings[stage] = {**ceilings.get(stage, {}), "items": min(budget, own or budget)}
    return replace(request, ceilings=ceilings)
