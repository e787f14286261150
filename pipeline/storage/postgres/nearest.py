"""Nearest: by which route the vectors of each source are looked through, and what is kept of what a look brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg.pq.abc import PGresult

from remit.pipeline.config import Postgres
from remit.pipeline.storage.postgres.means import Means
from remit.pipeline.storage.postgres.statements import Command, Statement, plain
from remit.pipeline.storage.postgres.wire import float8, halfvec, halfvecs_of, int8, numbers_of, text, vector, vectors_of
from remit.pipeline.storage.store import NOTHING_ALLOWED, NOTHING_ASKED, OUT_OF_TIME, RAN
from remit.stages.evidence import Lane, Route
from remit.stages.ports import Neighbours, Probe
from remit.stages.request import Source
from remit.stages.selection import similarities

NO_EXTENSION = "no_vector_extension"
NO_PLACE = "longer_than_the_store_holds"
TOO_MANY = "scope_too_large"
NO_INDEX = "no_index"
FELL_SHORT = "fell_short"
"""Why a route did not run, beside the reasons all stores share; or, of an approximate one, that the exact pass had to follow it."""

EXACT = {Lane.LOCAL: Route.LOCAL_EXACT, Lane.SEMANTIC: Route.SEMANTIC_EXACT}
APPROXIMATE = {Lane.LOCAL: Route.LOCAL_APPROXIMATE, Lane.SEMANTIC: Route.SEMANTIC_APPROXIMATE}

SETTINGS = 4
"""How many statements set the scan of an index up before the look itself."""

FLOAT32_ERROR = 5e-5
"""More than a cosine computed in float32 is off by; what is further away than this from the cut cannot have belonged above it."""

HALF_ERROR = 2e-3
"""More than a cosine is off by when the probe was rounded to half precision, too."""

_SOURCES = tuple(Source)
_SENT = {"local": vector, "semantic": halfvec}


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """One look for the nearest of a source: by which route, in which table, among how many vectors, and how many to bring.

    A `whole` one brings all that are near enough to be proposed, of no more than may be brought, and counts the rest. One `beside` an
    index that gave enough makes that exact.
    """

    place: int
    probe: Probe
    source: Source
    route: Route
    table: str
    vectors: int
    most: int
    whole: bool = False
    beside: bool = False

    @property
    def way(self) -> tuple[int, Source, Route, bool]:
        return self.place, self.source, self.route, self.whole

    @property
    def approximate(self) -> bool:
        return self.route is APPROXIMATE[self.probe.lane]


def looks(
    probes: Iterable[tuple[int, Probe]],
    counts: Mapping[tuple[Source, str], int],
    means: Means,
    settings: Postgres,
    rows: int,
    *,
    filtered: bool,
) -> list[Look]:
    """The looks that these probes, each with its place, need, given how many vectors of each source and space are in scope.

    Few are compared one by one, and so is what passes filters; many by the index, and where there is none those that were written last.
    Where all may be brought, those that could not be proposed are only counted.
    """
    found = []
    for place, probe in probes:
        if (table := means.table_for(probe.vector.size)) is None:
            continue
        for source in _SOURCES:
            if vectors := counts.get((source, probe.space), 0):
                exact = filtered or vectors <= settings.exact_rows
                route = EXACT[probe.lane] if exact else APPROXIMATE[probe.lane] if means.places[table].indexed else Route.RECENT
                whole = vectors <= rows and not filtered and exact
                found.append(Look(place, probe, source, route, table, vectors, rows + settings.vector_slack, whole))
    return found


def refusal(probe: Probe, means: Means, rows: int) -> str | None:
    """Why nothing is compared with this probe."""
    if not means.places:
        return NO_EXTENSION
    if means.table_for(probe.vector.size) is None:
        return NO_PLACE
    if not (probe.vector.any() and np.isfinite(probe.vector).all()):
        return NOTHING_ASKED
    return NOTHING_ALLOWED if rows <= 0 else None


def told(probe: Probe, looks: Sequence[Look], followed: Iterable[Look], left: Iterable[Look]) -> dict[Route, str]:
    """What to say of the routes of a lane that were taken first, that followed, and for which there was no time any more."""
    taken, by_index = {look.route for look in looks}, {look.source for look in looks if look.approximate}
    again = [look for look in followed if look.source in by_index]
    exact, approximate = EXACT[probe.lane], APPROXIMATE[probe.lane]
    routes = {exact: RAN}
    if Route.RECENT in taken:
        routes = {exact: RAN if exact in taken else NO_INDEX, Route.RECENT: RAN}
    if approximate in taken:
        fell_short = any(not look.beside for look in again)
        routes = {exact: RAN if exact in taken or again else TOO_MANY, approximate: FELL_SHORT if fell_short else RAN}
    return {**routes, exact: OUT_OF_TIME} if any(left) else routes


def given(look: Look, means: Means, settings: Postgres) -> dict[str, bytes]:
    """What every look of the same probe is given, whatever the source, ready to be sent."""
    return {
        "space": text(look.probe.space),
        "dimensions": int8(look.probe.vector.size),
        "probe": _SENT[look.table](look.probe.vector, means.places[look.table].dimensions),
        "room": int8(settings.exact_rows),
        "farthest": float8(1.0 - look.probe.least + (FLOAT32_ERROR if look.table == "local" else HALF_ERROR)),
    }


def commands(look: Look, sql: Mapping[str, Statement], values: Mapping[str, Any], settings: Postgres, of_org: str) -> list[Command]:
    """The statements of one look; the last one answers. `values` hold the access, what the look is `given`, its source and how many it is
    to bring, the source's shelves, and what passes filters, if any."""
    if look.route is Route.RECENT:
        return [sql[f"recent_{look.table}"].given(values)]
    if look.approximate:
        return [*_scanning(settings), sql[f"approximate_{look.table}{of_org}"].given(values)]
    if values.get("eligible") is not None:
        return [sql[f"eligible_{look.table}"].given(values)]
    return [sql[f"{'whole' if look.whole else 'nearest'}_{look.table}{of_org}"].given(values)]


