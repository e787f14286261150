"""Everything goes out of one store and into another, and nothing of an answer can tell which of the two gave it."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from stories.world import ADA, NOW, NewStore, bytes_of, engine_at

from remit.pipeline import Claim, Doc, Engine, Fact, Origin, Principal, Request, Session
from remit.pipeline.faces.living import importing
from remit.pipeline.faces.wire import whole_to

WRITER = Principal(actor="writer", org="acme", scopes="*")
HOST = Principal(actor="host", org="acme", scopes="*")


@pytest.fixture
def sqlite(tmp_path: Path) -> NewStore:
    numbers = iter(range(100))
    return lambda: f"sqlite:{tmp_path}/{next(numbers)}.db"


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[NewStore]:
    yield from request.getfixturevalue("stock_of_english").lending()


WAYS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("postgres", "postgres")]


@pytest.fixture(params=WAYS, ids=[" to ".join(way) for way in WAYS])
def way(request: pytest.FixtureRequest) -> tuple[NewStore, NewStore]:
    here, there = request.param
    return request.getfixturevalue(here), request.getfixturevalue(there)


def world() -> list[Fact | Session | Doc]:
    """Of every kind and state, with numbers and times that are written in several ways, and texts in several scripts."""
    ago = NOW - timedelta(days=40, microseconds=1)
    return [
        *(Fact(id=f"i{at}", text=f"Deploys of importance {at} go out.", importance=value) for at, value in enumerate([0, 1, 1 / 3, 1e-9])),
        Fact(id="thursday", text="Deploys go out on Thursday.", key="k1", tags=("day", "Tag")),
        Fact(id="monday", text="Deploys go out on Monday.", created_at="2026-01-01T00:00:00.000001+14:00"),
        Fact(id="idea", text="Deploys go out daily.", approval="proposed", supersedes=("fact:monday",), trust="untrusted"),
        Fact(id="child", text="So they are announced.", derived_from=("fact:idea",), trust="verified"),
        Fact(id="over", text="Deploys went out on Sunday.", expires_at=NOW, pinned=True),
        Fact(id="a'b\"c\\ü", text="Deploys 売上 Ümläut \U0001f98a e\u0301.", scope="project:alpha", aliases=("release train",)),
        Session(id="s", text="We spoke of deploys.", ended_at=ago, created_at=ago - timedelta(hours=1), scope="person:ada"),
        Doc(
            id="guide.md",
            title="Deploys",
            text="---\ntitle: Deploys\nauthor: Ada\n---\n# Deploys\n\n"
            + "\n\n".join(f"## Day {day}\n\n" + f"Deploys of day {day} go out. " * 60 for day in range(5)),
            status="archived",
            origin=Origin(uri="https://example.org/d", version="7", project="alpha"),
            claims=(Claim(says="on Thursday", about="deploys"), "they go out"),
            valid_until=NOW + timedelta(days=1),
            key="k2",
        ),
    ]


ASKED = [
    Request(query="When do deploys go out?"),
    Request(query="deploys of day 3", phrases=("day 3",)),
    Request(query="release train", profile="answer"),
    Request(query="売上"),
    Request(query="ada", sources=("doc",)),
    Request(query="deploys", sources=("fact",), limit=3),
    Request(query="deploys", as_of=NOW - timedelta(days=365)),
]


async def lived(engine: Engine) -> None:
    await engine.remember(world(), WRITER)
    await engine.remember([Fact(id="thursday", text="Deploys go out on Thursday at noon.")], ADA)
    await engine.approve(["fact:idea"], ADA)
    await engine.dispute("fact:thursday", "fact:idea", ADA)
    await engine.forget(["fact:over"], ADA)


async def lines_of(engine: Engine) -> list[str]:
    """An export as it is written to a file."""
    return [json.dumps(whole_to(whole), ensure_ascii=False) async for whole in engine.export(HOST)]


async def brought(engine: Engine, path: Path, lines: list[str]) -> list[tuple[str, str]]:
    """What became of every line of a file that is imported."""
    await anyio.Path(path).write_text("\n".join(lines), encoding="utf-8")
    work = importing([str(path)], engine.config.limits, lambda _: None)
    return [(str(taken.receipt.written if taken.receipt else "refused"), taken.code) async for taken in work.into(engine, HOST)]


async def told(engine: Engine) -> list[str]:
    return [bytes_of(await engine.recall(request, ADA)) for request in ASKED]


@asynccontextmanager
async def both(way: tuple[Callable[[], str], Callable[[], str]]) -> AsyncIterator[tuple[Engine, Engine]]:
    async with engine_at(way[0]()) as here, engine_at(way[1]()) as there:
        await lived(here)
        yield here, there


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_after_an_export_and_an_import_answers_and_exports_are_the_same_bytes(way: tuple[NewStore, NewStore], tmp_path: Path) -> None:
    async with both(way) as (here, there):
        lines = await lines_of(here)
        became = await brought(there, tmp_path / "all.jsonl", lines)

        assert became == [("stored", "")] * len(lines)
        assert await lines_of(there) == lines
        assert await told(there) == await told(here)
        names = [f"{line['source']}:{line['id']}" for line in map(json.loads, lines)]
        assert [await there.history(name, HOST) for name in names] == [await here.history(name, HOST) for name in names]
        assert await brought(there, tmp_path / "again.jsonl", lines) == [("unchanged", "")] * len(lines)
        assert (await there.doctor()).healthy


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_order_of_lines_does_not_matter(way: tuple[NewStore, NewStore], tmp_path: Path) -> None:
    async with both(way) as (here, there):
        lines = await lines_of(here)
        shuffled = random.Random(7).sample(lines, len(lines))

        assert {became for became, _ in await brought(there, tmp_path / "all.jsonl", shuffled)} == {"stored"}
        assert await lines_of(there) == lines
        assert await told(there) == await told(here)


def damaged(line: str, how: str) -> str:
    given: dict[str, Any] = json.loads(line)
    changed = {
        "cut short": line[: len(line) // 2],
        "another digest": json.dumps({**given, "digest": "no hash"}),
        "an event of nothing": json.dumps({**given, "history": [{"what": "baked"}]}),
        "another org": json.dumps({**given, "org": "rival"}),
        "no object": "[]",
        "a byte of nothing": line[:9] + "\0" + line[9:],
        "too long": line + " " * 17_000_000,
    }
    return changed[how]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    "how", ["cut short", "another digest", "an event of nothing", "another org", "no object", "a byte of nothing", "too long"]
)
async def test_a_damaged_line_is_told_and_costs_the_others_nothing(sqlite: NewStore, how: str, tmp_path: Path) -> None:
    async with both((sqlite, sqlite)) as (here, there):
        lines = await lines_of(here)
        became = await brought(there, tmp_path / "all.jsonl", [*lines[:3], damaged(lines[3], how), *lines[4:]])

        assert became[:3] + became[4:] == [("stored", "")] * (len(lines) - 1)
        assert became[3][0] == "refused"
        assert became[3][1]
        assert await lines_of(there) == [*lines[:3], *lines[4:]]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_of_a_line_that_comes_twice_the_second_is_unchanged_or_refused_by_its_content(sqlite: NewStore, tmp_path: Path) -> None:
    async with both((sqlite, sqlite)) as (here, there):
        lines = await lines_of(here)
        other = json.dumps({**json.loads(lines[0]), "text": "Another text.", "digest": "0" * 64})
        became = await brought(there, tmp_path / "all.jsonl", [lines[0], lines[0], other])

        assert became == [("stored", ""), ("unchanged", ""), ("refused", "other_content")]
