"""A long file taken in by the command as a user does it, exported and imported elsewhere: peaks of memory, and time row for row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio.to_thread
import psycopg
from corpus import texts
from psycopg import sql

from remit.pipeline.config import load
from remit.pipeline.opening import made_for
from remit.pipeline.storage.postgres.server import started

LINES, FEWER = 1_000_000, 100_000
"""Taken in on SQLite, and on Postgres."""

DISTINCT = 50_000
"""Texts made; the rest are these again with a word more, for making a million would take longer than taking them in."""

TICKS = os.sysconf("SC_CLK_TCK")

Figures = list[dict[str, Any]]


async def long_import(folder: Path, *, lines: int = LINES, fewer: int = FEWER) -> Figures:
    """`remit add` of a million lines of JSON into a new SQLite store, `remit export` of it, `remit import` of that; fewer on Postgres."""
    return await on_sqlite(folder, lines) + await on_postgres(folder, fewer)


async def on_sqlite(folder: Path, lines: int) -> Figures:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("long-*.db*"):
        old.unlink()
    stores = [f"sqlite:{folder / f'long-{name}.db'}" for name in ("first", "second")]
    return await anyio.to_thread.run_sync(partial(_carried, f"SQLite, {lines} lines", folder, stores, lines))


async def on_postgres(folder: Path, lines: int) -> Figures:
    folder.mkdir(parents=True, exist_ok=True)
    server = await started(folder / "long-postgres", load().embedded)
    try:
        names = ("first", "second")
        with psycopg.connect(server.dsn(), autocommit=True) as owner:
            for name in names:
                owner.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
                owner.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
                await made_for(server.dsn(name), load())
        stores = [server.dsn(name) for name in names]
        return await anyio.to_thread.run_sync(partial(_carried, f"Postgres, {lines} lines", folder, stores, lines))
    finally:
        await server.close()


def _carried(name: str, folder: Path, stores: list[str], lines: int) -> Figures:
    file, carried = folder / f"lines-{lines}.jsonl", folder / "carried.jsonl"
    if not file.exists():
        _write(file, lines)
    first, second = stores
    with carried.open("wb") as out:
        return [
            _figures(f"{name}: add", lines, "--store", first, "add", str(file)),
            _figures(f"{name}: export", lines, "--store", first, "export", out=out),
            _figures(f"{name}: import", lines, "--store", second, "import", str(carried)),
        ]


def _figures(name: str, lines: int, *arguments: str, out: Any = None) -> dict[str, Any]:
    """Lines a second, the peak of memory in MB, and how the last tenth of the lines compares with the first, by the clock and in CPU time.

    The clock is told of other work on the machine as well; the CPU time is that of the command alone, without a database's server.
    """
    tenth = lines // 10
    marks: list[tuple[float, float]] = []
    with subprocess.Popen([str(Path(sys.executable).parent / "remit"), *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            if number % tenth == 0:
                marks.append((perf_counter(), _cpu_seconds(process.pid)))
            if out is not None:
                out.write(line)
        marks.append((perf_counter(), _cpu_seconds(process.pid)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert number + 1 >= lines
    if out is not None:
        out.flush()
    tenths = [tuple(later - earlier for earlier, later in zip(*both, strict=True)) for both in pairwise(marks)]
    return {
        "name": name,
        "lines a second": round(lines / (marks[-1][0] - marks[0][0])),
        "peak MB": round(usage.ru_maxrss / 1024),
        "target MB": 500,
        "last / first": round(tenths[-1][0] / tenths[0][0], 2),
        "CPU, last / first": round(tenths[-1][1] / tenths[0][1], 2),
        "target": 1.3,
        "CPU of each tenth, s": " ".join(f"{cpu:.1f}" for _, cpu in tenths),
    }


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _write(file: Path, lines: int) -> None:
    made = list(texts(DISTINCT, 3, 12))
    with file.open("w", encoding="utf-8") as out:
        for number in range(lines):
            text = f"{made[number % DISTINCT]} {number // DISTINCT}"
            out.write(json.dumps({"source": "fact", "id": f"m{number:07}", "text": text}) + "\n")
