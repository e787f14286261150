"""The stores that the behaviour suite runs against. Nothing here can be overridden by a store: all keep the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count

import pytest

from remit.pipeline.config import load
from remit.pipeline.storage.memory import open_memory
from remit.pipeline.storage.sqlite import open_sqlite
from remit.pipeline.storage.store import Store

Open = Callable[[], AbstractAsyncContextManager[Store]]

SIGNATURE = "by spaces"
KINDS = ("memory", "sqlite", "sqlite as if large")


def opener(kind: str, folder: pytest.TempPathFactory) -> Open:
    """Opens a new, empty store of a kind each time it is called. "As if large" takes the ways that big stores take."""
    settings = load().sqlite
    if kind == "sqlite as if large":
        settings = replace(settings, readers=1, seek_shelves=1, whole_vectors=0, vector_slack=1, check_steps=1)
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


@pytest.fixture(params=KINDS)
def open_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Open:
    return opener(request.param, tmp_path_factory)


@pytest.fixture
async def store(open_store: Open) -> AsyncIterator[Store]:
    async with open_store() as opened:
        yield opened


@pytest.fixture(params=KINDS[1:])
def open_other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Opens a store that is not the oracle."""
    return opener(request.param, tmp_path_factory)


@pytest.fixture
def open_oracle(tmp_path_factory: pytest.TempPathFactory) -> Open:
    return opener("memory", tmp_path_factory)
