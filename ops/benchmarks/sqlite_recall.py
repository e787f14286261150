"""Speed of a whole recall on SQLite, beside its own bare SQL run by hand on the same connection in the same minute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw
from corpus import memories, questions
from figures import percentile, ratio, row

from remit.pipeline import Engine, Principal, Request, open_engine
from remit.pipeline.storage import migrations, sqlite

LIMIT = 20


@dataclass
class Statements:
    """The statements that ran on a connection, in order, with their bindings."""

    seen: list[tuple[str, Any]] = field(default_factory=list)

    def __call__(self, _: apsw.Cursor, sql: str, bindings: Any) -> bool:
        self.seen.append((sql, dict(bindings) if isinstance(bindings, Mapping) else bindings))
        return True


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


async def against_bare_sql(folder: Path, *, orgs: int = 200, rows: int = 500, asked: int = 300) -> list[dict[str, Any]]:
    """A recall of 500 own of 100,000 rows, five stages, spans on; the SQL it ran, again by hand; and it without its SQL."""
    path = await made(folder / f"recall-{orgs}x{rows}.db", orgs, rows)
    own = orgs // 2
    whole, bare, python, stages = [], [], [], {}
    async with open_engine(f"sqlite:{path}", config={"sqlite": {"readers": 1}}) as engine:
        reader = Principal(actor="bench", org=f"org{own}", scopes=())
        (line,) = engine.store._readers._lines
        for number, question in enumerate(questions(asked + 20, 1, rows, own)):
            request = Request(query=question, limit=LIMIT)
            statements = Statements()
            await line.run(lambda db, trace=statements: setattr(db, "exec_trace", trace))
            remembering = Remembered(engine.store)
            await _with_store(engine, remembering).recall(request, reader)
            await line.run(lambda db: setattr(db, "exec_trace", None))
            began = perf_counter()
            answer = await engine.recall(request, reader)
            took = perf_counter() - began
            by_hand = await line.run(lambda db, seen=statements.seen: _by_hand(db, seen))
            began = perf_counter()
            await _with_store(engine, Replayed(remembering)).recall(request, reader)
            without = perf_counter() - began
            if number >= 20:
                whole.append(took)
                bare.append(by_hand)
                python.append(without)
                for stage in answer.meta.stages:
                    stages.setdefault(stage.stage, []).append(stage.seconds)
    return [
        row("whole recall", whole),
        row("its bare SQL by hand", bare),
        row("it without store work", python),
        {"name": "whole / bare", "p50": ratio(whole, bare, 50), "p95": ratio(whole, bare, 95), "target": "2.0"},
        {"name": "stages, p50 ms", **{name: round(percentile(values, 50) * 1000, 3) for name, values in stages.items()}},
    ]


def _by_hand(db: apsw.Connection, statements: Sequence[tuple[str, Any]]) -> float:
    began = perf_counter()
    for sql, bindings in statements:
        db.execute(sql, bindings).fetchall()
    return perf_counter() - began


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

    async def find(self, *_: Any) -> Any:
        return next(self._answers["find"])

    async def outlines(self, *_: Any) -> Any:
        return next(self._answers["outlines"])

    async def around(self, *_: Any) -> Any:
        return next(self._answers["around"])

    async def vocabulary(self, *_: Any) -> Any:
        return next(self._answers["vocabulary"])

    async def read(self, *_: Any) -> Any:
        return next(self._answers["read"])


def _with_store(engine: Engine, store: Any) -> Engine:
    from dataclasses import replace

    return replace(engine, kit=replace(engine.kit, finder=store, reader=store))


async def against_foreign_rows(folder: Path, *, own: int = 1000, asked: int = 200) -> list[dict[str, Any]]:
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
