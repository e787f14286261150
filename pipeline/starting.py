"""Starting: an engine over the store behind a URL, made of its settings, with all that it needs, and closed at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from remit.pipeline.analysis import Analyser
from remit.pipeline.authority import AsStated, Authority, FromStore
from remit.pipeline.config import Config, load
from remit.pipeline.continuing import Continuations
from remit.pipeline.counting import Counts, HostCounter, counter_named
from remit.pipeline.crews import Crews
from remit.pipeline.digests import config_digest, digest_of
from remit.pipeline.embedding.minilm import MiniLMModel
from remit.pipeline.embedding.streams import Streams, streams_of
from remit.pipeline.engine import Engine
from remit.pipeline.freshness import Check, FileChecker, Query
from remit.pipeline.indexing import Indexer
from remit.pipeline.opening import opened
from remit.pipeline.recall import Kit
from remit.pipeline.receipts import Keeper
from remit.pipeline.reranking import Rerankers, rerankers_of
from remit.pipeline.roots import Roots
from remit.pipeline.sealing import Seal
from remit.pipeline.vectors import Completing
from remit.pipeline.watching import watch_of
from remit.stages.ports import Embedder, Reranker, TokenCounter

Clock = Callable[[], datetime]


def now_in_utc() -> datetime:
    return datetime.now(UTC)


def time_of_the_loop() -> Callable[[], float]:
    """The clock that deadlines are counted on, of the event loop that runs now: to find it takes twenty times as long as to read it."""
    try:
        return asyncio.get_running_loop().time
    except RuntimeError:  # trio's is found by looking anyway
        return anyio.current_time


@asynccontextmanager
async def open_engine(
    store: str,
    *,
    config: Config | str | Path | Mapping[str, Any] | None = None,
    clock: Clock = now_in_utc,
    checkers: Mapping[str, Check] | None = None,
    queries: Mapping[str, Query] | None = None,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    counter: Callable[[str], int | Awaitable[int]] | None = None,
    authority: Authority | None = None,
    receipts: str | Path | None = None,
    rebuild: bool = False,
) -> AsyncIterator[Engine]:
    """Opens a store by its URL (`sqlite:PATH`, `postgresql://…`, `embedded:DIR`, `memory:`) and yields an `Engine`; closes it at the end.

    `config` is laid over the shipped one; `clock` gives aware times; `checkers` look at origins by URI scheme and `queries`, by name,
    at `sql:` ones; `embedder` takes the place of the configured streams and `reranker` of the configured reranker; `counter` counts
    tokens as the caller's model does; `authority` says at each call what a principal is granted. `rebuild` opens a store whose words
    were indexed with another language, to index it anew.
    Raises `ConfigError`, and `StorageUnavailable` with what to do.
    """
    settings = config if isinstance(config, Config) else load(config)
    seal = Seal.of(os.environ)
    analyser = Analyser(settings.analysis.language)
    embedding = settings.embedding.minilm
    model = MiniLMModel(threads=embedding.threads, run_tokens=embedding.run_tokens)
    streams = streams_of(settings, analyser, own=embedder, model=model, environment=os.environ, clock=clock)
    rerankers = rerankers_of(settings, own=reranker, model=model, environment=os.environ, clock=clock)
    await streams.load()
    tokens = HostCounter(counter) if counter else _loaded(settings.context.counter)
    async with _closing(streams, rerankers), opened(store, settings, analyser.signature, rebuild=rebuild) as own:
        roots = Roots(own, settings.freshness.roots)
        files = FileChecker(roots, most_bytes=settings.freshness.most_bytes, threads=settings.freshness.workers)
        watch = watch_of(settings, files, checkers or {}, queries or {})
        indexer = Indexer(analyser, streams.hashes(), settings.chunking, tokens)
        kit = Kit(
            config=settings,
            finder=own,
            reader=own,
            checker=watch,
            streams=streams,
            rerankers=rerankers,
            counter=tokens,
            counts=Counts(tokens, settings.context.counted_passages),
            analyser=analyser,
            crews=Crews(settings.recall.crews),
            clock=clock,
            time=time_of_the_loop(),
        )
        identity = await own.identity()
        configured = config_digest(settings)
        named = digest_of([identity, analyser.signature, streams.spaces(), configured])
        kept_at = receipts or settings.receipts.file
        yield Engine(
            config=settings,
            store=own,
            kit=kit,
            indexer=indexer,
            whole=Completing(indexer, streams),
            authority=authority or (FromStore(own) if settings.authority.grants == "store" else AsStated()),
            continuations=Continuations(seal, settings, named, clock),
            seal=seal,
            identity=identity,
            configured=configured,
            receipts=Keeper(Path(kept_at), settings.receipts, seal) if kept_at else None,
            roots=roots,
            files=files,
            watch=watch,
        )


@asynccontextmanager
async def _closing(streams: Streams, rerankers: Rerankers) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await streams.aclose()
            await rerankers.aclose()


def _loaded(name: str) -> TokenCounter:
    """A model's counter with its vocabulary in memory: loading it takes up to a third of a second, which no recall should wait for."""
    counter = counter_named(name)
    counter.load()
    return counter
