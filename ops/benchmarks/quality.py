"""Retrieval quality on public collections: recall@20 and nDCG@10 of whole recalls, each question inside its own group."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import log2
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

from remit.pipeline import Doc, Principal, Request, Session, open_engine

SETS = ("locomo", "cranfield", "cacm", "cisi", "npl")


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def recalled(found: Sequence[str], relevant: set[str], most: int) -> float:
    """The part of the relevant ids among the first `most`."""
    return len(relevant & set(found[:most])) / len(relevant)


def gain(found: Sequence[str], relevant: set[str], most: int) -> float:
    """nDCG with binary relevance: 1 when every relevant id comes first."""
    got = sum(1 / log2(place + 2) for place, name in enumerate(found[:most]) if name in relevant)
    best = sum(1 / log2(place + 2) for place in range(min(most, len(relevant))))
    return got / best


async def taken_in(folder: Path, store: str) -> dict[str, float]:
    """Takes a collection in: a conversation's turns as sessions of its scope, abstracts as global docs."""
    kind, grouped = kind_of(folder)
    rows = (
        kind(id=line["id"], text=line["text"], scope=f"conversation:{line['group']}" if grouped else "global")
        for line in lines(folder / "corpus.jsonl")
        if line["text"].strip()
    )
    started = perf_counter()
    async with open_engine(store) as engine:
        stored = [receipt async for receipt in engine.remember_stream(rows, Principal(actor="bench", org="bench", scopes="*"))]
    return {"rows": len(stored), "seconds": round(perf_counter() - started, 2)}


def kind_of(folder: Path) -> tuple[type[Session | Doc], bool]:
    grouped = any("group" in line for line in lines(folder / "corpus.jsonl"))
    return (Session if grouped else Doc), grouped


async def measure(folder: Path, store: str, config: dict[str, Any] | None = None, half: int | None = None) -> dict[str, float]:
    """Asks every judged question of a collection that was taken in, and gives the two figures beside counts and times.

    `half` keeps the groups (conversations) whose number is even (0) or odd (1), so that one half decides and the other is reported.
    """
    kind, grouped = kind_of(folder)
    figures = defaultdict(list)
    async with open_engine(store, config=config) as engine:
        for line in lines(folder / "queries.jsonl"):
            if not line["relevant"] or (half is not None and int(line["group"]) % 2 != half):
                continue
            reader = Principal(actor="bench", org="bench", scopes=(f"conversation:{line['group']}",) if grouped else ())
            began = perf_counter()
            answer = await engine.recall(Request(query=line["text"], limit=20, sources=(kind.source,)), reader)
            figures["ms"].append((perf_counter() - began) * 1000)
            found, relevant = [card["id"] for card in answer.data], set(line["relevant"])
            figures["recall@20"].append(recalled(found, relevant, 20))
            figures["nDCG@10"].append(gain(found, relevant, 10))
            figures["cards"].append(len(found))
    return {
        "questions": len(figures["ms"]),
        "p50 ms": round(sorted(figures["ms"])[len(figures["ms"]) // 2], 2),
        **{name: round(mean(figures[name]), 4) for name in ("recall@20", "nDCG@10", "cards")},
    }
