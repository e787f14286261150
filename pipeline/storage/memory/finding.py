"""Finding by going through everything: words counted one by one, vectors compared one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import Event, Passage, Record
from remit.pipeline.storage.store import NOTHING_ALLOWED, NOTHING_ASKED, OUT_OF_TIME, RAN
from remit.stages.access import Access, Approval, Label
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, Route
from remit.stages.ports import Found, Neighbours, Postings, Probe, Wanted
from remit.stages.report import Degradation, Reason
from remit.stages.request import Filters, Source
from remit.stages.selection import similarities

SOURCES = tuple(Source)
EXACT = {Lane.LOCAL: Route.LOCAL_EXACT, Lane.SEMANTIC: Route.SEMANTIC_EXACT}


@dataclass(frozen=True, slots=True)
class Indexed:
    """A passage under the number this store gave it."""

    key: int
    passage: Passage


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory as it stands, with its passages and its past; `record` has its trust, label and references as they are now."""

    record: Record
    version: int
    passages: tuple[Indexed, ...]
    written_at: datetime
    past: tuple[Event, ...] = ()

    @property
    def label(self) -> Label:
        return self.record.label

    @property
    def findable(self) -> bool:
        """Whether its words and vectors are in the indexes at all."""
        return self.label.approval is Approval.APPROVED


Passages = list[tuple[Kept, Indexed]]


def find(wanted: Wanted, access: Access, everything: Passages) -> Found:
    """What `Finder.find` promises, by going through everything."""
    if wanted.seconds <= 0:
        return _no_time(wanted)
    reached = [(kept, each) for kept, each in everything if access.reaches(kept.label.shelf)]
    standing = [(kept, each) for kept, each in reached if access.stands(kept.label)]
    eligible = _eligible(standing, wanted)
    found = Found(
        passages=len(standing),
        words=sum(each.passage.length for _, each in standing),
        eligible=None if eligible is None else _numbers(sorted(eligible)),
        routes={Route.LEXICAL: NOTHING_ASKED},
    )
    found = _with_words(found, wanted, access, reached, standing)
    return _with_neighbours(found, wanted, standing, eligible)


def _no_time(wanted: Wanted) -> Found:
    routes = dict.fromkeys((Route.LEXICAL,) if wanted.words else (), OUT_OF_TIME)
    routes |= {EXACT[probe.lane]: OUT_OF_TIME for probe in wanted.probes}
    return Found(routes=routes, exhausted=Limit.SECONDS if routes else None)


def _with_words(found: Found, wanted: Wanted, access: Access, reached: Passages, standing: Passages) -> Found:
    """Looks the words up, rarest first; what would pass the ceiling on postings is left out."""
    words = list(dict.fromkeys(wanted.words))
    if not words:
        return found
    if wanted.postings <= 0:
        return _left_out(replace(found, routes={Route.LEXICAL: NOTHING_ALLOWED}), words)
    holding = {word: [(kept, each) for kept, each in standing if kept.findable and word in each.passage.words] for word in words}
    room, fitting = wanted.postings, []
    for word in sorted(words, key=lambda word: (len(holding[word]), word)):
        room -= len(holding[word])
        if room < 0:
            break
        fitting.append(word)
    found = replace(
        found,
        postings={word: _postings(word, holding[word]) for word in words if word in fitting},
        dead=_dead(fitting, access, reached, wanted.postings),
        routes={Route.LEXICAL: RAN},
    )
    return _left_out(found, [word for word in words if word not in fitting])


def _left_out(found: Found, words: Sequence[str]) -> Found:
    if not words:
        return found
    return replace(found, left_out=tuple(words), degraded=(Degradation.COMMON_WORDS_LEFT_OUT,), exhausted=Limit.POSTINGS)


def _dead(words: Collection[str], access: Access, reached: Passages, most: int) -> dict[Reason, int]:
    holding = [kept for kept, each in reached if kept.findable and any(word in each.passage.words for word in words)]
    superseded = sum(kept.label.superseded for kept in holding)
    expired = sum(not kept.label.superseded and not access.stands(kept.label) for kept in holding)
    counts = {Reason.SUPERSEDED: min(most, superseded), Reason.EXPIRED: min(most, expired)}
    return {reason: number for reason, number in counts.items() if number}


def _with_neighbours(found: Found, wanted: Wanted, standing: Passages, eligible: set[int] | None) -> Found:
    """The nearest of each source by comparing every vector in scope; ties with the last one that fits are kept."""
    routes, neighbours, compared, exhausted = dict(found.routes), list[Neighbours](), dict[Lane, int](), found.exhausted
    for probe in wanted.probes:
        of_space = [(kept, each) for kept, each in standing if probe.space in each.passage.vectors]
        compared[probe.lane] = len(of_space)
        routes[EXACT[probe.lane]] = RAN
        if not _useful(probe):
            routes[EXACT[probe.lane]] = NOTHING_ASKED
        elif wanted.rows <= 0:
            routes[EXACT[probe.lane]] = NOTHING_ALLOWED
            exhausted = exhausted or Limit.ITEMS
        else:
            allowed = [(kept, each) for kept, each in of_space if eligible is None or each.key in eligible]
            neighbours += _nearest(probe, [(kept, each) for kept, each in allowed if _comparable(probe, each)], wanted.rows)
    return replace(found, routes=routes, neighbours=tuple(neighbours), compared=compared, exhausted=exhausted)


def _nearest(probe: Probe, passages: Passages, rows: int) -> Iterator[Neighbours]:
    for source in SOURCES:
        here = sorted((each.key, each.passage.vectors[probe.space]) for kept, each in passages if kept.record.id.source is source)
        if not here:
            continue
        keys, vectors = _numbers([key for key, _ in here]), np.stack([vector for _, vector in here])
        likeness = similarities(probe.vector, vectors)
        near = likeness >= np.sort(likeness)[::-1][min(rows, keys.size) - 1]
        yield Neighbours(EXACT[probe.lane], probe.lane, source, keys[near], vectors[near], more=not near.all())


def _comparable(probe: Probe, each: Indexed) -> bool:
    return each.passage.vectors[probe.space].size == probe.vector.size


def _useful(probe: Probe) -> bool:
    return bool(probe.vector.any() and np.isfinite(probe.vector).all())


def _eligible(standing: Passages, wanted: Wanted) -> set[int] | None:
    if wanted.filters.idle and not wanted.without:
        return None
    return {
        each.key for kept, each in standing if kept.record.id not in wanted.without and _passes(kept.record, each.passage, wanted.filters)
    }


def _passes(record: Record, passage: Passage, filters: Filters) -> bool:
    return (
        filters.tags.passes(frozenset(record.tags))
        and (filters.created_from is None or filters.created_from <= record.created_at)
        and (filters.created_until is None or record.created_at < filters.created_until)
        and all(phrase.strip() and f" {phrase.strip()} " in f" {passage.plain} " for phrase in filters.phrases)
    )


def _postings(word: str, holding: Passages) -> Postings:
    rows = sorted((each.key, each.passage.words[word], each.passage.length, SOURCES.index(kept.record.id.source)) for kept, each in holding)
    keys, counts, lengths, sources = (_numbers([row[column] for row in rows]) for column in range(4))
    return Postings(keys, counts, lengths, sources)


def _numbers(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
