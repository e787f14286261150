"""C7: how lanes are fused and ties are settled. Rule 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from stories.world import ADA, NewStore, engine_at, ids

from remit.pipeline import Doc, Fact, Request
from remit.stages.evidence import Lane

QUERY = "marlin"


class Placed:
    """A host's embedder that puts each text at the place that its word `atN` names, nearest first; the question is at the front."""

    lane, space, dimensions = Lane.SEMANTIC, "placed/2", 2

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._at(text) for text in texts])

    def _at(self, text: str) -> NDArray[np.float32]:
        places = [int(word[2:]) for word in text.replace(".", " ").split() if word.startswith("at") and word[2:].isdigit()]
        if not places:
            return np.array([1.0, 0.0] if text == QUERY else [0.0, 0.0], dtype=np.float32)
        angle = places[0] / 100
        return np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)


def lexical(place: int) -> str:
    """A text that holds the question's word; the longer, the lower it stands."""
    return "marlin " + "pad " * (2 * place)


CONFIG: Mapping[str, Any] = {
    "recall": {
        "fusion": {"weights": {"semantic": 1.0, "lexical": 1.0}},
        "boosts": {"docActive": 1.0},
        "selection": {"lexicalOfBest": 0.0, "chance": {"semantic": 0.0}},
    }
}


def fact(name: str, vector: int | None = None, words: int | None = None) -> Fact:
    """A fact at a place of the vector lane, of the lexical lane, or of both."""
    at = "" if vector is None else f" at{vector}"
    return Fact(id=name, text=(lexical(words) if words is not None else "pad") + at)


async def places(new_store: NewStore, *facts: Fact, config: Mapping[str, Any] = CONFIG) -> list[tuple[str, dict[str, int], float]]:
    async with engine_at(new_store(), *facts, config=config, embedder=Placed()) as engine:
        answer = await engine.recall(Request(query=QUERY, sources=("fact",), limit=100), ADA)
    return [(card.id, card.ranks, card.score) for card in answer.data]


async def test_c7_1_a_lane_that_did_not_find_it_adds_nothing(new_store: NewStore) -> None:
    found = await places(
        new_store, fact("X", vector=0), fact("a", vector=1), fact("Y", vector=2, words=2), fact("b", words=0), fact("c", words=1)
    )

    assert found[0] == ("Y", {"lexical": 2, "semantic": 2}, round(1 / 62 + 1 / 62, 12))
    assert ("X", {"semantic": 0}, round(1 / 60, 12)) in found


async def test_c7_2_a_lone_first_hit_is_exactly_one_sixtieth_and_one_sixty_first_in_the_other_form(new_store: NewStore) -> None:
    other = {"recall": {"fusion": {"rankOrigin": 1}}}
    for config, score in ((CONFIG, 1 / 60), (other, 1 / 61)):
        for lone in (fact("it", words=0), fact("it", vector=0)):
            assert [found[2] for found in await places(new_store, lone, config=config)] == [round(score, 12)]


async def test_c7_3_chunks_of_one_document_count_once_in_each_lane(new_store: NewStore) -> None:
    two_chunks = Doc(id="d1", text=f"# One\n\n{'pad ' * 12}at0.\n\n# Two\n\n{'pad ' * 12}at1.")
    one_chunk = Doc(id="d2", text="marlin at2.")
    config = {**CONFIG, "chunking": {"tokens": 16}}
    async with engine_at(new_store(), two_chunks, one_chunk, config=config, embedder=Placed()) as engine:
        answer = await engine.recall(Request(query=QUERY, sources=("doc",)), ADA)

    assert [(card.id, card.ranks, card.chunks) for card in answer.data] == [
        ("d2", {"lexical": 0, "semantic": 2}, 1),
        ("d1", {"semantic": 0}, 2),
    ]
    assert answer.data[1].score == round(1 / 60, 12)


async def test_c7_4_what_both_lanes_found_is_one_card(new_store: NewStore) -> None:
    async with engine_at(new_store(), fact("it", vector=0, words=0), config=CONFIG, embedder=Placed()) as engine:
        answer = await engine.recall(Request(query=QUERY), ADA)

    assert [(card.id, card.matchedBy, card.score) for card in answer.data] == [("it", "both", round(2 / 60, 12))]


