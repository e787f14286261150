"""A request's phrases must stand in what is found, word by word, whatever their case and punctuation. Rule 6."""

from __future__ import annotations

import pytest
from stories.world import ADA, NewStore, engine_at, ids

from remit.pipeline import Fact, Request
from remit.pipeline.errors import InvalidRequest

IN_ORDER = Fact(id="in-order", text="The Deploy-step restarts, crash the queue!")
SHUFFLED = Fact(id="shuffled", text="crash restarts deploy queue")


@pytest.mark.parametrize(
    "phrase", ["restarts, crash", "RESTARTS crash", "Deploy-step", "deploy-step restarts crash the queue", '"restarts" crash']
)
async def test_a_phrase_leaves_what_holds_its_words_in_order(new_store: NewStore, phrase: str) -> None:
    async with engine_at(new_store(), IN_ORDER, SHUFFLED) as engine:
        answer = await engine.recall(Request(query="crash deploy queue", phrases=(phrase,)), ADA)
    assert ids(answer) == ["in-order"]


@pytest.mark.parametrize("phrase", ["crash restarts deploy queue worker", "rash", "restart"])
async def test_a_phrase_that_stands_nowhere_leaves_nothing(new_store: NewStore, phrase: str) -> None:
    async with engine_at(new_store(), IN_ORDER, SHUFFLED) as engine:
        answer = await engine.recall(Request(query="crash deploy queue", phrases=(phrase,)), ADA)
    assert (ids(answer), answer.outcome) == ([], "nothing_found")


async def test_a_phrase_without_a_word_is_refused_by_name(new_store: NewStore) -> None:
    async with engine_at(new_store(), IN_ORDER) as engine:
        with pytest.raises(InvalidRequest, match=r"phrases\[1\]"):
            await engine.recall(Request(query="crash", phrases=("crash", "!!!")), ADA)
