"""Candidate generation: ask every lane side by side, inside the caller's access, and propose what clears its rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
import anyio.lowlevel
import numpy as np
from numpy.typing import NDArray

from remit.stages.access import Access
from remit.stages.bm25 import Scored, Words
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Hit, Lane, MemoryId, Route
from remit.stages.lanes import (
    Proposed,
    eligible_of,
    hits_of,
    lexical,
    proposed_by_vectors,
    proposed_by_words,
    shortlist,
    strong_by_words,
)
from remit.stages.near import edits_allowed, near_words
from remit.stages.ports import Embedder, Finder, Found, Neighbours, Postings, Probe, Wanted
from remit.stages.report import Degradation, Reason, Staged
from remit.stages.request import Filters, Source
from remit.stages.selection import Bar, Selection
from remit.stages.terms import Terms
from remit.stages.turns import Turns, anchors_of, gains_of, with_gains

EMBEDDING_PART = 0.5
"""The part of the stage's time that the question's vectors may take, so that words are looked up also when a provider hangs."""

STORE_PART = 0.9
"""The part of the stage's time a store may use, so that what it had found by then can still be told."""


MANY = 1_000
"""Passages whose arithmetic takes about as long as giving others their turn, some 0.1 ms."""


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
        probes, failed = await _probes(lookup.text, embedders, selection, ceiling.seconds * EMBEDDING_PART)
        wanted = Wanted(
            words=_looked_up(lookup.terms),
            probes=probes,
            filters=lookup.filters,
            rows=ceiling.items,
            postings=postings,
            seconds=_left(time) * STORE_PART,
            without=lookup.seen,
        )
        found = await finder.find(wanted, access)
        if lookup.seen:
            found = replace(found, dead={})  # counted in the first round
        left = _left(time) * STORE_PART
        near, found = await _with_near_words(lookup.terms, found, wanted, finder=finder, access=access, words=words, seconds=left)
        scores = lexical(lookup.terms, found, near, words)
        if scores.keys.size > MANY:
            await anyio.lowlevel.checkpoint()  # others have their turn between two pieces of arithmetic over a large scope
        thresholds = {each.lane: selection.threshold(each.lane, found.compared.get(each.lane, 0), each.vector.size) for each in probes}
        eligible = eligible_of(scores, found)
        bar = lookup.bar or selection.bar(scores, eligible)  # of later rounds too: without its best, a list would be let to sink
        strong = strong_by_words(scores, eligible, bar, phrased=bool(lookup.filters.phrases))
        gains = lookup.gains if found.turns else {}
        if gains is None:
            gains = await _gains(scores, strong, turns, finder=finder, access=access, seconds=_left(time) * STORE_PART)
        if gains:
            scores, strong = with_gains(scores, strong, eligible, gains)
        proposals = _proposals(lookup, scores, found, probes, thresholds, eligible, strong)
        keys: set[int] = set().union(*(shortlist(each, ceiling.items).tolist() for each in proposals))
        outlines = await finder.outlines(sorted(keys), access) if keys else {}
        hits = [hits_of(each, outlines, ceiling.items, lookup.taken.get((each.lane, each.source), 0)) for each in proposals]
        settled = _settled(hits, lookup)
        generated = _told(proposals, hits, settled, found, most=ceiling.items)
        plain = {term.text: term.plain or term.text for term in lookup.terms.words}
        return replace(
            generated,
            degraded=found.degraded + _degraded(near, failed),
            routes=found.routes,
            coverage={probe.lane: (found.compared.get(probe.lane, 0), found.passages) for probe in probes},
            near={plain.get(word, word): close for word, close in near.items()},
            left_out=found.left_out,
            thresholds=thresholds,
            scores=scores,
            eligible=found.eligible,
            proposals=proposals,
            bar=bar,
            gains=gains,
            settled=settled,
        )
    return Generated(received=0, kept=(), exhausted=Limit.SECONDS)


async def _probes(text: str, embedders: Sequence[Embedder], selection: Selection, seconds: float) -> tuple[tuple[Probe, ...], bool]:
    """The question's vector in each stream, embedded once, and whether a stream failed or came too late."""
    vectors: list[NDArray[np.float32] | None] = []
    with anyio.move_on_after(seconds):
        for embedder in embedders:
            vectors.append(await _vector(text, embedder))  # noqa: PERF401 - what came in time is kept
    probes = [
        Probe(lane=embedder.lane, space=embedder.space, vector=vector, least=selection.least(embedder.lane))
        for embedder, vector in zip(embedders, vectors, strict=False)
        if vector is not None and vector.any()
    ]
    return tuple(probes), len(vectors) < len(embedders) or any(vector is None for vector in vectors)


async def _vector(text: str, embedder: Embedder) -> NDArray[np.float32] | None:
    """One vector for the question, or None when the embedder fails or answers anything else: that costs its stream only."""
    try:
        answer = np.asarray(await embedder.embed([text]))
    except Exception:  # noqa: BLE001 - any fault of a provider, told as `embedding_failed`: words must still answer
        return None
    if answer.shape != (1, embedder.dimensions) or answer.dtype.kind != "f":
        return None
    with np.errstate(over="ignore"):
        vector: NDArray[np.float32] = answer[0].astype(np.float32)
    return vector if np.isfinite(vector).all() else None


