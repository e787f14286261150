"""Where the time of a recall goes: per stage, per statement, Python against the database, and a flame graph by py-spy.

`python profiling.py URL SECONDS` is what py-spy looks at: recalls, one after the other.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import apsw
from corpus import questions
from figures import percentile
from postgres_made import made as made_in_postgres
from postgres_made import serving
from sqlite_recall import LIMIT, made

from remit.pipeline import Engine, Principal, Request, open_engine
from remit.pipeline.storage.postgres.line import ROLLBACK, Line
from remit.pipeline.storage.postgres.statements import Command

ORGS, ROWS, ASKED, WARMING, RECORDED = 200, 500, 200, 20, 10
ORG = f"org{ORGS // 2}"
PROFILER = "py-spy==0.4.3"

Seconds = dict[str, list[float]]
Rows = list[dict[str, Any]]


async def profiles(folder: Path) -> Rows:
    """500 own of 100,000 rows on both stores. The flame graphs are written into the folder, for a browser and for speedscope."""
    path = await made(folder / f"recall-{ORGS}x{ROWS}.db", ORGS, ROWS)
    rows = [*await _on_sqlite(f"sqlite:{path}"), *await _flames(folder, "sqlite", f"sqlite:{path}")]
    async with serving(folder) as server:
        dsn = await made_in_postgres(server, "crowd128", {f"org{number}": (ROWS, number) for number in range(ORGS)}, 128)
        return [*rows, *await _on_postgres(dsn), *await _flames(folder, "postgres", dsn)]


async def _on_sqlite(url: str) -> Rows:
    """SQLite tells of each statement how long it took, in whole milliseconds: of many recalls the sums are right."""
    inside: Seconds = defaultdict(list)
    async with open_engine(url, config={"sqlite": {"readers": 1}}) as engine:
        (line,) = engine.store._readers._lines
        names = {sql: name for name, sql in engine.store._sql.items()}

        def told(event: Any) -> None:
            inside[names.get(event["sql"].strip(), "begin and end")].append(event["nanoseconds"] / 1e9)

        await _asked(engine, WARMING)
        await line.run(lambda db: db.trace_v2(apsw.SQLITE_TRACE_PROFILE, told))
        whole, stages = await _asked(engine, ASKED)
        await line.run(lambda db: db.trace_v2(0))
    return _rows("SQLite", whole, stages, inside)


async def _on_postgres(dsn: str) -> Rows:
    """Each statement that a recall sent is sent again alone, less an empty exchange; what exchanges took as they were is the database's."""
    exchanges: list[float] = []
    async with open_engine(dsn) as engine:
        await _asked(engine, WARMING)
        with _overheard(exchanges) as sent:
            whole, stages = await _asked(engine, ASKED)
        inside = await _alone(engine, sent)
    rows = _rows("Postgres", whole, stages, inside)
    round_trips = {
        "name": "Postgres: in exchanges, waiting included",
        "ms a recall": _ms(sum(exchanges) / ASKED),
        "times": len(exchanges) / ASKED,
    }
    return [*rows, round_trips | {"share": _share(sum(exchanges), sum(whole))}]


@contextmanager
def _overheard(exchanges: list[float]) -> Iterator[list[Sequence[Command]]]:
    """What is sent meanwhile, exchange by exchange, and how long each took."""
    sent: list[Sequence[Command]] = []
    exchange = Line.exchange

    async def timed(line: Line, commands: Sequence[Command], *, until: float) -> Any:
        began = perf_counter()
        try:
            return await exchange(line, commands, until=until)
        finally:
            exchanges.append(perf_counter() - began)
            sent.append(commands)

    Line.exchange = timed  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        Line.exchange = exchange  # type: ignore[method-assign]


