"""Dedupe: one candidate per passage, with the place every lane gave it."""

from __future__ import annotations

from collections.abc import Sequence

from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Candidate, Hit, Lane, PassageId
from remit.stages.report import Reason, Staged

_LANES = tuple(enumerate(Lane))


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
    by_passage: dict[PassageId, list[Hit]] = {}
    for hit in hits:
        by_passage.setdefault(hit.outline.passage, []).append(hit)
    candidates = [_one(found) for found in by_passage.values()]
    candidates.sort(key=_promise)
    return candidates


def _one(hits: Sequence[Hit]) -> Candidate:
    if len(hits) == 1:
        (hit,) = hits
        return Candidate(outline=hit.outline, ranks={hit.lane: hit.place}, routes=(hit.route,), strengths={hit.lane: hit.strength})
    ranks: dict[Lane, int] = {}
    strengths: dict[Lane, float] = {}
    for hit in hits:
        ranks[hit.lane] = min(hit.place, ranks.get(hit.lane, hit.place))
        strengths[hit.lane] = max(hit.strength, strengths.get(hit.lane, hit.strength))
    routes = sorted({hit.route for hit in hits})
    return Candidate(outline=hits[0].outline, ranks=ranks, routes=tuple(routes), strengths=strengths)


def _promise(candidate: Candidate) -> tuple[int, int, PassageId]:
    ranks = candidate.ranks
    best = min(ranks.values())
    first = next(order for order, lane in _LANES if ranks.get(lane) == best)
    return best, first, candidate.outline.passage


def _counted(rejected: dict[Reason, int]) -> dict[Reason, int]:
    return {reason: count for reason, count in rejected.items() if count}
