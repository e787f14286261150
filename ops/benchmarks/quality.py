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


async def measure(folder: Path, store: str, config: dict[str, Any] | None = None, half: int | None = None) -> dict[str, float]:
    """Takes a collection in, asks every judged question, and gives the two figures beside counts and times.

    `half` keeps the groups (conversations) whose number is even (0) or odd (1), so that one half decides and the other is reported.
    """
    conversations = any("group" in line for line in lines(folder / "corpus.jsonl"))
    kind = Session if conversations else Doc
    async with open_engine(store, config=config) as engine:
        writer = Principal(actor="bench", org="bench", scopes="*")
        started = perf_counter()
        rows = (
            kind(id=line["id"], text=line["text"], scope=f"conversation:{line['group']}" if conversations else "global")
            for line in lines(folder / "corpus.jsonl")
            if line["text"].strip()
        )
        stored = [receipt async for receipt in engine.remember_stream(rows, writer)]
        taken_in = perf_counter() - started
        figures = defaultdict(list)
        for line in lines(folder / "queries.jsonl"):
            if not line["relevant"] or (half is not None and int(line["group"]) % 2 != half):
                continue
            scopes = (f"conversation:{line['group']}",) if conversations else ()
            reader = Principal(actor="bench", org="bench", scopes=scopes)
            began = perf_counter()
            answer = await engine.recall(Request(query=line["text"], limit=20, sources=(kind.source,)), reader)
            figures["ms"].append((perf_counter() - began) * 1000)
            found, relevant = [card["id"] for card in answer.data], set(line["relevant"])
            figures["recall@20"].append(recalled(found, relevant, 20))
            figures["nDCG@10"].append(gain(found, relevant, 10))
            figures["cards"].append(len(found))
    return {
        "rows": len(stored),
        "questions": len(figures["ms"]),
        "seconds to take in": round(taken_in, 2),
        "p50 ms": round(sorted(figures["ms"])[len(figures["ms"]) // 2], 2),
        **{name: round(mean(figures[name]), 4) for name in ("recall@20", "nDCG@10", "cards")},
    }
