"""Writers killed in the middle: nothing that was acknowledged is lost, nothing is there twice, and the key settles what is unknown."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from stories.world import NewStore

from remit.pipeline import open_engine

KILLING = runpy.run_path(str(Path(__file__).parents[2] / "ops" / "benchmarks" / "kill.py"))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_kill_loses_nothing_that_was_acknowledged_and_the_key_settles_the_rest(new_other_store: NewStore) -> None:
    url = new_other_store()
    async with open_engine(url):
        """Makes the store, so that writers do not wait for one another to make it."""

    found = await KILLING["killed"](url, rounds=1)

    assert found["acknowledged"] > 0
    assert {name: found[name] for name in ("killed", "lost", "left unsettled", "written twice", "faults")} == {
        "killed": 5,
        "lost": 0,
        "left unsettled": 0,
        "written twice": 0,
        "faults": [],
    }
