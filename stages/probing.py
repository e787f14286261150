"""Probing: the question's vector in each stream, from embedders that may fail, come too late, or answer what is no vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from remit.stages.ports import Embedder, Probe
from remit.stages.selection import Selection


async def probes_of(text: str, embedders: Sequence[Embedder], selection: Selection, seconds: float) -> tuple[tuple[Probe, ...], bool]:
    """The question's vector in each stream, embedded once, and whether a stream failed or came too late."""
    vectors = _made_at_once(text, embedders)
    if len(vectors) < len(embedders):
        with anyio.move_on_after(seconds):
            for embedder in embedders[len(vectors) :]:
                vectors.append(await _vector(text, embedder))
    probes = [
        Probe(lane=embedder.lane, space=embedder.space, vector=vector, least=selection.least(embedder.lane))
        for embedder, vector in zip(embedders, vectors, strict=False)
        if vector is not None and np.count_nonzero(vector)
    ]
    return tuple(probes), len(vectors) < len(embedders) or any(vector is None for vector in vectors)


def _made_at_once(text: str, embedders: Sequence[Embedder]) -> list[NDArray[np.float32] | None]:
    """The vectors of the first embedders, as far as those make them without waiting: nobody has to watch the time for that."""
    vectors: list[NDArray[np.float32] | None] = []
    for embedder in embedders:
        at_once = getattr(embedder, "at_once", None)
        try:
            vector = None if at_once is None else at_once(text)
        except Exception:  # noqa: BLE001 - then it is asked as any other
            vector = None
        if vector is None:
            break
        vectors.append(_sound(np.asarray(vector), embedder))
    return vectors


async def _vector(text: str, embedder: Embedder) -> NDArray[np.float32] | None:
    """One vector for the question, or None when the embedder fails or answers anything else: that costs its stream only."""
    try:
        answer = np.asarray(await embedder.embed([text]))
    except Exception:  # noqa: BLE001 - any fault of a provider, told as `embedding_failed`: words must still answer
        return None
    return _sound(answer[0], embedder) if answer.ndim and len(answer) == 1 else None


def _sound(answer: NDArray[Any], embedder: Embedder) -> NDArray[np.float32] | None:
    """A vector of its own of what an embedder answered for one text, or None of what is none."""
    if answer.shape != (embedder.dimensions,) or answer.dtype.kind != "f":
        return None
    vector: NDArray[np.float32] = answer.copy()  # an embedder may use its array again
    if vector.dtype != np.float32:
        with np.errstate(over="ignore"):
            vector = vector.astype(np.float32)
    return vector if np.isfinite(vector).all() else None
