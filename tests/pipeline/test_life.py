"""The life of memories through the front door, on every store: what is found, told and kept after each step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray
from stories.world import ADA, NOW, NewStore, bytes_of, engine_at, ids

from remit.pipeline import Claim, Doc, Engine, Fact, Forgotten, Origin, Principal, Request, Session, Whole
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.faces.wire import carried_from, whole_to
from remit.stages.evidence import Lane

QUESTION = Request(query="When do deploys go out?")
THURSDAY = Fact(id="thursday", text="Deploys go out on Thursday.")
MONDAY = Fact(id="monday", text="Deploys go out on Monday.")
BOB = Principal(actor="bob", org="acme", scopes=("project:beta",))
WRITER = Principal(actor="writer", org="acme", scopes="*")
"""Who took in what `engine_at` is given."""


async def found(engine: Engine, principal: Principal = ADA) -> list[str]:
    return sorted(ids(await engine.recall(QUESTION, principal)))


def proposed(**stated: Any) -> Fact:
    return Fact(id="idea", text="Deploys go out every day.", approval="proposed", **stated)


async def test_a_proposal_is_found_when_it_is_approved_and_takes_the_place_of_what_it_supersedes(new_store: NewStore) -> None:
    async with engine_at(new_store(), MONDAY, proposed(supersedes=("fact:monday",))) as engine:
        assert await found(engine) == ["monday"]

        (receipt,) = await engine.approve(["fact:idea"], ADA)
        assert (receipt.written, receipt.version) == ("approved", 1)
        assert await found(engine) == ["idea"]

        await engine.reject(["fact:idea"], ADA)
        assert await found(engine) == []
        await engine.restore(["fact:monday"], ADA)
        assert await found(engine) == ["monday"]
        assert [(event.what, event.actor, event.by and str(event.by)) for event in await engine.history("fact:monday", ADA)] == [
            *[("stored", "writer", None), ("superseded", "ada", "fact:idea"), ("restored", "ada", None)],
        ]
        assert (await engine.doctor()).healthy


async def test_who_is_not_granted_the_scope_is_told_the_same_as_of_what_is_not_there(new_store: NewStore) -> None:
    async with engine_at(new_store(), proposed(scope="project:alpha"), THURSDAY) as engine:
        names = ["fact:idea", "fact:nobody"]
        for answers in (await engine.approve(names, BOB), await engine.reject(names, BOB), await engine.restore(names, BOB)):
            assert [(each.written, each.code, each.version) for each in answers] == [("refused", "unknown_memory", 0)] * 2
        hidden, nobody = [await engine.supersede(name, "fact:thursday", BOB) for name in names]
        assert (hidden.code, hidden.detail) == (nobody.code, nobody.detail) == ("unknown_memory", "")
        hidden, nobody = [await engine.supersede("fact:thursday", name, BOB) for name in names]
        assert (hidden.code, hidden.detail) == (nobody.code, nobody.detail) == ("unknown_reference", "")
        assert [await engine.history(name, BOB) for name in names] == [(), ()]
        assert (await engine.forget(names, BOB)).counts["memories"] == 0
        assert await found(engine) == ["thursday"]


async def test_both_sides_of_a_dispute_that_was_noted_later_are_packed(new_store: NewStore) -> None:
    async with engine_at(new_store(), THURSDAY, MONDAY) as engine:
        assert (await engine.dispute("fact:thursday", "fact:monday", ADA)).written == "disputed"

        (whole,) = [each async for each in engine.export(ADA) if each.entry.record.id.id == "thursday"]
        assert [str(name) for name in whole.entry.record.disputes] == ["fact:monday"]
        assert await found(engine) == ["monday", "thursday"]


@pytest.mark.parametrize(
    "stated, field",
    [
        ({}, "memories"),
        ({"memories": ["fact:a"], "scope": "global"}, "scope"),
        ({"memories": ["fact:"]}, "memories[0]"),
        ({"memories": "fact:a"}, "memories"),
        ({"scope": "team:a"}, "scope"),
        ({"scope": ""}, "scope"),
        ({"origin": " "}, "origin"),
        ({"actor": "a\0b"}, "actor"),
    ],
)
async def test_forgetting_without_saying_what_is_refused_before_any_store_is_asked(stated: dict[str, Any], field: str) -> None:
    async with engine_at("memory:", MONDAY) as engine:
        with pytest.raises(InvalidRequest) as refused:
            await engine.forget(principal=ADA, **stated)
        assert refused.value.field == field
        assert await found(engine) == ["monday"]


async def test_a_memory_cannot_take_its_own_place() -> None:
    async with engine_at("memory:", MONDAY) as engine:
        with pytest.raises(InvalidRequest, match="by: is the memory itself"):
            await engine.supersede("fact:monday", "fact:monday", ADA)


async def test_what_was_written_before_is_kept_with_who_and_when_until_it_is_forgotten(new_store: NewStore) -> None:
    days = count()
    async with engine_at(new_store(), clock=lambda: NOW + timedelta(days=next(days))) as engine:
        await engine.remember([Doc(id="d", text="first", title="One"), Doc(id="d", text="second")], ADA)
        await engine.remember([Doc(id="d", text="third", scope="project:beta")], Principal(actor="bob", org="acme", scopes="*"))

        events = await engine.history("doc:d", BOB)

        assert [(event.version, event.actor, event.title, event.text) for event in events] == [
            (1, "ada", "One", "first"),
            (2, "ada", "", "second"),
            (3, "bob", "", "third"),
        ]
        assert events[0].at == events[1].at < events[2].at
        assert len({event.digest for event in events}) == 3
        assert await engine.history("doc:d", ADA) == (), "it went where ada cannot see it"
        await engine.forget(["doc:d"], BOB)
        assert await engine.history("doc:d", BOB) == ()


async def test_a_swept_memory_is_gone_and_its_key_with_it(new_store: NewStore) -> None:
    old = Fact(id="old", text="Deploys went out on Sunday.", expires_at=NOW, key="k")
    async with engine_at(new_store(), old, MONDAY) as engine:
        assert (await engine.forget(principal=ADA, expired=True, dry_run=True)).counts["memories"] == 1
        swept = await engine.forget(principal=ADA, expired=True)

        assert (swept.counts["memories"], swept.counts["keys"]) == (1, 1)
        assert [receipt.code for receipt in await engine.remember([old], WRITER)] == ["key_forgotten"]
        assert [receipt.written for receipt in await engine.remember([Fact(id="old", text="Again.")], ADA)] == ["stored"]


def bytes_on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("s.db*"))


async def test_nothing_of_what_is_forgotten_is_left_in_the_file(tmp_path: Path) -> None:
    canary = "zanzibarcanary"
    items = [Fact(id=str(number), text=f"Deploys go out on day {number}.", key=f"k{number}") for number in range(200)]
    secret = Doc(id=f"doc-{canary}", text=f"The {canary} is secret. " * 300, title=canary, tags=(canary,), aliases=(canary,), key=canary)
    async with engine_at(f"sqlite:{tmp_path}/s.db", *items, secret) as engine:
        await engine.remember([Doc(id=secret.id, text=f"A second {canary}.", scope="person:ada"), Fact(id="new", text="x")], ADA)
        await engine.supersede("fact:0", "fact:new", ADA)
        assert canary.encode() in bytes_on_disk(tmp_path)

        await engine.forget([f"doc:{secret.id}"], ADA)

        assert canary.encode() not in bytes_on_disk(tmp_path)
        assert (await engine.doctor()).healthy


def world() -> list[Fact | Session | Doc]:
    """Something of every kind and state."""
    ago = NOW - timedelta(days=40)
    return [
        THURSDAY,
        MONDAY,
        proposed(supersedes=("fact:monday",), importance=0.1 + 0.2, trust="untrusted", key="k2"),
        Fact(id="child", text="So deploys are announced on Wednesday.", derived_from=("fact:idea",), trust="verified", tags=("a", "b")),
        Fact(id="over", text="Deploys went out on Sunday.", expires_at=NOW, pinned=True),
        Fact(id="soon", text="Deploys will go out on Tuesday.", valid_from=NOW + timedelta(days=1), scope="project:alpha"),
        Fact(id="hidden", text="Deploys go out on Friday.", scope="project:beta"),
        Session(
            id="s",
            text="Deploys go out on Thursday. Ümläut, 売上, \U0001f98a.",
            ended_at=ago,
            created_at=ago - timedelta(hours=1),
        ),
        Doc(
            id="d",
            title="Deploys",
            text="# Deploys\n\nThey go out.\n\n"
            + "\n\n".join(f"## Day {day}\n\n" + f"Deploys of day {day} go out. " * 60 for day in range(5)),
            status="archived",
            origin=Origin(uri="https://example.org/d", version="7", project="alpha"),
            claims=(Claim(says="on Thursday", about="deploys"), "they go out"),
            aliases=("release train",),
            valid_until=NOW + timedelta(days=1),
            key="k",
        ),
    ]


ASKED = (
    QUESTION,
    Request(query="release train", profile="answer"),
    Request(query="売上", sources=("session",)),
    Request(query="announced on Wednesday", tags=None or Request(query="x").tags),
    Request(query="deploys of day 3", phrases=("day 3",), as_of=NOW - timedelta(days=1)),
)


async def answers(engine: Engine, principal: Principal) -> list[str]:
    return [bytes_of(await engine.recall(request, principal)) for request in ASKED]


@pytest.mark.parametrize("kind", ["from the plainest", "to the plainest"])
async def test_an_export_that_is_imported_elsewhere_gives_the_same_answers_byte_for_byte(new_other_store: NewStore, kind: str) -> None:
    urls = ("memory:", new_other_store())
    here_url, there_url = urls if kind == "from the plainest" else urls[::-1]
    async with engine_at(here_url, *world()) as here, engine_at(there_url) as there:
        await here.remember([Doc(id="d", text="Deploys go out.\n\nLate.", key="k3")], ADA)
        await here.approve(["fact:idea"], ADA)
        lines = [json.dumps(whole_to(whole)) async for whole in here.export(ADA)]

        receipts = [each async for each in there.import_stream(map(carried_from, map(json.loads, lines)), ADA)]

        assert [receipt.written for receipt in receipts] == ["stored"] * 8
        assert [json.dumps(whole_to(whole)) async for whole in there.export(ADA)] == lines
        assert "fact:hidden" not in "".join(lines)
        no_beta = Principal(actor="ada", org="acme", scopes=ADA.scopes)
        assert await answers(there, no_beta) == await answers(here, no_beta)
        assert [await there.history(name, ADA) for name in ("doc:d", "fact:monday")] == [
            await here.history(name, ADA) for name in ("doc:d", "fact:monday")
        ]
        again = [each async for each in there.import_stream(map(carried_from, map(json.loads, lines)), ADA)]
        assert [receipt.written for receipt in again] == ["unchanged"] * 8
        (late,) = await there.remember([Doc(id="d", text="Deploys go out.\n\nLate.", key="k3")], ADA)
        assert (late.written, late.version) == ("replaced", 2), "a late repeat is told what the first was told"
        assert (await there.doctor()).healthy


async def test_wholes_may_go_from_engine_to_engine(new_store: NewStore) -> None:
    async with engine_at(new_store(), *world()) as here, engine_at("memory:") as there:
        receipts = [each async for each in there.import_stream(here.export(ADA), ADA)]

        assert {receipt.written for receipt in receipts} == {"stored"}
        assert [each async for each in there.export(ADA)] == [each async for each in here.export(ADA)]


@pytest.mark.parametrize(
    "change, field",
    [
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"writtenAt": "soon"}, "writtenAt"),
        ({"digest": "ab"}, "digest"),
        ({"actor": ""}, "actor"),
        ({"superseded": "yes"}, "superseded"),
        ({"history": [{"what": "baked", "version": 1, "actor": "a", "at": "2026-01-01"}]}, "history[0].what"),
        ({"history": [{"what": "approved", "version": 1, "actor": "a", "at": "2026-01-01", "by": "fact"}]}, "history[0].by"),
        ({"keys": [{"actor": "a", "key": "k", "digest": "x", "written": "stored", "version": 1}]}, "keys[0].digest"),
        ({"keys": [{"actor": "", "key": "k", "digest": "x", "written": "stored", "version": 1}]}, "keys[0].actor"),
        ({"text": ""}, "text"),
    ],
)
async def test_a_wrong_line_of_an_import_is_refused_by_name_and_costs_the_others_nothing(change: dict[str, Any], field: str) -> None:
    async with engine_at("memory:", MONDAY, THURSDAY) as here, engine_at("memory:") as there:
        lines = [whole_to(whole) async for whole in here.export(ADA)]
        carried = [carried_from({**lines[0], **change}), carried_from(lines[1])]

        wrong, right = [each async for each in there.import_stream(carried, ADA)]

        assert (wrong.written, wrong.code, right.written) == ("refused", "invalid", "stored")
        assert wrong.detail.startswith(f"{field}: ")


@pytest.mark.parametrize("change", [{"colour": "red"}, {"history": [{"what": "approved"}]}, {"keys": [1]}, {"history": "none"}])
async def test_a_line_that_is_no_line_of_an_export_is_refused(change: dict[str, Any]) -> None:
    async with engine_at("memory:", MONDAY) as engine:
        (line,) = [whole_to(whole) async for whole in engine.export(ADA)]
        with pytest.raises(InvalidRequest):
            carried_from(line | change)


@pytest.mark.parametrize("name", ["text", "title"])
async def test_a_nul_and_half_a_character_lose_neither_the_memory_nor_the_batch(new_store: NewStore, name: str) -> None:
    items = [THURSDAY, Fact(**{"id": "odd", "text": "Deploys go out daily.", name: "Deploys go out \0 daily \ud83d."}), MONDAY]
    async with engine_at(new_store()) as engine:
        receipts = await engine.remember(items, ADA)

        assert [receipt.written for receipt in receipts] == ["stored"] * 3
        assert name in receipts[1].detail
        assert await found(engine) == ["monday", "odd", "thursday"]


async def test_a_file_that_changes_while_its_vector_is_made_is_refused(new_store: NewStore, tmp_path: Path) -> None:
    page, same = anyio.Path(tmp_path) / "page.md", anyio.Path(tmp_path) / "same.md"

    class Editing:
        lane, space, dimensions = Lane.SEMANTIC, "plane/2", 2

        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            await page.write_text("Deploys go out at night.")
            return np.ones((len(texts), 2), dtype=np.float32) / np.float32(np.sqrt(2))

    for each in (page, same):
        await each.write_text("Deploys go out at noon.")
    async with engine_at(new_store(), embedder=Editing()) as engine:
        await engine.roots.add("acme", str(tmp_path))
        items = [Doc(id=each.name, text="Deploys go out at noon.", origin=Origin(uri=each.as_uri())) for each in (page, same)]

        receipts = await engine.remember(items, ADA)

        assert [(receipt.written, receipt.code) for receipt in receipts] == [("refused", "origin_changed"), ("stored", None)]
        assert await found(engine) == ["same.md"]


async def test_fifty_identical_writes_with_one_key_at_once_are_one_memory_and_fifty_equal_answers(new_store: NewStore) -> None:
    told = []
    async with engine_at(new_store()) as engine, anyio.create_task_group() as tasks:

        async def write() -> None:
            told.extend(await engine.remember([Fact(id="one", text="Deploys go out.", key="k")], ADA))

        for _ in range(50):
            tasks.start_soon(write)
    assert len(told) == 50
    assert len(set(told)) == 1


async def test_a_derived_memory_is_shown_with_the_trust_of_what_it_is_derived_from(new_store: NewStore) -> None:
    source = Fact(id="source", text="Somebody on the internet says deploys go out at night.", trust="untrusted")
    derived = Fact(id="derived", text="Deploys go out at night.", trust="verified", derived_from=("fact:source",))
    async with engine_at(new_store(), source, derived, THURSDAY) as engine:
        answer = await engine.recall(QUESTION, ADA)

        assert {card.id: str(card.trust) for card in answer.data}["derived"] == "untrusted"
        receipts = await engine.remember([Fact(id="n", text="x", derived_from=("fact:nobody",))], ADA)
        assert [receipt.code for receipt in receipts] == ["unknown_reference"]


async def test_a_dry_run_and_the_forgetting_after_it_count_the_same(new_store: NewStore) -> None:
    async with engine_at(new_store(), *world()) as engine:
        for what in ({"scope": "project:alpha"}, {"origin": "https://example.org/d"}, {"actor": "writer"}):
            would: Forgotten = await engine.forget(principal=ADA, dry_run=True, **what)
            did = await engine.forget(principal=ADA, **what)
            assert (would.counts, would.dry_run, did.dry_run) == (did.counts, True, False)
            assert did.counts["memories"] > 0
        left: list[Whole] = [each async for each in engine.export(Principal(actor="host", org="acme", scopes="*"))]
        assert [each.entry.record.id.id for each in left] == ["hidden"]
        assert (await engine.doctor()).healthy
