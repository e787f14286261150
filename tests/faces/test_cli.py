"""The command line: what a person and a program get from each command, and for everything that can be stated wrongly."""

import json
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from faces.running import Remit

from remit.pipeline.faces.show import SENTENCES
from remit.pipeline.why import NO_WORD, NOT_IN_SCOPE, RETURNED, STOPPED
from remit.stages.report import Reason, StageName

COMMANDS = ("demo", "init", "add", "recall", "brief", "why", "doctor")
RULE = "The lamp is lit at dusk and put out at dawn."
QUESTION = "When is the lamp lit?"


def lines(*items: dict[str, Any] | str) -> str:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in items)


def fact(name: str, text: str, **stated: Any) -> dict[str, Any]:
    return {"source": "fact", "id": name, "text": text, **stated}


@pytest.fixture
def lighthouse(remit: Remit, tmp_path: Path) -> Remit:
    """A store with what keepers know, in the default place."""
    (tmp_path / "facts.jsonl").write_text(
        lines(
            fact("lamp", RULE, importance=0.8),
            fact("oil", "Oil comes with the supply boat on the first of the month.", pinned=True),
            fact("visitors", "Visitors may climb the tower on Sundays.", scope="project:tower"),
        )
    )
    assert remit("add", "facts.jsonl").status == 0
    return remit


# Every command, for a person and for a program


def test_every_command_explains_itself_in_80_columns(remit: Remit) -> None:
    for command in COMMANDS:
        helped = remit(command, "--help")

        assert helped.status == 0
        assert "--json" in helped.out
        assert max(map(len, helped.out.splitlines())) <= 80

    assert all(f" {command} " in remit("--help").out for command in COMMANDS)
    assert remit().out == remit("--help").out


def test_the_version_is_the_packages(remit: Remit) -> None:
    assert remit("--version").out == "remit 0.1.0\n"


def test_init_makes_a_store_and_finds_it_as_it_should_be_afterwards(remit: Remit, tmp_path: Path) -> None:
    made, again = remit("init"), remit("init", "--json")

    assert (made.status, made.out) == (0, "made sqlite:remit.db\n")
    assert (tmp_path / "remit.db").exists()
    assert (again.status, again.json["new"], again.json["reindexed"], again.json["healthy"]) == (0, False, None, True)


def test_init_makes_the_indexes_again_in_another_language(lighthouse: Remit, tmp_path: Path) -> None:
    (tmp_path / "german.toml").write_text('[analysis]\nlanguage = "german"\n')

    before = lighthouse("recall", QUESTION, "--config", "german.toml")
    done = lighthouse("init", "--json", "--config", "german.toml")
    after = lighthouse("recall", QUESTION, "--config", "german.toml", "--json")

    assert before.status == 4
    assert "remit init" in before.err
    assert (done.status, done.json["reindexed"], done.json["healthy"]) == (0, 3, True)
    assert after.json["data"][0]["id"] == "lamp"


def test_recall_shows_the_list_the_funnel_and_the_context(lighthouse: Remit) -> None:
    shown = lighthouse("recall", QUESTION)

    assert shown.status == 0
    assert shown.err == ""
    assert "enough  1 memory, 1 of them in the context" in shown.out
    assert "●  1  fact:lamp" in shown.out
    assert [line.split()[0] for line in shown.out.splitlines() if line.split()[:1] and line.split()[0] in list(StageName)] == list(
        StageName
    )
    assert "weak 2" in shown.out
    assert f"```\n{RULE}\n```" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "\x1b" not in shown.out


def test_recall_as_json_is_one_document_as_on_the_wire(lighthouse: Remit) -> None:
    answer = lighthouse("recall", QUESTION, "--json")

    assert answer.status == 0
    assert set(answer.json) == {"data", "meta"}
    assert answer.json["meta"]["outcome"] == "enough"
    assert [stage["stage"] for stage in answer.json["meta"]["stages"]] == list(StageName)


def test_nothing_found_is_an_answer(lighthouse: Remit) -> None:
    shown, answer = lighthouse("recall", "sourdough"), lighthouse("recall", "sourdough", "--json")

    assert (shown.status, answer.status) == (0, 0)
    assert answer.json["meta"]["outcome"] == "nothing_found"
    assert "nothing found" in shown.out
    assert "next, for the caller" in shown.out


