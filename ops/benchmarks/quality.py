"""Retrieval quality on public collections: recall@20 and nDCG@10 of whole recalls, lane by lane and fused, each question in its group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import log2
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np
from converters import ORG, cases_of, memories_of
from numpy.typing import NDArray

from remit.pipeline import Principal, open_engine
from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.evaluation.measures import interval
from remit.pipeline.faces.wire import item_from, request_from

SETS = ("locomo", "cranfield", "cacm", "cisi", "npl")
LIMIT = 20
RESAMPLES = 1000
HALVES = ("decide", "report")

Rows = list[dict[str, Any]]

BEFORE = {
    "locomo": (".668/.473", ".242/.108", ".546/.297", ".494/.279", ".631/.406"),
    "cranfield": (".517/.381", ".204/.151", ".529/.400", ".405/.282", ".573/.434"),
    "cacm": (".472/.483", ".093/.066", ".426/.443", ".345/.295", ".509/.544"),
    "cisi": (".166/.333", ".042/.092", ".199/.418", ".118/.240", ".207/.423"),
    "npl": (".299/.441", ".062/.092", ".338/.435", ".231/.282", ".363/.498"),
}
"""Measured before anything of Remit was there, recall@20/nDCG@10 over all questions: plain in-scope BM25, a 128-bin hash, MiniLM, and
BM25 fused by reciprocal ranks with equal weights with the hash and with MiniLM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to ask: the configuration laid over the shipped one, which of the figures measured before it stands beside, the lane that a
    card must have been found by, where one lane is looked at alone, and the ways that ask one lane each of what is fused here."""

    name: str
    beside: int
    config: Mapping[str, Any] = field(default_factory=dict)
    lane: str | None = None
    fuses: tuple[str, ...] = ()


NOTHING = {"embedding": {"provider": "none"}}
MODEL = {"embedding": {"provider": "minilm"}}
ALONE = {"recall": {"turns": {"anchors": 0}}}
"""Every turn of a conversation by itself: the plain recall that the time is compared with."""

HASH = "hash, all compared"

MODES = (
    Mode(name="words, each turn alone", beside=0, config={**NOTHING, **ALONE}),
    Mode(name="words", beside=0, config=NOTHING),
    Mode(name="MiniLM", beside=2, config={**MODEL, "recall": {"fusion": {"weights": {"lexical": 0.0, "local": 0.0}}}}, lane="semantic"),
    Mode(name="words and hash", beside=3, config={"embedding": {"provider": "local"}}, fuses=("words", HASH)),
    Mode(name="words, hash and MiniLM", beside=4, config=MODEL, fuses=("words", HASH, "MiniLM")),
)


def recalled(found: Sequence[str], relevant: set[str], most: int) -> float:
    """The part of the relevant ids among the first `most`."""
    return len(relevant & set(found[:most])) / len(relevant)


def gain(found: Sequence[str], relevant: set[str], most: int) -> float:
    """nDCG with binary relevance: 1 when every relevant id comes first."""
    got = sum(1 / log2(place + 2) for place, name in enumerate(found[:most]) if name in relevant)
    best = sum(1 / log2(place + 2) for place in range(min(most, len(relevant))))
    return got / best


async def taken_in(collection: Path, store: str, config: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Takes a collection in: a conversation's turns as sessions of its scope, abstracts as global docs."""
    started = perf_counter()
    host = Principal(actor="bench", org=ORG, scopes="*")
    async with open_engine(store, config=config or MODEL) as engine:
        stored = [receipt async for receipt in engine.remember_stream(map(item_from, memories_of(collection)), host)]
    return {"rows": len(stored), "seconds": round(perf_counter() - started, 2)}


