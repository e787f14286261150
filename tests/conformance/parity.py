"""Parity: seeded corpora go into every store, beside all those before them, and whole answers are compared with the plainest store's.

`python3 ops/dev parity` does it for as many seeds as you like; `test_parity.py` for the first thousand.
The plainest store holds one corpus at a time, and of it only what may matter. The others hold all of them, and what stands beside them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import astuple, dataclass, replace
from difflib import unified_diff
from functools import cache, lru_cache
from hashlib import sha256
from random import Random
from tempfile import TemporaryDirectory

import anyio
import numpy as np
from conformance.corpora import REGIMES, SEMANTIC, Asked, Change, Corpus, corpus
from numpy.typing import NDArray
from stories.populations import crm
from stories.world import NOW, PATIENT, Item, laid

from remit.pipeline import Answer, Engine, Principal, Receipt, Request, open_engine
from remit.pipeline.config import Config, load
from remit.pipeline.embedding.streams import Stream, Streams, Wholly
from remit.pipeline.errors import RemitError
from remit.pipeline.vectors import Completing
from remit.stages.evidence import Lane

DIMENSIONS = 768
PLAINEST = "memory"
MOST_PARTS = 3
AT_ONCE = 3
"""Seeds that are looked at side by side, so that one works while another waits for its database."""


class Meaning:
    """A host's embedder: a text points where the sum of its words does, and every word somewhere of its own."""

    lane, space, dimensions = Lane.SEMANTIC, "meaning:768", DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._of(text) for text in texts]) if texts else np.zeros((0, DIMENSIONS), np.float32)

    def _of(self, text: str) -> NDArray[np.float32]:
        summed = np.sum([_direction(word) for word in text.split() or [""]], axis=0)
        return (summed / np.linalg.norm(summed)).astype(np.float32)


