"""Freshness of records: a URI chooses a registered query and gives it values, and its answer is what the origin states, or is not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from remit.pipeline.freshness import Query, QueryChecker, SqliteQuery, Watch
from remit.pipeline.freshness.sql import asked_by
from remit.stages.access import Access, Label, Shelf
from remit.stages.evidence import Memory, MemoryId, Origin, PassageId, Verdict
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ADA = Access(actor="ada", org="acme", granted=frozenset({"project:alpha"}), as_of=NOW)
ALL = Access(actor="root", org="acme", granted=None, as_of=NOW)
STRANGER = Access(actor="eve", org="globex", granted=None, as_of=NOW)
ORDER = "SELECT version FROM orders WHERE id = :id AND org = :org"


def memory(uri: str, version: str | None = None, sha256: str | None = None) -> Memory:
    return Memory(
        passage=PassageId(MemoryId(Source.FACT, "f1"), 0),
        version=1,
        label=Label(shelf=Shelf(org="acme", source=Source.FACT)),
        title="",
        text="",
        created_at=NOW,
        origin=Origin(uri=uri, version=version, sha256=sha256),
    )


async def verdict(
    queries: Mapping[str, Query | SqliteQuery], uri: str, version: str | None = "7", sha256: str | None = None, access: Access = ADA
) -> Any:
    checker = QueryChecker(queries, most_bytes=1000, threads=2)
    watch = Watch({"sql": checker}, workers=2, check_seconds=60)
    return (await watch.still_true([memory(uri, version, sha256)], access))[MemoryId(Source.FACT, "f1")]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    database = apsw.Connection(str(path))
    database.execute(
        "CREATE TABLE orders (id TEXT, org TEXT, version, secret TEXT);"
        "INSERT INTO orders VALUES ('42', 'acme', 7, 's'), ('43', 'globex', 7, 's'), ('44', 'acme', NULL, 's'), ('45', 'acme', '7 ', 's');"
    )
    database.close()
    return path


def rows(shop: Path) -> int:
    return int(apsw.Connection(str(shop)).execute("SELECT count(*) FROM orders").get)


def said(answer: Any) -> Query:
    async def query(values: Mapping[str, str], access: Access) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return query


@pytest.mark.parametrize(
    "answer, expected",
    [
        ("7", Verdict.FRESH),
        (7, Verdict.FRESH),
        (b"7", Verdict.FRESH),
        ("8", Verdict.CHANGED),
        ("", Verdict.CHANGED),
        ("missing", Verdict.CHANGED),
        (Verdict.MISSING, Verdict.MISSING),
        (Verdict.INACCESSIBLE, Verdict.INACCESSIBLE),
        (PermissionError("not yours"), Verdict.INACCESSIBLE),
        (ExceptionGroup("from a task group", [PermissionError()]), Verdict.INACCESSIBLE),
        (ConnectionError(), Verdict.UNVERIFIED),
        (None, Verdict.UNVERIFIED),
        (True, Verdict.UNVERIFIED),
        (7.0, Verdict.UNVERIFIED),
        (("7",), Verdict.UNVERIFIED),
    ],
)
async def test_an_answer_is_compared_with_the_stated_version(answer: Any, expected: Verdict) -> None:
    assert await verdict({"order": said(answer)}, "sql:order?id=42") is expected


@pytest.mark.parametrize("answer", ["the whole ☂ text", "the whole ☂ text".encode()])
async def test_without_a_version_an_answer_is_a_content_with_a_hash(answer: Any) -> None:
    sha = hashlib.sha256("the whole ☂ text".encode()).hexdigest()

    assert await verdict({"order": said(answer)}, "sql:order", None, sha.upper()) is Verdict.FRESH
    assert await verdict({"order": said(answer)}, "sql:order", None, "0" * 64) is Verdict.CHANGED
    assert await verdict({"order": said(answer)}, "sql:order", None, None) is Verdict.UNVERIFIED


async def test_a_query_gets_the_values_and_the_access() -> None:
    got: list[Any] = []

    async def order(values: Mapping[str, str], access: Access) -> Any:
        got.append((values, access))
        return "7"

    assert await verdict({"order": order}, "SQL:order?id=a%26b&region=eu+west&note=", access=STRANGER) is Verdict.FRESH
    assert got == [({"id": "a&b", "region": "eu west", "note": ""}, STRANGER)]


@pytest.mark.parametrize(
    "uri",
    [
        "sql:",
        "sql:other?id=42",
        "sql:Order?id=42",
        "sql:order%20",
        "sql:order/x",
        "sql:order?id",
        "sql:order?id=1&id=2",
        "sql:order?id=%ff",
        "sql:order?id=1#x",
        "sql:SELECT 1",
        "sql:%ff",
    ],
)
async def test_a_uri_that_names_no_query_or_is_not_one_is_inaccessible(uri: str) -> None:
    assert await verdict({"order": said("7")}, uri) is Verdict.INACCESSIBLE


def test_a_uri_is_decoded_once() -> None:
    assert asked_by("sql:a%2520b?x=%2520") == ("a%20b", {"x": "%20"})
    assert asked_by("sql:order") == asked_by("sql:order?") == ("order", {})


# SQLite


@pytest.mark.parametrize(
    "uri, expected",
    [
        ("sql:order?id=42", Verdict.FRESH),
        ("sql:order?id=45", Verdict.CHANGED),
        ("sql:order?id=44", Verdict.UNVERIFIED),
        ("sql:order?id=41", Verdict.MISSING),
        ("sql:order?id=43", Verdict.MISSING),
        ("sql:order?id=43&org=globex", Verdict.MISSING),
        ("sql:order?id=42&unused=1", Verdict.FRESH),
        ("sql:order", Verdict.UNVERIFIED),
        ("sql:order?id=42'+OR+1=1--", Verdict.MISSING),
        ("sql:order?id=');+DELETE+FROM+orders;--", Verdict.MISSING),
    ],
)
async def test_a_statement_gets_values_as_values_and_its_org_from_the_access(shop: Path, uri: str, expected: Verdict) -> None:
    assert await verdict({"order": SqliteQuery(path=shop, sql=ORDER)}, uri) is expected
    assert rows(shop) == 4


@pytest.mark.parametrize("access, expected", [(ADA, Verdict.FRESH), (ALL, Verdict.FRESH), (STRANGER, Verdict.MISSING)])
async def test_a_statement_can_ask_what_is_granted(shop: Path, access: Access, expected: Verdict) -> None:
    sql = "SELECT 7 WHERE :org = 'acme' AND (:scopes IS NULL OR 'project:alpha' IN (SELECT value FROM json_each(:scopes))) AND :actor <> ''"

    assert await verdict({"order": SqliteQuery(path=shop, sql=sql)}, "sql:order", access=access) is expected


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "PRAGMA query_only = 0; DELETE FROM orders",
        "SELECT 7 UNION ALL SELECT 7",
        "SELECT 7, 7",
        "SELECT NULL",
        "SELECT 7.0",
        "SELECT hex(zeroblob(1000))",
        "SELECT nonsense",
    ],
)
async def test_a_statement_that_writes_or_does_not_give_one_short_value_is_unverified(shop: Path, sql: str) -> None:
    assert await verdict({"order": SqliteQuery(path=str(shop), sql=sql)}, "sql:order") is Verdict.UNVERIFIED
    assert rows(shop) == 4


async def test_a_database_that_is_not_there_is_unverified_and_is_not_made(tmp_path: Path) -> None:
    assert await verdict({"order": SqliteQuery(path=tmp_path / "no.db", sql="SELECT 7")}, "sql:order") is Verdict.UNVERIFIED
    assert os.listdir(tmp_path) == []


async def test_a_statement_that_never_ends_is_stopped_and_gives_its_thread_back(shop: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    checker = QueryChecker(
        {"endless": SqliteQuery(path=shop, sql=endless), "order": SqliteQuery(path=shop, sql=ORDER)}, most_bytes=1000, threads=1
    )
    watch = Watch({"sql": checker}, workers=2, check_seconds=0.05)

    with anyio.fail_after(10):
        assert list((await watch.still_true([memory("sql:endless", "7")], ADA)).values()) == [Verdict.UNVERIFIED]
        assert await checker(memory("sql:order?id=42", "7"), ADA) is Verdict.FRESH


async def test_a_locked_database_is_waited_for_only_as_long_as_somebody_waits(shop: Path) -> None:
    writer = apsw.Connection(str(shop))
    writer.execute("BEGIN EXCLUSIVE")
    checker = QueryChecker({"order": SqliteQuery(path=shop, sql=ORDER)}, most_bytes=1000, threads=1)
    watch = Watch({"sql": checker}, workers=2, check_seconds=0.05)

    with anyio.fail_after(10):
        assert list((await watch.still_true([memory("sql:order?id=42", "7")], ADA)).values()) == [Verdict.UNVERIFIED]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, writer.execute, "ROLLBACK")
            assert await checker(memory("sql:order?id=42", "7"), ADA) is Verdict.FRESH
    writer.close()
