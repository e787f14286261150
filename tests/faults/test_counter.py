"""A host's token counter that fails costs the context, never the cards, and is never taken for a count of none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from stories.world import ADA, NewStore, codes, engine_at, entry, ids

from remit.pipeline import Fact, Request

FACT = Fact(id="key", text="the deploy key rotates monthly")


def raising(_text: str) -> int:
    raise OSError("the secret text of a card")


async def coming_to_nothing(_text: str) -> int:
    raise OSError("the secret text of a card")


WRONG: dict[str, Callable[[str], Any]] = {
    "raises": raising,
    "raises later": coming_to_nothing,
    "none": lambda _: None,
    "negative": lambda _: -1,
    "a fraction": lambda _: 2.5,
    "true": lambda _: True,
    "text": lambda _: "7",
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_counter_that_gives_no_count_is_unavailable_at_pack_and_the_cards_are_kept(new_store: NewStore, what: str) -> None:
    async with engine_at(new_store(), FACT, counter=WRONG[what]) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    (because,) = answer.meta.because
    assert (answer.outcome, because.stage, because.code, because.owner) == ("unavailable", "pack", "counter", "operator")
    assert (ids(answer), answer.data[0].packed, answer.meta.context.passages) == (["key"], False, 0)
    assert entry(answer, "pack").outcome == "unavailable"
    assert "secret" not in because.detail


async def test_a_counter_that_never_answers_is_given_up_at_the_ceiling_and_the_cards_are_kept(new_store: NewStore) -> None:
    async def hanging(_text: str) -> int:
        await anyio.sleep_forever()
        raise AssertionError

    async with engine_at(new_store(), FACT, counter=hanging) as engine:
        answer = await engine.recall(Request(query="deploy key", ceilings={"pack": {"seconds": 0.01}}), ADA)

    assert (answer.outcome, codes(answer), ids(answer)) == ("exhausted", ["ceiling_seconds"], ["key"])
