"""Candidate generation: ask every lane side by side, inside the caller's access, and propose what clears its rule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
import anyio.lowlevel
import numpy as np
from numpy.typing import NDArray

from remit.stages.access import Access
from remit.stages.bm25 import Scored, Words
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Hit, Lane, MemoryId, Outline, Route
from remit.stages.judging import Judge, Judged
from remit.stages.lanes import Proposed, hits_of, lexical
from remit.stages.near import edits_allowed, near_words
from remit.stages.ports import Embedder, Finder, Found, Neighbours, Postings, Probe, Wanted
from remit.stages.probing import probes_of
from remit.stages.report import Degradation, Reason, Staged
from remit.stages.request import Filters, Source
from remit.stages.selection import Bar, Selection
from remit.stages.terms import Terms
from remit.stages.turns import Turns, anchors_of, gains_of

EMBEDDING_PART = 0.5
"""The part of the stage's time that the question's vectors may take, so that words are looked up also when a provider hangs."""

STORE_PART = 0.9
"""The part of the stage's time a store may use, so that what it had found by then can still be told."""


_OVER_CEILING, _GONE = Reason.OVER_CEILING, Reason.GONE

MANY = 1_000
"""Passages whose arithmetic takes about as long as giving others their turn, some 0.1 ms."""

