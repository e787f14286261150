"""Speed of a whole recall on Postgres under forced row security, beside hand-written SQL for the same candidates in the same minute."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
from corpus import questions
from figures import WHOLE, in_turn, percentile, ratio, row, spread
from postgres_by_hand import LIMIT, everybody, versions
from postgres_curves import as_foreign_rows_grow, as_own_rows_grow
from postgres_made import LANES, embedders, made, serving

from remit.pipeline import Engine, Principal, Request, open_engine
from remit.pipeline.storage.store import Plan
from remit.stages.evidence import Lane

ORGS, ROWS = 200, 500
IN_FLIGHT = 8
ASKED, WARMING, TIMES = 240, 40, 5

Rows = list[dict[str, Any]]
Ask = Callable[[str, str], Awaitable[Any]]


async def against_hand_written_sql(folder: Path) -> Rows:
    """500 own of 100,000 rows, the restricted role, five stages, spans on; of 128 and 768 dimensions, at one client and at eight."""
    async with serving(folder) as server:
        rows: Rows = []
        for dimensions in (128, 768):
            dsn = await made(server, f"crowd{dimensions}", {f"org{number}": (ROWS, number) for number in range(ORGS)}, dimensions)
            rows += [{"name": f"{dimensions} dimensions: " + _listed(await versions(dsn))}, *await _measured(dsn, dimensions)]
        return rows


async def curves(folder: Path) -> Rows:
    """How a recall fares as its own rows grow, as foreign ones do, and how an index is best scanned."""
    async with serving(folder) as server:
        return [*await as_own_rows_grow(server), *await as_foreign_rows_grow(server)]


async def _measured(dsn: str, dimensions: int) -> Rows:
    orgs = [f"org{ORGS // 2 + number}" for number in range(IN_FLIGHT)]
    asked = [
        (org, question)
        for each in zip(*(questions(ASKED // IN_FLIGHT + WARMING, 1, ROWS, int(org[3:])) for org in orgs), strict=True)
        for org, question in zip(orgs, each, strict=True)
    ]
    warming, asked = asked[: WARMING * IN_FLIGHT], asked[WARMING * IN_FLIGHT :]
    async with open_engine(dsn, **embedders(dimensions)) as engine, everybody(dsn, orgs, dimensions) as hands:
        whole, by_hand = _recalls(engine), lambda org, question: hands[org].recall(question)
        ways = [lambda each, way=way: way(*each) for way in (whole, by_hand)]
        await in_turn(warming, *ways)
        runs = [await in_turn(asked, *ways) for _ in range(TIMES)]
        stages = await _stages(engine, asked)
        plans = _plans(await engine.store.plans(), LANES[dimensions])
        crowds = [(await _rate(asked, whole), await _rate(asked, by_hand)) for _ in range(TIMES)]
    return [*_of_one(runs), *_of_many(crowds), {"name": "stages, p50 ms: " + _listed(stages)}, *plans]


def _recalls(engine: Engine) -> Ask:
    async def recall(org: str, question: str) -> Any:
        return await engine.recall(Request(query=question, limit=LIMIT), Principal(actor="bench", org=org, scopes=()))

    return recall


async def _rate(asked: Sequence[tuple[str, str]], ask: Ask) -> float:
    """Questions a second with eight clients, each of its own org."""

    async def client(org: str) -> None:
        for own, question in asked:
            if own == org:
                await ask(org, question)

    began = perf_counter()
    async with anyio.create_task_group() as tasks:
        for org in dict(asked):
            tasks.start_soon(client, org)
    return len(asked) / (perf_counter() - began)


async def _stages(engine: Engine, asked: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Of each stage, half of the times, in milliseconds."""
    seconds: dict[str, list[float]] = {}
    for org, question in asked:
        for stage in (await _recalls(engine)(org, question)).meta.stages:
            seconds.setdefault(stage.stage, []).append(stage.seconds)
    return {name: round(percentile(taken, 50) * 1000, 2) for name, taken in seconds.items()}


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _of_one(runs: Sequence[Sequence[Sequence[float]]]) -> Rows:
    whole, by_hand = ([each for run in runs for each in run[way]] for way in (0, 1))
    ratios = {f"p{which}": ratio(whole, by_hand, which) for which in (50, 95)}
    return [
        row("whole recall", whole),
        row("hand-written SQL", by_hand),
        {"name": "whole / by hand", **ratios, "target": "1.5", "spread": spread([ratio(*run, 50) for run in runs])},
    ]


def _of_many(crowds: Sequence[tuple[float, float]]) -> Rows:
    rates = sorted(whole / by_hand for whole, by_hand in crowds)
    return [
        {"name": f"{IN_FLIGHT} clients, a second: whole", "p50": round(percentile([whole for whole, _ in crowds], 50))},
        {"name": f"{IN_FLIGHT} clients, a second: by hand", "p50": round(percentile([by_hand for _, by_hand in crowds], 50))},
        {"name": "throughput, whole / by hand", "p50": round(percentile(rates, 50), 2), "target": "0.6", "spread": spread(rates)},
    ]


def _plans(found: Sequence[Plan], lane: Lane) -> Rows:
    """Of the statements of a search, those that look at vectors of this length, and those that look at none."""
    others = tuple(f"_{other}" for other in Lane if other is not lane)
    return [
        {"name": plan.statement, "plan": ", ".join(f"{each.table} by {each.index or 'nothing'}" for each in plan.scans), WHOLE: plan.text}
        for plan in found
        if not plan.statement.removesuffix("_of_org").endswith(others)
    ]