@lru_cache(maxsize=10_000)
def _direction(word: str) -> NDArray[np.float64]:
    seed = int.from_bytes(sha256(word.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(DIMENSIONS)


@asynccontextmanager
async def engine_of(url: str, regime: int) -> AsyncIterator[Engine]:
    """An engine under a regime's configuration, its clock standing still."""
    async with open_engine(url, config=_configured(regime), clock=lambda: NOW, checkers={"crm": crm}) as engine:
        yield with_meaning(engine) if regime == SEMANTIC else engine


@cache
def _configured(regime: int) -> Config:
    return load(laid(PATIENT, REGIMES[regime]))


def with_meaning(engine: Engine) -> Engine:
    """The same engine with a semantic stream before the hash."""
    meaning = Meaning()
    streams = engine.kit.streams
    both = Streams([Stream(lane=Lane.SEMANTIC, questions=meaning, passages=Wholly(meaning)), *streams.all], streams.outbound, most_cached=0)
    return replace(engine, kit=replace(engine.kit, streams=both), whole=Completing(engine.indexer, both))


async def lived(engine: Engine, given: Corpus, store: str, *, among: bool) -> list[object]:
    """Takes a corpus in, in an order of this store's own; `among` others as well. Gives what became of the org's own memories."""
    random, receipts = Random(f"{given.seed} {store}"), dict[str, Receipt]()
    beside = list(given.unseen) if among else []
    if among and given.seed % 2:
        await _taken(engine, given.foreign)
    for layer in given.layers:
        items = [*layer, *beside]
        random.shuffle(items)
        told = await engine.remember(items, _writer(given.org))
        own = {f"{item.source}:{item.id}" for item in layer}
        receipts |= {each.id: each for each in told if each.id in own}
        beside = []
    if among and not given.seed % 2:
        await _taken(engine, given.foreign)
    return [*sorted(astuple(each) for each in receipts.values()), *[await _changed(engine, change, given) for change in given.changes]]


def _writer(org: str) -> Principal:
    return Principal(actor="writer", org=org, scopes="*")


async def _taken(engine: Engine, foreign: Sequence[Item]) -> None:
    if foreign:
        await engine.remember(foreign, _writer(str(foreign[0].org)))


async def _changed(engine: Engine, change: Change, given: Corpus) -> object:
    writer = _writer(given.org)
    match change.verb:
        case "supersede":
            return astuple(await engine.supersede(*change.names, writer))
        case "dispute":
            return astuple(await engine.dispute(*change.names, writer))
        case "forget":
            return astuple(await engine.forget(change.names, writer))
        case "revise" | "again":
            (name,) = change.names
            (item,) = [item for layer in given.layers for item in layer if f"{item.source}:{item.id}" == name]
            item = replace(item, text=f"{item.text} queue restart", key=None) if change.verb == "revise" else item
            return [astuple(each) for each in await engine.remember([item], writer)]
        case verb:
            return [astuple(each) for each in await getattr(engine, verb)(change.names, writer)]


async def told(engine: Engine, asked: Asked, who: Principal) -> str:
    """All of an answer but how long it took."""
    try:
        if asked.request is None:
            tokens, project = asked.brief
            return repr(astuple(await engine.brief(who, tokens=tokens, project=project)))
        if asked.about:
            return repr(await engine.why(asked.request, asked.about, who))
        return await _parts(engine, asked.request, who)
    except RemitError as error:
        return f"{type(error).__name__}: {error}"


async def _parts(engine: Engine, request: Request, who: Principal) -> str:
    """An answer and, where it says how to go on, what follows it."""
    answer = await engine.recall(request, who)
    parts = [timeless(answer)]
    while (token := answer.meta.get("continuation")) and len(parts) < MOST_PARTS:
        answer = await engine.recall(replace(request, continuation=token), who)
        parts.append(timeless(answer))
    return "\n".join(parts)


def timeless(answer: Answer) -> str:
    """A whole answer as it goes over the wire, without the seconds its stages took, its trace's id, and the seal of its store."""
    meta = {name: value for name, value in answer.meta.items() if name != "traceId"}
    if "continuation" in meta:
        meta["continuation"] = meta["continuation"] is not None
    meta["stages"] = [{name: value for name, value in stage.items() if name != "seconds"} for stage in answer.meta["stages"]]
    return json.dumps({"data": answer.data, "meta": meta}, allow_nan=False)


async def everything_told(engine: Engine, given: Corpus, store: str, *, among: bool) -> list[str]:
    """What a store says of a corpus, from the receipts to the answers."""
    became = await lived(engine, given, store, among=among)
    return [repr(became), *[await told(engine, asked, given.who) for asked in given.asked]]


@dataclass(frozen=True)
class Difference:
    """Where a store said something else than the plainest one: of which seed, in which place (0: the receipts), and what."""

    seed: int
    store: str
    place: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}, {self.store}, {self.place}", *self.lines])


async def differences(seeds: Iterable[int], urls: Mapping[str, str], tell: Callable[[Difference], None]) -> int:
    """Takes each seed's corpus into the plainest store and into those of `urls`, which keep it, and tells where they say otherwise.

    Gives how many answers were compared with the plainest store's.
    """
    left, compared = iter(seeds), 0
    async with AsyncExitStack() as stack:
        engines = {
            (store, regime): await stack.enter_async_context(engine_of(url, regime))
            for store, url in urls.items()
            for regime in range(len(REGIMES))
        }

        async def work() -> None:
            nonlocal compared
            for seed in left:
                given = corpus(seed)
                async with engine_of("memory:", given.regime) as plainest:
                    expected = await everything_told(plainest, given, PLAINEST, among=False)
                for store in urls:
                    said = await everything_told(engines[store, given.regime], given, store, among=True)
                    compared += len(said)
                    for difference in _differences(seed, store, expected, said):
                        tell(difference)

        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(work)
    return compared


def _differences(seed: int, store: str, expected: Sequence[str], said: Sequence[str]) -> Iterator[Difference]:
    for place, (one, other) in enumerate(zip(expected, said, strict=True)):
        if one != other:
            lines = unified_diff(_lines(one), _lines(other), PLAINEST, store, lineterm="", n=2)
            yield Difference(seed, store, place, tuple(lines))


def _lines(text: str) -> list[str]:
    if not text.startswith("{"):
        return text.replace("), (", "),\n(").splitlines()
    return [line for part in text.splitlines() for line in json.dumps(json.loads(part), indent=0).splitlines()]


async def digest(seeds: Iterable[int], url: str) -> str:
    """A hash of all that a store which is given these seeds one after the other tells of them, for comparing processes."""
    summed = sha256()
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(engine_of(url, regime)) for regime in range(len(REGIMES))]
        for seed in seeds:
            given = corpus(seed)
            for line in await everything_told(engines[given.regime], given, "digest", among=True):
                summed.update(line.encode("utf-8", "surrogatepass"))
    return summed.hexdigest()


def _seeds(first: int, many: int, regime: int | None) -> Iterator[int]:
    return (seed for seed in range(first, first + many) if regime is None or seed % len(REGIMES) == regime)


async def _compare(first: int, many: int, regime: int | None) -> int:
    found: list[Difference] = []

    def tell(difference: Difference) -> None:
        found.append(difference)
        sys.stdout.write(f"{difference}\n")

    with TemporaryDirectory() as folder:
        urls = {"sqlite": f"sqlite:{folder}/parity.db", "postgres": f"embedded:{folder}/postgres"}
        compared = await differences(_seeds(first, many, regime), urls, tell)
    sys.stdout.write(f"seeds {first} to {first + many - 1}: {compared} answers compared, {len(found)} differ\n")
    return len(found)


def main(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="parity", description="Compares whole answers of all stores over seeded corpora.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--regime", type=int, choices=range(len(REGIMES)), help="only seeds of one configuration")
    parser.add_argument(
        "--digest", metavar="URL", help="print a hash of all that this new, empty store tells of the seeds, and compare nothing"
    )
    given = parser.parse_args(arguments)
    if given.digest:
        sys.stdout.write(anyio.run(digest, _seeds(given.first, given.seeds, given.regime), given.digest))
        return 0
    return 1 if anyio.run(_compare, given.first, given.seeds, given.regime) else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
