"""Going on, receipts and replays on the command line, for a person and for a program."""

import json
from pathlib import Path

import pytest
from faces.running import Remit

QUESTION = "When do deploys go out?"
KEYED = "a secret of thirty-two bytes, or more"
LITTLE = json.dumps({"ceilings": {"verify": {"items": 1}}})


@pytest.fixture
def deploys(remit: Remit, tmp_path: Path) -> Remit:
    """A store with three answers, in the default place."""
    facts = [{"source": "fact", "id": day, "text": f"Deploys go out on {day}."} for day in ("friday", "monday", "thursday")]
    (tmp_path / "facts.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in facts))
    (tmp_path / "little.json").write_text(LITTLE)
    assert remit("add", "facts.jsonl").status == 0
    return remit


def test_with_a_secret_one_command_goes_on_where_another_stopped(deploys: Remit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_SECRET", KEYED)
    first = deploys("recall", QUESTION, "--request", "little.json", "--json")
    token = first.json["meta"]["continuation"]
    second = deploys("recall", QUESTION, "--continue", token, "--json")
    told = deploys("recall", QUESTION, "--request", "little.json")

    assert (first.status, second.status, told.status) == (3, 0, 3)
    assert [[card["id"] for card in each.json["data"]] for each in (first, second)] == [["friday"], ["monday", "thursday"]]
    assert "go on with meta.continuation" in " ".join(told.out.split())
    shown = told.out.rpartition("to go on: --continue ")[2].strip()
    assert [card["id"] for card in deploys("recall", QUESTION, "--continue", shown, "--json").json["data"]] == ["monday", "thursday"]


def test_without_one_a_token_ends_with_its_command_and_2_says_so(deploys: Remit) -> None:
    token = deploys("recall", QUESTION, "--request", "little.json", "--json").json["meta"]["continuation"]
    late = deploys("recall", QUESTION, "--continue", token, "--json")
    told = deploys("recall", QUESTION, "--request", "little.json")

    assert "set $REMIT_SECRET for both" in " ".join(told.out.split())
    assert "--continue" not in told.out
    assert (late.status, late.json["error"]["code"], late.json["error"]["field"]) == (2, "invalid", "continuation")


def test_a_secret_that_is_too_short_is_2_and_is_not_shown(deploys: Remit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_SECRET", "hunter2")
    ran = deploys("recall", QUESTION)

    assert ran.status == 2
    assert "REMIT_SECRET" in ran.err
    assert "hunter2" not in ran.err


def test_a_receipt_is_replayed_by_its_question_and_drift_is_1(deploys: Remit, tmp_path: Path) -> None:
    assert deploys("recall", QUESTION, "--source", "fact", "--receipt", "receipts.jsonl").status == 0
    same = deploys("replay", "receipts.jsonl", "--query", QUESTION, "--source", "fact", "--json")
    assert deploys("forget", "fact:monday").status == 0
    drifted = deploys("replay", "receipts.jsonl", "--query", QUESTION, "--source", "fact")

    hashed = json.loads((tmp_path / "receipts.jsonl").read_text())["hash"]
    assert same.status == 0
    assert same.json == {"receipts": [{"number": 1, "hash": hashed, "verdict": "identical", "changes": [], "around": []}]}
    assert drifted.status == 1
    assert drifted.out.startswith(f"1  {hashed[:12]}  drifted\n")
    assert "  fact:monday: not_in_scope\n" in drifted.out


def test_requests_are_found_in_a_file_of_them_and_what_is_missing_is_4(deploys: Remit, tmp_path: Path) -> None:
    for limit in ("5", "6", "7"):
        deploys("recall", QUESTION, "--limit", limit, "--receipt", "receipts.jsonl")
    asked = [{"query": QUESTION, "limit": limit} for limit in (7, 5)]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, asked)))
    every = deploys("replay", "receipts.jsonl", "--request", "requests.jsonl", "--json")
    one = deploys("replay", "receipts.jsonl", "--request", "requests.jsonl", "--only", "3")

    told = [(each["number"], each["verdict"], each.get("why")) for each in every.json["receipts"]]
    assert told == [(1, "identical", None), (2, "not_checkable", "no_request"), (3, "identical", None)]
    assert (every.status, one.status) == (4, 0)


@pytest.mark.parametrize("wrong", ["no file", "an edit", "no such number", "another principal", "no request", "no json"])
def test_what_is_wrong_is_2_and_receipts_are_refused_alike(deploys: Remit, tmp_path: Path, wrong: str) -> None:
    deploys("recall", QUESTION, "--receipt", "receipts.jsonl")
    file = tmp_path / "receipts.jsonl"
    if wrong == "an edit":
        file.write_text(file.read_text().replace('"enough"', '"nothing_found"'))
    (tmp_path / "no.json").write_text('{"query": "x"}\nnothing\n')
    arguments = {
        "no file": ["--query", QUESTION],
        "no such number": ["--query", QUESTION, "--only", "2"],
        "another principal": ["--query", QUESTION, "--principal", '{"actor": "eve", "org": "local", "scopes": "*"}'],
        "no request": ["--request", "none.json"],
        "no json": ["--request", "no.json"],
    }
    ran = deploys("replay", "none.jsonl" if wrong == "no file" else "receipts.jsonl", *arguments.get(wrong, []), "--json")

    assert (ran.status, ran.json["error"]["code"]) == (2, "invalid")
    assert ran.json["error"]["field"] == ("request" if wrong in ("no request", "no json") else "receipt")