async def _alone(engine: Engine, sent: Sequence[Sequence[Command]]) -> Seconds:
    inside: Seconds = defaultdict(list)
    until = anyio.current_time() + 600
    async with engine.store._desk.pool.line(until) as line:
        empty = percentile([await _timed(line, []) for _ in range(100)], 50)
        for commands in sent:
            for command in commands:
                name = command.statement.name or "settings, begin and end"
                inside[name].append(max(0.0, await _timed(line, [command]) - empty))
        await line.exchange([ROLLBACK], until=until)
    # Half of the times for each time: of a round trip alone, what is beyond that is what else the machine did.
    return {name: [percentile(seconds, 50)] * len(seconds) for name, seconds in inside.items()}


async def _timed(line: Line, commands: Sequence[Command]) -> float:
    began = perf_counter()
    await line.exchange(commands, until=anyio.current_time() + 60)
    return perf_counter() - began


async def _asked(engine: Engine, times: int) -> tuple[list[float], Seconds]:
    return await _recalls(engine, questions(times, 1, ROWS, int(ORG[3:])))


async def _recalls(engine: Engine, asked: Sequence[str]) -> tuple[list[float], Seconds]:
    """Seconds of whole recalls, and of their stages."""
    whole, stages = list[float](), defaultdict[str, list[float]](list)
    reader = Principal(actor="bench", org=ORG, scopes=())
    for question in asked:
        began = perf_counter()
        answer = await engine.recall(Request(query=question, limit=LIMIT), reader)
        whole.append(perf_counter() - began)
        for stage in answer.meta.stages:
            stages[stage.stage].append(stage.seconds)
    return whole, stages


def _rows(store: str, whole: Sequence[float], stages: Mapping[str, Sequence[float]], inside: Mapping[str, Sequence[float]]) -> Rows:
    """Means of a recall, which add up, and shares of the whole."""
    every, database = sum(whole), sum(map(sum, inside.values()))
    parts = {"whole recall": whole, **{f"stage {name}": seconds for name, seconds in stages.items()}}
    rows = [_row(store, name, seconds, every) for name, seconds in parts.items()]
    rows.append({"name": f"{store}: statements", "ms a recall": _ms(database / ASKED), "share": _share(database, every)})
    rows.append(
        {
            "name": f"{store}: all else, Python above all",
            "ms a recall": _ms((every - database) / ASKED),
            "share": _share(every - database, every),
        }
    )
    dearest = sorted(inside.items(), key=lambda each: -sum(each[1]))
    return rows + [_row(store, f"statement {name}", seconds, every) for name, seconds in dearest]


def _row(store: str, name: str, seconds: Sequence[float], every: float) -> dict[str, Any]:
    told = {"ms a recall": _ms(sum(seconds) / ASKED), "share": _share(sum(seconds), every), "times": round(len(seconds) / ASKED, 2)}
    return {"name": f"{store}: {name}", "p50": _ms(percentile(seconds, 50)), **told}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


async def _flames(folder: Path, store: str, url: str) -> Rows:
    """Both pictures of recalls that go on for some seconds, in a process of their own."""
    spy, rows = await anyio.to_thread.run_sync(_profiler, folder), []
    for kind, ending in (("flamegraph", "svg"), ("speedscope", "speedscope.json")):
        file = folder / f"flame-{store}.{ending}"
        asking = [sys.executable, str(Path(__file__)), url, str(RECORDED)]
        line = [str(spy), "record", "--rate", "200", "--format", kind, "--output", str(file), "--", *asking]
        await anyio.to_thread.run_sync(lambda line=line: subprocess.run(line, check=True, capture_output=True))
        rows.append({"name": f"{store}: {kind} in {file}"})
    return rows


def _profiler(folder: Path) -> Path:
    """py-spy, in an environment of its own."""
    home = folder / "profiler"
    if not (home / "bin" / "py-spy").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", PROFILER], check=True)
    return home / "bin" / "py-spy"


async def _going_on(url: str, seconds: str) -> None:
    asked = questions(ASKED, 1, ROWS, int(ORG[3:]))
    async with open_engine(url) as engine:
        until = perf_counter() + float(seconds)
        while perf_counter() < until:
            await _recalls(engine, asked)


if __name__ == "__main__":
    anyio.run(_going_on, *sys.argv[1:])
