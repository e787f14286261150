"""What a command prints and records: no address of a store, nothing of rows that may not be read. C17.1, C17.2, B7.3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faces.running import Remit

HIDDEN, LOGIN, ASKED = "zqhidden7731", "zqpassword7731", "zqasked7731"

COMMANDS = [
    ["recall", f"harbour crane {ASKED}"],
    ["recall", f"harbour crane {ASKED}", "--json", "--trace", "--log"],
    ["why", f"harbour crane {ASKED}", "fact:own", "--json"],
    ["brief", "--json"],
    ["doctor", "--json"],
    ["history", "fact:own"],
    ["init"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:1] + command[2:]))
@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://root:{LOGIN}@127.0.0.1:1/acme",
        f"postgresql://root:{LOGIN}@no.such.host.invalid/acme",
        f"postgresql://root:{LOGIN}@127.0.0.1:notaport/acme",
        f"mysql://root:{LOGIN}@127.0.0.1/acme",
    ],
    ids=["refused", "unknown host", "no port", "unknown kind"],
)
def test_c17_1_a_command_that_cannot_reach_its_store_tells_a_code_and_no_address(remit: Remit, command: list[str], url: str) -> None:
    ran = remit(*command, "--store", url)

    assert ran.status in (2, 4)
    assert LOGIN not in ran.out + ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=lambda command: " ".join(command[:1] + command[2:]))
def test_c17_2_what_a_command_prints_and_records_has_nothing_of_rows_that_may_not_be_read(
    remit: Remit, command: list[str], tmp_path: Path
) -> None:
    lines = [
        {"source": "fact", "id": "own", "text": "the harbour crane opens"},
        {"source": "fact", "id": f"f{HIDDEN}", "text": f"the harbour crane {HIDDEN}", "scope": "project:beta", "tags": [HIDDEN]},
    ]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert remit("add", "facts.jsonl").status == 0
    ada = json.dumps({"actor": "ada", "org": "local", "scopes": []})

    ran = remit(*command, "--principal", ada)

    assert ran.status == 0
    assert HIDDEN not in ran.out + ran.err
    assert ASKED not in ran.err