def _looked_up(terms: Terms) -> tuple[str, ...]:
    return tuple(term.text for term in terms.words if not term.stop) + terms.aliases


async def _with_near_words(
    terms: Terms, found: Found, wanted: Wanted, *, finder: Finder, access: Access, words: Words, seconds: float
) -> tuple[dict[str, tuple[str, ...]], Found]:
    """For words that stand nowhere in scope: the caller's own near words, and where those stand. Without them when they come too late."""
    meant = [term.text for term in terms.words if not (term.stop or term.common)]  # a commonplace word is no typing error
    unknown = [word for word in meant if _unknown(word, found) and edits_allowed(word, words)]
    if not unknown or not words.near_most or found.exhausted is Limit.SECONDS:
        return {}, found
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
        nearby = await finder.find(replace(wanted, words=more, probes=(), postings=max(0, room), seconds=seconds), access)
    postings: dict[str, Postings] = {**found.postings, **nearby.postings}
    near = {word: standing for word, close in guesses.items() if (standing := tuple(each for each in close if _stands(each, postings)))}
    return near, replace(
        found,
        postings=postings,
        left_out=found.left_out + nearby.left_out,
        degraded=tuple(dict.fromkeys(found.degraded + nearby.degraded)),
        exhausted=found.exhausted or nearby.exhausted,
    )


async def _gains(
    scores: Scored, strong: NDArray[np.bool_], turns: Turns, *, finder: Finder, access: Access, seconds: float
) -> Mapping[int, float]:
    """What turns gain from those said beside them; nothing when that comes too late, for what holds the words must still be told."""
    anchors = anchors_of(scores, strong, turns)
    if anchors:
        with anyio.move_on_after(seconds):
            return gains_of(scores, anchors, await finder.around(anchors, turns.reach, turns.within, access), turns)
    return {}


def _left(time: anyio.CancelScope) -> float:
    """Seconds until the stage's time is over."""
    return max(0.0, time.deadline - anyio.current_time())


def _unknown(word: str, found: Found) -> bool:
    return word in found.postings and found.postings[word].keys.size == 0


def _stands(word: str, postings: Mapping[str, Postings]) -> bool:
    return word in postings and postings[word].keys.size > 0


def _proposals(
    lookup: Lookup,
    scores: Scored,
    found: Found,
    probes: Sequence[Probe],
    thresholds: Mapping[Lane, float],
    eligible: NDArray[np.bool_],
    strong: NDArray[np.bool_],
) -> tuple[Proposed, ...]:
    of_lane = {probe.lane: probe for probe in probes}
    by_words = proposed_by_words(scores, eligible, strong, first_round=not lookup.seen)
    looked_up_all = not (found.left_out or lookup.terms.cut or found.exhausted is Limit.SECONDS)
    chosen = np.concatenate([each.keys for each in by_words]) if by_words else scores.keys[:0]
    judged = chosen if looked_up_all else None
    # `_told` goes by this order: one proposal for each of the neighbours, then those of words.
    by_vectors = [proposed_by_vectors(each, of_lane[each.lane], thresholds[each.lane], judged) for each in found.neighbours]
    return (*by_vectors, *by_words)


def _settled(hits: Sequence[Sequence[Hit]], lookup: Lookup) -> tuple[Hit, ...]:
    """The hits that an answer which this search goes on from has decided."""
    if (settled := lookup.settled) is None:
        return ()
    return tuple(hit for found in hits for hit in found if settled(hit.outline.memory))


def _told(proposals: Sequence[Proposed], hits: Sequence[Sequence[Hit]], settled: Sequence[Hit], found: Found, *, most: int) -> Generated:
    rejected: Counter[Reason] = Counter(found.dead)
    seen = {hit.outline.memory for hit in settled}
    cut = {each.source for each, proposal in zip(found.neighbours, proposals, strict=False) if _open_ended(each, proposal)}
    for proposal, kept in zip(proposals, hits, strict=True):
        over = max(0, proposal.keys.size - most)
        rejected.update(proposal.rejected)
        rejected[Reason.OVER_CEILING] += over
        rejected[Reason.GONE] += proposal.keys.size - over - len(kept)
        cut |= {proposal.source} if over else set()
    rejected[Reason.SEEN] = len(settled)
    return Generated(
        received=sum(found.dead.values()) + sum(each.seen for each in proposals),
        kept=tuple(hit for kept in hits for hit in kept if not seen or hit.outline.memory not in seen),
        rejected={reason: count for reason, count in rejected.items() if count},
        exhausted=found.exhausted or (Limit.ITEMS if cut else None),
        cut=frozenset(cut),
    )


def _open_ended(neighbours: Neighbours, proposal: Proposed) -> bool:
    """Whether a vector route may have left out what it would have proposed. Nearest first: behind one that is too weak all are."""
    return neighbours.more and (neighbours.route is Route.RECENT or proposal.keys.size == neighbours.keys.size + neighbours.weaker)


def _degraded(near: Mapping[str, tuple[str, ...]], embedding_failed: bool) -> tuple[Degradation, ...]:
    told = {Degradation.NEAR_WORDS: bool(near), Degradation.EMBEDDING_FAILED: embedding_failed}
    return tuple(each for each, so in told.items() if so)