async def test_c7_9_agreement_in_third_place_beats_one_lanes_first(new_store: NewStore) -> None:
    found = await places(
        new_store,
        *(fact(f"v{n}", vector=n) for n in range(2)),
        *(fact(f"w{n}", words=n) for n in range(2)),
        fact("third", vector=2, words=2),
    )

    assert found[0] == ("third", {"lexical": 2, "semantic": 2}, round(2 / 62, 12))


async def test_c7_10_two_lanes_are_added_and_not_averaged(new_store: NewStore) -> None:
    found = await places(new_store, fact("A", vector=0), fact("B", vector=1, words=0))

    assert [name for name, _, _ in found] == ["B", "A"]


async def test_c7_13_a_tie_between_rank_sixty_in_both_lanes_and_rank_zero_in_one_goes_by_the_tie_rule(new_store: NewStore) -> None:
    # 1/120 + 1/120 = 1/60: the later id would win if a last bit were left over in either.
    facts = [fact(f"v{n:02}", vector=n + 1) for n in range(59)] + [fact(f"w{n:02}", words=n) for n in range(60)]
    both, one = fact("z-both", vector=60, words=60), fact("a-one", vector=0)
    found = await places(new_store, *facts, both, one)

    of = {name: (ranks, score) for name, ranks, score in found}
    assert of["z-both"] == ({"lexical": 60, "semantic": 60}, round(1 / 60, 12))
    assert of["a-one"] == ({"semantic": 0}, round(1 / 60, 12))
    order = [name for name, _, score in found if score == round(1 / 60, 12)]
    assert order == ["a-one", "w00", "z-both"]


async def test_a_weak_lane_with_a_small_weight_settles_ties_and_overturns_nothing(new_store: NewStore) -> None:
    rows = [Fact(id="a", text="marlin boat"), Fact(id="b", text="marlin boat boat boat of the harbour")]
    async with engine_at(new_store(), *rows) as engine:
        words = await engine.recall(Request(query="marlin boat"), ADA)
    async with engine_at(new_store(), *rows, config={"embedding": {"provider": "none"}}) as engine:
        alone = await engine.recall(Request(query="marlin boat"), ADA)

    assert ids(words) == ids(alone)


class Asked(Placed):
    """The same of a question of three words."""

    def _at(self, text: str) -> NDArray[np.float32]:
        return super()._at(QUERY if text == "marlin boat harbour" else text)


async def test_where_words_know_the_answer_a_model_whose_favourites_hold_none_of_it_overturns_nothing(new_store: NewStore) -> None:
    worded = [*(Fact(id=f"w{n}", text="marlin boat harbour " + "pad " * n) for n in range(5)), Fact(id="w5", text="marlin boat")]
    meant = [Fact(id=f"v{n}", text=f"pad at{n}") for n in range(5)]

    async def found(spaces: Sequence[str]) -> list[tuple[str, dict[str, float]]]:
        together = {"spaces": spaces, "powers": {"semantic": 0.0, "lexical": 0.0}}
        config = {"recall": {**CONFIG["recall"], "fusion": {"together": together}}}
        async with engine_at(new_store(), *worded, *meant, config=config, embedder=Asked()) as engine:
            answer = await engine.recall(Request(query="marlin boat harbour", sources=("fact",)), ADA)
        return [(card.id, card.shares) for card in answer.data]

    assert [name for name, _ in await found([])][:4] == ["v0", "w0", "v1", "w1"]
    trusted = await found(["placed"])
    assert [name for name, _ in trusted] == ["w0", "w1", "w2", "w3", "w4", "w5", "v0", "v1", "v2", "v3", "v4"]
    assert trusted[0][1] == {"lexical": 1.0}
    assert trusted[5][1] == {"lexical": pytest.approx((2 / 2.4) ** 0.25)}, "three known words ask for 2.4, and it holds two"
    assert trusted[6][1] == {"semantic": 0.1}
