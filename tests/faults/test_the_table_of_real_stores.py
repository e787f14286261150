"""What is done to a real store in the middle of a recall, connections killed, tables locked or gone; and what is said of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import psycopg
import pytest
from databases import APP, OWNER, Stock, login
from faults.broken import Interfered, over
from stories.world import ADA, balanced, engine_at, ids

from remit.pipeline import Answer, Fact, Request

FACTS = [Fact(id=f"f{n}", text=f"the deploy key of server {n} rotates") for n in range(3)]
ASKED = Request(query="deplyo key rotates", sources=("fact",))
METHODS = {"find": "generate", "outlines": "generate", "vocabulary": "generate", "read": "verify"}
TABLES = "remit.memory, remit.passage, remit.posting, remit.vocabulary"
LOCK = f"LOCK TABLE {TABLES} IN ACCESS EXCLUSIVE MODE"
KILL = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{OWNER}' AND datname = current_database()"  # noqa: S608 - all of it stands here

DONE = {
    "the role may read no more": (f"REVOKE SELECT ON {TABLES} FROM {APP}", f"GRANT SELECT ON {TABLES} TO {APP}"),  # noqa: S608 - as above
    "the tables are gone": ("ALTER SCHEMA remit RENAME TO elsewhere", "ALTER SCHEMA elsewhere RENAME TO remit"),
}


def does(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def told(answer: Answer) -> tuple[str, list[tuple[str | None, str, str, bool]]]:
    balanced(answer)
    return answer.outcome, [(each.stage, each.code, each.owner, each.retryable) for each in answer.meta.because]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("what", DONE)
async def test_what_happens_to_a_database_in_the_middle_of_a_recall_is_never_an_empty_answer(
    stock_of_english: Stock, method: str, what: str
) -> None:
    doing, undoing = DONE[what]
    with stock_of_english.database() as dsn:
        async with engine_at(login(dsn, OWNER), *FACTS) as engine:
            interfered = over(engine, lambda store: Interfered(store, method, partial(does, dsn, doing)))
            answer = await interfered.recall(ASKED, ADA)
            does(dsn, undoing)
            mended = await engine.recall(ASKED, ADA)

    assert told(answer) == ("unavailable", [(METHODS[method], "store_unavailable", "operator", True)])
    assert (mended.outcome, ids(mended)) == ("enough", ["f0", "f1", "f2"])


@pytest.mark.parametrize("method", METHODS)
async def test_a_connection_killed_between_two_calls_is_made_anew_or_told_and_the_next_recall_has_another(
    stock_of_english: Stock, method: str
) -> None:
    with stock_of_english.database() as dsn:
        async with engine_at(login(dsn, OWNER), *FACTS) as engine:
            interfered = over(engine, lambda store: Interfered(store, method, partial(does, dsn, KILL)))
            answer = await interfered.recall(ASKED, ADA)
            mended = await engine.recall(ASKED, ADA)

    lost = ("unavailable", [(METHODS[method], "store_unavailable", "operator", True)])  # when news of it came later than the call
    assert told(answer) in (("enough", []), lost)
    assert (mended.outcome, ids(mended)) == ("enough", ["f0", "f1", "f2"])


@contextmanager
def locked(dsn: str) -> Iterator[Callable[[], Callable[[], None]]]:
    """Locks a database's tables when it is called, until what it gives is called."""
    with psycopg.connect(dsn) as holder:

        def lock() -> Callable[[], None]:
            holder.execute(LOCK)
            return holder.rollback

        yield lock