def test_what_a_ceiling_cut_is_exhausted_and_status_3(lighthouse: Remit) -> None:
    shown, answer = lighthouse("recall", QUESTION, "--tokens", "1"), lighthouse("recall", QUESTION, "--tokens", "1", "--json")

    assert (shown.status, answer.status) == (3, 3)
    assert answer.json["meta"]["outcome"] == "exhausted"
    assert "ceiling" in shown.out


def test_scopes_that_are_not_granted_are_unavailable_and_status_4(lighthouse: Remit) -> None:
    ada = '{"actor": "ada", "org": "local", "scopes": []}'

    answer = lighthouse("recall", QUESTION, "--scope", "project:tower", "--principal", ada, "--json")

    assert answer.status == 4
    assert answer.json["meta"]["because"][0]["code"] == "unauthorised"


def test_brief_prints_what_a_model_is_given_and_nothing_else(lighthouse: Remit) -> None:
    shown, told = lighthouse("brief"), lighthouse("brief", "--json")

    assert (shown.status, told.status) == (0, 0)
    assert shown.out == told.json["text"]
    assert set(told.json) == {"text", "tokens", "budget", "lines", "leftOut"}
    assert told.json["lines"][0] == {
        "id": "fact:oil",
        "scope": "global",
        "group": "pinned",
        "text": "Oil comes with the supply boat on the first of the month.",
    }


def test_brief_says_what_did_not_fit(lighthouse: Remit) -> None:
    told = lighthouse("brief", "--tokens", "5", "--json")

    assert told.json["lines"] == []
    assert {"id": "fact:oil", "reason": "oversized"} in told.json["leftOut"]
    assert "left out: fact:oil" in lighthouse("brief", "--tokens", "5").err
    assert "Nothing fits" in lighthouse("brief", "--tokens", "5").out


def test_why_says_which_stage_lost_a_memory(lighthouse: Remit) -> None:
    question = "Does oil come with the supply boat on Sundays, and is the lamp lit at dusk and put out at dawn?"
    told, shown = lighthouse("why", question, "fact:visitors", "--json"), lighthouse("why", question, "fact:visitors")

    assert told.status == 0
    assert (told.json["id"], told.json["stage"], told.json["reason"]) == ("fact:visitors", "generate", "weak")
    assert told.json["numbers"]["share"] < told.json["numbers"]["shareNeeded"]
    assert shown.out.startswith("fact:visitors shares too little with the question, says generate.\n")


def test_why_tells_alike_of_what_may_not_be_read_and_of_what_does_not_exist(lighthouse: Remit) -> None:
    ada = '{"actor": "ada", "org": "local", "scopes": []}'

    for more in ([], ["--json"]):
        hidden = lighthouse("why", "tower visitors", "fact:visitors", "--principal", ada, *more)
        nowhere = lighthouse("why", "tower visitors", "fact:visitorz", "--principal", ada, *more)

        assert (hidden.status, hidden.err) == (nowhere.status, nowhere.err) == (0, "")
        assert hidden.out == nowhere.out.replace("visitorz", "visitors")


def test_doctor_lists_what_the_store_can_do(lighthouse: Remit) -> None:
    shown, told = lighthouse("doctor"), lighthouse("doctor", "--json")

    assert (shown.status, told.status) == (0, 0)
    assert shown.out.endswith("healthy\n")
    assert (told.json["healthy"], told.json["faults"]) == (True, [])
    assert told.json["facts"]["store"] == "sqlite"


def test_every_reason_has_a_sentence() -> None:
    assert set(SENTENCES) == {*Reason, RETURNED, NOT_IN_SCOPE, NO_WORD, STOPPED}


# Where what is said comes from


def test_options_work_before_and_after_the_command(lighthouse: Remit, tmp_path: Path) -> None:
    (tmp_path / "remit.db").rename(tmp_path / "other.db")

    before = lighthouse("--store", "sqlite:other.db", "--json", "recall", QUESTION)
    after = lighthouse("recall", "--store", "sqlite:other.db", QUESTION, "--json")
    both = lighthouse("--store", "sqlite:nowhere.db", "recall", QUESTION, "--store", "sqlite:other.db", "--json")

    assert [each.json["data"][0]["id"] for each in (before, after, both)] == ["lamp", "lamp", "lamp"]


