"""How a search goes about SQLite: statements are prepared once, and vectors that will not be proposed are counted, not handed out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import apsw
import numpy as np
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory, wanting
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from remit.pipeline.config import load
from remit.pipeline.storage.sqlite import finding, open_sqlite, reading
from remit.pipeline.storage.sqlite.nearest import nearest
from remit.stages.evidence import Lane, MemoryId, PassageId
from remit.stages.ports import Probe
from remit.stages.request import Source
from remit.stages.selection import similarities


@pytest.mark.anyio
async def test_no_statement_of_a_recall_is_prepared_a_second_time(tmp_path: Path) -> None:
    prepared: Counter[bool] = Counter()

    def noted(*_: object) -> int:
        prepared[again] += 1
        return apsw.SQLITE_OK

    async with await open_sqlite(str(tmp_path / "store.db"), load().sqlite, SIGNATURE) as store:
        await store.put([memory(f"m{at}", "red fox", degrees=at) for at in range(9)], EVERYTHING)
        asked = replace(wanting("red", "fox", near=0), likely=lambda found: found.postings["red"].keys.tolist())

        def recalled(db: apsw.Connection) -> None:
            db.authorizer = noted  # asked whenever a statement is prepared
            for _ in range(2):
                found = finding.find(db, asked, EVERYTHING, store._means)
                assert found.outlines
                assert found.neighbours
                reading.read(db, store._sql, [PassageId(MemoryId(Source.FACT, "m1"), 0)], EVERYTHING)
                nonlocal again
                again = True
            db.authorizer = None

        again = False
        await store._readers.run(recalled, wait=9)

    assert prepared[False] > 0
    assert prepared[True] == 0


vectors = arrays(np.float32, (12, 3), elements=st.floats(-1, 1, width=16)).flatmap(
    lambda rows: st.sampled_from([1e-25, 1e-12, 1.0, 1e12, 1e25]).map(lambda scale: (rows.astype(np.float64) * scale).astype(np.float32))
)


@given(vectors, st.sampled_from([-1.0, 0.0, 0.2, 0.5, 0.999]), st.sampled_from([3, 12]))
def test_what_is_as_similar_as_asked_for_is_among_the_nearest_whatever_its_length(rows: np.ndarray, least: float, wanted: int) -> None:
    probe = Probe(lane=Lane.LOCAL, space="space:3", vector=np.array([1, 2, 3], dtype=np.float32), least=least)

    near = nearest(probe, rows, wanted)

    everything = nearest(replace(probe, least=-2.0), rows, wanted).places
    likeness = similarities(probe.vector, rows)
    left_out = np.setdiff1d(everything, near.places)
    assert set(near.places) <= set(everything)
    assert near.weaker == left_out.size
    assert (likeness[left_out] < least).all()


@pytest.mark.anyio
async def test_vectors_below_what_will_be_proposed_are_counted_and_stay_where_they_are(tmp_path: Path) -> None:
    async with await open_sqlite(str(tmp_path / "store.db"), load().sqlite, SIGNATURE) as store:
        await store.put([memory(f"m{at}", "red", degrees=at) for at in range(0, 180, 20)], EVERYTHING)
        (probe,) = wanting(near=0).probes

        (all_of_them,) = (await store.find(wanting(near=0), EVERYTHING)).neighbours
        (strong,) = (await store.find(replace(wanting(), probes=(replace(probe, least=0.7),)), EVERYTHING)).neighbours

    assert (all_of_them.keys.size, all_of_them.weaker) == (9, 0)
    assert (strong.keys.tolist(), strong.weaker, strong.more) == (all_of_them.keys[:3].tolist(), 6, False)
