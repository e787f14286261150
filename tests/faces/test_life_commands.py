"""The life of a memory on the command line: receipts, counts, histories and exports, for a person and for a program."""

import json
from pathlib import Path
from typing import Any

import pytest
from faces.running import Remit

LIFE = ("approve", "reject", "restore", "supersede", "dispute", "forget", "history", "export", "import")
QUESTION = "When do deploys go out?"
BETA = json.dumps({"actor": "bob", "org": "local", "scopes": ["project:beta"]})


def fact(name: str, text: str, **stated: Any) -> str:
    return json.dumps({"source": "fact", "id": name, "text": text, **stated}) + "\n"


@pytest.fixture
def deploys(remit: Remit, tmp_path: Path) -> Remit:
    """A store with two answers and an idea, in the default place."""
    (tmp_path / "facts.jsonl").write_text(
        fact("thursday", "Deploys go out on Thursday.", scope="project:alpha", key="k")
        + fact("monday", "Deploys go out on Monday.", tags=["day"])
        + fact("idea", "Deploys go out daily.", approval="proposed")
    )
    assert remit("add", "facts.jsonl").status == 0
    return remit


def found(remit: Remit) -> list[str]:
    return sorted(card["id"] for card in remit("recall", QUESTION, "--json").json["data"])


def test_each_explains_itself_in_80_columns(remit: Remit) -> None:
    for command in LIFE:
        helped = remit(command, "--help")
        assert (helped.status, "--json" in helped.out) == (0, True)
        assert max(map(len, helped.out.splitlines())) <= 80


def test_approving_rejecting_and_restoring_give_a_receipt_a_line_and_2_when_one_was_refused(deploys: Remit) -> None:
    approved, again = deploys("approve", "fact:idea", "fact:nobody"), deploys("approve", "fact:idea", "--json")

    assert (approved.status, approved.out) == (2, "approved fact:idea v1\nrefused fact:nobody unknown_memory\n")
    assert (again.status, again.each) == (0, [{"id": "fact:idea", "written": "unchanged", "version": 1}])
    assert found(deploys) == ["idea", "monday", "thursday"]

    assert deploys("reject", "fact:idea", "--json").each == [{"id": "fact:idea", "written": "rejected", "version": 1}]
    assert deploys("supersede", "fact:monday", "fact:thursday").out == "superseded fact:monday v1\n"
    assert found(deploys) == ["thursday"]
    assert deploys("restore", "fact:monday").out == "restored fact:monday v1\n"
    assert deploys("dispute", "fact:monday", "fact:thursday").out == "disputed fact:monday v1\n"
    assert found(deploys) == ["monday", "thursday"]


@pytest.mark.parametrize("name", ["fact:thursday", "fact:nobody"])
def test_who_may_not_touch_a_memory_learns_nothing_of_it(deploys: Remit, name: str) -> None:
    def told(*arguments: str) -> tuple[int, str]:
        ran = deploys(*arguments, "--json", "--principal", BETA)
        return ran.status, ran.out.replace(name, "NAME")

    refused = '{"id": "NAME", "written": "refused", "code": "unknown_memory"}\n'
    assert {told(command, name) for command in ("approve", "reject", "restore")} == {(2, refused)}
    assert told("supersede", name, "fact:monday") == told("dispute", name, "fact:monday") == (2, refused)
    assert told("history", name) == (0, '{"id": "NAME", "history": []}\n')
    status, out = told("forget", name)
    assert (status, json.loads(out)["counts"]["memories"]) == (2, 0)


def test_forgetting_counts_first_and_then_does_it(deploys: Remit) -> None:
    would = deploys("forget", "--scope", "project:alpha", "--dry-run")
    did = deploys("forget", "--scope", "project:alpha", "--json")

    assert (would.status, would.out) == (0, "would be forgotten: memories 1, passages 1, words 5, vectors 1, keys 1\n")
    assert did.json == {
        "dryRun": False,
        "counts": {"memories": 1, "passages": 1, "words": 5, "vectors": 1, "tags": 0, "versions": 0, "keys": 1},
        "receipts": [],
    }
    assert found(deploys) == ["monday"]
    assert deploys("forget", "--scope", "project:alpha").out == "forgotten: nothing\n"
    assert "key_forgotten" in deploys("add", "facts.jsonl").out


def test_forgetting_by_name_gives_a_receipt_for_each(deploys: Remit) -> None:
    ran = deploys("forget", "fact:monday", "fact:nobody", "--json")

    assert ran.status == 2
    assert ran.json["receipts"] == [
        {"id": "fact:monday", "written": "forgotten", "version": 1},
        {"id": "fact:nobody", "written": "refused", "code": "unknown_memory"},
    ]
    assert deploys("forget", "fact:idea", "--dry-run").out.startswith("would be forgotten fact:idea v1\n")


@pytest.mark.parametrize(
    "arguments, field",
    [
        (["forget"], "memories"),
        (["forget", "fact:a", "--scope", "global"], "scope"),
        (["forget", "fact:a", "--expired"], "expired"),
        (["forget", "--scope", "team:a"], "scope"),
        (["forget", "a"], "memories[0]"),
        (["approve", "fact:"], "memories[0]"),
        (["history", "a"], "memory"),
        (["supersede", "fact:a", "fact:a"], "by"),
    ],
)
def test_what_is_stated_wrongly_is_named(deploys: Remit, arguments: list[str], field: str) -> None:
    ran = deploys(*arguments, "--json")

    assert (ran.status, ran.json["error"]["code"], ran.json["error"]["field"]) == (2, "invalid", field)