def test_the_environment_says_what_options_do_not(lighthouse: Remit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "remit.db").rename(tmp_path / "other.db")
    (tmp_path / "ada.json").write_text('{"actor": "ada", "org": "local", "scopes": []}')
    (tmp_path / "one.toml").write_text("[recall]\nlimit = 1\n")
    monkeypatch.setenv("REMIT_STORE", "sqlite:other.db")
    monkeypatch.setenv("REMIT_PRINCIPAL", str(tmp_path / "ada.json"))
    monkeypatch.setenv("REMIT_CONFIG", str(tmp_path / "one.toml"))

    answer = lighthouse("recall", "oil lamp", "--json")

    assert len(answer.json["data"]) == 1
    assert answer.json["meta"]["scopeFilter"]["scopes"] == ["global"]
    assert lighthouse("recall", QUESTION, "--store", "sqlite:nowhere.db").status == 4


def test_a_request_comes_from_a_file_or_stdin(lighthouse: Remit, tmp_path: Path) -> None:
    request = json.dumps({"query": QUESTION, "limit": 1, "context": {"passages": 1}})
    (tmp_path / "request.json").write_text(request)

    of_file = lighthouse("recall", "--request", "request.json", "--json")
    of_stdin = lighthouse("recall", "--request", "-", "--json", stdin=request)

    assert [each.json["data"][0]["id"] for each in (of_file, of_stdin)] == ["lamp", "lamp"]
    assert of_file.err == ""


def test_an_option_wins_over_the_request_file_and_says_so(lighthouse: Remit) -> None:
    request = json.dumps({"query": "oil", "limit": 5, "context": {"tokens": 100, "passages": 8}})

    answer = lighthouse("recall", QUESTION, "--request", "-", "--tokens", "200", "--passages", "8", "--json", stdin=request)

    assert answer.json["data"][0]["id"] == "lamp"
    assert answer.json["meta"]["context"]["budget"] == 200
    assert answer.err == (
        "remit: context.tokens: the option is used, not what the request file says\n"
        "remit: query: the option is used, not what the request file says\n"
    )


def test_request_options_reach_their_fields(lighthouse: Remit) -> None:
    narrowed = lighthouse("recall", "tower visitors", "--fact-scope", "project:tower", "--source", "fact", "--json")
    phrased = lighthouse("recall", "lamp", "--phrase", "lit at dusk", "--json")
    tagged = lighthouse("recall", "lamp", "--tag", "sea", "--json")
    early = lighthouse("recall", "lamp", "--as-of", "2001-01-01", "--json")
    xml = lighthouse("recall", "lamp", "--format", "xml", "--profile", "answer", "--deadline", "1", "--limit", "1", "--json")

    assert [card["id"] for card in narrowed.json["data"]] == ["visitors"]
    assert list(narrowed.json["meta"]["bySource"]) == ["fact"]
    assert [card["id"] for card in phrased.json["data"]] == ["lamp"]
    assert tagged.json["data"] == []
    assert early.json["meta"]["asOf"] == "2001-01-01T00:00:00Z"
    assert xml.json["meta"]["context"]["text"].startswith("<context")
    assert xml.json["meta"]["stages"][0]["ceiling"]["items"] == 50


# Taking in


