"""Reindexing: the passages, words and vectors of every memory of a store made again, as after another analyser was chosen."""

from __future__ import annotations

from collections.abc import Callable

from remit.pipeline.indexing import Indexer
from remit.pipeline.storage.store import Store
from remit.stages.evidence import MemoryId


async def reindex(store: Store, indexer: Indexer, *, batch: int, told: Callable[[int], None] = lambda _: None) -> int:
    """Indexes all memories of all orgs anew, `batch` in a transaction, and returns how many; `told` hears the number so far.

    Only at the end does the store say that it is of this analyser: stopped before, it is begun again. Versions stay.
    Raises `StorageUnavailable`.
    """
    done = 0
    after: tuple[str, MemoryId] | None = None
    while records := await store.records(after, batch):
        await store.reindexed([await indexer.entry(entry.record) for _, entry in records])
        org, last = records[-1]
        after = (org, last.record.id)
        done += len(records)
        told(done)
    await store.signed()
    return done
