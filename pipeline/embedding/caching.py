"""Vectors of questions that were asked before, kept for a while, for the org that asked and the space they are of."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.recent import Recent
from remit.stages.ports import Embedder

Key = tuple[str, str, bytes]


class QuestionCache:
    """At most `most` vectors, the longest unused ones going first.

    Texts are kept as digests only. An org finds nothing that another one asked: how fast an answer comes tells nobody what others look for.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._vectors: Recent[Key, NDArray[np.float32]] = Recent(most)

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, key: Key) -> NDArray[np.float32] | None:
        return self._vectors.get(key)

    def keep(self, key: Key, vector: NDArray[np.float32]) -> None:
        kept = vector.copy()  # of its own: a row would keep its whole batch alive
        kept.flags.writeable = False
        self._vectors.keep(key, kept)

    def forget(self, org: str) -> None:
        """Drops all of an org's, as when it may no longer use a provider."""
        self._vectors.drop_all(lambda key: key[0] == org)


class Remembering:
    """An embedder of questions, for one org, that asks another one only for what the cache does not hold. Only usable vectors are kept."""

    def __init__(self, embedder: Embedder, cache: QuestionCache, org: str) -> None:
        self.lane, self.space, self.dimensions = embedder.lane, embedder.space, embedder.dimensions
        self._embedder, self._cache, self._org = embedder, cache, org

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the embedder itself, raising what it raises."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        missing: list[int] = []
        for place, text in enumerate(texts):
            vector = self._cache.get(self._key(text))
            if vector is None:
                missing.append(place)
            else:
                vectors[place] = vector
        if missing:
            found = await self._embedder.embed([texts[place] for place in missing])
            vectors[missing] = found
            for place in missing:
                if vectors[place].any() and np.isfinite(vectors[place]).all():
                    self._cache.keep(self._key(texts[place]), vectors[place])
        return vectors

    def _key(self, text: str) -> Key:
        return self._org, self.space, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
