"""Reciprocal rank fusion: what the places of a candidate in its lanes are worth together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from remit.stages.evidence import Hit, Lane, Outline
from remit.stages.request import Source

_SEMANTIC, _LOCAL, _LEXICAL = Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A number for each lane."""

    semantic: Annotated[float, Ge(0)]
    local: Annotated[float, Ge(0)]
    lexical: Annotated[float, Ge(0)]

    def of(self, lane: Lane) -> float:
        if lane is Lane.LEXICAL:
            return self.lexical
        return self.semantic if lane is Lane.SEMANTIC else self.local


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """How votes count where words and a model of one of the `spaces` both answer a question of at least `words` words with at least `hits`
    hits each. A space is known by how its name begins; how the similarities of any other model fall was not measured.

    A vote is multiplied by how strong the hit is beside the best of its lane, to the lane's `powers`; one of words besides by how much of
    the question the passage holds, beside the fullest, to the power `coverage`; a model's by what it is to be trusted with.
    """

    spaces: tuple[str, ...]
    words: Annotated[int, Ge(1)]
    hits: Annotated[int, Ge(1)]
    place: Annotated[int, Ge(1)]
    whole: Annotated[float, Ge(0)]
    least: Annotated[float, Gt(0), Le(1)]
    coverage: Annotated[float, Ge(0)]
    powers: Weights

    def goes_for(self, space: str | None, words: int, hits: Mapping[Lane, int]) -> bool:
        """Whether the model is known and there is enough of both to compare: of one word or a few hits, strengths tell nothing."""
        if space is None or not space.startswith(self.spaces):
            return False
        return words >= self.words and min(hits.get(Lane.SEMANTIC, 0), hits.get(Lane.LEXICAL, 0)) >= self.hits

    def trust(self, left: float, agreed: float) -> float:
        """What a model's vote counts, `least`…1, when words at their `place` are `left` of their best, and find the model's own first
        so many `agreed` of it on the average.

        Words whose list falls steeply know an answer, and a model whose favourites tell them nothing does not know that one: it is whole
        where the product of both reaches `whole`. A sliver is left of it always, for what it alone found still has an order.
        """
        return min(1.0, max(self.least, left * agreed / self.whole)) if self.whole else 1.0


BY_PLACE = Together(
    spaces=(), words=1, hits=1, place=1, whole=0.0, least=1.0, coverage=0.0, powers=Weights(semantic=0.0, local=0.0, lexical=0.0)
)
"""Votes count by place and by nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What the votes of one recall are measured by: the greatest strength each lane found in each source, what a model's vote counts in
    each, and how much of the question each passage that words found holds beside the fullest of its source, by the passage's key."""

    best: Mapping[tuple[Lane, Source], float]
    trust: Mapping[Source, float] = field(default_factory=dict)
    covered: Mapping[int, float] = field(default_factory=dict)

    def share(self, lane: Lane, outline: Outline, strength: float, together: Together) -> float:
        """What is left of a vote, 0…1."""
        source = outline.passage.memory.source
        best = self.best[lane, source]
        own = float((min(1.0, strength / best) if best > 0 else 1.0) ** together.powers.of(lane))
        if lane is Lane.SEMANTIC:
            return own * self.trust.get(source, 1.0)
        return own * float(self.covered.get(outline.key, 1.0) ** together.coverage) if lane is Lane.LEXICAL else own


def compared(hits: Sequence[Hit], first: Sequence[Hit], covered: Mapping[int, float], together: Together) -> Compared:
    """Measures all `hits` of a recall, and by those of its `first` round what a model's vote counts.

    `covered` is the part of the question's words that each passage which words found holds, by the passage's key.
    """
    found = _grouped(hits)
    of_first = found if len(first) == len(hits) else _grouped(first)
    best = {mark: max(hit.strength for hit in group) for mark, group in found.items()}
    trust: dict[Source, float] = {}
    beside: dict[int, float] = {}
    for (lane, source), group in found.items():
        if lane is Lane.LEXICAL:
            keys = [hit.outline.key for hit in group]
            if fullest := max(covered[key] for key in keys):
                beside.update((key, covered[key] / fullest) for key in keys)
            worded, meant = of_first.get((lane, source), ()), of_first.get((Lane.SEMANTIC, source), ())
            trust[source] = together.trust(*_known(worded, meant, best[lane, source], together.place))
    return Compared(best=best, trust=trust, covered=beside)


def _grouped(hits: Sequence[Hit]) -> dict[tuple[Lane, Source], list[Hit]]:
    groups: dict[tuple[Lane, Source], list[Hit]] = {}
    for hit in hits:
        groups.setdefault((hit.lane, hit.outline.passage.memory.source), []).append(hit)
    return groups


def _known(worded: Sequence[Hit], meant: Sequence[Hit], best: float, place: int) -> tuple[float, float]:
    """What is left of words' best at the last of their first places, and how strong on the average words find the model's first ones."""
    favourites = dict.fromkeys(hit.outline.key for hit in meant if hit.place < place)
    if best <= 0 or not favourites:
        return 1.0, 1.0
    last = min((hit.strength for hit in worded if hit.place < place), default=best)
    strengths = {hit.outline.key: hit.strength for hit in worded}
    return last / best, sum(strengths.get(key, 0.0) for key in favourites) / len(favourites) / best


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """How lanes are fused: `k` damps high places, `rank_origin` is 0 or 1, `weights` are what a vote of each lane counts, and `together`
    what becomes of votes where two lanes can be compared by strength."""

    k: Annotated[int, Ge(1)]
    rank_origin: Literal[0, 1]
    weights: Weights
    together: Together = BY_PLACE


def reciprocal_rank(ranks: Mapping[Lane, int], fusion: Fusion, shares: Mapping[Lane, float] | None = None) -> float:
    """Fused score of one candidate: the sum over lanes of weight / (k + origin + rank), each times its share where that is told.

    `ranks` are 0-based places, one per lane that found it; a lane that did not find it adds nothing. `shares` are what is left of the
    votes, 0…1: see `Compared`. Lanes are added in a fixed order (vector, lexical), so the same ranks give the same bits.
    Cormack et al. 2009.
    """
    fused, weights, before = 0.0, fusion.weights, fusion.k + fusion.rank_origin
    for lane, weight in ((_SEMANTIC, weights.semantic), (_LOCAL, weights.local), (_LEXICAL, weights.lexical)):
        if (place := ranks.get(lane)) is not None:
            vote = weight / (before + place)
            fused += vote * shares[lane] if shares else vote
    return fused
