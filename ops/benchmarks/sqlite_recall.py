"""Speed of a whole recall on SQLite, beside hand-written SQL for the same candidates in the same minute."""

from __future__ import annotations

import gc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw
from corpus import memories, questions
from figures import in_turn, percentile, ratio, row, spread
from sqlite_by_hand import LIMIT, by_hand

from remit.pipeline import Engine, Principal, Request, open_engine
from remit.pipeline.storage import migrations, sqlite
from remit.stages.access import Access
from remit.stages.ports import Wanted

ASKED, WARMING, TIMES = 240, 40, 5

Rows = list[dict[str, Any]]


async def made(path: Path, orgs: int, rows: int) -> Path:
    """A store of `orgs` tenants with `rows` memories each, beside `path`; one that this schema made before is used again."""
    files = migrations.read(Path(sqlite.__file__).parent / "migrations")
    path = path.with_stem(f"{path.stem}_{blake2b(''.join(each.checksum for each in files).encode(), digest_size=3).hexdigest()}")
    if path.exists():
        return path
    unfinished = path.with_suffix(".making")
    unfinished.unlink(missing_ok=True)
    async with open_engine(f"sqlite:{unfinished}") as engine:
        for number in range(orgs):
            org = f"org{number}"
            writer = Principal(actor="bench", org=org, scopes="*")
            async for _ in engine.remember_stream(memories(org, rows, number), writer):
                pass
    return unfinished.rename(path)


async def against_sql_by_hand(folder: Path, *, orgs: int = 200, rows: int = 500) -> Rows:
    """A recall of 500 own of 100,000 rows, five stages, spans on, beside the same candidates by hand; and, for what they tell of where
    its time goes, the statements that it ran again by themselves, and it without its store's work."""
    path = await made(folder / f"recall-{orgs}x{rows}.db", orgs, rows)
    own = orgs // 2
    reader = Principal(actor="bench", org=f"org{own}", scopes=())
    async with open_engine(f"sqlite:{path}", config={"sqlite": {"readers": 1}}) as engine, by_hand(path, reader.org) as hand:
        again = {question: await _heard(engine, question, reader) for question in questions(ASKED + WARMING, 1, rows, own)}
        gc.freeze()  # what is kept of recalls to be run again is nothing that a recall would have to look through
        (line,) = engine.store._readers._lines

        async def whole(question: str) -> Any:
            return await engine.recall(Request(query=question, limit=LIMIT), reader)

        async def bare(question: str) -> None:
            await line.run(lambda db: _run(db, again[question].statements))

        async def python(question: str) -> None:
            await _with_store(engine, Replayed(again[question].store)).recall(Request(query=question, limit=LIMIT), reader)

        asked, ways = list(again), (whole, hand.recall, bare, python)
        await in_turn(asked[:WARMING], *ways)
        runs = [await in_turn(asked[WARMING:], *ways) for _ in range(TIMES)]
        stages = [(await whole(question)).meta.stages for question in asked]
    return [*_beside(runs), {"name": "stages, p50 ms: " + _halves(stages)}]


def _beside(runs: Sequence[Sequence[Sequence[float]]]) -> Rows:
    whole, hand, bare, python = ([each for run in runs for each in run[way]] for way in range(4))
    ratios = {f"p{which}": ratio(whole, hand, which) for which in (50, 95)}
    return [
        row("whole recall", whole),
        row("hand-written SQL", hand),
        {"name": "whole / by hand", **ratios, "target": "2.0", "spread": spread([ratio(run[0], run[1], 50) for run in runs])},
        row("its own statements, run again by themselves", bare),
        {"name": "whole / those", "p50": ratio(whole, bare, 50), "p95": ratio(whole, bare, 95)},
        row("it without store work", python),
    ]


def _halves(stages: Sequence[Sequence[Any]]) -> str:
    """Of each stage, half of the times, in milliseconds."""
    seconds: dict[str, list[float]] = {}
    for stage in (each for recall in stages for each in recall):
        seconds.setdefault(stage.stage, []).append(stage.seconds)
    return ", ".join(f"{name} {percentile(taken, 50) * 1000:.2f}" for name, taken in seconds.items())


