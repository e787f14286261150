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
    by_passage: dict[PassageId, list[Hit]] = {}
    for hit in sorted(hits, key=_promise):
        by_passage.setdefault(hit.outline.passage, []).append(hit)
    return [_one(found) for found in by_passage.values()]


def _promise(hit: Hit) -> tuple[int, int, PassageId]:
    return hit.place, _ORDER[hit.lane], hit.outline.passage


def _one(hits: Sequence[Hit]) -> Candidate:
    """The hits of one passage, the best place first, as one candidate."""
    outline, lane, route, place, strength = hits[0]
    if len(hits) == 1:
        return Candidate(outline, {lane: place}, (route,), {lane: strength})
    ranks: dict[Lane, int] = {}
    strengths: dict[Lane, float] = {}
    for hit in hits:
        ranks.setdefault(hit.lane, hit.place)
        strengths[hit.lane] = max(hit.strength, strengths.get(hit.lane, hit.strength))
    return Candidate(outline, ranks, tuple(sorted({hit.route for hit in hits})), strengths)


def _counted(rejected: dict[Reason, int]) -> dict[Reason, int]:
    return {reason: count for reason, count in rejected.items() if count}
