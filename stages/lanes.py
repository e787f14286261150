"""The two lanes of a search: from what a store found to the passages a lane proposes, scored and best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from remit.stages.bm25 import Scored, Weighed, Words, information, scored
from remit.stages.evidence import Hit, Lane, Outline, Route
from remit.stages.near import is_sure
from remit.stages.ports import Found, Neighbours, Postings, Probe
from remit.stages.report import Reason
from remit.stages.request import Source
from remit.stages.selection import Bar, similarities
from remit.stages.terms import Term, Terms, words_of

SOURCES = tuple(Source)

_LOCAL, _LEXICAL, _BY_WORDS = Lane.LOCAL, Lane.LEXICAL, Route.LEXICAL
_WEAK, _FILTERED = Reason.WEAK, Reason.FILTERED


class Proposed(NamedTuple):
    """What one lane and route proposes of one source: parallel arrays of keys and strengths, in no order yet.

    `seen` is how many passages the lane looked at for it; what it did not propose is in `rejected`.
    """

    lane: Lane
    route: Route
    source: Source
    keys: NDArray[np.int64]
    strengths: NDArray[np.float64]
    seen: int
    rejected: Mapping[Reason, int]


def weighed(
    terms: Terms, postings: Mapping[str, Postings], near: Mapping[str, Sequence[str]], passages: int, rules: Words
) -> list[Weighed]:
    """Every word that counts, with its weight: words of the question, near words for unknown ones, aliases that were met.

    A word that stands nowhere in scope still adds to what is asked for, so that a question about something the memory does not
    know is not answered by its commonplace words; unless it belongs to an alias that was met.
    """
    aliases = [alias for alias in terms.aliases if _held(alias, postings)]
    named = {word for alias in aliases for word in words_of(alias)}
    counted = [
        _weighed(term, postings, near.get(term.text, ()), passages, rules)
        for term in terms.words
        if not term.stop and term.text in postings and (_held(term.text, postings) or term.plain not in named)
    ]
    return counted + [_alias(alias, postings, passages, rules) for alias in aliases]


def _weighed(term: Term, postings: Mapping[str, Postings], near: Sequence[str], passages: int, rules: Words) -> Weighed:
    """A word that is known, guessed, or unknown. The parts of an identifier together are one word, which was asked for as a whole."""
    part = term.weight < 1
    held, asked = (term.weight / rules.part_weight if rules.part_weight else 0.0, 0.0) if part else (1.0, 1.0)
    importance = term.weight * (rules.common_weight if term.common else 1.0)
    holding = postings[term.text].keys.size
    if holding:
        told = importance * information(holding, passages)
        return Weighed(term.text, term.weight, told, common=term.common, held=held, asked=asked * rules.known_asked)
    if near and not term.common:
        told = max(information(postings[word].keys.size, passages) for word in near)
        return Weighed(
            term.text,
            term.weight * rules.near_weight,
            importance * rules.near_weight * told,
            unsure=not all(is_sure(term.text, word, rules) for word in near),
            held=held * rules.near_weight,
            asked=asked,
            near=tuple(near),
        )
    return Weighed(term.text, 0.0, importance * rules.unknown_weight * information(0, passages), common=term.common, asked=asked)


def _alias(alias: str, postings: Mapping[str, Postings], passages: int, rules: Words) -> Weighed:
    """Another name that was met: it counts as all of its words."""
    words = float(len(words_of(alias)))
    told = words * information(postings[alias].keys.size, passages)
    return Weighed(alias, rules.alias_weight, told, alias=True, held=words, asked=words)


def _held(word: str, postings: Mapping[str, Postings]) -> bool:
    return word in postings and postings[word].keys.size > 0


def lexical(terms: Terms, found: Found, near: Mapping[str, Sequence[str]], rules: Words) -> Scored:
    """BM25 scores and shares of information of every passage that holds a word of the question."""
    words = weighed(terms, found.postings, near, found.passages, rules)
    if terms.idle:
        words = [word._replace(asked=1.0) for word in words]
    return scored(words, found.postings, passages=found.passages, total_words=found.words, rules=rules, idle=terms.idle)


def eligible_of(scores: Scored, found: Found) -> NDArray[np.bool_]:
    """Which of the scored passages pass the filters, and were not seen in an earlier round."""
    return np.ones(scores.keys.size, dtype=np.bool_) if found.eligible is None else np.isin(scores.keys, found.eligible)


def strong_by_words(scores: Scored, eligible: NDArray[np.bool_], bar: Bar, *, phrased: bool) -> NDArray[np.bool_]:
    """Which eligible passages carry enough of the question, or one of its phrases, or are called by another name."""
    strong: NDArray[np.bool_] = eligible & (scores.aliased | phrased | bar.cleared(scores))
    return strong


def proposed_by_words(scores: Scored, eligible: NDArray[np.bool_], strong: NDArray[np.bool_], *, first_round: bool) -> list[Proposed]:
    """The strong passages of each source.

    What the filters leave out is counted once, in the first round; later rounds leave out what was seen as well.
    """
    proposals, end = [], 0
    chosen = strong.nonzero()[0]
    sources = scores.sources[chosen]
    chosen = chosen[sources.argsort(kind="stable")]
    keys, strengths = scores.keys[chosen], scores.scores[chosen]
    kept_of, passing_of, all_of = (_by_source(each) for each in (sources, scores.sources[eligible], scores.sources))
    for source, kept, passing, whole in zip(SOURCES, kept_of, passing_of, all_of, strict=True):
        start, end = end, end + kept
        filtered = whole - passing if first_round else 0
        if passing or filtered:
            proposals.append(
                Proposed(
                    lane=_LEXICAL,
                    route=_BY_WORDS,
                    source=source,
                    keys=keys[start:end],
                    strengths=strengths[start:end],
                    seen=passing + filtered,
                    rejected={_WEAK: passing - kept, _FILTERED: filtered},
                )
            )
    return proposals


def _by_source(sources: NDArray[np.int64]) -> list[int]:
    """How many there are of each source."""
    counts: list[int] = np.bincount(sources, minlength=len(SOURCES)).tolist()
    return counts


def proposed_by_vectors(
    neighbours: Sequence[Neighbours], probe: Probe, threshold: float, judged: NDArray[np.int64] | None
) -> list[Proposed]:
    """For each of these neighbours in one lane, those whose similarity, computed again from their vectors, reaches the threshold.

    `judged` are the passages that words propose, None when not all words could be looked up. A feature hash knows words and nothing
    else: where words themselves have judged, its likeness to any other passage is an accident of its bins, so it proposes none of them,
    and no similarity to them is computed.
    """
    keys, vectors = [each.keys for each in neighbours], [each.vectors for each in neighbours]
    if probe.lane is _LOCAL and judged is not None:
        ordered = np.sort(judged)
        known = [places_among(each, ordered) for each in keys]
        keys = [each[so] for each, so in zip(keys, known, strict=True)]
        vectors = [each[so] for each, so in zip(vectors, known, strict=True)]
    likeness = similarities(probe.vector, np.concatenate(vectors, dtype=np.float64))
    proposals, start = [], 0
    for near, compared in zip(neighbours, keys, strict=True):
        alike = likeness[start : start + compared.size]
        start += compared.size
        strong = (alike >= threshold).nonzero()[0]
        seen = near.keys.size + near.weaker
        proposals.append(
            Proposed(
                lane=near.lane,
                route=near.route,
                source=near.source,
                keys=compared[strong],
                strengths=alike[strong],
                seen=seen,
                rejected={_WEAK: seen - strong.size},
            )
        )
    return proposals


def places_among(keys: NDArray[np.int64], ordered: NDArray[np.int64]) -> NDArray[np.intp]:
    """The places of those keys that are among others, which are in order. `np.isin`, which serves any type, takes seven times as long."""
    if not ordered.size:
        return np.zeros(0, dtype=np.intp)
    places: NDArray[np.intp] = (ordered.take(ordered.searchsorted(keys), mode="clip") == keys).nonzero()[0]
    return places


def shortlist(proposal: Proposed, most: int) -> NDArray[np.int64]:
    """The keys that can be among the `most` strongest: all of them, or those at least as strong as the last one that fits."""
    if proposal.keys.size <= most:
        return proposal.keys
    if most <= 0:
        return proposal.keys[:0]
    last = np.partition(proposal.strengths, proposal.keys.size - most)[proposal.keys.size - most]
    likely: NDArray[np.int64] = proposal.keys[proposal.strengths >= last]
    return likely


def hits_of(proposal: Proposed, outlines: Mapping[int, Outline], most: int, taken: int) -> list[Hit]:
    """The hits of one proposal, strongest first, equal ones by id: the `most` best that can still be read.

    Places go on after the `taken` ones that earlier rounds proposed.
    """
    if not proposal.keys.size:
        return []
    places = [
        (-strength, outline.passage, outline)
        for key, strength in zip(proposal.keys.tolist(), proposal.strengths.tolist(), strict=True)
        if (outline := outlines.get(key)) is not None
    ]
    places.sort(key=itemgetter(0, 1))
    lane, route = proposal.lane, proposal.route
    return [Hit(outline, lane, route, place, -weakness) for place, (weakness, _, outline) in enumerate(places[:most], start=taken)]
