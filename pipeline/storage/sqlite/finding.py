"""Finding: everything one search asks of SQLite, in one read transaction on one thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import ALIAS
from remit.pipeline.storage.sqlite.line import OutOfTime, reading, rows
from remit.pipeline.storage.sqlite.nearest import nearest
from remit.pipeline.storage.sqlite.phrases import phrase_match
from remit.pipeline.storage.sqlite.reading import outlines_in
from remit.pipeline.storage.sqlite.rows import ENTRY, SOURCES, dumped, ids, micros, numbers
from remit.pipeline.storage.sqlite.shelves import reach, shelves_reached, still
from remit.pipeline.storage.store import NOTHING_ALLOWED, NOTHING_ASKED, OUT_OF_TIME, RAN
from remit.stages.access import Access
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, Outline, Route
from remit.stages.ports import Found, Neighbours, Postings, Probe, Wanted
from remit.stages.report import Degradation, Reason
from remit.stages.request import Source

EXACT = {Lane.LOCAL: Route.LOCAL_EXACT, Lane.SEMANTIC: Route.SEMANTIC_EXACT}

LOST = "Its index of words is lost, or a part of it: run `remit init`, which makes it again."

_NO_KEYS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
_NOWHERE = Postings(_NO_KEYS, _NO_KEYS, _NO_KEYS, _NO_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a search works with: the statements, up to how many shelves it seeks words on each, up to how many vectors it compares
    them itself, how many more than asked it has the database fetch, and why vectors cannot be compared, if they cannot."""

    sql: Mapping[str, str]
    seek_shelves: int
    whole_vectors: int
    vector_slack: int
    no_vectors: str | None


@dataclass(slots=True)
class Progress:
    """What routes had finished, for the moment when time is up."""

    passages: int = 0
    words: int = 0
    postings: dict[str, Postings] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    neighbours: list[Neighbours] = field(default_factory=list)
    compared: dict[Lane, int] = field(default_factory=dict)
    eligible: NDArray[np.int64] | None = None
    turns: bool = True
    dead: dict[Reason, int] = field(default_factory=dict)
    routes: dict[Route, str] = field(default_factory=dict)
    degraded: list[Degradation] = field(default_factory=list)
    exhausted: Limit | None = None
    outlines: Mapping[int, Outline] | None = None

    def found(self) -> Found:
        return Found(
            passages=self.passages,
            words=self.words,
            postings=self.postings,
            left_out=self.left_out,
            neighbours=tuple(self.neighbours),
            compared=self.compared,
            eligible=self.eligible,
            turns=self.turns,
            dead=self.dead,
            routes=self.routes,
            degraded=tuple(self.degraded),
            exhausted=self.exhausted,
            outlines=self.outlines,
        )


def find(db: apsw.Connection, wanted: Wanted, access: Access, means: Means) -> Found:
    """What stands in reach. Out of time, it is what the routes had finished by then."""
    progress = unfinished(wanted)
    try:
        with reading(db):
            _Search(db, wanted, still(db, means.sql, access), means, progress).run()
    except OutOfTime:
        progress.exhausted = Limit.SECONDS
    return progress.found()


def unfinished(wanted: Wanted) -> Progress:
    """Every route as it stands before it ran."""
    routes = {Route.LEXICAL: OUT_OF_TIME} if wanted.words else {}
    routes |= {EXACT[probe.lane]: OUT_OF_TIME for probe in wanted.probes}
    return Progress(routes=routes)


def out_of_time(wanted: Wanted) -> Found:
    """The answer to a search that had no time at all."""
    progress = unfinished(wanted)
    progress.exhausted = Limit.SECONDS if progress.routes else None
    return progress.found()