async def measure(collection: Path, store: str, mode: Mode, half: str | None = None) -> Figures:
    """Asks every judged question of a collection that was taken in, or of one half of them, in one way."""
    figures = Figures()
    async with open_engine(store, config=mode.config) as engine:
        for case in cases_of(collection):
            if half is not None and case["half"] != half:
                continue
            request = request_from({**case["request"], "query": case["query"], "limit": LIMIT, "asOf": case["asOf"]})
            reader = Principal(actor="reader", org=ORG, scopes=tuple(case["principal"]["scopes"]))
            began = perf_counter()
            answer = await engine.recall(request, reader)
            seconds = perf_counter() - began
            found = [f"{card['source']}:{card['id']}" for card in answer.data if mode.lane is None or mode.lane in card["ranks"]]
            figures.add(found, set(case["relevant"]), seconds)
    return figures


async def measured_by_hash(collection: Path, half: str | None = None) -> Figures:
    """The hash alone, every text compared: whole texts, and nothing that words would forbid it."""
    hashed = LocalHash(Analyser(load().analysis.language))
    figures = Figures()
    of_scope: dict[str, tuple[list[str], NDArray[np.float32]]] = {}
    memories = sorted(memories_of(collection), key=lambda each: each["scope"])
    for scope, rows in groupby(memories, key=lambda each: str(each["scope"])):
        texts = {f"{row['source']}:{row['id']}": row["text"] for row in rows}
        of_scope[scope] = list(texts), await hashed.embed(list(texts.values()))
    for case in cases_of(collection):
        if half is None or case["half"] == half:
            names, vectors = of_scope[(case["principal"]["scopes"] or ["global"])[0]]
            began = perf_counter()
            nearest = np.argsort(-(vectors @ hashed.vector_of(case["query"])), kind="stable")[:LIMIT]
            figures.add([names[place] for place in nearest], set(case["relevant"]), perf_counter() - began)
    return figures


class Figures:
    """What each question gave, in their order."""

    def __init__(self) -> None:
        self.of: dict[str, list[float]] = {"recall@20": [], "nDCG@10": []}
        self._cards: list[int] = []
        self._seconds: list[float] = []

    def add(self, found: Sequence[str], relevant: set[str], seconds: float) -> None:
        self.of["recall@20"].append(recalled(found, relevant, LIMIT))
        self.of["nDCG@10"].append(gain(found, relevant, 10))
        self._cards.append(len(found))
        self._seconds.append(seconds)

    def told(self) -> dict[str, Any]:
        return {
            "questions": len(self._cards),
            **{measure: round(mean(values), 3) for measure, values in self.of.items()},
            "cards": round(mean(self._cards), 1),
            "p50 ms": round(median(self._seconds) * 1000, 1),
        }

    def beyond(self, lanes: Sequence[Figures]) -> dict[str, str]:
        """How much more this gave than the best of its lanes, question by question, with the interval of the mean."""
        told = {}
        for measure, values in self.of.items():
            best = max((lane.of[measure] for lane in lanes), key=mean)
            low, high = interval([mine - its for mine, its in zip(values, best, strict=True)], resamples=RESAMPLES, seed=0)
            told[f"{measure} beyond best"] = f"{mean(values) - mean(best):+.3f} [{low:+.3f}, {high:+.3f}]"
        return told


async def quality(data: Path, folder: Path, names: Sequence[str] = SETS) -> Rows:
    """The table: each collection once, and each way to ask by halves: the even half decided, the odd one is reported."""
    rows: Rows = []
    for name in names:
        store = folder / f"quality-{name}.db"
        for file in (store, *_beside(store)):
            file.unlink(missing_ok=True)
        await taken_in(data / name, f"sqlite:{store}")
        for half in HALVES:
            of = {HASH: await measured_by_hash(data / name, half)}
            rows.append({"name": f"{name}, {half}: {HASH}", **of[HASH].told(), "before": BEFORE[name][1]})
            for mode in MODES:
                figures = of[mode.name] = await measure(data / name, f"sqlite:{store}", mode, half)
                beyond = figures.beyond([of[lane] for lane in mode.fuses]) if mode.fuses else {}
                rows.append({"name": f"{name}, {half}: {mode.name}", **figures.told(), "before": BEFORE[name][mode.beside], **beyond})
    return rows


def _beside(store: Path) -> Iterator[Path]:
    return (store.with_name(store.name + end) for end in ("-wal", "-shm"))