def kept(look: Look, result: PGresult, rows: int, length: int, exact_most: int) -> tuple[Neighbours | None, Look | None]:
    """The nearest `rows` of what a look brought, with all ties, and the look that has to follow when that was too little.

    Where the index gave enough, and there are no more than `exact_most`, an exact one may follow beside it.
    """
    if look.whole:
        return _of_whole(look, result, length), None
    keys = numbers_of(result.get_value(0, 0))
    if not keys.size:
        return None, _exact(look) if look.approximate else None
    found = _vectors(look, result.get_value(0, 1), length)
    near, enough = _cut(similarities(look.probe.vector, found), rows) if keys.size > rows else (np.arange(keys.size), True)
    near = near[np.argsort(keys[near])]
    more = keys.size > near.size or (look.route is not EXACT[look.probe.lane] and look.vectors > near.size)
    following = _following(look, keys.size, exact_most, enough=enough)
    return Neighbours(look.route, look.probe.lane, look.source, keys[near], found[near], more=more), following


def _of_whole(look: Look, result: PGresult, length: int) -> Neighbours | None:
    counted, keys = int.from_bytes(result.get_value(0, 0) or b""), numbers_of(result.get_value(0, 1))
    if not counted:
        return None
    order, found = np.argsort(keys), _vectors(look, result.get_value(0, 2), length)
    return Neighbours(look.route, look.probe.lane, look.source, keys[order], found[order], weaker=counted - keys.size)


def _vectors(look: Look, packed: bytes | None, length: int) -> NDArray[np.float32]:
    dimensions = look.probe.vector.size
    return vectors_of(packed, dimensions) if look.table == "local" else halfvecs_of(packed, length, dimensions)


def _cut(likeness: NDArray[np.float64], rows: int) -> tuple[NDArray[np.intp], bool]:
    """Which are the nearest `rows`, ties included, and whether what was not brought can only lie behind them."""
    cut = np.partition(likeness, -rows)[-rows]
    return np.flatnonzero(likeness >= cut), bool(likeness.min() <= cut - FLOAT32_ERROR)


def _following(look: Look, brought: int, exact_most: int, *, enough: bool) -> Look | None:
    if look.approximate:
        if brought < min(look.most, look.vectors):
            return _exact(look)
        return replace(_exact(look), beside=True) if look.vectors <= exact_most else None
    if brought < look.most or enough:
        return None
    return replace(look, most=look.most * 2)


def _exact(look: Look) -> Look:
    return replace(look, route=EXACT[look.probe.lane])


def _scanning(settings: Postgres) -> list[Command]:
    """How the index is scanned. Without sorting, the planner has no other way to the nearest than the index."""
    return [
        plain(f"SET LOCAL hnsw.ef_search = {settings.ef_search}"),
        plain(f"SET LOCAL hnsw.iterative_scan = {settings.iterative_scan}"),
        plain(f"SET LOCAL hnsw.max_scan_tuples = {settings.max_scan_tuples}"),
        plain("SET LOCAL enable_sort = off"),
    ]