def test_one_bad_line_among_good_ones_loses_only_itself(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text(
        lines(fact("a", "One."), "not json", fact("b", ""), fact("c", "Three.", colour="red"), fact("d", "Four."))
    )

    added = remit("add", "notes.jsonl", "nowhere.md")

    assert added.status == 2
    assert added.out.splitlines() == [
        "stored fact:a v1",
        "refused notes.jsonl:2 not_json Expecting value, column 1",
        "refused fact:b notes.jsonl:3 invalid text: is blank",
        "refused notes.jsonl:4 invalid colour: unknown field",
        "stored fact:d v1",
        "refused nowhere.md unreadable No such file or directory",
    ]
    assert added.err.splitlines() == [
        "2 stored, 1 refused, 3 not readable",
        "  notes.jsonl:2 not_json Expecting value, column 1",
        "  notes.jsonl:3 invalid text: is blank",
        "  notes.jsonl:4 invalid colour: unknown field",
        "  nowhere.md unreadable No such file or directory",
    ]


def test_lines_come_from_stdin_which_becomes_no_root(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "-").write_text(lines(fact("file", "Another.")))

    added = remit("add", "-", stdin=lines(fact("a", "One."), "not json"))
    document = remit("add", "-", stdin="# A document\n")
    export = remit("export").out
    imported = remit("--store", "sqlite:elsewhere.db", "import", "-", stdin=export)

    assert added.out.splitlines() == ["stored fact:a v1", "refused -:2 not_json Expecting value, column 1"]
    assert document.out.startswith("refused -:1 unknown_kind")
    assert imported.out.splitlines() == ["stored fact:a v1"]
    assert remit("roots").out == "no file may be looked at\n"


def test_receipts_as_json_are_one_object_a_line(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text(lines(fact("a", "One."), "{", fact("b", "")))

    first, again = remit("add", "notes.jsonl", "--json"), remit("add", "notes.jsonl", "--json")

    assert first.each == [
        {"id": "fact:a", "written": "stored", "version": 1},
        {"written": "refused", "code": "not_json", "detail": "Expecting property name enclosed in double quotes, column 2"}
        | {"file": "notes.jsonl", "line": 2},
        {"id": "fact:b", "written": "refused", "code": "invalid", "detail": "text: is blank", "file": "notes.jsonl", "line": 3},
    ]
    assert (first.status, first.err) == (2, "")
    assert again.each[0] == {"id": "fact:a", "written": "unchanged", "version": 1}


def test_another_orgs_memory_is_refused_and_an_own_one_in_a_named_scope_is_not(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text(lines(fact("a", "One.", org="theirs"), fact("b", "Two.")))

    added = remit("add", "notes.jsonl", "--scope", "project:tower", "--json")

    assert [(each["written"], each.get("code")) for each in added.each] == [("refused", "not_authorised"), ("stored", None)]
    assert remit("recall", "two", "--json").json["data"][0]["scope"] == "project:tower"


def test_text_files_become_what_source_says(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text("Ada and the keeper talked about the foghorn.")

    assert remit("add", "talk.txt", "--source", "session").out == "stored session:talk.txt v1\n"
    assert remit("recall", "foghorn", "--json").json["data"][0]["source"] == "session"


def test_a_folder_becomes_docs_whose_changed_files_are_no_longer_returned(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "foghorn.md").write_text("# Foghorn\n\nThe foghorn sounds twice a minute.\n")
    (tmp_path / "notes" / "bell.md").write_text("# Bell\n\nThe bell is for when the foghorn is broken.\n")
    added = remit("add", "notes", "--json")

    before = remit("recall", "foghorn", "--json")
    (tmp_path / "notes" / "foghorn.md").write_text("# Foghorn\n\nThe foghorn was sold.\n")
    after = remit("recall", "foghorn", "--json")
    why = remit("why", "foghorn", "doc:foghorn.md", "--json")

    assert [each["id"] for each in added.each] == ["doc:bell.md", "doc:foghorn.md"]
    assert {card["id"] for card in before.json["data"]} == {"foghorn.md", "bell.md"}
    assert {card["id"] for card in after.json["data"]} == {"bell.md"}
    assert after.json["meta"]["stages"][3]["rejected"] == {"changed": 1}
    assert (why.json["stage"], why.json["reason"]) == ("verify", "changed")


# What is wrong is named, on one line, and nothing else happens


@pytest.mark.parametrize(
    "arguments, field",
    [
        (["recall"], "query"),
        (["recall", "  "], "query"),
        (["recall", "x", "--limit", "0"], "limit"),
        (["recall", "x", "--limit", "100000"], "limit"),
        (["recall", "x", "--source", "facts"], "sources[0]"),
        (["recall", "x", "--scope", "team:a"], "scopes[0]"),
        (["recall", "x", "--fact-scope", ""], "factScopes[0]"),
        (["recall", "x", "--profile", "fast"], "profile"),
        (["recall", "x", "--as-of", "yesterday"], "asOf"),
        (["recall", "x", "--tokens", "-1"], "context.tokens"),
        (["recall", "x", "--format", "html"], "context.format"),
        (["recall", "x", "--deadline", "nan"], "deadlineSeconds"),
        (["recall", "--request", "nowhere.json"], "request"),
        (["recall", "--request", "not.json"], "request"),
        (["recall", "--request", "list.json"], "request"),
        (["recall", "--request", "unknown.json"], "colour"),
        (["recall", "--request", "null.json"], "query"),
        (["recall", "x", "--principal", "nowhere.json"], "principal"),
        (["recall", "x", "--principal", "{"], "principal"),
        (["recall", "x", "--principal", '{"actor": "a"}'], "principal.org"),
        (["recall", "x", "--principal", '{"actor": "a", "org": "o", "scopes": ["all"]}'], "principal.scopes[0]"),
        (["recall", "x", "--principal", '{"actor": "a", "org": "o", "admin": true}'], "principal.admin"),
        (["recall", "x", "--config", "unknown.toml"], "recall.limmit"),
        (["recall", "x", "--config", "wrong.toml"], "recall.limit"),
        (["recall", "x", "--config", "nowhere.toml"], "nowhere.toml"),
        (["recall", "x", "--store", "mysql://ada:secret@db/x"], "store"),
        (["recall", "x", "--trace=zipkin"], "trace"),
        (["why", "x", "lamp"], "memory"),
        (["brief", "--tokens", "-1"], "tokens"),
        (["brief", "--project", " "], "project"),
        (["add", "facts.jsonl", "--scope", "team"], "scope"),
        (["add", "facts.jsonl", "--source", "docs"], "source"),
    ],
)
def test_what_is_wrong_is_named(lighthouse: Remit, tmp_path: Path, arguments: list[str], field: str) -> None:
    (tmp_path / "not.json").write_text("{query: x}")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "unknown.json").write_text('{"query": "x", "colour": "red"}')
    (tmp_path / "null.json").write_text('{"query": null}')
    (tmp_path / "unknown.toml").write_text("[recall]\nlimmit = 3\n")
    (tmp_path / "wrong.toml").write_text("[recall]\nlimit = 'many'\n")

    shown, told = lighthouse(*arguments), lighthouse(*arguments, "--json")

    assert (shown.status, shown.out, told.status, told.err) == (2, "", 2, "")
    assert shown.err.startswith("remit: ")
    assert shown.err.count("\n") == 1
    assert f"{field}: " in shown.err
    assert "secret" not in shown.err + told.out
    assert told.json["error"]["field"] == field
    assert told.json["error"]["message"] in shown.err


@pytest.mark.parametrize(
    "arguments", [["recal", "x"], ["recall", "x", "--limt", "3"], ["recall", "x", "y"], ["add"], ["recall", "x", "--limit", "a"]]
)
def test_what_is_no_command_is_usage(remit: Remit, arguments: list[str]) -> None:
    shown, told = remit(*arguments), remit(*arguments, "--json")

    assert (shown.status, shown.out, told.status, told.err) == (2, "", 2, "")
    assert shown.err.count("\n") == 1
    assert told.json["error"]["code"] == "usage"


def test_a_wrong_request_makes_no_store(remit: Remit, tmp_path: Path) -> None:
    assert remit("recall", "x", "--limit", "0").status == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["recall", "x"], ["why", "x", "fact:a"], ["brief"], ["doctor"]])
def test_a_store_that_is_not_there_is_not_just_empty(remit: Remit, tmp_path: Path, command: list[str]) -> None:
    shown, told = remit(*command, "--store", "sqlite:remti.db"), remit(*command, "--store", "sqlite:remti.db", "--json")

    assert (shown.status, shown.out, told.status) == (4, "", 4)
    assert "remit init" in shown.err
    assert told.json["error"]["code"] == "store_unavailable"
    assert list(tmp_path.iterdir()) == []


def text_file(path: Path) -> None:
    path.write_text("Dear diary")


def other_program(path: Path) -> None:
    import sqlite3

    database = sqlite3.connect(path)
    database.execute("CREATE TABLE bookmarks (url TEXT)")
    database.close()


def damaged(path: Path) -> None:
    content = bytearray(Path("remit.db").read_bytes())
    content[4096:] = bytes(255 for _ in content[4096:])
    path.write_bytes(content)


def newer(path: Path) -> None:
    import sqlite3

    path.write_bytes(Path("remit.db").read_bytes())
    database = sqlite3.connect(path)
    with database:
        database.execute("INSERT INTO migration VALUES (9999, 'from_the_future', '')")
    database.close()


@pytest.mark.parametrize("make", [text_file, other_program, damaged, newer])
def test_a_file_that_is_no_store_of_ours_is_refused_and_not_changed(lighthouse: Remit, tmp_path: Path, make: Any) -> None:
    store = tmp_path / "it.db"
    make(store)
    before = sha256(store.read_bytes()).digest()

    for command in (["recall", "x"], ["add", "facts.jsonl"], ["init"], ["doctor"]):
        shown = lighthouse(*command, "--store", "sqlite:it.db")

        assert (shown.status, shown.out) == (4, "")
        assert shown.err.count("\n") == 1
        assert any(advice in shown.err for advice in ("choose another path", "put a copy", "upgrade Remit"))
        assert sha256(store.read_bytes()).digest() == before


def test_what_nobody_foresaw_is_told_without_its_text(lighthouse: Remit, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("row text: the keeper's password")

    monkeypatch.setattr("remit.pipeline.faces.show.show_answer", broken)

    shown = lighthouse("recall", QUESTION)

    assert shown.status == 4
    assert shown.err.startswith("remit: this should not happen: RuntimeError at faces/test_cli.py:")
    assert "password" not in shown.err


def test_escape_codes_in_a_memory_do_not_reach_the_terminal(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "evil.jsonl").write_text(lines(fact("evil", "lamp \x1b]0;owned\x07\x1b[2J lit", pinned=True)))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "\x1b[2J\n.md").write_bytes(b"\xff")
    remit("add", "evil.jsonl")
    added = remit("add", "notes")

    said = remit("recall", "lamp lit").out + remit("brief").out + added.out + added.err

    assert "lamp" in said
    assert len(added.out.splitlines()) == 1
    assert "\x1b" not in said
    assert "\x07" not in said


# As a process

COMMAND = [sys.executable, "-P", "-c", "import sys; from remit.pipeline.faces.cli import main; sys.exit(main())"]


def test_a_reader_that_leaves_is_no_fault(lighthouse: Remit) -> None:
    read, write = os.pipe()
    os.close(read)

    left = subprocess.run([*COMMAND, "recall", QUESTION], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)

    assert (left.returncode, left.stderr) == (141, b"")


@pytest.mark.parametrize("closed, status, said", [("<&-", 2, b"request: is not JSON"), (">&-", 0, b""), ("2>&-", 0, b"")])
def test_a_stream_that_is_closed_is_an_empty_one(lighthouse: Remit, tmp_path: Path, closed: str, status: int, said: bytes) -> None:
    (tmp_path / "request.json").write_text(json.dumps({"query": QUESTION}))
    asked = "-" if closed == "<&-" else "request.json"

    ran = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, "recall", "--request", asked], capture_output=True, check=False)

    assert ran.returncode == status
    assert said in ran.stderr
    assert b"should not happen" not in ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_is_said_to_be_full(lighthouse: Remit) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run([*COMMAND, "export"], stdout=full, stderr=subprocess.PIPE, check=False)

    assert (ran.returncode, ran.stderr) == (4, b"remit: the output cannot be written: No space left on device\n")


