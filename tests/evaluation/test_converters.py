"""Converters: a public collection as memories and cases, its turns at the times they were said."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from remit.pipeline.faces.wire import item_from

CONVERTERS = runpy.run_path(str(Path(__file__).parents[2] / "ops" / "benchmarks" / "converters.py"))


def written(folder: Path, name: str, rows: Iterable[object]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def converted(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    assert CONVERTERS["converted"](folder, folder / "out") == tuple(
        len((folder / "out" / name).read_text().splitlines()) for name in ("memories.jsonl", "gold.jsonl")
    )
    memories, cases = (
        [json.loads(line) for line in (folder / "out" / name).read_text().splitlines()] for name in ("memories.jsonl", "gold.jsonl")
    )
    for memory in memories:
        item_from(memory)
    return memories, cases


def test_turns_follow_each_other_and_age_from_the_end_of_their_conversation(tmp_path: Path) -> None:
    turns = [{"dia_id": f"D1:{number}"} for number in (1, 2)]
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns, "session_2_date_time": "12:09 am on 9 May, 2023"}
    written(tmp_path, "corpus.jsonl", [{"id": f"0/D{place}", "text": "Hi", "group": "0"} for place in ("1:1", "1:2", "2:1")])
    written(tmp_path, "queries.jsonl", [{"id": "0-0", "text": "Who?", "relevant": ["0/D1:2"], "group": "0"}])
    original = [{"conversation": {**conversation, "session_2": [{"dia_id": "D2:1"}]}}]
    (tmp_path / "locomo10.json").write_text(json.dumps(original), encoding="utf-8")

    memories, cases = converted(tmp_path)

    assert [memory["createdAt"] for memory in memories] == [
        "2023-05-08T13:56:00+00:00",
        "2023-05-08T13:56:30+00:00",
        "2023-05-09T00:09:00+00:00",
    ]
    assert {memory["endedAt"] for memory in memories} == {cases[0]["asOf"]} == {"2023-05-09T00:09:00+00:00"}
    assert {memory["scope"] for memory in memories} == {"conversation:0"}
    assert (cases[0]["relevant"], cases[0]["half"]) == (["session:0/D1:2"], "decide")


def test_abstracts_are_global_docs_and_questions_nobody_judged_are_left_out(tmp_path: Path) -> None:
    written(tmp_path, "corpus.jsonl", [{"id": "1", "text": "An abstract."}, {"id": "2", "text": " "}])
    written(tmp_path, "queries.jsonl", [{"id": "3", "text": "What?", "relevant": ["1"]}, {"id": "4", "text": "Why?", "relevant": []}])

    memories, cases = converted(tmp_path)

    assert [(memory["source"], memory["id"], memory["scope"]) for memory in memories] == [("doc", "1", "global")]
    assert [(case["name"], case["relevant"], case["half"], case["principal"]["scopes"]) for case in cases] == [
        ("3", ["doc:1"], "report", [])
    ]
