"""Parity: a thousand seeded corpora, and whole answers that are the same to the byte on every store, in every process. Rules 1 and 7."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conformance.corpora import corpus
from conformance.parity import PLAINEST, Difference, differences, digest, engine_of, everything_told
from databases import OWNER, Stock, login

TESTS = Path(__file__).parents[1]
HUNDREDS = 250
"""Corpora of one test: so many that opening engines costs little, so few that a failure says where."""


@pytest.fixture
def anyio_backend() -> str:
    """Postgres is driven on asyncio only; the plainest store and SQLite answer alike on both, which the stories show."""
    return "asyncio"


@pytest.fixture(scope="module")
def urls(stock_of_english: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Two stores that are given all corpora, so that each stands among the rows of those before it."""
    with stock_of_english.database() as dsn:
        yield {"sqlite": f"sqlite:{tmp_path_factory.mktemp('parity')}/all.db", "postgres": login(dsn, OWNER)}


@pytest.mark.parametrize("first", range(0, 1000, HUNDREDS))
async def test_every_store_gives_the_whole_answer_of_the_plainest_whatever_stands_beside(urls: dict[str, str], first: int) -> None:
    found: list[Difference] = []

    compared = await differences(range(first, first + HUNDREDS), urls, found.append)

    assert not found, f"{len(found)} differ:\n" + "\n\n".join(map(str, found[:5]))
    assert compared > 3 * len(urls) * HUNDREDS


async def test_the_corpora_meet_every_outcome_and_every_way_to_be_found_or_lost() -> None:
    seen: Counter[str] = Counter()
    for seed in range(160):
        given = corpus(seed)
        async with engine_of("memory:", given.regime) as engine:
            for said in await everything_told(engine, given, PLAINEST, among=False):
                seen.update(_kinds(said))

    often = {"enough", "exhausted", "nothing_found", "both", "lexical", "vector", "collapsed", "duplicate", "weak", "expired", "superseded"}
    some = {
        "unavailable",
        "near_words",
        "unverified",
        "filtered",
        "over_ceiling",
        "share",
        "limit",
        "changed",
        "no_room",
        "repeats",
        "semantic",
    }
    assert {kind for kind in often if seen[kind] < 10} == set()
    assert {kind for kind in some if not seen[kind]} == set()


def _kinds(said: str) -> Iterator[str]:
    """How an answer ended, how its cards were found, and what became of the rest."""
    if not said.startswith('{"data"'):
        return
    for answer in map(json.loads, said.splitlines()):
        yield answer["meta"]["outcome"]
        yield from answer["meta"]["mode"]["degraded"]
        for card in answer["data"]:
            yield card["matchedBy"]
            yield from card["ranks"]
        for stage in answer["meta"]["stages"]:
            yield from stage["rejected"]


async def test_a_process_with_another_hash_seed_tells_the_same_of_every_store(new_store: Callable[[], str]) -> None:
    line = [sys.executable, "-m", "conformance.parity", "--seeds", "24", "--digest"]
    others = [
        subprocess.Popen([*line, new_store()], cwd=TESTS, env={"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - they run beside us
        for seed in ("0", "77")
    ]
    here = await digest(range(24), new_store())

    told = [process.communicate(timeout=120)[0].strip() for process in others]
    assert [process.returncode for process in others] == [0, 0]
    assert told == [here, here]
