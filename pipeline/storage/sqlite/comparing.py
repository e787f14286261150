"""Comparing: the nearest vectors of each source in reach, by an exact pass over all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.sqlite.nearest import nearest
from remit.pipeline.storage.sqlite.rows import SOURCES, dumped, numbers
from remit.pipeline.storage.sqlite.searching import Search
from remit.pipeline.storage.store import NOTHING_ALLOWED, NOTHING_ASKED, RAN
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, Route
from remit.stages.ports import Neighbours, Probe
from remit.stages.report import Degradation
from remit.stages.request import Source

EXACT = {Lane.LOCAL: Route.LOCAL_EXACT, Lane.SEMANTIC: Route.SEMANTIC_EXACT}


def compare(search: Search, probe: Probe) -> None:
    """The nearest of each source; ties with the last one that fits are kept."""
    progress, route = search.progress, EXACT[probe.lane]
    if search.means.no_vectors is not None:
        progress.routes[route] = search.means.no_vectors
        if Degradation.NO_VECTORS not in progress.degraded:
            progress.degraded.append(Degradation.NO_VECTORS)
        return
    on_shelf = _on_shelves(search, probe.space)
    found: list[Neighbours] = []
    said = RAN
    if not (probe.vector.any() and np.isfinite(probe.vector).all()):
        said = NOTHING_ASKED
    elif search.wanted.rows <= 0:
        said = NOTHING_ALLOWED
        progress.exhausted = progress.exhausted or Limit.ITEMS
    else:
        found = [near for source in SOURCES if (near := _nearest(search, probe, source, on_shelf)) is not None]
    progress.compared[probe.lane] = sum(on_shelf.values())
    progress.neighbours += found
    progress.routes[route] = said


def _on_shelves(search: Search, space: str) -> dict[int, int]:
    """How many vectors stand on each shelf."""
    counts: dict[int, int] = {}
    if search.shelves.count:
        for shelf, vectors in json.loads(search.row("vectors_on_shelves", space=space)[0]):
            counts[shelf] = counts.get(shelf, 0) + vectors
    return counts


def _nearest(search: Search, probe: Probe, source: Source, on_shelf: Mapping[int, int]) -> Neighbours | None:
    shelves = [shelf for shelf in search.shelves.of_source.get(source, ()) if on_shelf.get(shelf)]
    vectors = sum(on_shelf[shelf] for shelf in shelves)
    wanted, means, fetch = search.wanted.rows, search.means, _fetching(search, probe, shelves)
    if not vectors:
        return None
    # Few vectors are all fetched and compared here, which is faster than in the database.
    most = inf if vectors <= max(means.whole_vectors, wanted) else wanted + means.vector_slack
    keys, fetched = fetch(most)
    near = nearest(probe, fetched, wanted)
    while keys.size == most and not near.complete:
        most *= 2
        keys, fetched = fetch(most)
        near = nearest(probe, fetched, wanted)
    if not keys.size:
        return None
    chosen = near.places[np.argsort(keys[near.places])]
    more = chosen.size + near.weaker < keys.size
    return Neighbours(EXACT[probe.lane], probe.lane, source, keys[chosen], fetched[chosen], more, near.weaker)


def _fetching(search: Search, probe: Probe, shelves: Sequence[int]) -> Callable[[float], tuple[NDArray[np.int64], NDArray[np.float32]]]:
    eligible = search.progress.eligible
    blob = np.ascontiguousarray(probe.vector, dtype="<f4").tobytes()
    parameters: dict[str, Any] = {"space": probe.space, "shelves": dumped(shelves), "bytes": len(blob), "probe": blob}
    if eligible is not None:
        parameters["eligible"] = apsw.carray(eligible) if eligible.size else None
    kind = "vector" if eligible is None else "eligible_vector"

    def fetch(most: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        name = f"every_{kind}" if most == inf else f"nearest_{kind}s"
        joined, packed = search.row(name, **parameters, most=None if most == inf else most)
        return numbers(joined), np.frombuffer(packed or b"", dtype="<f4").reshape(-1, probe.vector.size)

    return fetch
