"""A long file taken in by the command as a user does it: its peak of memory, and whether the last tenth takes longer than the first."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio.to_thread
from corpus import texts

LINES = 1_000_000
DISTINCT = 50_000
"""Texts made; the rest are these again with a word more, for making a million would take longer than taking them in."""


async def long_import(folder: Path, *, lines: int = LINES) -> list[dict[str, Any]]:
    """`remit add` of a million lines of JSON into a new SQLite store."""
    folder.mkdir(parents=True, exist_ok=True)
    file, store = folder / f"lines-{lines}.jsonl", folder / "long-import.db"
    if not file.exists():
        _write(file, lines)
    for old in folder.glob(f"{store.name}*"):
        old.unlink()
    return await anyio.to_thread.run_sync(_taken_in, file, store, lines)


def _taken_in(file: Path, store: Path, lines: int) -> list[dict[str, Any]]:
    command = [str(Path(sys.executable).parent / "remit"), "--store", f"sqlite:{store}", "add", str(file)]
    marks = [perf_counter()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        for number, _ in enumerate(process.stdout, 1):
            if number % (lines // 10) == 0 and len(marks) <= 10:
                marks.append(perf_counter())
    assert process.returncode == 0
    tenths = [later - earlier for earlier, later in pairwise(marks)]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return [
        {"name": f"{lines} lines, a second", "value": round(lines / (marks[-1] - marks[0]))},
        {"name": "peak of memory, MB", "value": round(peak), "target": 500},
        {"name": "time of each tenth, s", "value": " ".join(f"{each:.1f}" for each in tenths)},
        {"name": "last tenth / first", "value": round(tenths[-1] / tenths[0], 2), "target": 1.3},
    ]


def _write(file: Path, lines: int) -> None:
    made = list(texts(DISTINCT, 3, 12))
    with file.open("w", encoding="utf-8") as out:
        for number in range(lines):
            text = f"{made[number % DISTINCT]} {number // DISTINCT}"
            out.write(json.dumps({"source": "fact", "id": f"m{number:07}", "text": text}) + "\n")
