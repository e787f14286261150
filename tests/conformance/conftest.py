"""The stores that the behaviour suite runs against. Nothing here can be overridden by a store: all keep the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count

import pytest
from conformance.worlds import SIGNATURE
from databases import OWNER, Stock, login

from remit.pipeline.config import load
from remit.pipeline.storage.memory import open_memory
from remit.pipeline.storage.postgres import open_postgres
from remit.pipeline.storage.sqlite import open_sqlite
from remit.pipeline.storage.store import Store

Open = Callable[[], AbstractAsyncContextManager[Store]]


KINDS = ("memory", "sqlite", "sqlite as if large", "postgres", "postgres behind a pooler")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Postgres is the same on both event loops, so one is enough for its second kind."""
    left = [item for item in items if "trio-postgres behind a pooler" in item.name]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def opener(kind: str, request: pytest.FixtureRequest) -> Open:
    """Opens a new, empty store of a kind each time it is called. "As if large" takes the ways that big stores take, "behind a pooler"
    those that one needs which keeps neither prepared statements nor anything else from one transaction to the next."""
    if kind.startswith("postgres"):
        return _postgres_opener(kind, request.getfixturevalue("stock"))
    folder: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    settings = load().sqlite
    if kind == "sqlite as if large":
        settings = replace(settings, readers=1, seek_shelves=1, whole_vectors=0, vector_slack=1, check_steps=10)
    numbers = count()

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        if kind == "memory":
            store: Store = await open_memory(SIGNATURE)
        else:
            store = await open_sqlite(str(folder.mktemp("store") / f"{next(numbers)}.db"), settings, SIGNATURE)
        try:
            yield store
        finally:
            await store.close()

    return opened


def _postgres_opener(kind: str, stock: Stock) -> Open:
    settings = load().postgres
    if kind == "postgres behind a pooler":
        settings = replace(settings, prepare=False, remembered_accesses=0, vector_slack=1, connections=1)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        with stock.database() as dsn:
            async with await open_postgres(login(dsn, OWNER), settings, SIGNATURE) as store:
                yield store

    return opened


@pytest.fixture(params=KINDS)
def open_store(request: pytest.FixtureRequest) -> Open:
    return opener(request.param, request)


@pytest.fixture
async def store(open_store: Open) -> AsyncIterator[Store]:
    async with open_store() as opened:
        yield opened


@pytest.fixture(params=KINDS[1:])
def open_other(request: pytest.FixtureRequest) -> Open:
    """Opens a store that is not the oracle."""
    return opener(request.param, request)


@pytest.fixture
def open_oracle(request: pytest.FixtureRequest) -> Open:
    return opener("memory", request)
