"""Drives pgvector-haystack: an embedding and a keyword retriever side by side, joined by reciprocal ranks, HNSW and GIN."""

from __future__ import annotations

import asyncio

from asked import LIMIT, Ask, Question, Work
from haystack import Document
from haystack.components.joiners import DocumentJoiner
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import Secret
from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever, PgvectorKeywordRetriever
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

NAME = "pgvector-haystack"
LANES = "words and vectors"


def opened(work: Work, dsn: str, *, recreate: bool = False) -> PgvectorDocumentStore:
    return PgvectorDocumentStore(
        connection_string=Secret.from_token(dsn),
        table_name="peer_haystack",
        embedding_dimension=work.dimensions,
        search_strategy="hnsw",
        hnsw_ef_search=100,
        recreate_table=recreate,
        hnsw_recreate_index_if_exists=recreate,
    )


def load(work: Work, dsn: str) -> None:
    store = opened(work, dsn, recreate=True)
    for rows in work.batches(1000):
        documents = [Document(id=row.id, content=row.text, meta={"org": row.org}, embedding=row.vector.tolist()) for row in rows]
        store.write_documents(documents, policy=DuplicatePolicy.OVERWRITE)


def asking(work: Work, dsn: str) -> Ask:
    store = opened(work, dsn)
    nearest, words = PgvectorEmbeddingRetriever(document_store=store), PgvectorKeywordRetriever(document_store=store)
    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=LIMIT)

    async def ask(question: Question) -> list[str]:
        filters = {"field": "meta.org", "operator": "==", "value": question.org}
        by_vector, by_word = await asyncio.gather(
            nearest.run_async(query_embedding=question.vector.tolist(), filters=filters, top_k=LIMIT),
            words.run_async(query=question.text, filters=filters, top_k=LIMIT),
        )
        return [each.id for each in joiner.run(documents=[by_vector["documents"], by_word["documents"]])["documents"]]

    return ask
