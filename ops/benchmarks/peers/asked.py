"""Takes the work in through one peer, in the peer's own environment, asks it, and prints what was measured as one line of JSON.

`python asked.py PEER WORK PLACE LOADED [VARIANT]`: PEER is a module beside this one, WORK the folder that `against_peers.py` made, PLACE a
DSN, URL or folder, LOADED the file that says that the rows are there, VARIANT a way of asking that PEER knows.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import resource
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

LIMIT = 20
CLIENTS = 8
WARM = 20


@dataclass(frozen=True)
class Row:
    id: str
    org: str
    text: str
    vector: Any


@dataclass(frozen=True)
class Question:
    """A question of one tenant, its vector, and the row that it was made from."""

    shape: str
    org: str
    text: str
    vector: Any
    wanted: str


@dataclass(frozen=True)
class Work:
    """Rows of all tenants and questions inside one; `vectors` float32 unit vectors, row by row."""

    rows: Sequence[Row]
    questions: Sequence[Question]
    dimensions: int

    @classmethod
    def read(cls, folder: Path) -> Work:
        vectors, probes = np.load(folder / "vectors.npy"), np.load(folder / "probes.npy")
        rows = [Row(**json.loads(line), vector=vector) for line, vector in zip(lines(folder / "rows.jsonl"), vectors, strict=True)]
        questions = [
            Question(**json.loads(line), vector=probe) for line, probe in zip(lines(folder / "questions.jsonl"), probes, strict=True)
        ]
        return cls(rows=rows, questions=questions, dimensions=vectors.shape[1])

    def batches(self, size: int) -> list[Sequence[Row]]:
        return [self.rows[start : start + size] for start in range(0, len(self.rows), size)]

    def probe(self, text: str) -> list[float]:
        """The vector of a question's text, for a peer that insists on embedding it itself."""
        return self._probes[text]

    @property
    def _probes(self) -> dict[str, list[float]]:
        if not hasattr(self, "_kept"):
            object.__setattr__(self, "_kept", {each.text: each.vector.tolist() for each in self.questions})
        return self._kept  # type: ignore[attr-defined,no-any-return]


Ask = Callable[[Question], Any]


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


async def main(peer: str, folder: str, place: str, marker: str, *variant: str) -> None:
    module = importlib.import_module(peer)
    work = Work.read(Path(folder))
    loaded = Path(marker)
    result: dict[str, Any] = {"peer": module.NAME, "lanes": module.LANES}
    if not loaded.exists():
        began = perf_counter()
        await awaited(module.load(work, place))
        loaded.write_text(json.dumps({"seconds": round(perf_counter() - began, 1)}))
    result["loadSeconds"] = json.loads(loaded.read_text())["seconds"]
    ask = await awaited(module.asking(work, place, *variant))
    for shape in dict.fromkeys(each.shape for each in work.questions):
        result[shape] = await measured(
            ask, [each for each in work.questions if each.shape == shape], {row.id: row.org for row in work.rows}
        )
    result["memoryMegabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(result))


async def measured(ask: Ask, questions: Sequence[Question], org_of: dict[str, str]) -> dict[str, Any]:
    """One client, then eight; how many rows came back, whether the wanted one was among them, and how many were another tenant's."""
    seconds, returned, foreign, found = [], 0, 0, 0
    for number, question in enumerate(questions):
        began = perf_counter()
        ids = await awaited(ask(question))
        if number < WARM:
            continue
        seconds.append(perf_counter() - began)
        returned += len(ids)
        foreign += sum(org_of[each] != question.org for each in ids)
        found += question.wanted in ids
    throughput = await crowd(ask, questions)
    asked = len(seconds)
    return {
        "p50": round(percentile(seconds, 50) * 1000, 3),
        "p95": round(percentile(seconds, 95) * 1000, 3),
        "aSecondAtEight": round(throughput, 1),
        "returned": round(returned / asked, 2),
        "found": round(found / asked, 3),
        "foreign": foreign,
    }


async def crowd(ask: Ask, questions: Sequence[Question]) -> float:
    """Questions a second with eight clients: tasks of one loop where the peer is asynchronous, threads where it is not."""
    waiting = list(questions)
    began = perf_counter()
    if inspect.iscoroutinefunction(ask):

        async def client() -> None:
            while waiting:
                await ask(waiting.pop())

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
    else:
        with ThreadPoolExecutor(CLIENTS) as pool:
            await asyncio.gather(*(asyncio.get_running_loop().run_in_executor(pool, partial(ask, each)) for each in waiting))
    return len(questions) / (perf_counter() - began)


def percentile(values: Sequence[float], which: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * which // 100)]


async def awaited(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