def test_an_interrupt_ends_a_command_quietly(lighthouse: Remit) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background may be deaf to it, and so would be
    try:
        waiting = subprocess.Popen(
            [*COMMAND, "recall", "--request", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert waiting.stdin is not None
    waiting.stdin.write(b" " * 200_000)  # more than a pipe holds: when it is through, the command is reading
    waiting.stdin.flush()
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=30)

    assert (waiting.returncode, out, err) == (130, b"", b"")


def test_json_is_utf_8_whatever_the_locale(lighthouse: Remit, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text(lines(fact("fog", "Das Nebelhorn tönt – zweimal.")))
    lighthouse("add", "more.jsonl")
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}

    as_json = subprocess.run([*COMMAND, "recall", "Nebelhorn", "--json"], env=latin, capture_output=True, check=True)
    shown = subprocess.run([*COMMAND, "recall", "Nebelhorn"], env=latin, capture_output=True, check=True)

    assert "tönt – zweimal" in json.loads(as_json.stdout.decode())["data"][0]["text"]
    assert "tönt".encode("latin-1") in shown.stdout


def test_a_blank_name_of_a_file_is_refused_and_not_the_whole_folder(remit: Remit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.md").write_text("# Notes")
    monkeypatch.chdir(tmp_path)
    assert remit("add", "", "--store", f"sqlite:{tmp_path / 'r.db'}").status == 2
