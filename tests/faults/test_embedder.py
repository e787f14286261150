"""An embedder that fails costs its own lane and nothing else: words still answer, and the mode says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import numpy as np
import pytest
from providers import NEVER, Asked, embeddings, honest, reply, serving
from stories.world import ADA, NewStore, codes, engine_at, ids

from remit.pipeline import Fact, Request
from remit.stages.evidence import Lane

FACT = Fact(id="key", text="the deploy key rotates monthly")


class Axes:
    """A host's embedder of three dimensions, whose answer for a question is what the test says."""

    lane = Lane.SEMANTIC
    space = "axes/3"
    dimensions = 3

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer, self.working, self.calls = answer, True, 0

    async def embed(self, texts: Sequence[str]) -> Any:
        if self.working:
            return np.tile(np.array([1, 0, 0], dtype=np.float32), (len(texts), 1))
        self.calls += 1
        answer = self.answer()
        if answer is None:
            await anyio.sleep_forever()
        return answer


def raising() -> Any:
    raise TimeoutError("https://key:hunter2@provider")


UNSOUND: dict[str, Callable[[], Any]] = {
    "raises": raising,
    "no vector": lambda: np.zeros((0, 3), dtype=np.float32),
    "an empty list": list,
    "one too many": lambda: np.ones((2, 3), dtype=np.float32),
    "too few dimensions": lambda: np.ones((1, 2), dtype=np.float32),
    "too many dimensions": lambda: np.ones((1, 4), dtype=np.float32),
    "one dimension of nesting too few": lambda: np.ones(3, dtype=np.float32),
    "NaN": lambda: np.array([[1, np.nan, 0]], dtype=np.float32),
    "infinity": lambda: np.array([[1, np.inf, 0]], dtype=np.float32),
    "too large for its type": lambda: np.array([[1e300, 0, 0]]),
    "text": lambda: [["a", "b", "c"]],
    "numbers as text": lambda: [["1", "0", "0"]],
    "nothing at all": lambda: [[None, None, None]],
}


@pytest.mark.parametrize("what", UNSOUND)
async def test_an_unsound_answer_is_refused_as_a_whole_and_words_answer(new_store: NewStore, what: str) -> None:
    embedder = Axes(UNSOUND[what])
    async with engine_at(new_store(), FACT, embedder=embedder) as engine:
        embedder.working = False
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert (answer.outcome, ids(answer), answer.data[0].matchedBy) == ("enough", ["key"], "lexical")
    assert answer.meta.mode.degraded == ["embedding_failed"]
    assert "semantic.exact" not in answer.meta.mode.routes
    assert embedder.calls == 1


async def test_an_embedder_that_never_answers_leaves_time_for_the_words(new_store: NewStore) -> None:
    embedder = Axes(lambda: None)
    async with engine_at(new_store(), FACT, embedder=embedder) as engine:
        embedder.working = False
        answer = await engine.recall(Request(query="deploy key", ceilings={"generate": {"seconds": 0.5}}), ADA)

    assert (answer.outcome, ids(answer), answer.meta.mode.degraded) == ("enough", ["key"], ["embedding_failed"])


async def test_a_zero_vector_asks_nothing_of_the_vectors_and_is_no_fault(new_store: NewStore) -> None:
    embedder = Axes(lambda: np.zeros((1, 3), dtype=np.float32))
    async with engine_at(new_store(), FACT, embedder=embedder) as engine:
        embedder.working = False
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert (answer.data[0].matchedBy, answer.meta.mode.degraded) == ("lexical", [])


async def test_finding_nothing_by_words_alone_is_unavailable_when_the_provider_was_missing(new_store: NewStore) -> None:
    embedder = Axes(raising)
    async with engine_at(new_store(), FACT, embedder=embedder) as engine:
        embedder.working = False
        answer = await engine.recall(Request(query="blarghnizophorpquix"), ADA)

    assert (answer.outcome, codes(answer)) == ("unavailable", ["embedding_failed", "no_match"])
    assert (answer.meta.because[0].owner, answer.meta.because[0].retryable) == ("provider", True)


async def test_with_embeddings_off_only_words_are_searched_and_the_mode_says_so(new_store: NewStore) -> None:
    async with engine_at(new_store(), FACT, config={"embedding": {"provider": "none"}}) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert (answer.data[0].matchedBy, answer.meta.mode.degraded) == ("lexical", ["embeddings_off"])
    assert {each.state for each in answer.meta.mode.embedding.values()} == {"not_configured"}
    assert list(answer.meta.mode.routes) == ["lexical"]


def another_model(asked: Asked) -> bytes:
    return reply(embeddings(asked.json["input"], model="another"))


STATES: dict[str, tuple[Callable[[Asked], bytes], Callable[[Asked], bytes], list[str], str, list[tuple[str, str, bool]]]] = {
    "down": (honest, lambda _: reply("", status=503), ["acme"], "unavailable", [("embedding_failed", "provider", True)]),
    "slow": (honest, lambda _: NEVER, ["acme"], "unavailable", [("embedding_failed", "provider", True)]),
    "talking nonsense": (honest, lambda _: reply("<html>"), ["acme"], "unavailable", [("embedding_failed", "provider", True)]),
    "of another model": (honest, another_model, ["acme"], "unavailable", [("embedding_incompatible", "operator", False)]),
    "not allowed for the org": (honest, honest, [], "nothing_found", [("embedding_disabled", "operator", False)]),
    "back, with vectors still to be made": (
        lambda _: reply("", status=422),
        honest,
        ["acme"],
        "nothing_found",
        [("embedding_pending", "operator", True)],
    ),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_finding_nothing_says_in_which_state_the_provider_is(
    new_other_store: NewStore, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, asking, orgs, outcome, because = STATES[state]
    now = [writing]
    openai = {"model": "toy", "dimensions": 4, "questionSeconds": 0.3 if state == "slow" else 60.0, "passageSeconds": 60.0}
    config = {
        "embedding": {"provider": "openai", "openai": openai},
        "outbound": {"embeddingOrgs": orgs, "coolSeconds": 0.001, "longestCoolSeconds": 0.001},
    }
    async with serving(lambda asked: now[0](asked)) as provider:
        monkeypatch.setenv("REMIT_EMBEDDINGS_URL", provider.url)
        async with engine_at(new_other_store(), FACT, config=config) as engine:
            now[0] = asking
            answer = await engine.recall(Request(query="blarghnizophorpquix"), ADA)

    said = [(each.code, each.owner, each.retryable) for each in answer.meta.because if each.code != "too_weak"]
    assert (answer.outcome, said) == (outcome, because)
    assert bool(provider.asked) == bool(orgs)