MANY_POSTINGS = 10_000
"""Postings whose arithmetic takes about a millisecond. More are not scored inside the store's search, which would hold others up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What is looked for: the question's text and words, what hits must be beyond readable, and, of earlier rounds, the memories
    that were seen, how many places each lane has given away in each source, what words had to carry and what turns gained.

    `settled` says of a memory whether an answer that this search goes on from has decided it: it keeps its place, and is let go as `seen`.
    """

    text: str
    terms: Terms
    filters: Filters = field(default_factory=Filters)
    seen: frozenset[MemoryId] = frozenset()
    taken: Mapping[tuple[Lane, Source], int] = field(default_factory=dict)
    bar: Bar | None = None
    gains: Mapping[int, float] | None = None
    settled: Callable[[MemoryId], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated(Staged[Hit]):
    """The hits, and how they were found: `routes` says `ran` or why not; `near` the words tried for an unknown one;
    `left_out` the words too common to look up; `thresholds` what each vector lane had to reach; `scores` of all that held a word;
    `eligible` the passages that passed the filters (None: all do); `cut` the sources of which more was found than `ceiling.items`.
    `coverage` is, for each vector lane, how many passages in reach have a vector of its space, and how many there are. `bar` is what
    words had to carry, `gains` what turns gained from those beside them, by passage, and `settled` the hits that were let go as `seen`."""

    routes: Mapping[Route, str] = field(default_factory=dict)
    coverage: Mapping[Lane, tuple[int, int]] = field(default_factory=dict)
    near: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    thresholds: Mapping[Lane, float] = field(default_factory=dict)
    scores: Scored | None = None
    eligible: NDArray[np.int64] | None = None
    cut: frozenset[Source] = frozenset()
    proposals: tuple[Proposed, ...] = ()
    bar: Bar | None = None
    gains: Mapping[int, float] = field(default_factory=dict)
    settled: tuple[Hit, ...] = ()


async def generate(
    lookup: Lookup,
    *,
    access: Access,
    finder: Finder,
    embedders: Sequence[Embedder],
    words: Words,
    selection: Selection,
    turns: Turns,
    postings: int,
    ceiling: Ceiling,
) -> Generated:
    """Proposes at most `ceiling.items` passages per lane and source, strongest first.

    `received` counts every passage a lane looked at. Out of time, the stage tells what it had: nothing, or what the store had by then.
    """
    if ceiling.items <= 0 or ceiling.seconds <= 0:
        return Generated(received=0, kept=(), exhausted=Limit.ITEMS if ceiling.items <= 0 else Limit.SECONDS, cut=access.sources)
    with anyio.move_on_after(ceiling.seconds) as time:
        probes, failed = await probes_of(lookup.text, embedders, selection, ceiling.seconds * EMBEDDING_PART)
        search = _Search(lookup, probes, words, selection, most=ceiling.items)
        wanted = Wanted(
            words=_looked_up(lookup.terms),
            probes=probes,
            filters=lookup.filters,
            rows=ceiling.items,
            postings=postings,
            seconds=_left(time) * STORE_PART,
            without=lookup.seen,
            likely=search.likely,
        )
        answer = await finder.find(wanted, access)
        foreseen = search.foreseen if answer.outlines is not None else None
        near, found = await _with_near_words(lookup.terms, answer, wanted, finder=finder, access=access, words=words, time=time)
        judged = foreseen if foreseen is not None and found is answer else await search.judged(found, near)
        gains = lookup.gains if found.turns else {}
        if gains is None:
            gains = await _gains(judged, turns, finder=finder, access=access, seconds=_left(time) * STORE_PART)
            judged = search.judge.raised(judged, found, gains) if gains else judged
        outlines = await _outlines(judged, foreseen, answer, finder=finder, access=access)
        return search.told(found, judged, outlines, near=near, gains=gains, failed=failed)
    return Generated(received=0, kept=(), exhausted=Limit.SECONDS)


class _Search:
    """One search, and what is told of it. What is likely is worked out inside the store's, and kept: it need not be worked out again."""

    def __init__(self, lookup: Lookup, probes: Sequence[Probe], words: Words, selection: Selection, *, most: int) -> None:
        self._lookup, self._words = lookup, words
        self.foreseen: Judged | None = None
        self.judge = Judge(
            probes=probes,
            selection=selection,
            phrased=bool(lookup.filters.phrases),
            all_words=not lookup.terms.cut,
            first_round=not lookup.seen,
            bar=lookup.bar,
            gains=lookup.gains,
            most=most,
        )

    def likely(self, found: Found) -> Collection[int]:
        """What has a place as long as no near word and no turn adds to it."""
        if sum([each.keys.size for each in found.postings.values()]) > MANY_POSTINGS:
            return ()
        self.foreseen = self.judge.of(found, lexical(self._lookup.terms, found, {}, self._words))
        return self.foreseen.keys

    async def judged(self, found: Found, near: Mapping[str, Sequence[str]]) -> Judged:
        scores = lexical(self._lookup.terms, found, near, self._words)
        if scores.keys.size > MANY:
            await anyio.lowlevel.checkpoint()  # others have their turn between two pieces of arithmetic over a large scope
        return self.judge.of(found, scores)

    def told(
        self,
        found: Found,
        judged: Judged,
        outlines: Mapping[int, Outline],
        *,
        near: Mapping[str, tuple[str, ...]],
        gains: Mapping[int, float],
        failed: bool,
    ) -> Generated:
        """The hits, what became of everything else, and how it was found. `failed` says that a stream had no vector for the question."""
        lookup, most, proposals = self._lookup, self.judge.most, judged.proposals
        hits = [hits_of(each, outlines, most, lookup.taken.get((each.lane, each.source), 0)) for each in proposals]
        settled = _settled(hits, lookup)
        dead = {} if lookup.seen else found.dead  # counted in the first round
        rejected, cut = _rejected(proposals, hits, found, dead, most=most)
        rejected[Reason.SEEN] = len(settled)
        return Generated(
            received=sum(dead.values()) + sum([each.seen for each in proposals]),
            kept=_kept(hits, settled),
            rejected={reason: count for reason, count in rejected.items() if count},
            exhausted=found.exhausted or (Limit.ITEMS if cut else None),
            degraded=found.degraded + _degraded(near, failed),
            routes=found.routes,
            coverage={probe.lane: (found.compared.get(probe.lane, 0), found.passages) for probe in self.judge.probes},
            near=_as_written(near, lookup.terms),
            left_out=found.left_out,
            thresholds=judged.thresholds,
            scores=judged.scores,
            eligible=found.eligible,
            cut=cut,
            proposals=proposals,
            bar=judged.bar,
            gains=gains,
            settled=settled,
        )


def _looked_up(terms: Terms) -> tuple[str, ...]:
    return tuple(term.text for term in terms.words if not term.stop) + terms.aliases


async def _with_near_words(
    terms: Terms, found: Found, wanted: Wanted, *, finder: Finder, access: Access, words: Words, time: anyio.CancelScope
) -> tuple[dict[str, tuple[str, ...]], Found]:
    """For words that stand nowhere in scope: the caller's own near words, and where those stand. Without them when they come too late."""
    meant = [term.text for term in terms.words if not (term.stop or term.common)]  # a commonplace word is no typing error
    unknown = [word for word in meant if _unknown(word, found) and edits_allowed(word, words)]
    if not unknown or not words.near_most or found.exhausted is Limit.SECONDS:
        return {}, found
    seconds = _left(time) * STORE_PART
    shortest = min(len(word) - edits_allowed(word, words) for word in unknown)
    longest = max(len(word) + edits_allowed(word, words) for word in unknown)
    guesses: dict[str, tuple[str, ...]] = {}
    nearby = Found(exhausted=Limit.SECONDS)
    with anyio.move_on_after(seconds):
        vocabulary = await finder.vocabulary(shortest, longest, access)
        guesses = {word: close for word in unknown if (close := near_words(word, vocabulary, words))}
        if not guesses:
            return {}, found
        more = tuple(sorted({word for close in guesses.values() for word in close} - found.postings.keys()))
        room = wanted.postings - sum(each.keys.size for each in found.postings.values())
        nearby = await finder.find(replace(wanted, words=more, probes=(), postings=max(0, room), seconds=seconds, likely=None), access)
    postings: dict[str, Postings] = {**found.postings, **nearby.postings}
    near = {word: standing for word, close in guesses.items() if (standing := tuple(each for each in close if _stands(each, postings)))}
    return near, replace(
        found,
        postings=postings,
        left_out=found.left_out + nearby.left_out,
        degraded=tuple(dict.fromkeys(found.degraded + nearby.degraded)),
        exhausted=found.exhausted or nearby.exhausted,
    )


async def _gains(judged: Judged, turns: Turns, *, finder: Finder, access: Access, seconds: float) -> Mapping[int, float]:
    """What turns gain from those said beside them; nothing when that comes too late, for what holds the words must still be told."""
    anchors = anchors_of(judged.scores, judged.strong, turns)
    if anchors:
        with anyio.move_on_after(seconds):
            return gains_of(judged.scores, anchors, await finder.around(anchors, turns.reach, turns.within, access), turns)
    return {}


async def _outlines(judged: Judged, foreseen: Judged | None, answer: Found, *, finder: Finder, access: Access) -> Mapping[int, Outline]:
    """The outlines of what can have a place: those that came with the answer, and of what was not foreseen the rest.

    What was foreseen and did not come is gone.
    """
    known = answer.outlines or {}
    if judged is foreseen:
        return known
    missing = judged.keys - (foreseen.keys if foreseen else frozenset())
    more = await finder.outlines(sorted(missing), access) if missing else {}
    return {key: outline for key, outline in (*known.items(), *more.items()) if key in judged.keys}


def _left(time: anyio.CancelScope) -> float:
    """Seconds until the stage's time is over."""
    return max(0.0, time.deadline - anyio.current_time())


def _unknown(word: str, found: Found) -> bool:
    return word in found.postings and found.postings[word].keys.size == 0


def _stands(word: str, postings: Mapping[str, Postings]) -> bool:
    return word in postings and postings[word].keys.size > 0


def _settled(hits: Sequence[Sequence[Hit]], lookup: Lookup) -> tuple[Hit, ...]:
    """The hits that an answer which this search goes on from has decided."""
    if (settled := lookup.settled) is None:
        return ()
    return tuple(hit for found in hits for hit in found if settled(hit.outline.memory))


def _kept(hits: Sequence[Sequence[Hit]], settled: Sequence[Hit]) -> tuple[Hit, ...]:
    """All hits but those of memories that were settled, in whatever lane."""
    seen = {hit.outline.memory for hit in settled}
    return tuple(hit for found in hits for hit in found if not seen or hit.outline.memory not in seen)


def _rejected(
    proposals: Sequence[Proposed], hits: Sequence[Sequence[Hit]], found: Found, dead: Mapping[Reason, int], *, most: int
) -> tuple[dict[Reason, int], frozenset[Source]]:
    """What no longer stood and what the lanes let go, and the sources of which more was found than has a place."""
    rejected = dict(dead)
    cut = {each.source for each, proposal in zip(found.neighbours, proposals, strict=False) if _open_ended(each, proposal)}
    for proposal, kept in zip(proposals, hits, strict=True):
        over = max(0, proposal.keys.size - most)
        for reason, count in (*proposal.rejected.items(), (_OVER_CEILING, over), (_GONE, proposal.keys.size - over - len(kept))):
            rejected[reason] = rejected.get(reason, 0) + count
        if over:
            cut.add(proposal.source)
    return rejected, frozenset(cut)


def _open_ended(neighbours: Neighbours, proposal: Proposed) -> bool:
    """Whether a vector route may have left out what it would have proposed. Nearest first: behind one that is too weak all are."""
    return neighbours.more and (neighbours.route is Route.RECENT or proposal.keys.size == neighbours.keys.size + neighbours.weaker)


def _as_written(near: Mapping[str, tuple[str, ...]], terms: Terms) -> dict[str, tuple[str, ...]]:
    """Near words by the word of the question that they stand for, as that was written."""
    plain = {term.text: term.plain or term.text for term in terms.words} if near else {}
    return {plain.get(word, word): close for word, close in near.items()}


def _degraded(near: Mapping[str, tuple[str, ...]], embedding_failed: bool) -> tuple[Degradation, ...]:
    told = {Degradation.NEAR_WORDS: bool(near), Degradation.EMBEDDING_FAILED: embedding_failed}
    return tuple(each for each, so in told.items() if so)
