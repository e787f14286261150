"""The nearest of some vectors: roughly in float32 for all of them, then exactly around the cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remit.stages.selection import similarities

FLOAT32_ERROR = 1e-5
"""More than a cosine computed in float32 is off by; what is further away than this from the cut cannot have belonged above it."""


@dataclass(frozen=True, slots=True)
class Near:
    """Which of the compared vectors are nearest, and whether none that were farther away than all of these can belong to them."""

    places: NDArray[np.intp]
    complete: bool


def nearest(probe: NDArray[np.float32], vectors: NDArray[np.float32], wanted: int) -> Near:
    """The places of the `wanted` nearest vectors and of all that are as near as the last of them, by the similarity that ranks them."""
    if len(vectors) <= wanted:
        return Near(np.arange(len(vectors)), complete=False)
    # `einsum` and not `@`: a matrix library's own threads would fight with ours for the cores.
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors) * np.einsum("i,i->", probe, probe))
        rough = np.nan_to_num(np.einsum("ij,j->i", vectors, probe) / lengths)
    around = np.flatnonzero(rough >= np.partition(rough, -wanted)[-wanted] - 2 * FLOAT32_ERROR)
    likeness = similarities(probe, vectors[around])
    cut = np.partition(likeness, -wanted)[-wanted]
    return Near(around[likeness >= cut], complete=bool(rough.min() < cut - 2 * FLOAT32_ERROR))
