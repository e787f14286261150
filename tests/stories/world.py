"""What the stories, cases and faults are told with: who asks, what is taken in, and an answer as plain text."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from remit.pipeline import Answer, Doc, Engine, Fact, Principal, Receipt, Session, open_engine

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

ADA = Principal(actor="ada", org="acme", scopes=("project:alpha", "person:ada"))
"""Who asks, unless a test says otherwise."""

NewStore = Callable[[], str]
"""Gives the URL of a new, empty store each time it is called."""

Item = Fact | Session | Doc

UNTIMED = {"dedupe": {"seconds": 60.0}, "rank": {"seconds": 60.0}, "pack": {"seconds": 60.0}}
PATIENT: dict[str, Any] = {
    "recall": {
        "deadlineSeconds": 60.0,
        "crews": {"waitSeconds": 60.0},
        "profiles": {"memory": {"generate": {"seconds": 60.0}, "verify": {"seconds": 60.0}, **UNTIMED}},
    },
    "freshness": {"checkSeconds": 60.0},
}
"""A slow machine is no fault of what is tested: where seconds are not the subject, there are plenty."""


def laid(*configs: Mapping[str, Any]) -> dict[str, Any]:
    """Configs laid over each other, later ones last."""
    merged: dict[str, Any] = {}
    for config in configs:
        for key, value in config.items():
            beneath = merged.get(key)
            merged[key] = laid(beneath, value) if isinstance(beneath, Mapping) and isinstance(value, Mapping) else value
    return merged


@asynccontextmanager
async def engine_at(url: str, *items: Item, config: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Engine]:
    """An engine whose clock stands still, with these items taken in."""
    options.setdefault("clock", lambda: NOW)
    async with open_engine(url, config=laid(PATIENT, config or {}), **options) as engine:
        await taken_in(engine, items)
        yield engine


async def taken_in(engine: Engine, items: Iterable[Item]) -> list[Receipt]:
    """Writes each item on behalf of someone who may write everywhere in its org; none may be refused."""
    of_org: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        of_org[item.org or ADA.org].append(item)
    receipts = []
    for org, own in of_org.items():
        receipts += await engine.remember(own, Principal(actor="writer", org=org, scopes="*"))
    assert [receipt for receipt in receipts if receipt.code] == []
    return receipts


def ids(answer: Answer) -> list[str]:
    """What was returned, best first."""
    return [card.id for card in answer.data]


def entry(answer: Answer, stage: str) -> Any:
    """One stage's entry of `meta.stages`."""
    (found,) = [each for each in answer.meta.stages if each.stage == stage]
    return found


def codes(answer: Answer) -> list[str]:
    return [each.code for each in answer.meta.because]


def bytes_of(answer: Answer) -> str:
    """The whole answer as it goes over the wire, the times its stages took and its trace id aside, and of a token, which each engine
    seals with a secret of its own, how long it is."""
    wire = json.loads(json.dumps(answer.wire(), allow_nan=False))
    del wire["meta"]["traceId"]
    wire["meta"]["continuation"] = len(wire["meta"]["continuation"] or "")
    for stage in wire["meta"]["stages"]:
        del stage["seconds"]
    return json.dumps(wire, indent=1)


def of_another(item: Item, org: str) -> Item:
    """The same item, of another org."""
    return replace(item, org=org)


def balanced(answer: Answer) -> None:
    """Five entries in order; each balances and was given what the one before returned."""
    stages = answer.meta.stages
    assert [each.stage for each in stages] == ["generate", "dedupe", "rank", "verify", "pack"]
    for each in stages:
        assert each.received == each.returned + sum(each.rejected.values()), each
    worked = [each for each in stages if each.outcome in ("done", "exhausted")]
    for before, after in pairwise(worked):
        assert before.returned == after.received, (before, after)
