"""Remit itself on the same work, through its front door: five stages, row security where the store has it, spans on."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
from asked import LIMIT, Ask, Question, Row, Work
from numpy.typing import NDArray
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from remit.pipeline import Fact, Principal, Request, open_engine
from remit.pipeline.config import load as shipped
from remit.pipeline.opening import made_for
from remit.stages.ports import Lane

NAME = "remit"
LANES = "words and vectors"
KEPT = AsyncExitStack()
OPEN = {"lexical": 0.0, "lexicalOfBest": 0.0, "words": 0.0, "wordsFall": 0.0, "local": 0.0, "semantic": 0.0}
FILLED = {"recall": {"selection": {**OPEN, "floor": {"lexical": 0.0, "local": 0.0, "semantic": 0.0}}}}
"""The peers fill their twenty places with whatever comes next, out of the best few of each lane; so does Remit when it is `filled`."""


class Discarded(SpanExporter):
    """Spans are made, batched and handed over, as in production, and then thrown away."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS if spans else SpanExportResult.FAILURE


class Given:
    """The vectors that the work states, as a host's own embedder."""

    lane, space = Lane.SEMANTIC, "given"

    def __init__(self, work: Work) -> None:
        self.dimensions = work.dimensions
        self._vectors = {row.text: row.vector for row in work.rows} | {each.text: each.vector for each in work.questions}

    async def embed(self, texts: Any) -> NDArray[np.float32]:
        return np.stack([self._vectors[text] for text in texts])


async def load(work: Work, place: str) -> None:
    if place.startswith("postgresql:"):
        await made_for(place, shipped())
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in work.rows:
        rows[row.org].append(row)
    async with open_engine(place, embedder=Given(work)) as engine:
        for org, own in rows.items():
            facts = (Fact(id=row.id, org=org, text=row.text) for row in own)
            async for receipt in engine.remember_stream(facts, Principal(actor="peer", org=org, scopes="*")):
                if receipt.code:
                    raise RuntimeError(f"{receipt.id}: {receipt.code}")


async def asking(work: Work, place: str, variant: str) -> Ask:
    """`shipped`: with the shipped configuration, which leaves out what is weak. `filled`: all places filled, from 50 of each lane."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Discarded()))
    trace.set_tracer_provider(provider)
    config, profile = (FILLED, "answer") if variant == "filled" else ({}, "memory")
    engine = await KEPT.enter_async_context(open_engine(place, config=config, embedder=Given(work)))

    async def ask(question: Question) -> list[str]:
        request = Request(query=question.text, limit=LIMIT, sources=("fact",), profile=profile)
        answer = await engine.recall(request, Principal(actor="peer", org=question.org, scopes=()))
        return [card.id for card in answer.data]

    return ask
