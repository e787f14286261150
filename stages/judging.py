"""Judging: what the lanes propose of all that a store found, and which passages can have a place by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from remit.stages.bm25 import Scored
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane
from remit.stages.lanes import Proposed, eligible_of, proposed_by_vectors, proposed_by_words, shortlist, strong_by_words
from remit.stages.ports import Found, Probe
from remit.stages.selection import Bar, Selection
from remit.stages.turns import with_gains


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is proposed, of what was scored, by which thresholds; `keys` are the passages that can have a place. Of the neighbours
    each has a proposal, in their order, before those of words."""

    scores: Scored
    eligible: NDArray[np.bool_]
    bar: Bar
    strong: NDArray[np.bool_]
    thresholds: Mapping[Lane, float]
    proposals: tuple[Proposed, ...]
    keys: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The rules of one search. `bar` and `gains` are those of an earlier round, `all_words` says whether none of the question's was
    left unread, `most` how many places there are in each lane and source."""

    probes: Sequence[Probe]
    selection: Selection
    phrased: bool
    all_words: bool
    first_round: bool
    bar: Bar | None
    gains: Mapping[int, float] | None
    most: int

    def of(self, found: Found, scores: Scored) -> Judged:
        """Judges what was found by the scores of its words."""
        eligible = eligible_of(scores, found)
        bar = self.bar or self.selection.bar(scores, eligible)  # of later rounds too: without its best, a list would be let to sink
        strong = strong_by_words(scores, eligible, bar, phrased=self.phrased)
        if self.gains and found.turns:
            scores, strong = with_gains(scores, strong, eligible, self.gains)
        return self._judged(found, scores, eligible, bar, strong)

    def raised(self, judged: Judged, found: Found, gains: Mapping[int, float]) -> Judged:
        """The same after turns gained."""
        scores, strong = with_gains(judged.scores, judged.strong, judged.eligible, gains)
        return self._judged(found, scores, judged.eligible, judged.bar, strong)

    def _judged(self, found: Found, scores: Scored, eligible: NDArray[np.bool_], bar: Bar, strong: NDArray[np.bool_]) -> Judged:
        compared = found.compared
        thresholds = {each.lane: self.selection.threshold(each.lane, compared.get(each.lane, 0), each.vector.size) for each in self.probes}
        by_words = proposed_by_words(scores, eligible, strong, first_round=self.first_round)
        looked_up_all = self.all_words and not (found.left_out or found.exhausted is Limit.SECONDS)
        chosen = np.concatenate([each.keys for each in by_words]) if by_words else scores.keys[:0]
        judged = chosen if looked_up_all else None
        of_lane = {probe.lane: probe for probe in self.probes}
        by_vectors: list[Proposed] = []
        for lane, near in groupby(found.neighbours, key=attrgetter("lane")):
            by_vectors += proposed_by_vectors(tuple(near), of_lane[lane], thresholds[lane], judged)
        proposals = (*by_vectors, *by_words)
        return Judged(
            scores=scores,
            eligible=eligible,
            bar=bar,
            strong=strong,
            thresholds=thresholds,
            proposals=proposals,
            keys=frozenset().union(*(shortlist(each, self.most).tolist() for each in proposals)),
        )
