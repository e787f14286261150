"""Drives chromadb, embedded: vectors with the tenant as metadata; it has no ranking by words."""

from __future__ import annotations

import chromadb
from asked import LIMIT, Ask, Question, Work
from chromadb.config import Settings

NAME = "chromadb"
LANES = "vectors"


def opened(folder: str) -> chromadb.ClientAPI:
    return chromadb.PersistentClient(path=folder, settings=Settings(anonymized_telemetry=False))


def load(work: Work, folder: str) -> None:
    collection = opened(folder).get_or_create_collection("rows", metadata={"hnsw:space": "cosine"}, embedding_function=None)
    for rows in work.batches(1000):
        collection.add(
            ids=[row.id for row in rows],
            embeddings=[row.vector.tolist() for row in rows],
            metadatas=[{"org": row.org} for row in rows],
            documents=[row.text for row in rows],
        )


def asking(_: Work, folder: str) -> Ask:
    collection = opened(folder).get_collection("rows", embedding_function=None)

    def ask(question: Question) -> list[str]:
        return collection.query(query_embeddings=[question.vector.tolist()], where={"org": question.org}, n_results=LIMIT)["ids"][0]

    return ask