def test_a_history_tells_versions_and_what_became_of_them(deploys: Remit, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text(fact("monday", "Deploys go out\non Tuesday, says \x1b[31m" + "x" * 300))
    deploys("add", "more.jsonl")
    deploys("supersede", "fact:monday", "fact:thursday")

    told, ran = deploys("history", "fact:monday"), deploys("history", "fact:monday", "--json")

    assert [line.split("  ")[0] for line in told.out.splitlines()[::2]] == [
        *["v1 stored", "v2 replaced", "v2 superseded by fact:thursday"],
    ]
    assert "Deploys go out on Tuesday" in told.out
    assert "\x1b" not in told.out
    assert [(each["what"], each["version"], each["actor"]) for each in ran.json["history"]] == [
        *[("stored", 1, "me"), ("replaced", 2, "me"), ("superseded", 2, "me")],
    ]
    assert ran.json["history"][0]["text"] == "Deploys go out on Monday."


def test_an_export_is_imported_elsewhere_exactly(deploys: Remit, tmp_path: Path) -> None:
    deploys("approve", "fact:idea")
    exported = deploys("export")
    (tmp_path / "all.jsonl").write_text(exported.out)

    imported = deploys("import", "all.jsonl", "--store", "sqlite:other.db")
    again = deploys("import", "all.jsonl", "--store", "sqlite:other.db", "--json")

    assert (imported.status, imported.out.splitlines()[0], imported.err) == (0, "stored fact:idea v1", "3 stored\n")
    assert [each["written"] for each in again.each] == ["unchanged"] * 3
    assert deploys("export", "--store", "sqlite:other.db").out == exported.out
    assert deploys("doctor", "--store", "sqlite:other.db", "--json").json["facts"]["roots"] == "none", "an import allows no root"


def test_an_export_holds_what_the_principal_may_read(deploys: Remit) -> None:
    exported = deploys("export", "--principal", BETA)

    assert [each["id"] for each in exported.each] == ["idea", "monday"]


def test_a_wrong_line_of_an_import_is_told_with_its_place(deploys: Remit, tmp_path: Path) -> None:
    lines = deploys("export").out.splitlines()
    (tmp_path / "all.jsonl").write_text("\n".join([lines[0], "{", lines[1].replace('"version": 1', '"version": 0'), lines[2], '{"a": 1}']))

    ran = deploys("import", "all.jsonl", "--store", "sqlite:other.db")

    assert ran.status == 2
    assert ran.out.splitlines() == [
        "stored fact:idea v1",
        "refused all.jsonl:2 not_json Expecting property name enclosed in double quotes, column 2",
        "refused fact:monday all.jsonl:3 invalid version: must be from 1 to 9007199254740991",
        "stored fact:thursday v1",
        "refused all.jsonl:5 invalid source: is missing",
    ]


@pytest.mark.parametrize("command", [["approve", "fact:a"], ["forget", "--expired"], ["history", "fact:a"], ["export"]])
def test_a_mistyped_store_is_unavailable_and_none_is_made(remit: Remit, command: list[str], tmp_path: Path) -> None:
    ran = remit(*command, "--json")

    assert (ran.status, ran.json["error"]["code"]) == (4, "store_unavailable")
    assert not (tmp_path / "remit.db").exists()


def test_a_root_belongs_to_the_org_that_named_it_and_a_refused_file_becomes_none(remit: Remit, tmp_path: Path) -> None:
    for name in ("notes", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.md").write_text(f"The plan of {name}.")
    acme = ("--principal", json.dumps({"actor": "ada", "org": "acme", "scopes": []}))

    assert remit("add", "notes").status == 0
    assert remit("add", "secret", "--scope", "project:beta", *acme).status == 2

    assert remit("roots").out == f"{tmp_path}/notes\n"
    assert remit("roots", "--json", *acme).json == {"roots": []}
    assert remit("roots", "--drop", "/nowhere").status == 2
    assert remit("roots", "--drop", f"{tmp_path}/notes", "--json").json == {"roots": [], "dropped": True}
    assert remit("roots").out == "no file may be looked at\n"


def test_two_files_of_one_command_never_take_each_others_place(remit: Remit, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"All about {name}.")

    both = remit("add", "a", "b", "a/README.md")

    assert (both.status, both.out.splitlines()[0]) == (2, "stored doc:README.md v1")
    assert "b/README.md invalid id: README.md is also a/README.md: name the folder above both" in both.out + both.err
    assert remit("add", ".").status == 0
    assert remit("history", "doc:b/README.md", "--json").json["history"][0]["text"] == "All about b."


def test_the_history_of_what_is_not_there_or_may_not_be_read_is_empty_and_answered(deploys: Remit) -> None:
    hidden = deploys("history", "fact:thursday", "--json", "--principal", BETA)
    absent = deploys("history", "fact:nobody", "--json", "--principal", BETA)

    assert (hidden.status, hidden.json) == (0, {"id": "fact:thursday", "history": []})
    assert (absent.status, absent.json) == (0, {"id": "fact:nobody", "history": []})
