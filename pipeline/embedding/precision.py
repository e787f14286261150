"""Precision: long vectors are rounded to half precision from the start, so that every store keeps and compares the same numbers.

Postgres keeps them so, for speed; a store that kept more digits would give other scores. A question and what it is compared with are
rounded alike, by the streams, before any store sees either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.embedding.batch import Embedded, PassageEmbedder
from remit.stages.ports import Embedder

WHOLE = 128
"""The longest vectors that are kept as they are, in float32."""


def in_precision(vectors: Any) -> Any:
    """Vectors as they are kept: float32 of shape (n, d); longer than `WHOLE`, each brought to length 1 and rounded to what half precision
    holds. What has no direction, or is no vector, stays as it is."""
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f" or vectors.shape[1] <= WHOLE:
        return vectors
    wide = vectors.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units = wide / np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
        rounded = units.astype(np.float16).astype(np.float32)
        sound = np.isfinite(rounded).all(axis=1, keepdims=True)
        return np.where(sound, rounded, vectors).astype(np.float32)


class Asking:
    """An embedder of questions, whose vectors are as those are kept that they are compared with."""

    def __init__(self, embedder: Embedder) -> None:
        self.lane, self.space, self.dimensions = embedder.lane, embedder.space, embedder.dimensions
        self._embedder = embedder

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rounded: NDArray[np.float32] = in_precision(await self._embedder.embed(texts))
        return rounded


class Keeping:
    """An embedder of what is taken in, whose vectors are as they are kept."""

    def __init__(self, embedder: PassageEmbedder) -> None:
        self.space, self.dimensions = embedder.space, embedder.dimensions
        self._embedder = embedder

    async def embed_each(self, texts: Sequence[str]) -> Embedded:
        embedded = await self._embedder.embed_each(texts)
        return replace(embedded, vectors=in_precision(embedded.vectors))


def asking(embedder: Embedder) -> Embedder:
    return Asking(embedder) if embedder.dimensions > WHOLE else embedder


def keeping(embedder: PassageEmbedder) -> PassageEmbedder:
    return Keeping(embedder) if embedder.dimensions > WHOLE else embedder
