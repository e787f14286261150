"""Converters: a public collection as memories and a gold file for `remit eval`, written wherever is said, and never into the repository.

    python ops/benchmarks/converters.py COLLECTION FOLDER

COLLECTION holds `corpus.jsonl` (`id`, `text`, and for conversations `group`) and `queries.jsonl` (`id`, `text`, `relevant`, `group`).
FOLDER gets `memories.jsonl` and `gold.jsonl`:

    remit eval FOLDER/gold.jsonl --memories FOLDER/memories.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MOMENT = "2026-11-30T12:00:00Z"
"""When everything was written and is asked: the collections state no times that questions depend on."""

ORG = "bench"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def memory_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """A turn of a conversation is a session in the scope of that conversation, anything else a global doc; None for an empty text."""
    if not row["text"].strip():
        return None
    grouped = "group" in row
    scope = f"conversation:{row['group']}" if grouped else "global"
    return {
        "source": "session" if grouped else "doc",
        "id": str(row["id"]),
        "org": ORG,
        "scope": scope,
        "text": row["text"],
        "createdAt": MOMENT,
    }


def case_of(query: dict[str, Any]) -> dict[str, Any] | None:
    """A judged question, asked by somebody who may read its own conversation only; even conversations decide, odd ones report."""
    if not query["relevant"]:
        return None
    grouped = "group" in query
    source = "session" if grouped else "doc"
    return {
        "name": str(query["id"]),
        "query": query["text"],
        "principal": {"actor": "reader", "org": ORG, "scopes": [f"conversation:{query['group']}"] if grouped else []},
        "asOf": MOMENT,
        "relevant": [f"{source}:{each}" for each in query["relevant"]],
        "request": {"sources": [source]},
        "half": ("decide", "report")[int(query["group"]) % 2] if grouped else "report",
    }


def converted(collection: Path, folder: Path) -> tuple[int, int]:
    """Writes both files; how many memories and cases there are."""
    folder.mkdir(parents=True, exist_ok=True)
    memories = _written(folder / "memories.jsonl", map(memory_of, lines(collection / "corpus.jsonl")))
    cases = _written(folder / "gold.jsonl", map(case_of, lines(collection / "queries.jsonl")))
    return memories, cases


def _written(path: Path, objects: Iterable[dict[str, Any] | None]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for each in objects:
            if each is not None:
                file.write(json.dumps(each, ensure_ascii=False) + "\n")
                count += 1
    return count


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__)
        return 2
    memories, cases = converted(Path(arguments[0]), Path(arguments[1]))
    print(f"{memories} memories and {cases} cases in {arguments[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