@pytest.mark.parametrize("method", METHODS)
async def test_tables_that_somebody_locks_in_the_middle_cost_their_stage_its_seconds_and_nothing_more(
    stock_of_english: Stock, method: str
) -> None:
    asked = replace(ASKED, ceilings={METHODS[method]: {"seconds": 0.3}})
    with stock_of_english.database() as dsn:
        async with engine_at(login(dsn, OWNER), *FACTS) as engine:
            with locked(dsn) as lock:
                answer = await over(engine, lambda store: Interfered(store, method, lock)).recall(asked, ADA)
            mended = await engine.recall(ASKED, ADA)

    assert told(answer) == ("exhausted", [(METHODS[method], "ceiling_seconds", "caller", True)])
    assert (mended.outcome, ids(mended)) == ("enough", ["f0", "f1", "f2"])


@pytest.mark.parametrize("method", METHODS)
async def test_a_connection_killed_while_it_is_at_work_is_unavailable_and_the_next_recall_has_another(
    stock_of_english: Stock, method: str
) -> None:
    answers: list[Answer] = []
    with stock_of_english.database() as dsn:
        async with engine_at(login(dsn, OWNER), *FACTS) as engine:
            with locked(dsn) as lock:

                async def ask() -> None:
                    answers.append(await over(engine, lambda store: Interfered(store, method, lock)).recall(ASKED, ADA))
                    tasks.cancel_scope.cancel()

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask)
                    while True:
                        does(dsn, f"{KILL} AND wait_event_type = 'Lock'")
                        await anyio.sleep(0.01)
            mended = await engine.recall(ASKED, ADA)

    assert told(answers[0]) == ("unavailable", [(METHODS[method], "store_unavailable", "operator", True)])
    assert (mended.outcome, ids(mended)) == ("enough", ["f0", "f1", "f2"])


# SQLite


def dropped(path: Path, table: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    connection.close()


@pytest.mark.parametrize("method", METHODS)
async def test_a_table_that_is_gone_from_a_file_is_unavailable(tmp_path: Path, method: str) -> None:
    table = {"find": "passage", "outlines": "passage", "vocabulary": "vocabulary", "read": "passage"}[method]
    async with engine_at(f"sqlite:{tmp_path}/store.db", *FACTS) as engine:
        interfered = over(engine, lambda store: Interfered(store, method, partial(dropped, tmp_path / "store.db", table)))
        answer = await interfered.recall(ASKED, ADA)

    assert told(answer) == ("unavailable", [(METHODS[method], "store_unavailable", "operator", True)])


HOLDING = [
    *FACTS,
    Fact(id="old", text="the deploy key rotates by hand", expires_at="2026-01-01"),
    Fact(id="new", text="the deploy key rotates itself", supersedes=("fact:f0",)),
    Fact(id="theirs", text="the deploy key rotates", org="rival"),
]


@pytest.mark.parametrize(
    "lost, outcome",
    [
        ("org = 'acme' AND word = 'deploy' AND superseded = 0 AND valid_until IS NULL", "unavailable"),
        ("org = 'acme' AND word = 'deploy' AND superseded = 1", "unavailable"),
        ("org = 'acme' AND word = 'server'", "enough"),  # not asked for
        ("org = 'rival'", "enough"),
        ("0", "enough"),
    ],
)
async def test_c6_10_a_lost_part_of_the_index_of_words_is_unavailable_to_who_asks_for_those_words(
    tmp_path: Path, lost: str, outcome: str
) -> None:
    path = tmp_path / "store.db"
    async with engine_at(f"sqlite:{path}", *HOLDING) as engine:
        with sqlite3.connect(path) as connection:
            places = f"SELECT org, word, shelf, passage FROM posting WHERE {lost} LIMIT 1"  # noqa: S608 - all of it stands here
            connection.execute(f"DELETE FROM posting WHERE (org, word, shelf, passage) IN ({places})")  # noqa: S608 - as above
        connection.close()
        answer = await engine.recall(Request(query="deploy key rotates", sources=("fact",)), ADA)

    assert answer.outcome == outcome
    if outcome == "unavailable":
        assert told(answer)[1] == [("generate", "store_unavailable", "operator", True)]
        assert "remit init" in answer.meta.because[0].detail
