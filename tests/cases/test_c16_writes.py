"""C16, B6: a write is acknowledged once and is then there, on every store alike; what cannot be stored is refused by its name. Rule 14."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import apsw
import psycopg
import pytest
from stories.world import ADA, NOW, NewStore, engine_at, ids

from remit.pipeline import Doc, Engine, Fact, Origin, Principal, Receipt, Request, open_engine
from remit.pipeline.errors import NotAuthorised, StorageUnavailable

QUESTION = Request(query="deploys", sources=("fact",))
WRITER = Principal(actor="writer", org="acme", scopes="*")


async def count(engine: Engine) -> int:
    return sum([1 async for _ in engine.export(ADA)])


async def test_c16_1_of_four_writers_at_once_every_item_is_there_and_acknowledged(new_store: NewStore) -> None:
    told: list[Receipt] = []
    async with engine_at(new_store()) as engine:

        async def write(writer: int) -> None:
            for page in range(4):
                facts = [Fact(id=f"{writer}-{page}-{at}", text=f"Deploys of {writer}, page {page}, note {at}.") for at in range(25)]
                told.extend(await engine.remember(facts, ADA))

        async with anyio.create_task_group() as tasks:
            for writer in range(4):
                tasks.start_soon(write, writer)

        assert [receipt.written for receipt in told] == ["stored"] * 400
        assert await count(engine) == 400
        assert (await engine.doctor()).healthy


async def test_c16_2_fifty_identical_writes_with_one_key_are_one_row_and_fifty_equal_answers(new_other_store: NewStore) -> None:
    url, told = new_other_store(), list[Receipt]()
    async with engine_at(url) as one, engine_at(url) as other, anyio.create_task_group() as tasks:

        async def write(engine: Engine) -> None:
            told.extend(await engine.remember([Fact(id="one", text="Deploys go out.", key="k")], ADA))

        for number in range(50):
            tasks.start_soon(write, (one, other)[number % 2])
    async with engine_at(url) as engine:
        assert (len(told), len(set(told)), await count(engine)) == (50, 1, 1)


async def test_c16_3_a_lost_answer_is_found_out_with_the_key(new_store: NewStore) -> None:
    """The answer to a write never came: asked again, with the key, it is told; with other content under the key it is refused."""
    fact = Fact(id="one", text="Deploys go out.", key="k")
    async with engine_at(new_store()) as engine:
        (lost,) = await engine.remember([fact], ADA)
        (again,) = await engine.remember([fact], ADA)
        conflicts = await engine.remember([replace(fact, text="Deploys stay in."), replace(fact, id="two")], ADA)

        assert again == lost
        assert [(each.written, each.code) for each in conflicts] == [("refused", "key_conflict")] * 2
        assert await count(engine) == 1


async def test_c16_3_a_key_is_the_actors_own(new_store: NewStore) -> None:
    bob = Principal(actor="bob", org="acme", scopes=())
    async with engine_at(new_store()) as engine:
        await engine.remember([Fact(id="one", text="Deploys go out.", key="k", scope="person:ada")], ADA)

        (receipt,) = await engine.remember([Fact(id="two", text="Deploys go in.", key="k")], bob)

        assert (receipt.written, receipt.code) == ("stored", None), "bob learns of no key that ada used"


@asynccontextmanager
async def held(engine_url: str) -> AsyncIterator[None]:
    """A second writer that does not let go: on SQLite of the file, on Postgres of the tables."""
    if engine_url.startswith("sqlite:"):
        other = apsw.Connection(engine_url.removeprefix("sqlite:"))
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
        other.close()
    else:
        with psycopg.connect(engine_url) as connection:
            connection.execute("LOCK TABLE remit.receipt, remit.memory, remit.passage IN ACCESS EXCLUSIVE MODE")
            yield


async def test_c16_6_b5_1_who_cannot_wait_any_longer_is_told_and_a_later_try_succeeds(new_other_store: NewStore) -> None:
    url = new_other_store()
    config = {"sqlite": {"busySeconds": 0.2}, "postgres": {"writeSeconds": 0.3}}
    fact = Fact(id="one", text="Deploys go out.", key="k")
    async with engine_at(url, config=config) as engine:
        async with held(url):
            with pytest.raises(StorageUnavailable):
                await engine.remember([fact], ADA)
        (receipt,) = await engine.remember([fact], ADA)

        assert receipt.written == "stored"
        assert await count(engine) == 1


@pytest.mark.parametrize("org", ["", " ", "a\0b", "x" * 201])
async def test_c16_7_a_write_for_no_org_is_refused(new_store: NewStore, org: str) -> None:
    async with engine_at(new_store()) as engine:
        with pytest.raises((NotAuthorised, ValueError), match=r"principal\.org"):
            await engine.remember([Fact(id="one", text="x")], Principal(actor="ada", org=org))
        (receipt,) = await engine.remember([Fact(id="one", text="x", org=org)], ADA)
        assert receipt.code in ("invalid", "too_large")
        assert await count(engine) == 0


# What is out of reach is not told of


async def test_what_is_wrong_with_a_write_is_told_whatever_stands_out_of_reach(new_store: NewStore) -> None:
    bob = Principal(actor="bob", org="acme", scopes=())
    async with engine_at(new_store(), Fact(id="hidden", text="Deploys.", scope="person:ada", key="k")) as engine:
        for wrong in ({"supersedes": ("fact:nobody",)}, {"importance": 2}, {"scope": "person:ada"}, {"derived_from": ("fact:nobody",)}):
            hidden, absent = [Fact(**{"id": name, "text": "x", "key": "k", **wrong}) for name in ("hidden", "absent")]
            first, second = await engine.remember([hidden, absent], bob)
            assert (first.code, first.detail, first.version) == (second.code, second.detail, second.version)
            assert first.code


@pytest.mark.parametrize("there", [True, False])
async def test_a_file_outside_the_roots_is_told_of_by_no_receipt(new_store: NewStore, tmp_path: Any, there: bool) -> None:
    if there:
        (tmp_path / "plan.md").write_text("secret")
    doc = Doc(id="d", text="x", origin=Origin(uri=(tmp_path / "plan.md").as_uri()))
    async with engine_at(new_store()) as engine:
        await engine.roots.add("rival", str(tmp_path))
        receipts = await engine.remember([doc, replace(doc, id="e", origin=replace(doc.origin, sha256="0" * 64))], ADA)
        assert [(receipt.written, receipt.code, receipt.detail) for receipt in receipts] == [("stored", None, "")] * 2
        assert [whole.entry.record.origin.sha256 async for whole in engine.export(ADA) if whole.entry.record.origin] == [None, "0" * 64]


# B6: hostile and extreme input. Every store gives the same verdict.

HOSTILE: dict[str, dict[str, Any]] = {
    "NUL": {"text": "a\0b"},
    "half a character": {"text": "ok \ud83d"},
    "BOM": {"text": "\ufeffdeploys"},
    "right to left": {"text": "\u202edeploys\u202c"},
    "joiners": {"text": "👩\u200d👩\u200d👧\u200d👦 deploys"},
    "a storm of marks": {"text": "e" + "\u0301" * 10_000},
    "ligatures and fullwidth": {"text": "ﬁle １２ ΣΑΣ İI"},
    "controls in text": {"text": "a\x01\x1b[31mb"},
    "one long word": {"text": "x" * 3000},
    "many words": {"text": " ".join(f"w{at}" for at in range(20_000))},
    "FTS5 and SQL": {"text": '"; DROP TABLE memory; -- NEAR(a b) col:x *'},
    "blank": {"text": " \u200b\n"},
    "no text": {"text": 7},
    "NUL in id": {"id": "a\0b"},
    "half a character in id": {"id": "\ud83d"},
    "line end in id": {"id": "a\nb"},
    "long id": {"id": "x" * 201},
    "quoted id": {"id": "a'b\"c%_\\"},
    "NUL in tag": {"tags": ("a\0b",)},
    "half a character in alias": {"aliases": ("\ud83d",)},
    "many tags": {"tags": tuple(f"t{at}" for at in range(1001))},
    "deep scope": {"scope": "project:" + "a/" * 99},
    "unknown kind of scope": {"scope": "team:a"},
    "SQL in scope": {"scope": "project:' OR 1=1 --"},
    "importance -1": {"importance": -1},
    "importance 2": {"importance": 2},
    "importance NaN": {"importance": math.nan},
    "importance as text": {"importance": "1"},
    "importance true": {"importance": True},
    "pinned 1": {"pinned": 1},
    "naive time": {"created_at": "2026-11-30T12:00:00"},
    "+14:00": {"created_at": "2026-11-30T12:00:00+14:00"},
    "year 1": {"created_at": "0001-01-01T00:00:00Z"},
    "year 9999": {"valid_until": "9999-12-31T23:59:59Z"},
    "infinity": {"valid_until": "infinity"},
    "before Christ": {"created_at": "-0044-03-15"},
    "no time": {"expires_at": "soon"},
    "backwards": {"valid_from": "2026-12-01", "valid_until": "2026-11-01"},
    "itself": {"supersedes": ("fact:it",)},
    "no name": {"derived_from": ("fact",)},
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_b6_hostile_input_is_stored_in_a_defined_form_or_refused_by_name_alike_on_every_store(
    new_other_store: NewStore, what: str
) -> None:
    beside = [Fact(id="before", text="Deploys go out."), Fact(id="after", text="Deploys go in.")]
    item = Fact(**{"id": "it", "text": "deploys", "created_at": NOW, **HOSTILE[what]})
    async with engine_at("memory:") as plain, engine_at(new_other_store()) as engine:
        expected, told = [await each.remember([beside[0], item, beside[1]], WRITER) for each in (plain, engine)]
        stands, found = [[whole async for whole in each.export(WRITER)] for each in (plain, engine)]

        assert told == expected
        assert found == stands
        assert [receipt.written for receipt in told][::2] == ["stored"] * 2, "what is wrong costs nobody else"
        assert told[1].written == "stored" or (told[1].code in ("invalid", "too_large") and told[1].detail)
        assert {"after", "before"} <= set(ids(await engine.recall(QUESTION, ADA)))


@pytest.mark.parametrize("characters", [0, 1, 10_000, 1_000_000, 2_000_001])
async def test_b6_5_a_text_of_any_size_is_taken_or_refused_at_the_stated_size(new_other_store: NewStore, characters: int) -> None:
    async with engine_at(new_other_store()) as engine:
        (receipt,) = await engine.remember([Doc(id="d", text=("deploy " * (characters // 7 + 1))[:characters])], ADA)

        told = {0: "invalid", 2_000_001: "too_large"}.get(characters)
        assert (receipt.code, receipt.written == "stored") == (told, told is None)


async def test_b6_5_an_endless_stream_of_items_is_taken_in_batches(new_store: NewStore) -> None:
    taken = 0

    def items() -> Iterator[Fact]:
        nonlocal taken
        while True:
            taken += 1
            yield Fact(id=f"f{taken}", text="deploys")

    async with engine_at(new_store(), config={"remember": {"batchItems": 8}}) as engine:
        receipts = engine.remember_stream(items(), ADA)
        told = [await anext(receipts) for _ in range(20)]
        await receipts.aclose()  # type: ignore[attr-defined]  # an asynchronous generator, which an iterator need not be

        assert [receipt.written for receipt in told] == ["stored"] * 20
        assert await count(engine) == 24
        assert taken == 32  # a batch more was prepared while the last one was written


async def test_an_opened_store_forgets_nothing_when_it_is_closed(new_other_store: NewStore) -> None:
    url = new_other_store()
    async with open_engine(url) as engine:
        await engine.remember([Fact(id="one", text="Deploys go out.")], ADA)
    async with open_engine(url) as engine:
        assert ids(await engine.recall(QUESTION, ADA)) == ["one"]
