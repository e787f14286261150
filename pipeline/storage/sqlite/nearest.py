"""The nearest of some vectors: roughly in float32 for all of them, then exactly around the cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remit.stages.ports import Probe
from remit.stages.selection import similarities

FLOAT32_ERROR = 1e-5
"""More than a cosine computed in float32 is off by; what is further away than this from the cut cannot have belonged above it."""

ORDINARY = (1e-12, 1e12)
"""Squared lengths, multiplied, between which float32 neither overflows nor fades."""


@dataclass(frozen=True, slots=True)
class Near:
    """Which of the compared vectors are nearest, without the `weaker` ones that are not similar enough to be told of, and whether none
    that were farther away than all of these can belong to them."""

    places: NDArray[np.intp]
    weaker: int
    complete: bool


def nearest(probe: Probe, vectors: NDArray[np.float32], wanted: int) -> Near:
    """The places of the `wanted` nearest vectors and of all that are as near as the last of them, by the similarity that ranks them."""
    rough, sure = _roughly(probe.vector, vectors)
    places, complete = np.arange(len(vectors)), False
    if len(vectors) > wanted:
        around = np.flatnonzero(rough >= np.partition(rough, -wanted)[-wanted] - 2 * FLOAT32_ERROR)
        likeness = similarities(probe.vector, vectors[around])
        cut = np.partition(likeness, -wanted)[-wanted]
        places, complete = around[likeness >= cut], bool(rough.min() < cut - 2 * FLOAT32_ERROR)
    strong = places[~(sure & (rough < probe.least - 2 * FLOAT32_ERROR))[places]]
    return Near(strong, places.size - strong.size, complete)


def _roughly(probe: NDArray[np.float32], vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Cosines, and which of them can be relied on.

    `vecdot` and not `@`: a matrix library's own threads, of no use to rows so short, would fight with ours for the cores.
    """
    least, most = ORDINARY
    with np.errstate(all="ignore"):
        squares = np.vecdot(vectors, vectors) * np.vecdot(probe, probe)
        rough = np.vecdot(vectors, probe) / np.sqrt(squares)
    rough[~np.isfinite(rough)] = 0.0
    return rough, (squares > least) & (squares < most)
