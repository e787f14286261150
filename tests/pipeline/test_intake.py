"""Reading what a person names: JSON Lines, text files and folders, and one bad piece never loses the others."""

import json
import os
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.config import load
from remit.pipeline.faces.wire import item_from
from remit.pipeline.intake import Intake, Problem, Read, Skip, Skipped, size_of, title_of
from remit.pipeline.items import Doc, Fact, Item
from remit.pipeline.storage.entry import Refusal

SMALL = load({"limits": {"lineBytes": 200}}).limits
INTAKE = Intake(item_from=item_from, limits=SMALL)


def line(name: str, **stated: Any) -> bytes:
    return json.dumps({"source": "fact", "id": name, "text": "Deploys restart.", **stated}).encode()


def told(path: Path, intake: Intake = INTAKE) -> list[tuple[int | None, str]]:
    """Line and id of what was read, line and code of what was not."""
    return [
        (piece.line, piece.item.id)
        if isinstance(piece, Read)
        else (piece.line, str(piece.code))
        if isinstance(piece, Problem)
        else (None, str(piece.why))
        for piece in intake.items_from(path)
    ]


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def docs(path: Path) -> list[Item]:
    return [piece.item for piece in INTAKE.items_from(path) if isinstance(piece, Read)]


def test_a_line_is_a_memory_and_a_bad_one_loses_only_itself(tmp_path: Path) -> None:
    lines = [
        line("a"),
        b"",
        b"{not json}",
        line("b"),
        b'{"source": "fact", "id": "c", "text": "\xff"}',
        b"[1, 2]",
        b'{"source": "fact", "id": "d", "id": "e", "text": "x"}',
        line("f", colour="red"),
        line("g", text="x" * 300),
        b"[" * 150,
        b'{"source": "fact", "text": "no id"}',
        b"\t " + line("h") + b" ",
        b'{"source": "fact", "id": "trunc',
    ]
    path = written(tmp_path / "memories.jsonl", b"\n".join(lines))

    assert told(path) == [
        (1, "a"),
        (3, "not_json"),
        (4, "b"),
        (5, "not_utf8"),
        (6, "invalid"),
        (7, "invalid"),
        (8, "invalid"),
        (9, "too_large"),
        (10, "not_json"),
        (11, "invalid"),
        (12, "h"),
        (13, "not_json"),
    ]


def test_a_problem_names_the_field(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        b'{"id": "d", "id": "e"}\n{"source": "doc", "id": "a", "text": "b", "pinned": true}\n{"source": "fact", "id": "a"}',
    )

    assert [piece.detail.split(":")[0] for piece in INTAKE.items_from(path) if isinstance(piece, Problem)] == ["id", "pinned", "text"]


