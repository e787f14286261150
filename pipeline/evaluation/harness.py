"""Harness: asks every case through the engine's front door, and keeps what was found, what was lost, and what leaked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from time import perf_counter
from typing import Any

from remit.pipeline.authority import Principal, access_to_write, granted
from remit.pipeline.config import Config
from remit.pipeline.engine import Engine
from remit.pipeline.envelope import Answer
from remit.pipeline.errors import RemitError
from remit.pipeline.evaluation.canaries import Canaries, canaries_for, records_of, words_of
from remit.pipeline.evaluation.gold import Case
from remit.pipeline.evaluation.measures import gain, part, precision
from remit.pipeline.evaluation.runs import Asked, Evaluation, Lost
from remit.pipeline.evaluation.taps import Heard, tapped
from remit.pipeline.items import Fact
from remit.pipeline.starting import open_engine
from remit.pipeline.storage.entry import Record
from remit.pipeline.times import moment_at
from remit.stages.report import StageName
from remit.stages.request import ContextWanted, Request

Ears = Mapping[str, Callable[[], str]]
"""What else can be overheard, by boundary (`logs`, `spans`): each call gives all that was told since the one before."""


async def evaluated(
    engine: Engine, cases: Sequence[Case], *, k: int, ears: Ears | None = None, told: Callable[[int], None] = lambda _: None
) -> Evaluation:
    """Asks all cases, one after the other, so that each one's time is its own.

    Everything in the store is read once, to know what each principal must not get to see.
    """
    ears = ears or {}
    records, ours = await records_of(engine.store), await own_words(engine.config, ears)
    watched, heard = tapped(engine)
    seen: dict[tuple[Any, ...], Canaries] = {}
    asked = []
    for number, case in enumerate(cases, start=1):
        canaries = await _canaries(engine, case, records, ours, seen)
        asked.append(await _asked(engine, watched, heard, case, canaries, k, ears))
        told(number)
    return Evaluation(asked=tuple(asked), k=k, facts=(await engine.doctor()).facts, plans=tuple(await engine.store.plans()))


async def own_words(config: Config, ears: Ears) -> frozenset[str]:
    """The words that Remit itself says, in answers, contexts, logs and spans: what is heard when a memory of one odd word is asked."""
    told = []
    anybody = Principal(actor="anybody", org="anywhere")
    alone = replace(config, embedding=replace(config.embedding, provider="local"), reranking=replace(config.reranking, provider="none"))
    async with open_engine("memory:", config=alone) as engine:
        await engine.remember([Fact(id="one", text="xyzzy")], anybody)
        for query, form in (("xyzzy", "markdown"), ("xyzzy", "xml"), ("xyzzy", "json"), ("plugh", "markdown")):
            answer = await engine.recall(Request(query=query, context=ContextWanted(format=form)), anybody)
            told.append(json.dumps(answer.wire(), ensure_ascii=False))
            told += [ear() for ear in ears.values()]
    return frozenset(words_of(" ".join(told)))


async def _canaries(
    engine: Engine, case: Case, records: Sequence[tuple[str, Record]], ours: Set[str], seen: dict[tuple[Any, ...], Canaries]
) -> Canaries:
    """What this principal may not read, worked out once for all of its questions."""
    grants = await granted(case.principal, engine.authority, engine.config.limits)
    key = (grants.org, grants.actor, grants.scopes)
    if key not in seen:
        seen[key] = canaries_for(access_to_write(grants, moment_at("asOf", case.request.as_of)), records, ours)
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
        checks=heard.checks,
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


def _given(answer: Answer | None) -> str:
    """All text that an answer gives away: the context, and what of the cards did not go into it."""
    if answer is None:
        return ""
    beside = [f"{card['title']} {card['text']}" for card in answer.data if not card["packed"]]
    return " ".join((answer.meta["context"]["text"], *beside))


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
    asked = " ".join((case.query, *case.request.questions, *case.request.phrases))
    meta = answer.meta if answer else {}
    reasons = " ".join(f"{each['detail']} {each['next']}" for each in meta.get("because", ()))
    matched = {source: counts["matched"] for source, counts in meta.get("bySource", {}).items()}
    return {
        "candidates": canaries.among(heard.candidates) + canaries.among(found),
        "embedderInput": sum(canaries.in_text(text, asked) for text in heard.embedded),
        "rerankerInput": sum(canaries.in_text(text, asked) for text in heard.reranked),
        "logs": canaries.in_text(overheard.get("logs", ""), asked),
        "spans": canaries.in_text(overheard.get("spans", ""), asked),
        "packedText": canaries.in_text(_given(answer), asked),
        "errors": canaries.in_text(f"{error or ''} {reasons}", asked),
        "counts": canaries.beyond(matched),
    }
