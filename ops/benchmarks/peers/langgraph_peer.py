"""Drives langgraph-checkpoint-postgres: AsyncPostgresStore, a namespace a tenant; vectors only, for it has no search by words."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from asked import CLIENTS, LIMIT, Ask, Question, Work
from langgraph.store.base import PutOp
from langgraph.store.postgres.aio import AsyncPostgresStore

NAME = "langgraph-checkpoint-postgres"
LANES = "vectors"
KEPT = AsyncExitStack()


async def opened(work: Work, dsn: str) -> Any:
    vectors = {row.text: row.vector for row in work.rows}

    async def embed(texts: list[str]) -> list[list[float]]:
        return [vectors[text].tolist() if text in vectors else work.probe(text) for text in texts]

    index = {"dims": work.dimensions, "embed": embed, "fields": ["text"], "ann_index_config": {"kind": "hnsw", "vector_type": "vector"}}
    pool = {"min_size": 1, "max_size": CLIENTS}
    store = await KEPT.enter_async_context(AsyncPostgresStore.from_conn_string(dsn, index=index, pool_config=pool))
    await store.setup()
    return store


async def load(work: Work, dsn: str) -> None:
    store = await opened(work, dsn)
    for rows in work.batches(500):
        await store.abatch([PutOp(namespace=(row.org,), key=row.id, value={"text": row.text}) for row in rows])


async def asking(work: Work, dsn: str) -> Ask:
    store = await opened(work, dsn)

    async def ask(question: Question) -> list[str]:
        return [each.key for each in await store.asearch((question.org,), query=question.text, limit=LIMIT)]

    return ask
