"""Finding: everything one search asks of SQLite, in one read transaction on one thread."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

import apsw
import numpy as np

from remit.pipeline.storage.sqlite.comparing import EXACT, compare
from remit.pipeline.storage.sqlite.line import OutOfTime, reading
from remit.pipeline.storage.sqlite.phrases import phrase_match
from remit.pipeline.storage.sqlite.reading import outlines_in
from remit.pipeline.storage.sqlite.rows import dumped, ids, micros, numbers
from remit.pipeline.storage.sqlite.searching import Means, Progress, Search
from remit.pipeline.storage.sqlite.shelves import reach, shelves_reached, still
from remit.pipeline.storage.sqlite.words import look_words_up
from remit.pipeline.storage.store import OUT_OF_TIME
from remit.stages.access import Access
from remit.stages.ceiling import Limit
from remit.stages.evidence import Route
from remit.stages.ports import Found, Wanted


def find(db: apsw.Connection, wanted: Wanted, access: Access, means: Means) -> Found:
    """What stands in reach. Out of time, it is what the routes had finished by then."""
    progress = _unfinished(wanted)
    try:
        with reading(db):
            scope = reach(still(db, means.sql, access))
            shelves = shelves_reached(db, means.sql, scope)
            _run(Search(db, wanted, means, progress, shelves, {**scope, "shelves": shelves.all}))
    except OutOfTime:
        progress.exhausted = Limit.SECONDS
    return progress.found()


def out_of_time(wanted: Wanted) -> Found:
    """The answer to a search that had no time at all."""
    progress = _unfinished(wanted)
    progress.exhausted = Limit.SECONDS if progress.routes else None
    return progress.found()


def _unfinished(wanted: Wanted) -> Progress:
    """Every route as it stands before it ran."""
    routes = {Route.LEXICAL: OUT_OF_TIME} if wanted.words else {}
    routes |= {EXACT[probe.lane]: OUT_OF_TIME for probe in wanted.probes}
    return Progress(routes=routes)


def _run(search: Search) -> None:
    progress, shelves = search.progress, search.shelves
    progress.turns = shelves.turns
    if shelves.count:
        passages, words = search.row("passages_in_their_time")
        progress.passages, progress.words = shelves.passages + passages, shelves.words + words
    _filter(search)
    look_words_up(search)
    for probe in search.wanted.probes:
        compare(search, probe)
    if search.wanted.likely is not None:
        _foresee(search, search.wanted.likely)


def _filter(search: Search) -> None:
    filters, without = search.wanted.filters, search.wanted.without
    if filters.idle and not without:
        return
    match = phrase_match(search.scope["org"], filters.phrases) if filters.phrases else ""
    if match is None or not search.shelves.count:
        search.progress.eligible = np.zeros(0, dtype=np.int64)
        return
    (joined,) = search.row(
        "eligible_by_phrase" if match else "eligible",
        match=match,
        created_from=micros(filters.created_from),
        created_until=micros(filters.created_until),
        all_tags=dumped(filters.tags.all),
        any_tags=dumped(filters.tags.any) if filters.tags.any else None,
        none_tags=dumped(filters.tags.none),
        without=dumped(ids(sorted(without))),
    )
    search.progress.eligible = np.sort(numbers(joined))


def _foresee(search: Search, likely: Callable[[Found], Collection[int]]) -> None:
    """Reads the outlines of what will be asked for next. Out of time, they are asked for by themselves: what was found stands."""
    keys = likely(search.progress.found())
    with suppress(OutOfTime):
        search.progress.outlines = outlines_in(search.db, search.means.sql, keys, search.scope)
