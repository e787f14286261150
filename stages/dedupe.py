"""Dedupe: one candidate per passage, with the place every lane gave it."""

from __future__ import annotations

from collections.abc import Sequence

from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Candidate, Hit, Lane, PassageId
from remit.stages.report import Reason, Staged

_ORDER = {lane: order for order, lane in enumerate(Lane)}


async def dedupe(hits: Sequence[Hit], *, ceiling: Ceiling) -> Staged[Candidate]:
    """Merges the hits of one passage; several routes of one lane count once, at their best place.

    Candidates come in order of their best place, then lane, then id, so that a ceiling cuts the least promising ones.
    """
    if ceiling.seconds <= 0:
        return Staged(
            received=len(hits), kept=(), rejected=_counted({Reason.OVER_CEILING: len(hits)}), exhausted=Limit.SECONDS if hits else None
        )
    merged = _merged(hits)
    kept, over = merged[: ceiling.items], merged[ceiling.items :]
    return Staged(
        received=len(hits),
        kept=tuple(kept),
        rejected=_counted({Reason.DUPLICATE: len(hits) - len(merged), Reason.OVER_CEILING: len(over)}),
        exhausted=Limit.ITEMS if over else None,
    )


def _merged(hits: Sequence[Hit]) -> list[Candidate]:
    """One candidate for each passage, in the order of the most promising hit of each."""
    merged: dict[PassageId, Candidate] = {}
    for hit in sorted(hits, key=_promise):
        outline, lane, route, place, strength = hit
        known = merged.get(outline.passage)
        if known is None:
            merged[outline.passage] = Candidate(outline, {lane: place}, (route,), {lane: strength})
        else:
            merged[outline.passage] = _with(known, hit)
    return list(merged.values())


def _promise(hit: Hit) -> tuple[int, int, PassageId]:
    return hit.place, _ORDER[hit.lane], hit.outline.passage


def _with(known: Candidate, hit: Hit) -> Candidate:
    """The candidate with one more hit of its passage, which has no better place in its lane."""
    _, lane, route, place, strength = hit
    outline, ranks, routes, strengths = known
    if route not in routes:
        routes = tuple(sorted((*routes, route)))
    return Candidate(outline, {lane: place, **ranks}, routes, {**strengths, lane: max(strength, strengths.get(lane, strength))})


def _counted(rejected: dict[Reason, int]) -> dict[Reason, int]:
    return {reason: count for reason, count in rejected.items() if count}
