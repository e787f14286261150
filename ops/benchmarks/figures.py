"""Figures of a benchmark: percentiles, ratios measured side by side, the machine, and a table."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from os import cpu_count
from time import perf_counter
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

A = TypeVar("A")


def percentile(values: Sequence[float], which: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * which // 100)]


def ratio(values: Sequence[float], beside: Sequence[float], which: int) -> float:
    return round(percentile(values, which) / percentile(beside, which), 2)


def row(name: str, seconds: Sequence[float]) -> dict[str, Any]:
    """One line of a table: p50 and p95 in milliseconds."""
    return {"name": name, "p50": round(percentile(seconds, 50) * 1000, 3), "p95": round(percentile(seconds, 95) * 1000, 3)}


async def in_turn(asked: Sequence[A], *ways: Callable[[A], Awaitable[Any]]) -> list[list[float]]:
    """Seconds of each question, asked of every way in turn."""
    times: list[list[float]] = [[] for _ in ways]
    for question in asked:
        for way, taken in zip(ways, times, strict=True):
            began = perf_counter()
            await way(question)
            taken.append(perf_counter() - began)
    return times


def spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}"


def machine() -> dict[str, str]:
    packages = ("apsw", "sqlite-vec", "numpy", "anyio", "opentelemetry-sdk", "psycopg")
    return {
        "python": platform.python_version(),
        "cores": str(cpu_count()),
        "machine": platform.machine(),
        **{name: version(name) for name in packages},
    }


WHOLE = "whole plan"
"""What the JSON has of a query's plan; the table has it in short, and apart."""

BESIDE = "beside"
"""What the JSON has besides, and the table does not."""


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as a table, and the plans among them as another; columns in order of first appearance."""
    plans = [each for each in rows if WHOLE in each]
    _show(title, [each for each in rows if each not in plans])
    if plans:
        _show("What these statements go by, under row security", plans)


def _show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = [key for key in dict.fromkeys(key for each in rows for key in each) if key not in (WHOLE, BESIDE)]
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column == "name" else "right")
    for each in rows:
        table.add_row(*(str(each.get(column, "")) for column in columns))
    Console(width=max(140, 12 * len(columns))).print(table)
