"""Receipts: every recall kept as a line of a chain, without its content; and what a replay says of each."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stories.world import ADA, NOW, NewStore, codes, engine_at, ids

from remit.pipeline import ContextWanted, Doc, Engine, Fact, Memory, Origin, Principal, Request, Verdict
from remit.pipeline.digests import request_digest
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.receipts import FIRST, REFUSED, appended
from remit.pipeline.replaying import Replayed

TEXT = "the deploy key rotates"
QUERY = "the secret question about the deploy key"
KEYED = "a secret of thirty-two bytes, or more"
ASKED = Request(query="deploy key")
WRITER = Principal(actor="writer", org="acme", scopes="*")


def facts(*names: str, **stated: Any) -> list[Fact]:
    return [Fact(id=name, text=TEXT, **stated) for name in names]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def replayed(engine: Engine, file: Path, *requests: Request, principal: Principal = ADA, only: str | None = None) -> list[Replayed]:
    return await engine.replay(file, requests or (ASKED,), principal, only=only)


def changes(told: Replayed) -> dict[str | None, str]:
    return {each.id: str(each.reason) for each in told.changes}


async def refused(engine: Engine, file: Path, *, principal: Principal = ADA, only: str | None = None) -> str:
    with pytest.raises(InvalidRequest) as told:
        await replayed(engine, file, principal=principal, only=only)
    return told.value.fact


# Keeping


async def test_a_receipt_says_what_was_found_how_and_for_whom_and_nothing_that_anybody_wrote(new_store: NewStore, tmp_path: Path) -> None:
    items = [Doc(id="d", text=TEXT, title="Keys of the harbour", tags=("lantern",)), *facts("f", scope="project:alpha")]
    async with engine_at(new_store(), *items, receipts=tmp_path / "r.jsonl") as engine:
        answer = await engine.recall(Request(query=QUERY, phrases=("deploy",), questions=("which meadow?",)), ADA)

    (line,) = lines(tmp_path / "r.jsonl")
    assert [(name, version) for name, version, _ in line["items"]] == [("doc:d", 1), ("fact:f", 1)]
    assert [score for _, _, score in line["items"]] == [repr(card.score) for card in answer.data]
    assert (line["org"], line["actor"], line["scopes"]) == ("acme", "ada", ["person:ada", "project:alpha"])
    assert (line["number"], line["previous"], line["hash"]) == (1, FIRST, answer.meta.receipt)
    assert (line["outcome"], line["because"], line["asOf"], line["at"]) == ("enough", [], "2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z")
    assert line["stages"]["verify"] == {"received": 2, "returned": 2, "rejected": {}, "exhausted": None}
    text = (tmp_path / "r.jsonl").read_text()
    assert [word for word in ("deploy", "secret", "rotates", "harbour", "lantern", "meadow") if word in text] == []


async def test_without_a_file_none_is_kept() -> None:
    async with engine_at("memory:", *facts("f")) as engine:
        assert (await engine.recall(ASKED, ADA)).meta.receipt is None


async def test_a_refused_request_leaves_none_and_a_fault_leaves_one(tmp_path: Path) -> None:
    class Down:
        async def resolve(self, principal: Principal) -> Principal:
            if principal.actor == "ada":
                raise ConnectionError
            return principal

    file = tmp_path / "r.jsonl"
    async with engine_at("memory:", *facts("f"), authority=Down(), config={"receipts": {"file": str(file)}}) as engine:
        with pytest.raises(InvalidRequest):
            await engine.recall(Request(query=""), ADA)
        assert not file.exists()
        await engine.recall(ASKED, ADA)
        (told,) = await replayed(engine, file)

    assert [(line["outcome"], line["because"], line["scopes"]) for line in lines(file)] == [("unavailable", ["authority"], None)]
    assert (told.verdict, told.why) == ("not_checkable", "unavailable_then")


async def test_many_recalls_at_once_make_one_chain(new_store: NewStore, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at(new_store(), *facts("f"), config={"receipts": {"waitSeconds": 60.0}}, receipts=file) as engine:
        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(engine.recall, Request(query="deploy key", limit=n + 1), ADA)
        told = await replayed(engine, file, *(Request(query="deploy key", limit=n + 1) for n in range(20)))

    assert [each.number for each in told] == list(range(1, 21))
    assert {each.verdict for each in told} == {"identical"}


def test_many_processes_make_one_chain(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    work = (
        "import sys; from pathlib import Path; from remit.pipeline.receipts import appended\n"
        "for n in range(40): appended(Path(sys.argv[1]), {'of': sys.argv[2], 'n': n}, None, 60.0)"
    )
    running = [subprocess.Popen([sys.executable, "-P", "-c", work, file, str(n)]) for n in range(3)]

    assert [each.wait() for each in running] == [0, 0, 0]
    written = lines(file)
    assert [line["number"] for line in written] == list(range(1, 121))
    assert [line["previous"] for line in written] == [FIRST, *(line["hash"] for line in written[:-1])]
    assert {of: [line["n"] for line in written if line["of"] == of] for of in "012"} == {of: list(range(40)) for of in "012"}


def test_what_a_killed_process_left_half_written_is_taken_away(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    first = appended(file, {"n": 1}, None, 1.0)
    with file.open("ab") as torn:
        torn.write(b'{"format":1,"half')
    appended(file, {"n": 2, "long": "x" * 200_000}, None, 1.0)
    appended(file, {"n": 3}, None, 1.0)

    assert [(line["n"], line["number"]) for line in lines(file)] == [(1, 1), (2, 2), (3, 3)]
    assert lines(file)[1]["previous"] == first


def test_a_receipt_is_on_the_disk_before_its_hash_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, durable, syncing = tmp_path / "r.jsonl", list[bytes](), os.fsync

    def synced(descriptor: int) -> None:
        syncing(descriptor)
        durable.append(file.read_bytes())

    monkeypatch.setattr(os, "fsync", synced)
    hashed = appended(file, {"n": 1}, None, 1.0)

    assert durable == [file.read_bytes()]
    assert hashed.encode() in durable[0]


def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_the_chain_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    appended(file, {"n": 1}, None, 1.0)
    before = file.read_bytes()
    work = (
        "import resource, signal, sys; from pathlib import Path; from remit.pipeline.receipts import appended\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "appended(Path(sys.argv[1]), {'n': 2, 'long': 'x' * 5000}, None, 1.0)"
    )
    ended = subprocess.run([sys.executable, "-P", "-c", work, file], capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "OSError" in ended.stderr
    assert file.read_bytes() == before


@pytest.mark.parametrize("fault", ["no folder", "a folder", "locked", "something else", "full"])
async def test_a_file_that_cannot_be_written_fails_no_recall_and_is_said(tmp_path: Path, fault: str) -> None:
    file = {"no folder": tmp_path / "none" / "r.jsonl", "a folder": tmp_path, "full": Path("/dev/full")}.get(fault, tmp_path / "r.jsonl")
    if fault == "something else":
        file.write_text("notes of mine\n")
    before = file.read_bytes() if file.is_file() else None
    async with engine_at("memory:", *facts("f"), config={"receipts": {"waitSeconds": 0.05}}, receipts=file) as engine:
        with (file if fault == "locked" else Path(os.devnull)).open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            answer = await engine.recall(ASKED, ADA)

    assert (answer.outcome, ids(answer), answer.meta.receipt) == ("enough", ["f"], None)
    assert "receipt_failed" in answer.meta.mode.degraded
    assert (file.read_bytes() if file.is_file() else None) in (before, b"")


# Replaying


async def test_nothing_changed_is_identical(new_store: NewStore, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    exhausted = Request(query="deploy key", ceilings={"verify": {"items": 1}}, context=ContextWanted(passages=0))
    async with engine_at(new_store(), *facts("a", "b"), Doc(id="d", text=TEXT), receipts=file) as engine:
        for request in (ASKED, Request(query="wholly unrelated"), exhausted):
            await engine.recall(request, ADA)
        told = await replayed(engine, file, exhausted, Request(query="wholly unrelated"), ASKED)

    assert [(each.number, each.verdict, each.changes, each.around) for each in told] == [(n, "identical", (), ()) for n in (1, 2, 3)]
    assert len(lines(file)) == 3  # a replay leaves no receipt


async def test_what_drifted_is_named_with_its_reason(new_store: NewStore, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    state = {"crm:1": Verdict.FRESH}

    async def crm(memory: Memory, _access: object) -> Verdict:
        return state[memory.origin.uri if memory.origin else ""]

    watched = Fact(id="e-watched", text=TEXT, origin=Origin(uri="crm:1"))
    items = [*facts("a-forgotten", "b-superseded", "c-revised", "d-same"), watched]
    async with engine_at(new_store(), *items, receipts=file, checkers={"crm": crm}) as engine:
        await engine.recall(ASKED, ADA)
        await engine.forget(["fact:a-forgotten"], WRITER)
        await engine.remember([Fact(id="new", text=TEXT), Fact(id="c-revised", text=f"{TEXT} daily")], WRITER)
        await engine.supersede("fact:b-superseded", "fact:new", WRITER)
        state["crm:1"] = Verdict.CHANGED
        (told,) = await replayed(engine, file)

    assert told.verdict == "drifted"
    assert changes(told) == {
        "fact:a-forgotten": "not_in_scope",
        "fact:b-superseded": "superseded",
        "fact:c-revised": "version_changed",
        "fact:d-same": "score_changed",
        "fact:e-watched": "changed",
        "fact:new": "newly_found",
    }
    assert told.around == ("counts_changed",)


async def test_a_scope_that_was_taken_back_is_said_and_its_memories_are_as_if_they_were_not_there(
    new_store: NewStore, tmp_path: Path
) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at(new_store(), *facts("a", scope="project:alpha"), *facts("b"), receipts=file) as engine:
        await engine.recall(ASKED, ADA)
        (less,) = await replayed(engine, file, principal=replace(ADA, scopes=("person:ada", "project:beta")))
        (more,) = await replayed(engine, file, principal=replace(ADA, scopes="*"))

    assert (less.verdict, changes(less)["fact:a"], less.around[:2]) == ("drifted", "not_in_scope", ("scope_revoked", "scope_granted"))
    assert (more.verdict, more.around) == ("identical", ("scope_granted",))


async def test_another_config_is_said_whether_or_not_it_changes_the_answer(new_other_store: NewStore, tmp_path: Path) -> None:
    url, file = new_other_store(), tmp_path / "r.jsonl"
    async with engine_at(url, *facts("a", importance=1.0), *facts("b"), receipts=file) as engine:
        await engine.recall(ASKED, ADA)
    told = {}
    for name, config in {
        "brief": {"brief": {"tokens": 99}},
        "boost": {"recall": {"boosts": {"factImportance": 1.2}}},
        "space": {"embedding": {"provider": "none"}},
    }.items():
        async with engine_at(url, config=config) as engine:
            (told[name],) = await replayed(engine, file)

    assert (told["brief"].verdict, told["brief"].around) == ("identical", ("config_changed",))
    assert (told["boost"].verdict, changes(told["boost"])) == ("drifted", {"fact:a": "score_changed"})
    assert told["space"].around[:2] == ("config_changed", "spaces_changed")


async def test_a_replay_is_as_of_then(new_store: NewStore, tmp_path: Path) -> None:
    now, file = [NOW], tmp_path / "r.jsonl"

    def clock() -> datetime:
        return now[0]

    items = [*facts("a", expires_at=NOW + timedelta(minutes=1)), *facts("later", valid_from=NOW + timedelta(minutes=1))]
    async with engine_at(new_store(), *items, clock=clock, receipts=file) as engine:
        await engine.recall(ASKED, ADA)
        now[0] += timedelta(days=1)
        (told,) = await replayed(engine, file)

    assert told.verdict == "identical"


async def test_without_its_request_a_receipt_cannot_be_checked(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        await engine.recall(ASKED, ADA)
        (other,) = await replayed(engine, file, Request(query="deploy key", limit=7))
        (none,) = await engine.replay(file, (), ADA)

    assert [(each.verdict, each.why) for each in (other, none)] == [("not_checkable", "no_request")] * 2


async def test_what_was_cut_by_its_time_cannot_be_checked(tmp_path: Path) -> None:
    file, request = tmp_path / "r.jsonl", Request(query="deploy key", ceilings={"verify": {"seconds": 0}})
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        answer = await engine.recall(request, ADA)
        (told,) = await replayed(engine, file, request)

    assert codes(answer) == ["ceiling_seconds"]
    assert (told.verdict, told.why) == ("not_checkable", "out_of_time")


async def test_a_part_that_went_on_is_checked_while_its_token_lives(tmp_path: Path) -> None:
    now, file = [NOW], tmp_path / "r.jsonl"
    first = Request(query="deploy key", ceilings={"verify": {"items": 1}})
    async with engine_at("memory:", *facts("a", "b"), clock=lambda: now[0], receipts=file) as engine:
        second = replace(first, continuation=(await engine.recall(first, ADA)).meta.continuation)
        await engine.recall(second, ADA)
        (in_time,) = await replayed(engine, file, second, only="2")
        now[0] += timedelta(days=1)
        (late,) = await replayed(engine, file, second, only="2")

    assert (in_time.verdict, late.verdict, late.why) == ("identical", "not_checkable", "continuation")


async def test_one_receipt_is_named_by_its_number_or_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        hashes = [(await engine.recall(ASKED, ADA)).meta.receipt for _ in range(3)]
        by_number, by_hash = await replayed(engine, file, only="2"), await replayed(engine, file, only=hashes[2])

        assert ([each.number for each in by_number], [each.number for each in by_hash]) == ([2], [3])
        assert await refused(engine, file, only="4") == f"receipt: {REFUSED}"


# Whose they are, and whether they are whole


async def test_a_principal_replays_its_own_and_is_not_told_of_others(tmp_path: Path) -> None:
    file, bob = tmp_path / "r.jsonl", replace(ADA, actor="bob")
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        for principal in (ADA, bob, ADA):
            await engine.recall(ASKED, principal)

        assert [each.number for each in await replayed(engine, file)] == [1, 3]
        assert [each.number for each in await replayed(engine, file, principal=bob)] == [2]
        for principal, only in ((ADA, "2"), (ADA, "9"), (replace(ADA, actor="eve"), None), (replace(ADA, org="rival"), None)):
            assert await refused(engine, file, principal=principal, only=only) == f"receipt: {REFUSED}"


async def test_another_store_has_no_use_for_them(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        await engine.recall(ASKED, ADA)
    async with engine_at("memory:", *facts("a")) as other:
        assert await refused(other, file) == f"receipt: {REFUSED}"


FORGERIES: dict[str, Any] = {
    "an edit": lambda told: [{**told[0], "outcome": "nothing_found"}, *told[1:]],
    "a score": lambda told: [{**told[0], "items": [["fact:a", 1, "0.5"]]}, *told[1:]],
    "one taken out": lambda told: [told[0], told[2]],
    "the first taken out": lambda told: told[1:],
    "two exchanged": lambda told: [told[1], told[0], told[2]],
    "one twice": lambda told: [told[0], told[0], *told[1:]],
    "a field more": lambda told: [{**told[0], "note": "x"}, *told[1:]],
    "a field less": lambda told: [{name: value for name, value in told[0].items() if name != "spaces"}, *told[1:]],
    "another format": lambda told: [{**told[0], "format": 2}, *told[1:]],
    "no receipt at all": lambda told: [*told, {"a": 1}],
    "a list": lambda told: [*told, [1]],
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_chain_that_is_not_whole_and_unchanged_is_refused_in_every_part(tmp_path: Path, forgery: str) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        for _ in range(3):
            await engine.recall(ASKED, ADA)
        file.write_text("".join(f"{spelled(line)}\n" for line in FORGERIES[forgery](lines(file))))
        for only in (None, "1", "2", "3"):
            assert await refused(engine, file, only=only) == f"receipt: {REFUSED}"


def spelled(line: Any) -> str:
    return json.dumps(line, sort_keys=True, separators=(",", ":"))


RESPELLED: dict[str, Callable[[bytes], bytes]] = {
    "a blank": lambda raw: raw.replace(b":", b": ", 1),
    "a name twice": lambda raw: raw.replace(b'"outcome":', b'"outcome":"nothing_found","outcome":', 1),
    "another order": lambda raw: json.dumps(dict(reversed(json.loads(raw).items())), separators=(",", ":")).encode() + b"\n",
    "an escape": lambda raw: raw.replace(b'"actor":"ada"', b'"actor":"\\u0061da"', 1),
    "no end": lambda raw: raw[:-1],
    "another end": lambda raw: raw[:-1] + b"\r\n",
}


@pytest.mark.parametrize("how", RESPELLED)
async def test_a_line_that_says_the_same_in_another_spelling_is_refused(tmp_path: Path, how: str) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        await engine.recall(ASKED, ADA)
        written = file.read_bytes()
        file.write_bytes(RESPELLED[how](written))
        assert file.read_bytes() != written
        assert await refused(engine, file) == f"receipt: {REFUSED}"


@pytest.mark.parametrize("content", ["", "\n", "{}\n", "null\n", "[" * 5000 + "\n", "\udcff", None])
async def test_what_is_no_file_of_receipts_is_refused_alike(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "r.jsonl"
    if content is not None:
        file.write_bytes(content.encode("utf-8", "surrogateescape"))
    async with engine_at("memory:", *facts("a")) as engine:
        assert await refused(engine, file) == f"receipt: {REFUSED}"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_file_with_any_bit_of_it_changed_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    file, changed = tmp_path / "r.jsonl", tmp_path / "changed.jsonl"
    async with engine_at("memory:", receipts=file) as engine:
        file.unlink(missing_ok=True)
        for _ in range(2):
            await engine.recall(ASKED, ADA)
        raw = bytearray(file.read_bytes())
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        changed.write_bytes(raw)

        assert {each.verdict for each in await replayed(engine, file)} == {"identical"}
        assert await refused(engine, changed) == f"receipt: {REFUSED}"


def forged(told: list[dict[str, Any]], key: bytes | None, file: Path) -> None:
    """A chain made anew with other content, by somebody who knows how it is made but not the secret."""
    file.unlink()
    for line in told:
        content: Mapping[str, Any] = {name: value for name, value in line.items() if name not in ("hash", "seal", "number", "previous")}
        appended(file, {**content, "outcome": "nothing_found", "items": []}, key, 1.0)


async def test_a_line_that_anybody_could_have_made_is_refused_unless_it_says_all_that_a_receipt_says(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    async with engine_at("memory:", *facts("a"), receipts=file) as engine:
        await engine.recall(ASKED, ADA)
        (told,) = lines(file)
        whole = {name: value for name, value in told.items() if name not in ("hash", "seal", "number", "previous", "format")}
        wrong: list[Any] = [None, 5, True, [5], {"a": 5}, [["a"]], [["fact:a", "1", "0.5"]], {"verify": {"received": 1}}]
        made = [{name: value for name, value in whole.items() if name != without} for without in whole]
        made += [{**whole, name: value} for name in whole for value in wrong if (name, value) != ("scopes", None)]
        made += [{**whole, name: "2026"} for name in ("at", "asOf")] + [{**whole, "items": [["memo:a", 1, "0.5"]]}, {**whole, "note": "x"}]
        for line in made:
            file.unlink()
            appended(file, line, None, 1.0)
            assert await refused(engine, file) == f"receipt: {REFUSED}", line
        file.unlink()
        appended(file, whole, None, 1.0)
        assert [each.verdict for each in await replayed(engine, file)] == ["identical"]


@pytest.mark.parametrize("what", ["a pipe", "a device", "a folder"])
async def test_what_is_no_regular_file_is_refused_alike_and_never_waited_for(tmp_path: Path, what: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = {"a pipe": tmp_path / "pipe", "a device": Path("/dev/zero"), "a folder": tmp_path}[what]
    async with engine_at("memory:", *facts("a")) as engine:
        with anyio.fail_after(5):
            assert await refused(engine, file) == f"receipt: {REFUSED}"


async def test_with_a_secret_a_question_cannot_be_guessed_from_its_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, said = tmp_path / "r.jsonl", {}
    for secret in ("", KEYED, KEYED[::-1]):
        monkeypatch.setenv("REMIT_SECRET", secret)
        file.unlink(missing_ok=True)
        async with engine_at("memory:", *facts("a"), receipts=file) as engine:
            await engine.recall(ASKED, ADA)
            assert [each.verdict for each in await replayed(engine, file)] == ["identical"]
        said[secret] = lines(file)[0]["request"]

    assert said[""] == request_digest(ASKED)
    assert len(set(said.values())) == 3


async def test_with_a_secret_a_chain_made_anew_is_refused_and_without_one_it_cannot_be_known(
    new_other_store: NewStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = new_other_store(), tmp_path / "r.jsonl"
    told = {}
    for secret in ("", KEYED):
        monkeypatch.setenv("REMIT_SECRET", secret)
        file.unlink(missing_ok=True)
        async with engine_at(url, *facts("a"), receipts=file) as engine:
            await engine.recall(ASKED, ADA)
        async with engine_at(url) as later:
            (own,) = await replayed(later, file)
            forged(lines(file), b"guessed" if secret else None, file)
            told[secret] = own.verdict, await refused(later, file) if secret else (await replayed(later, file))[0].verdict

    assert told == {"": ("identical", "drifted"), KEYED: ("identical", f"receipt: {REFUSED}")}
