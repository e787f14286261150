"""Whole recalls on a real server: no transaction is open while others work, and what is not there never looks like nothing. B1.10, B2.5."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from databases import OWNER, Stock, login
from numpy.typing import NDArray

from remit.pipeline import Doc, Fact, Principal, Request, open_engine
from remit.pipeline.analysis import Analyser
from remit.pipeline.embedding.local import LocalHash
from remit.stages.access import Access
from remit.stages.evidence import Lane, Memory, Origin, Verdict

pytestmark = pytest.mark.anyio

ADA = Principal(actor="ada", org="acme")
EVE = Principal(actor="eve", org="other")


class Watching:
    """Looks, whenever it is asked for its own work, whether a transaction of ours is open."""

    lane = Lane.SEMANTIC
    space = "watched:2"
    dimensions = 2

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.seen: list[str] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._look()
        return np.tile(np.array([1, 0], dtype=np.float32), (len(texts), 1))

    async def __call__(self, memory: Memory, access: Access, /) -> Verdict:
        self._look()
        return Verdict.FRESH

    def _look(self) -> None:
        """The end of a transaction is sent and not waited for, so the server is given a moment for it."""
        open_, until = [("",)], time.monotonic() + 0.2
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while open_ and time.monotonic() < until:
                open_ = connection.execute("SELECT state FROM pg_stat_activity WHERE usename = %s AND state <> 'idle'", [OWNER]).fetchall()
        self.seen.append(", ".join(state for (state,) in open_))


async def test_no_transaction_is_open_while_sources_are_looked_at_or_texts_embedded(stock_of_english: Stock) -> None:
    with stock_of_english.database() as dsn:
        watching = Watching(dsn)
        async with open_engine(login(dsn, OWNER), embedder=watching, checkers={"watched": watching}) as engine:
            fact = Fact(id="f", text="The deploy key rotates monthly", origin=Origin(uri="watched:f"))
            await engine.remember([fact], ADA)
            answer = await engine.recall(Request(query="deploy key"), ADA)

    assert (answer.outcome, answer.meta.because) == ("enough", [])
    assert len(watching.seen) >= 3, "the text, the question and the source"
    assert set(watching.seen) == {""}


async def test_c1_twenty_own_rows_among_many_nearer_ones_are_all_found_and_nothing_else_changes(stock_of_english: Stock) -> None:
    own = [Fact(id=f"own{at}", text=f"deploy notes number {at}") for at in range(20)]
    theirs = [Doc(id="theirs", text="\n\n".join(f"deploy notes {at}" for at in range(2000)))]
    request = Request(query="deploy notes", limit=20, sources=("fact",))
    with stock_of_english.database() as dsn:
        for exact_rows in (20_000, 0):
            async with open_engine(login(dsn, OWNER), config={"postgres": {"exactRows": exact_rows}}) as engine:
                await engine.remember(own, ADA)
                alone = await engine.recall(request, ADA)
                await engine.remember(theirs, EVE)
                among = await engine.recall(request, ADA)
                await engine.remember([Doc(id="theirs", text="nothing")], EVE)

            assert len(among.data) == 20
            assert _told(among) == _told(alone)


def _told(answer: Any) -> Any:
    return [{name: value for name, value in card.items() if name != "verifiedAt"} for card in answer.data]


async def test_a_store_that_is_down_is_unavailable_and_a_busy_one_overloaded(stock_of_english: Stock) -> None:
    config = {"postgres": {"connections": 1, "waitSeconds": 0.05}}
    with stock_of_english.database() as dsn:
        async with open_engine(login(dsn, OWNER), config=config) as engine:
            store: Any = engine.store
            async with store._desk.pool.line(10**9):
                busy = await engine.recall(Request(query="deploy"), ADA)
            store._desk.pool.close()
            down = await engine.recall(Request(query="deploy"), ADA)

    assert [(each.outcome, [because.code for because in each.meta.because]) for each in (busy, down)] == [
        ("unavailable", ["overloaded"]),
        ("unavailable", ["store_unavailable"]),
    ]


def test_the_local_stream_fits_the_table_made_for_it() -> None:
    assert LocalHash(Analyser("english")).dimensions <= 128
