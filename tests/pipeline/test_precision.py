"""Long vectors are rounded once, before anybody keeps or compares them, so that every store tells the same scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from stories.world import NewStore, bytes_of, engine_at

from remit.pipeline import Fact, Principal, Request
from remit.pipeline.authority import Narrowing, access_for, checked
from remit.pipeline.embedding.local import DIMENSIONS
from remit.pipeline.embedding.precision import WHOLE, in_precision
from remit.pipeline.storage import postgres
from remit.stages.evidence import Lane
from remit.stages.ports import Embedder, Probe, Wanted
from remit.stages.request import Filters

ADA = Principal(actor="ada", org="acme", scopes="*")
FACTS = [Fact(id=f"f{number}", text=f"fact number {number} of the lighthouse") for number in range(12)]


class Wide:
    """A host's embedder of `dimensions`: numbers that half precision does not hold, and lengths that are not 1."""

    lane = Lane.SEMANTIC
    space = "wide"

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        numbers = [int(word) for text in texts for word in text.split() if word.isdigit()] or [3]
        turned = [np.sin(np.arange(1, self.dimensions + 1) * (1 + number / 37)) * (number + 1) * 1000 for number in numbers]
        return np.array(turned, dtype=np.float32)


@given(st.integers(0, 10_000), st.sampled_from([129, 384, 768]), st.sampled_from([1e-30, 1.0, 1e30]))
def test_a_long_vector_has_length_one_and_holds_only_what_half_precision_does(seed: int, dimensions: int, size: float) -> None:
    vectors = (np.random.default_rng(seed).standard_normal((3, dimensions)) * size).astype(np.float32)

    rounded = in_precision(vectors)

    assert rounded.dtype == np.float32
    assert (rounded == rounded.astype(np.float16).astype(np.float32)).all()
    assert np.abs(np.linalg.norm(rounded, axis=1) - 1).max() < 1e-3
    assert all((in_precision(vectors[row : row + 1]) == rounded[row]).all() for row in range(3)), "whoever stands beside it"


@pytest.mark.parametrize(
    "vectors", [np.full((1, WHOLE), 1 / 3, np.float32), None, [[0.1]], np.ones(200, np.float32), np.ones((1, 200), int)]
)
def test_what_is_short_or_no_vector_is_left_as_it_is(vectors: Any) -> None:
    assert in_precision(vectors) is vectors


@pytest.mark.parametrize("broken", [0.0, np.nan, np.inf, 1e300])
def test_what_has_no_direction_is_left_for_others_to_judge(broken: float) -> None:
    vectors = np.zeros((2, 200))
    vectors[0], vectors[1, 0] = broken, 1.0

    with np.errstate(over="ignore"):
        expected = np.full(200, np.float32(np.float64(broken)))
    if broken != 1e300:
        np.testing.assert_array_equal(in_precision(vectors)[0], expected)
    assert in_precision(vectors)[1, 0] == 1


def test_what_is_kept_whole_is_what_postgres_keeps_whole() -> None:
    schema = (Path(postgres.__file__).parent / "vectors.sql").read_text()

    assert f"embedding vector({WHOLE}) NOT NULL" in schema
    assert DIMENSIONS == WHOLE


async def asked(url: str, embedder: Embedder) -> tuple[str, list[bytes]]:
    """An answer, and the vectors that were compared for it, as bytes."""
    async with engine_at(url, *FACTS, embedder=embedder) as engine:
        answer = await engine.recall(Request(query="number 3", limit=12), ADA)
        (probing,) = engine.kit.streams.questions("acme")
        probe = Probe(lane=Lane.SEMANTIC, space="wide", vector=(await probing.embed(["number 3"]))[0])
        wanted = Wanted(words=(), probes=(probe,), filters=Filters(), rows=99, postings=0, seconds=60)
        access = access_for(checked(ADA, engine.config.limits), Narrowing(), engine.kit.clock())
        found = await engine.store.find(wanted, access)
    return bytes_of(answer), sorted(row.tobytes() for each in found.neighbours for row in each.vectors)


@pytest.mark.parametrize("dimensions", [96, 384, 768])
async def test_every_store_keeps_and_compares_the_same_numbers(new_other_store: NewStore, dimensions: int) -> None:
    answer, vectors = await asked(new_other_store(), Wide(dimensions))

    assert (answer, vectors) == await asked("memory:", Wide(dimensions))
    assert len(set(vectors)) == len(FACTS)
    assert '"matchedBy": "both"' in answer
