"""Drives langchain-postgres: PGVectorStore, hybrid by reciprocal ranks, HNSW and GIN."""

from __future__ import annotations

from uuid import UUID

from asked import LIMIT, Ask, Question, Work
from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig, reciprocal_rank_fusion
from langchain_postgres.v2.indexes import HNSWIndex

NAME = "langchain-postgres"
LANES = "words and vectors"
TABLE = "peer_langchain"


class Given(Embeddings):
    """The vectors that the work states."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._work.probe(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._work.probe(text)


def hybrid() -> HybridSearchConfig:
    return HybridSearchConfig(
        tsv_column="content_tsv",
        tsv_lang="pg_catalog.english",
        fusion_function=reciprocal_rank_fusion,
        fusion_function_parameters={"rrf_k": 60, "fetch_top_k": LIMIT},
        primary_top_k=LIMIT,
        secondary_top_k=LIMIT,
    )


def engine(dsn: str) -> PGEngine:
    return PGEngine.from_connection_string(dsn.replace("postgresql://", "postgresql+psycopg://"))


async def opened(work: Work, dsn: str) -> PGVectorStore:
    return await PGVectorStore.create(engine(dsn), Given(work), TABLE, metadata_columns=["org"], hybrid_search_config=hybrid(), k=LIMIT)


async def load(work: Work, dsn: str) -> None:
    await engine(dsn).ainit_vectorstore_table(
        TABLE, work.dimensions, metadata_columns=[Column("org", "TEXT")], overwrite_existing=True, hybrid_search_config=hybrid()
    )
    store = await opened(work, dsn)
    for rows in work.batches(1000):
        await store.aadd_embeddings(
            [row.text for row in rows],
            [row.vector.tolist() for row in rows],
            [{"org": row.org} for row in rows],
            [str(UUID(int=int(row.id))) for row in rows],
        )
    await store.aapply_vector_index(HNSWIndex())
    await store.aapply_hybrid_search_index()


async def asking(work: Work, dsn: str) -> Ask:
    store = await opened(work, dsn)

    async def ask(question: Question) -> list[str]:
        found = await store.asimilarity_search(question.text, k=LIMIT, filter={"org": question.org})
        return [str(UUID(str(each.id)).int) for each in found]

    return ask