@pytest.mark.parametrize(
    "start, end", [(b"", b"\n"), (b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n"), (b"\xef\xbb\xbf", b"\r\n\r\n"), (b"\n\n", b"\n")]
)
def test_marks_of_order_and_kinds_of_line_ends_mean_nothing(tmp_path: Path, start: bytes, end: bytes) -> None:
    path = written(tmp_path / "a.jsonl", start + end.join([line("a"), line("b")]) + end)

    assert [name for _, name in told(path)] == ["a", "b"]


def test_a_line_of_just_the_allowed_size_is_read_and_the_next_one_too(tmp_path: Path) -> None:
    exact = line("a", text="x" * (200 - len(line("a", text=""))))
    path = written(tmp_path / "a.jsonl", b"\n".join([exact, exact + b" ", b"y" * 10_000, line("b"), b"z" * 1000]))

    assert len(exact) == 200
    assert told(path) == [(1, "a"), (2, "too_large"), (3, "too_large"), (4, "b"), (5, "too_large")]


def test_objects_nested_without_end_are_one_bad_line(tmp_path: Path) -> None:
    deep = b'{"source": "fact", "id": "a", "text": "b", "claims": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    huge = b'{"source": "fact", "id": "a", "text": "b", "importance": ' + b"9" * 5000 + b"}"
    path = written(tmp_path / "a.jsonl", b"\n".join([deep, huge, line("b")]))

    assert told(path, Intake(item_from=item_from, limits=load().limits)) == [(1, "not_json"), (2, "not_json"), (3, "b")]


def test_a_file_that_is_no_text_of_ours_is_one_problem_and_not_one_a_line(tmp_path: Path) -> None:
    assert told(written(tmp_path / "a.csv", b"id,text\n1,x\n")) == [(1, "unknown_kind")]
    assert told(written(tmp_path / "a.jsonl", '{"id": "a"}\n{"id": "b"}\n'.encode("utf-16"))) == [(1, "not_utf8")]
    assert told(written(tmp_path / "memories", line("a"))) == [(1, "a")]
    assert told(tmp_path / "absent.jsonl") == [(None, "unreadable")]
    assert told(tmp_path / "absent.md") == [(None, "unreadable")]


def test_scope_and_org_of_the_command_line_are_for_what_states_none(tmp_path: Path) -> None:
    intake = Intake(item_from=item_from, limits=SMALL, scope="project:alpha", org="acme")
    lines = written(tmp_path / "a.jsonl", b"\n".join([line("a"), line("b", scope="person:ada", org="own"), line("c", scope=None)]))
    text = written(tmp_path / "a.md", b"# Deploys")

    read = [piece.item for path in (lines, text) for piece in intake.items_from(path) if isinstance(piece, Read)]
    assert [(item.scope, item.org) for item in read] == [
        ("project:alpha", "acme"),
        ("person:ada", "own"),
        ("project:alpha", "acme"),
        ("project:alpha", "acme"),
    ]


def test_a_text_file_becomes_a_doc_as_it_is(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfIntro\r\n\r\n# Deploys and restarts #\r\n\r\ntext\r\n"
    path = written(tmp_path / "deploys.md", content)
    os.utime(path, (0, 1_700_000_000))

    assert docs(path) == [
        Doc(
            id="deploys.md",
            title="Deploys and restarts",
            text=content[3:].decode(),
            created_at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
            origin=docs(path)[0].origin,
        )
    ]
    origin = docs(path)[0].origin
    assert origin is not None
    assert origin.uri == path.resolve().as_uri()
    assert origin.sha256 == sha256(content).hexdigest()


def test_a_folder_becomes_docs_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b/z.md", "b/a.TXT", "a.markdown", "c.rst", "ä.md", "B.md"):
        written(tmp_path / name, b"text")

    assert [item.id for item in docs(tmp_path)] == ["B.md", "a.markdown", "b/a.TXT", "b/z.md", "c.rst", "ä.md"]


def test_what_a_folder_holds_beside_texts_is_passed_by_and_told(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside" / "secret.md", b"secret")
    folder = tmp_path / "folder"
    written(folder / "a.md", b"text")
    written(folder / ".git" / "b.md", b"hidden")
    written(folder / ".c.md", b"hidden")
    written(folder / "d.txt", b"a\0b")
    written(folder / "e.md", b" \n")
    written(folder / "f.jsonl", line("f"))
    written(folder / "g.md", b"\xff\xfe")
    written(folder / "h.md", b"x" * 201)
    (folder / "i.md").symlink_to(outside)
    (folder / "j").symlink_to(outside.parent)
    (folder / "k.md").symlink_to(folder / "a.md")
    (folder / "l").symlink_to(folder)
    (folder / "m.md").symlink_to(folder / "m.md")
    os.mkfifo(folder / "n.md")
    pieces = {Path(piece.file).name: piece for piece in INTAKE.items_from(folder)}

    assert {name for name, piece in pieces.items() if isinstance(piece, Read)} == {"a.md", "k.md"}
    assert {name: piece.why for name, piece in pieces.items() if isinstance(piece, Skipped)} == {
        ".git": Skip.HIDDEN,
        ".c.md": Skip.HIDDEN,
        "d.txt": Skip.BINARY,
        "e.md": Skip.BLANK,
        "f.jsonl": Skip.OTHER_KIND,
        "i.md": Skip.LINK,
        "j": Skip.LINK,
        "l": Skip.LINK,
        "m.md": Skip.OTHER_KIND,
        "n.md": Skip.OTHER_KIND,
    }
    assert {name: piece.code for name, piece in pieces.items() if isinstance(piece, Problem)} == {
        "g.md": Refusal.NOT_UTF8,
        "h.md": Refusal.TOO_LARGE,
    }


def test_the_clock_of_a_file_may_be_anything(tmp_path: Path) -> None:
    path = written(tmp_path / "a.md", b"text")
    os.utime(path, (0, 2**40))

    assert [item.text for item in docs(path)] == ["text"]


def test_the_bytes_ahead_are_the_bytes_that_were_gone_through(tmp_path: Path) -> None:
    lines = written(tmp_path / "a.jsonl", b"\n".join([line("a"), b"{", line("b"), b"x" * 500]))
    folder = tmp_path / "folder"
    for name in ("a.md", "b/c.txt", "d.png"):
        written(folder / name, b"x" * 50)

    assert size_of(lines) == sum(piece.size for piece in INTAKE.items_from(lines)) == lines.stat().st_size
    assert size_of(folder) == sum(piece.size for piece in INTAKE.items_from(folder)) == 100
    assert size_of(tmp_path / "absent") == 0


@pytest.mark.parametrize(
    "suffix, text, title",
    [
        (".md", "# Deploys\n", "Deploys"),
        (".md", "text\n\n### The **second** ###\n# Third", "The **second**"),
        (".md", "Deploys\n=======\n\n# Later", "Deploys"),
        (".md", "```sh\n# a comment\n```\n\n## Deploys", "Deploys"),
        (".md", "---\ntitle: x\n---\n\n# Deploys", "x"),
        (".md", "---\nsection: 7\ntitle: 'How we deploy'\n---\nText.", "How we deploy"),
        (".md", "---\ntitle:\n---\n\n# Deploys", "Deploys"),
        (".md", "#hashtag\n#\n# \nno heading", ""),
        (".md", "a | b\n--- | ---\n1 | 2", ""),
        (".md", "", ""),
        (".rst", "Deploys\n~~~~~~~\n", "Deploys"),
        (".rst", "=======\nDeploys\n=======\n", "Deploys"),
        (".rst", "# no heading\n\n====\n\n====", ""),
        (".txt", "# Deploys\n", ""),
    ],
)
def test_a_title_is_what_the_front_matter_states_or_the_first_heading(suffix: str, text: str, title: str) -> None:
    assert title_of(text, suffix) == title


@given(content=st.binary(max_size=300), suffix=st.sampled_from([".jsonl", ".md", ".rst", ".dat"]))
def test_whatever_bytes_a_file_holds_nothing_is_raised(tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str) -> None:
    path = written(tmp_path_factory.getbasetemp() / f"any{suffix}", content)

    for piece in INTAKE.items_from(path):
        assert piece.file.endswith(path.name)


def test_a_fact_that_was_read_is_a_fact(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", line("a", importance=0.5))

    assert docs(path) == [Fact(id="a", text="Deploys restart.", importance=0.5)]
