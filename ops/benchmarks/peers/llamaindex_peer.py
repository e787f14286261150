"""Drives llama-index-vector-stores-postgres: PGVectorStore in hybrid mode, HNSW and GIN."""

from __future__ import annotations

from asked import LIMIT, Ask, Question, Work
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.vector_stores.postgres import PGVectorStore

NAME = "llama-index-vector-stores-postgres"
LANES = "words and vectors"


def opened(work: Work, dsn: str) -> PGVectorStore:
    return PGVectorStore.from_params(
        connection_string=dsn.replace("postgresql://", "postgresql+psycopg2://"),
        async_connection_string=dsn.replace("postgresql://", "postgresql+asyncpg://"),
        table_name="peer_llamaindex",
        embed_dim=work.dimensions,
        hybrid_search=True,
        use_jsonb=True,
        indexed_metadata_keys={("org", "text")},
        hnsw_kwargs={"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_ef_search": 100, "hnsw_dist_method": "vector_cosine_ops"},
    )


async def load(work: Work, dsn: str) -> None:
    store = opened(work, dsn)
    for rows in work.batches(1000):
        store.add([TextNode(id_=row.id, text=row.text, embedding=row.vector.tolist(), metadata={"org": row.org}) for row in rows])


async def asking(work: Work, dsn: str) -> Ask:
    store = opened(work, dsn)

    async def ask(question: Question) -> list[str]:
        query = VectorStoreQuery(
            query_embedding=question.vector.tolist(),
            query_str=question.text,
            mode=VectorStoreQueryMode.HYBRID,
            similarity_top_k=LIMIT,
            sparse_top_k=LIMIT,
            hybrid_top_k=LIMIT,
            filters=MetadataFilters(filters=[MetadataFilter(key="org", value=question.org)]),
        )
        return [node.node_id for node in (await store.aquery(query)).nodes or []][:LIMIT]

    return ask
