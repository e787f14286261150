"""Five passages of 320 units each, as the host counts them: a context holds as many as fit, the whole counted as a whole."""

import re

import pytest
from stories.world import ADA, NewStore, balanced, engine_at, entry, ids

from remit.pipeline import ContextWanted, Fact, Request

QUERY = "renewal terms"
FACTS = [Fact(id=f"term-{n}", text=f"Renewal terms, clause {word}.") for n, word in enumerate(["one", "two", "three", "four", "five"])]


def units(text: str) -> int:
    """A host's own counter: 320 units for each passage that is shown in full."""
    return 320 * len(re.findall(r"Renewal terms, clause \w+\.", text))


@pytest.mark.parametrize("budget, packed", [(640, 2), (960, 3), (1600, 5), (639, 1), (320, 1), (319, 0), (0, 0)])
async def test_five_passages_of_320_units_fill_a_budget_to_the_last_that_fits(new_store: NewStore, budget: int, packed: int) -> None:
    async with engine_at(new_store(), *FACTS, counter=units) as engine:
        answer = await engine.recall(Request(query=QUERY, sources=("fact",), context=ContextWanted(tokens=budget)), ADA)

    assert (answer.meta.context.passages, answer.meta.context.tokens) == (packed, 320 * packed)
    assert sum(card.packed for card in answer.data) == packed == units(answer.meta.context.text) // 320
    assert len(ids(answer)) == 5
    assert len(answer.meta.context.dropped) == 5 - packed
    assert answer.outcome == ("enough" if packed else "exhausted")
    balanced(answer)


@pytest.mark.parametrize("budget", [0, 319])
async def test_no_room_for_any_passage_is_exhausted_at_pack_and_keeps_the_cards(new_store: NewStore, budget: int) -> None:
    async with engine_at(new_store(), *FACTS, counter=units) as engine:
        answer = await engine.recall(Request(query=QUERY, sources=("fact",), context=ContextWanted(tokens=budget)), ADA)

    (because,) = answer.meta.because
    assert (because.stage, because.code, because.owner) == ("pack", "ceiling_tokens", "caller")
    assert entry(answer, "pack").exhausted == "tokens"
    assert answer.meta.context.text == ""
    assert [each.id for each in answer.meta.context.dropped] == [f"fact:{card.id}" for card in answer.data]


@pytest.mark.parametrize("taken, packed", [({"instructions": 320}, 4), ({"tools": 640}, 3), ({"reserve": 960, "tools": 320}, 1)])
async def test_instructions_tools_and_the_reserve_are_taken_off_the_budget_first(
    new_store: NewStore, taken: dict[str, int], packed: int
) -> None:
    async with engine_at(new_store(), *FACTS, counter=units) as engine:
        answer = await engine.recall(Request(query=QUERY, sources=("fact",), context=ContextWanted(tokens=1600, **taken)), ADA)

    assert answer.meta.context.passages == packed
