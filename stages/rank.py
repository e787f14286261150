"""Rank: fuse the lanes, boost, collapse the passages of a document, and put all in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType

from remit.stages.boosts import Boosts, affinity, boost_of
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Candidate, Lane, MemoryId, PassageId, Ranked, Status
from remit.stages.fusion import Compared, Fusion, reciprocal_rank
from remit.stages.report import Reason, Staged
from remit.stages.request import Source

DECIMALS = 12
"""Scores are rounded to this many decimals before they are compared, so that equal means equal."""

_ARCHIVED = Status.ARCHIVED

_NO_OTHERS: Sequence[Candidate] = ()
_NO_SHARES: Mapping[Lane, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRules:
    """All that decides an order: fusion, boosts, the scopes the question is about, the time ages count to, and who wins a tie.

    `compared` is what votes are measured by, in this and earlier rounds, where they count by strength.
    """

    fusion: Fusion
    boosts: Boosts
    named: frozenset[str]
    now: datetime
    tie_break_order: tuple[Source, ...]
    compared: Compared | None = None


async def rank(candidates: Sequence[Candidate], *, rules: RankRules, ceiling: Ceiling) -> Staged[Ranked]:
    """The memories of all candidates in their final order, best first; archived docs come last.

    A doc is one memory: it has the best place any of its passages has in each lane, and shows the passage that fused best.
    """
    if ceiling.seconds <= 0:
        over = {Reason.OVER_CEILING: len(candidates)} if candidates else {}
        return Staged(received=len(candidates), kept=(), rejected=over, exhausted=Limit.SECONDS if candidates else None)
    looked_at, over_ceiling = candidates[: ceiling.items], candidates[ceiling.items :]
    ranked = [_ranked(passages, rules) for passages in _by_memory(looked_at).values()]
    ranked.sort(key=partial(order, tie_break_order=rules.tie_break_order))
    counts = {Reason.COLLAPSED: len(looked_at) - len(ranked), Reason.OVER_CEILING: len(over_ceiling)}
    return Staged(
        received=len(candidates),
        kept=tuple(ranked),
        rejected={reason: count for reason, count in counts.items() if count},
        exhausted=Limit.ITEMS if over_ceiling else None,
    )


def order(ranked: Ranked, tie_break_order: Sequence[Source]) -> tuple[bool, bool, float, float, int, str]:
    """What a list of ranked memories is sorted by: archived docs last, then what a reranker said and those it was not asked about after
    them, then the score, then the source, then the id by code point."""
    outline, reranked = ranked.candidate.outline, ranked.reranked
    source, name = outline.passage.memory
    return outline.status is _ARCHIVED, reranked is None, -(reranked or 0.0), -ranked.score, tie_break_order.index(source), name


def _by_memory(candidates: Sequence[Candidate]) -> Mapping[MemoryId, list[Candidate]]:
    grouped: dict[MemoryId, list[Candidate]] = {}
    for candidate in candidates:
        grouped.setdefault(candidate.outline.passage.memory, []).append(candidate)
    return grouped


def _ranked(passages: list[Candidate], rules: RankRules) -> Ranked:
    best, others, ranks = passages[0], _NO_OTHERS, passages[0].ranks
    if len(passages) > 1:
        best, *others = sorted(passages, key=lambda each: _fused_first(each, rules))
        ranks = _best_places(passages)
    shares = _shares(passages, rules)
    fused = reciprocal_rank(ranks, rules.fusion, shares)
    boost = boost_of(best.outline, rules.boosts, rules.now)
    scope = affinity(best.outline, rules.named, rules.boosts)
    score = round(fused * boost * scope, DECIMALS)
    return Ranked(best, ranks, fused, boost, scope, score, tuple(others), None, shares)


def _fused_first(candidate: Candidate, rules: RankRules) -> tuple[float, PassageId]:
    fused = reciprocal_rank(candidate.ranks, rules.fusion, _shares([candidate], rules))
    return -fused, candidate.outline.passage


def _shares(passages: Sequence[Candidate], rules: RankRules) -> Mapping[Lane, float]:
    """What is left of the vote of each lane, by the passage that keeps most of it."""
    if rules.compared is None:
        return _NO_SHARES
    shares: dict[Lane, float] = {}
    for passage in passages:
        for lane, strength in passage.strengths.items():
            share = rules.compared.share(lane, passage.outline, strength, rules.fusion.together)
            shares[lane] = max(shares.get(lane, 0.0), share)
    return shares


def _best_places(passages: Sequence[Candidate]) -> dict[Lane, int]:
    ranks: dict[Lane, int] = {}
    for passage in passages:
        for lane, place in passage.ranks.items():
            ranks[lane] = min(place, ranks.get(lane, place))
    return ranks
