"""Converters: a public collection as memories and a gold file for `remit eval`, written wherever is said, and never into the repository.

    python ops/benchmarks/converters.py COLLECTION FOLDER

COLLECTION holds `corpus.jsonl` (`id`, `text`, and for conversations `group`) and `queries.jsonl` (`id`, `text`, `relevant`, `group`),
and of conversations perhaps the original with the dates of their sessions. FOLDER gets `memories.jsonl` and `gold.jsonl`:

    remit eval FOLDER/gold.jsonl --memories FOLDER/memories.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MOMENT = datetime(2026, 11, 30, 12, tzinfo=UTC)
"""When everything was written and is asked, where a collection states no times."""

ORIGINAL = "locomo10.json"
DATED = "%I:%M %p on %d %B, %Y"
A_TURN = timedelta(seconds=30)
"""The original dates sessions, not turns: so much lies between one turn and the next."""

ORG = "bench"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@dataclass(frozen=True, slots=True)
class Times:
    """When each turn was said, and when the last one of each conversation was; empty where no original states it."""

    said: Mapping[str, datetime] = field(default_factory=dict)
    over: Mapping[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, collection: Path) -> Times:
        original = collection / ORIGINAL
        if not original.is_file():
            return cls()
        said = {
            f"{group}/{turn['dia_id']}": began + place * A_TURN
            for group, conversation in enumerate(json.loads(original.read_text(encoding="utf-8")))
            for began, turns in _sessions(conversation["conversation"])
            for place, turn in enumerate(turns)
        }
        over: dict[str, datetime] = {}
        for turn, when in said.items():
            group = turn.partition("/")[0]
            over[group] = max(when, over.get(group, when))
        return cls(said, over)

    def end_of(self, group: str | None) -> datetime:
        """The end of a conversation: what the age of its turns is counted from, alike for all, and when it is asked about."""
        return self.over.get(group or "", MOMENT)


def _sessions(conversation: Mapping[str, Any]) -> Iterator[tuple[datetime, list[dict[str, Any]]]]:
    for name, turns in conversation.items():
        if isinstance(turns, list):
            yield datetime.strptime(conversation[f"{name}_date_time"], DATED).replace(tzinfo=UTC), turns


def memory_of(row: dict[str, Any], times: Times) -> dict[str, Any] | None:
    """A turn of a conversation is a session in the scope of that conversation, anything else a global doc; None for an empty text."""
    if not row["text"].strip():
        return None
    memory = {"source": "doc", "id": str(row["id"]), "org": ORG, "scope": "global", "text": row["text"], "createdAt": MOMENT.isoformat()}
    if (group := row.get("group")) is None:
        return memory
    end = times.end_of(group)
    said = times.said.get(row["id"], end)
    return memory | {
        "source": "session",
        "scope": f"conversation:{group}",
        "createdAt": said.isoformat(),
        "endedAt": end.isoformat(),
    }


def case_of(query: dict[str, Any], times: Times) -> dict[str, Any] | None:
    """A judged question, asked when its conversation is over by somebody who may read that one only. Even conversations decide, odd ones
    report; of collections without conversations, the same by the number of the question."""
    if not query["relevant"]:
        return None
    group = query.get("group")
    source = "doc" if group is None else "session"
    return {
        "name": str(query["id"]),
        "query": query["text"],
        "principal": {"actor": "reader", "org": ORG, "scopes": [] if group is None else [f"conversation:{group}"]},
        "asOf": times.end_of(group).isoformat(),
        "relevant": [f"{source}:{each}" for each in query["relevant"]],
        "request": {"sources": [source]},
        "half": ("decide", "report")[int(query["id"] if group is None else group) % 2],
    }


def memories_of(collection: Path) -> Iterator[dict[str, Any]]:
    times = Times.of(collection)
    return (memory for row in lines(collection / "corpus.jsonl") if (memory := memory_of(row, times)) is not None)


def cases_of(collection: Path) -> Iterator[dict[str, Any]]:
    times = Times.of(collection)
    return (case for query in lines(collection / "queries.jsonl") if (case := case_of(query, times)) is not None)


def converted(collection: Path, folder: Path) -> tuple[int, int]:
    """Writes both files; how many memories and cases there are. Raises `OSError` before it writes for what is not there."""
    for name in ("corpus.jsonl", "queries.jsonl"):
        (collection / name).stat()
    folder.mkdir(parents=True, exist_ok=True)
    return _written(folder / "memories.jsonl", memories_of(collection)), _written(folder / "gold.jsonl", cases_of(collection))


def _written(path: Path, objects: Iterable[dict[str, Any]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for each in objects:
            file.write(json.dumps(each, ensure_ascii=False) + "\n")
            count += 1
    return count


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__)
        return 2
    try:
        memories, cases = converted(Path(arguments[0]), Path(arguments[1]))
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{memories} memories and {cases} cases in {arguments[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
