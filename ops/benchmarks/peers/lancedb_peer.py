"""Drives lancedb, embedded: hybrid by reciprocal ranks, the tenant as an indexed column filtered before the search."""

from __future__ import annotations

import lancedb
import pyarrow as pa
from asked import LIMIT, Ask, Question, Work
from lancedb.index import FTS, BTree, HnswSq
from lancedb.rerankers import RRFReranker

NAME = "lancedb"
LANES = "words and vectors"


async def load(work: Work, folder: str) -> None:
    database = await lancedb.connect_async(folder)
    fields = [("id", pa.string()), ("org", pa.string()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), work.dimensions))]
    table = await database.create_table("rows", schema=pa.schema(fields), mode="overwrite")
    for rows in work.batches(10_000):
        await table.add([{"id": row.id, "org": row.org, "text": row.text, "vector": row.vector.tolist()} for row in rows])
    await table.create_index("text", config=FTS())
    await table.create_index("org", config=BTree())
    await table.create_index("vector", config=HnswSq(distance_type="cosine"))


async def asking(_: Work, folder: str) -> Ask:
    table = await (await lancedb.connect_async(folder)).open_table("rows")
    reranker = RRFReranker(K=60)

    async def ask(question: Question) -> list[str]:
        search = table.query().where(f"org = '{question.org}'").nearest_to(question.vector.tolist()).nearest_to_text(question.text)
        found = await search.rerank(reranker).limit(LIMIT).select(["id"]).to_list()
        return [each["id"] for each in found][:LIMIT]

    return ask
