"""Opening: the store behind a URL, its backend imported only when it is asked for, so that nobody pays for a driver they do not use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from remit.pipeline.analysis import Analyser
from remit.pipeline.config import Config
from remit.pipeline.errors import ConfigError, StorageUnavailable, UnsafeStorage
from remit.pipeline.storage.store import Store

EMBEDDED = "embedded:"
POSTGRES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What making a store did: the migrations that were carried out, and what a DBA must run because this login may not, if anything.

    `usable` says whether this login can open it as it is now. `store` is its URL as it may be shown, without a password;
    `new` that it was not there before, as far as that can be told from inside it.
    """

    store: str
    new: bool = True
    migrations: tuple[str, ...] = ()
    for_dba: str = ""
    usable: bool = True


@asynccontextmanager
async def opened(url: str, settings: Config, signature: str, *, rebuild: bool) -> AsyncIterator[Store]:
    """The store at `url`, closed at the end: `memory:`, `sqlite:PATH`, `postgresql://…`, or `embedded:DIR` with a server of its own.

    A SQLite file and an embedded server are made when they are missing; a database is made by `made`, with its owner's DSN.
    Raises as the backend does: `ConfigError`, `StorageUnavailable`, `UnsafeStorage`.
    """
    kind, _, rest = url.partition(":")
    if kind == "memory":
        from remit.pipeline.storage.memory.store import open_memory

        store: Store = await open_memory(signature)
    elif kind == "sqlite" and rest:
        from remit.pipeline.storage.sqlite.store import open_sqlite

        store = await open_sqlite(rest, settings.sqlite, signature, rebuild=rebuild)
    elif url.startswith(POSTGRES):
        from remit.pipeline.storage.postgres.store import open_postgres

        store = await open_postgres(url, settings.postgres, signature, rebuild=rebuild)
    elif kind == "embedded" and rest:
        async with _own_server(rest, settings) as dsn, AsyncExitStack() as stack:
            try:
                inside = await stack.enter_async_context(opened(dsn, settings, signature, rebuild=rebuild))
            except (StorageUnavailable, UnsafeStorage):
                # Not made yet, or by an earlier Remit. To make it at every opening would keep those who write waiting.
                await made(dsn, settings, signature)
                inside = await stack.enter_async_context(opened(dsn, settings, signature, rebuild=rebuild))
            yield inside
        return
    else:
        raise ConfigError("store: must be sqlite:PATH, postgresql://…, embedded:DIR or memory:")
    try:
        yield store
    finally:
        await store.close()


async def made(url: str, settings: Config, signature: str) -> Made:
    """Makes or upgrades the store at `url`, as its owner; what opens by itself needs nothing more."""
    if url.startswith(EMBEDDED):
        async with _own_server(url.removeprefix(EMBEDDED), settings) as dsn:
            return replace(await made(dsn, settings, signature), store=url)
    if not url.startswith(POSTGRES):
        return Made(store=url)
    from remit.pipeline.storage.postgres import making
    from remit.pipeline.storage.postgres.line import shown

    done = await making.made(url, settings.postgres, signature, semantic_dimensions=settings.embedding.semantic_dimensions)
    return Made(store=shown(url), new=done.new, migrations=done.migrations, for_dba=done.for_dba, usable=done.usable)


async def made_for(url: str, settings: Config) -> Made:
    """As `made`, for the analyser that the config names."""
    return await made(url, settings, Analyser(settings.analysis.language).signature)


@asynccontextmanager
async def _own_server(directory: str, settings: Config) -> AsyncIterator[str]:
    from remit.pipeline.storage.postgres.server import started

    server = await started(directory, settings.embedded)
    try:
        yield server.dsn()
    finally:
        await server.close()
