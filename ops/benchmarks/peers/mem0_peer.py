"""Drives mem0ai without inference, over pgvector: what a user searches once the facts are there."""

from __future__ import annotations

import os
from typing import Any
from uuid import UUID

os.environ["MEM0_TELEMETRY"] = "false"

from asked import LIMIT, Ask, Question, Work
from mem0 import Memory
from mem0.utils.lemmatization import lemmatize_for_bm25

NAME = "mem0ai"
LANES = "words and vectors"


class Given:
    """The vectors that the work states, in the place of an embedding model."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def embed(self, text: str, _: str | None = None) -> list[float]:
        return self._work.probe(text)

    def embed_batch(self, texts: list[str], _: str | None = None) -> list[list[float]]:
        return [self._work.probe(text) for text in texts]


def opened(work: Work, dsn: str) -> Any:
    store = {"connection_string": dsn, "collection_name": "peer_mem0", "embedding_model_dims": work.dimensions, "hnsw": True, "maxconn": 8}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": store},
            "llm": {"provider": "openai", "config": {"api_key": "never asked"}},
            "embedder": {"provider": "openai", "config": {"api_key": "never asked"}},
            "history_db_path": ":memory:",
        }
    )
    memory.embedding_model = Given(work)
    return memory


def load(work: Work, dsn: str) -> None:
    """Through its own store's `insert`, with the payload that `add(infer=False)` makes: one `add` a row would take an hour."""
    store = opened(work, dsn).vector_store
    for rows in work.batches(1000):
        payloads = [{"data": row.text, "text_lemmatized": lemmatize_for_bm25(row.text), "user_id": row.org, "hash": row.id} for row in rows]
        store.insert([row.vector.tolist() for row in rows], payloads, [str(UUID(int=int(row.id))) for row in rows])


def asking(work: Work, dsn: str) -> Ask:
    memory = opened(work, dsn)

    def ask(question: Question) -> list[str]:
        found = memory.search(question.text, filters={"user_id": question.org}, top_k=LIMIT, threshold=0.0)
        return [str(UUID(each["id"]).int) for each in found["results"]]

    return ask