@dataclass(frozen=True)
class Heard:
    """One recall, overheard: what its store answered, and the statements that ran for it, with their bindings."""

    store: Remembered
    statements: Sequence[tuple[str, Any]]


async def _heard(engine: Engine, question: str, reader: Principal) -> Heard:
    statements: list[tuple[str, Any]] = []

    def noted(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
        statements.append((sql, dict(bindings) if isinstance(bindings, Mapping) else bindings))
        return True

    (line,) = engine.store._readers._lines
    store = Remembered(engine.store)
    await line.run(lambda db: setattr(db, "exec_trace", noted))
    await _with_store(engine, store).recall(Request(query=question, limit=LIMIT), reader)
    await line.run(lambda db: setattr(db, "exec_trace", None))
    return Heard(store, statements)


def _run(db: apsw.Connection, statements: Sequence[tuple[str, Any]]) -> None:
    for sql, bindings in statements:
        db.execute(sql, bindings).fetchall()


class Remembered:
    """A store that keeps what it answered to one recall."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.answers: dict[str, list[Any]] = {"find": [], "outlines": [], "around": [], "vocabulary": [], "read": []}

    async def find(self, *asked: Any) -> Any:
        return self._kept("find", await self._store.find(*asked))

    async def outlines(self, keys: Collection[int], access: Any) -> Any:
        return self._kept("outlines", await self._store.outlines(keys, access))

    async def around(self, *asked: Any) -> Any:
        return self._kept("around", await self._store.around(*asked))

    async def vocabulary(self, *asked: Any) -> Any:
        return self._kept("vocabulary", await self._store.vocabulary(*asked))

    async def read(self, *asked: Any) -> Any:
        return self._kept("read", await self._store.read(*asked))

    def _kept(self, name: str, answer: Any) -> Any:
        self.answers[name].append(answer)
        return answer


class Replayed:
    """A store that gives the same answers again at once: what is left is the Python of a recall."""

    def __init__(self, remembered: Remembered) -> None:
        self._answers = {name: iter(answers) for name, answers in remembered.answers.items()}

    async def find(self, wanted: Wanted, _: Access) -> Any:
        found = next(self._answers["find"])
        if wanted.likely is not None:
            wanted.likely(replace(found, outlines=None))
        return found

    async def outlines(self, *_: Any) -> Any:
        return next(self._answers["outlines"])

    async def around(self, *_: Any) -> Any:
        return next(self._answers["around"])

    async def vocabulary(self, *_: Any) -> Any:
        return next(self._answers["vocabulary"])

    async def read(self, *_: Any) -> Any:
        return next(self._answers["read"])


def _with_store(engine: Engine, store: Any) -> Engine:
    return replace(engine, kit=replace(engine.kit, finder=store, reader=store))


async def against_foreign_rows(folder: Path, *, own: int = 1000, asked: int = 200) -> Rows:
    """The same 1,000 own rows among 0, 10,000 and 100,000 rows of other tenants: every question asked of all three in turn."""
    sizes = (0, 10_000, 100_000)
    paths = {size: await made(folder / f"foreign-{size}.db", 1 + size // own, own) for size in sizes}
    times: dict[int, list[float]] = {size: [] for size in sizes}
    reader = Principal(actor="bench", org="org0", scopes=())
    async with (
        open_engine(f"sqlite:{paths[sizes[0]]}") as none,
        open_engine(f"sqlite:{paths[sizes[1]]}") as some,
        open_engine(f"sqlite:{paths[sizes[2]]}") as many,
    ):
        for number, question in enumerate(questions(asked + 20, 1, own, 0)):
            for size, engine in zip(sizes, (none, some, many), strict=True):
                began = perf_counter()
                await engine.recall(Request(query=question, limit=LIMIT), reader)
                if number >= 20:
                    times[size].append(perf_counter() - began)
    rows = [row(f"{own:,} own rows, {size:,} foreign", times[size]) for size in sizes]
    return [*rows, {"name": "most / none", "p50": ratio(times[sizes[-1]], times[0], 50), "p95": "", "target": "1.3"}]