class _Search:
    """One search on its way; each step adds what it found to `progress`."""

    def __init__(self, db: apsw.Connection, wanted: Wanted, access: Access, means: Means, progress: Progress) -> None:
        self._db = db
        self._wanted = wanted
        self._means = means
        self._progress = progress
        self._parameters: dict[str, Any] = reach(access)

    def run(self) -> None:
        self._shelves = shelves_reached(self._db, self._means.sql, self._parameters)
        self._parameters["shelves"] = self._shelves.all
        self._progress.turns = self._shelves.turns
        if self._shelves.count:
            passages, words = self._row("passages_in_their_time")
            self._progress.passages, self._progress.words = self._shelves.passages + passages, self._shelves.words + words
        self._filter()
        self._look_words_up(list(dict.fromkeys(self._wanted.words)))
        for probe in self._wanted.probes:
            self._compare(probe)
        if self._wanted.likely is not None:
            self._foresee(self._wanted.likely)

    def _foresee(self, likely: Callable[[Found], Collection[int]]) -> None:
        """Reads the outlines of what will be asked for next. Out of time, they are asked for by themselves: what was found stands."""
        keys = likely(self._progress.found())
        with suppress(OutOfTime):
            self._progress.outlines = outlines_in(self._db, self._means.sql, keys, self._parameters)

    def _row(self, name: str, **parameters: Any) -> tuple[Any, ...]:
        """Each statement used here answers with exactly one row."""
        return rows(self._db, self._means.sql[name], self._parameters | parameters)[0]

    def _filter(self) -> None:
        filters, without = self._wanted.filters, self._wanted.without
        if filters.idle and not without:
            return
        match = phrase_match(self._parameters["org"], filters.phrases) if filters.phrases else ""
        if match is None or not self._shelves.count:
            self._progress.eligible = _NO_KEYS
            return
        (joined,) = self._row(
            "eligible_by_phrase" if match else "eligible",
            match=match,
            created_from=micros(filters.created_from),
            created_until=micros(filters.created_until),
            all_tags=dumped(filters.tags.all),
            any_tags=dumped(filters.tags.any) if filters.tags.any else None,
            none_tags=dumped(filters.tags.none),
            without=dumped(ids(sorted(without))),
        )
        self._progress.eligible = np.sort(numbers(joined))

    def _look_words_up(self, words: list[str]) -> None:
        """Looks the words up, rarest first; what would pass the ceiling on postings is left out."""
        progress, most = self._progress, self._wanted.postings
        if not words:
            progress.routes[Route.LEXICAL] = NOTHING_ASKED
        elif most <= 0:
            progress.routes[Route.LEXICAL] = NOTHING_ALLOWED
            self._leave_out(words)
        elif not self._shelves.count:
            progress.routes[Route.LEXICAL] = RAN
            progress.postings = dict.fromkeys(words, _NOWHERE)
        else:
            self._read_postings(words, most)

    def _read_postings(self, words: list[str], most: int) -> None:
        fitting = words
        places, entries = self._places(words, most + 1)
        if not entries.size and self._progress.words and self._row("words_lost") == (1,):
            raise StorageUnavailable(LOST)
        if entries.size > most:
            rare = self._fitting(words, most)
            fitting = [word for word in words if word in rare]
            places, entries = self._places(fitting, most)
        self._look_whether_whole(fitting, np.bincount(places, minlength=len(fitting)).tolist(), most)
        postings, dead = _parted(fitting, places, entries), self._dead(fitting, most)
        # All at once, so that a route that ran out of time tells nothing by halves.
        self._progress.postings, self._progress.dead = postings, dead
        self._progress.routes[Route.LEXICAL] = RAN
        if len(fitting) < len(words):
            self._leave_out([word for word in words if word not in fitting])

    def _look_whether_whole(self, words: Sequence[str], standing: Sequence[int], most: int) -> None:
        """Raises when a word stands in more passages than places: then a part of the index is lost, and what it held cannot be found.

        Of the words with the fewest places as many as cost no more looks than one word on `seek_shelves`; of aliases nothing is counted.
        """
        places_of = {word: places for word, places in zip(words, standing, strict=True) if not word.startswith(ALIAS)}
        rarest = sorted(places_of, key=places_of.__getitem__)[: self._means.seek_shelves // self._shelves.count]
        used = {rarest[index]: uses for index, uses in json.loads(self._row("words_used", words=dumped(rarest))[0])}
        short = [word for word in rarest if places_of[word] < used[word] <= most]
        held = json.loads(self._row("words_held", words=dumped(short))[0]) if short else []
        if any(places < used[short[index]] for index, places in held):
            raise StorageUnavailable(LOST)

    def _places(self, words: Sequence[str], most: int) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        joined, packed = self._row(self._many("find_words"), words=dumped(words), most=most)
        return numbers(joined), np.frombuffer(packed or b"", dtype=ENTRY)

    def _fitting(self, words: Sequence[str], most: int) -> frozenset[str]:
        (text,) = self._row(self._many("count_words"), words=dumped(words), most=most + 1)
        room, fitting = most, []
        for places, word in sorted((places, words[index]) for index, places in json.loads(text)):
            room -= places
            if room < 0:
                break
            fitting.append(word)
        return frozenset(fitting)

    def _leave_out(self, words: Sequence[str]) -> None:
        self._progress.left_out = tuple(words)
        self._progress.degraded.append(Degradation.COMMON_WORDS_LEFT_OUT)
        self._progress.exhausted = Limit.POSTINGS

    def _dead(self, words: Sequence[str], most: int) -> dict[Reason, int]:
        superseded, expired = self._row("dead", words=dumped(words), most=most)
        counts = {Reason.SUPERSEDED: superseded, Reason.EXPIRED: expired}
        return {reason: number for reason, number in counts.items() if number}

    def _many(self, name: str) -> str:
        return name if self._shelves.count <= self._means.seek_shelves else f"{name}_on_many"

    def _compare(self, probe: Probe) -> None:
        """The nearest of each source by an exact pass over every vector in scope; ties with the last one that fits are kept."""
        progress, route = self._progress, EXACT[probe.lane]
        if self._means.no_vectors is not None:
            progress.routes[route] = self._means.no_vectors
            if Degradation.NO_VECTORS not in progress.degraded:
                progress.degraded.append(Degradation.NO_VECTORS)
            return
        on_shelf = self._vectors_on_shelves(probe.space)
        found: list[Neighbours] = []
        said = RAN
        if not (probe.vector.any() and np.isfinite(probe.vector).all()):
            said = NOTHING_ASKED
        elif self._wanted.rows <= 0:
            said = NOTHING_ALLOWED
            progress.exhausted = progress.exhausted or Limit.ITEMS
        else:
            found = [near for source in SOURCES if (near := self._nearest(probe, source, on_shelf)) is not None]
        progress.compared[probe.lane] = sum(on_shelf.values())
        progress.neighbours += found
        progress.routes[route] = said

    def _vectors_on_shelves(self, space: str) -> dict[int, int]:
        counts: dict[int, int] = {}
        if self._shelves.count:
            for shelf, vectors in json.loads(self._row("vectors_on_shelves", space=space)[0]):
                counts[shelf] = counts.get(shelf, 0) + vectors
        return counts

    def _nearest(self, probe: Probe, source: Source, on_shelf: Mapping[int, int]) -> Neighbours | None:
        shelves = [shelf for shelf in self._shelves.of_source.get(source, ()) if on_shelf.get(shelf)]
        vectors = sum(on_shelf[shelf] for shelf in shelves)
        wanted, means, fetch = self._wanted.rows, self._means, self._fetching(probe, shelves)
        if not vectors:
            return None
        # Few vectors are all fetched and compared here, which is faster than in the database.
        most = inf if vectors <= max(means.whole_vectors, wanted) else wanted + means.vector_slack
        keys, fetched = fetch(most)
        near = nearest(probe.vector, fetched, wanted)
        while keys.size == most and not near.complete:
            most *= 2
            keys, fetched = fetch(most)
            near = nearest(probe.vector, fetched, wanted)
        if not keys.size:
            return None
        chosen = near.places[np.argsort(keys[near.places])]
        return Neighbours(EXACT[probe.lane], probe.lane, source, keys[chosen], fetched[chosen], more=chosen.size < keys.size)

    def _fetching(self, probe: Probe, shelves: Sequence[int]) -> Callable[[float], tuple[NDArray[np.int64], NDArray[np.float32]]]:
        eligible = self._progress.eligible
        blob = np.ascontiguousarray(probe.vector, dtype="<f4").tobytes()
        parameters: dict[str, Any] = {"space": probe.space, "shelves": dumped(shelves), "bytes": len(blob), "probe": blob}
        if eligible is not None:
            parameters["eligible"] = apsw.carray(eligible) if eligible.size else None
        kind = "vector" if eligible is None else "eligible_vector"

        def fetch(most: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            name = f"every_{kind}" if most == inf else f"nearest_{kind}s"
            joined, packed = self._row(name, **parameters, most=None if most == inf else most)
            return numbers(joined), np.frombuffer(packed or b"", dtype="<f4").reshape(-1, probe.vector.size)

        return fetch


def _parted(words: Iterable[str], places: NDArray[np.int64], entries: NDArray[np.void]) -> dict[str, Postings]:
    """Postings of each word, by key; `places` ascend and say which word an entry belongs to."""
    words = list(words)
    keys, counts, lengths, sources = (entries[name].astype(np.int64) for name in ("passage", "count", "length", "source"))
    order = np.lexsort((keys, places))
    keys, counts, lengths, sources = keys[order], counts[order], lengths[order], sources[order]
    borders = np.searchsorted(places, np.arange(len(words) + 1))
    return {
        word: Postings(keys[start:end], counts[start:end], lengths[start:end], sources[start:end])
        for word, start, end in zip(words, borders[:-1].tolist(), borders[1:].tolist(), strict=True)
    }
