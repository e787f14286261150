"""A real provider, of others, offline: it finds what a question means; when another model answers than was asked, words do."""

from __future__ import annotations

from typing import Any

import pytest
from peers import DIMENSIONS, MODEL
from stories.world import ADA, NewStore, engine_at, ids

from remit.pipeline import Fact, Request

FACTS = [
    Fact(id="ferry", text="Our ferry leaves the harbour at noon."),
    Fact(id="invoice", text="Invoices are paid within thirty days."),
    Fact(id="cat", text="The cat sleeps on the sofa."),
]
QUESTION = Request(query="When does the boat depart?", sources=("fact",))


def asking_for(model: str) -> dict[str, Any]:
    openai = {"model": model, "dimensions": DIMENSIONS, "questionPrefix": "query: ", "passagePrefix": "passage: ", "questionSeconds": 60.0}
    return {"embedding": {"provider": "openai", "openai": openai | {"passageSeconds": 60.0}}, "outbound": {"embeddingOrgs": ["acme"]}}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_finds_what_no_word_would(new_other_store: NewStore, e5: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_EMBEDDINGS_URL", e5)
    async with engine_at(new_other_store(), config=asking_for(MODEL)) as engine:
        receipts = await engine.remember(FACTS, ADA)
        answer = await engine.recall(QUESTION, ADA)

    assert [(receipt.written, receipt.detail) for receipt in receipts] == [("stored", "")] * 3
    assert ids(answer)[0] == "ferry"
    assert answer.data[0].matchedBy == "vector"
    assert "semantic" in answer.data[0].ranks
    assert answer.meta.mode.embedding["semantic"].state == "ready"
    assert answer.meta.mode.embedding["semantic"].coverage == 1.0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_under_the_name_of_another_model_it_is_refused_and_words_answer(
    new_other_store: NewStore, e5: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMIT_EMBEDDINGS_URL", e5)
    async with engine_at(new_other_store(), config=asking_for("e5-query")) as engine:
        receipts = await engine.remember(FACTS, ADA)
        answer = await engine.recall(Request(query="the ferry"), ADA)

    assert [(receipt.written, receipt.detail) for receipt in receipts] == [("stored", "vector pending: model")] * 3
    assert ids(answer) == ["ferry"]
    assert "semantic" not in answer.data[0].ranks
    assert "embedding_incompatible" in answer.meta.mode.degraded
