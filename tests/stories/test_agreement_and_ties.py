"""What two lanes found comes before what one of them found, and a tie is settled the same way every time."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence

import pytest
from stories.world import ADA, NOW, NewStore, engine_at, ids

from remit.pipeline import Fact, Request, Session

TEXT = "the nightly backup failed"

EQUAL_WEIGHTS = {"recall": {"fusion": {"weights": {"local": 1.0, "lexical": 1.0}}, "selection": {"chance": {"local": 0.0}}}}


async def test_a_memory_that_both_lanes_found_comes_before_one_that_a_single_lane_found(new_store: NewStore) -> None:
    # Many other words beside the question's pull a feature hash away from it, and leave the words themselves as they were.
    other = " ".join(f"w{n}" for n in range(120))
    lexical_only = Fact(id="a-single-lane", text=f"invoice invoice invoice archive archive archive {other}")
    both = Fact(id="z-both-lanes", text="invoice archive of last year")
    async with engine_at(new_store(), lexical_only, both, config=EQUAL_WEIGHTS) as engine:
        answer = await engine.recall(Request(query="invoice archive"), ADA)

    assert [(card.id, card.matchedBy) for card in answer.data] == [("z-both-lanes", "both"), ("a-single-lane", "lexical")]
    assert answer.data[0].score > answer.data[1].score


def equal_sessions(order: Sequence[int]) -> list[Session]:
    return [Session(id=f"s{n:02}", text=TEXT, created_at=NOW) for n in order]


@pytest.mark.parametrize("seed", range(4))
async def test_forty_equal_memories_give_the_same_ten_in_whatever_order_they_came(new_store: NewStore, seed: int) -> None:
    order = random.Random(seed).sample(range(40), 40)
    async with engine_at(new_store(), *equal_sessions(order)) as engine:
        answers = [await engine.recall(Request(query="nightly backup", limit=10, sources=("session",)), ADA) for _ in range(3)]

    assert [ids(answer) for answer in answers] == [[f"s{n:02}" for n in range(10)]] * 3


SCRIPT = """
import json, sys, anyio
from remit.pipeline import Fact, Principal, Request, open_engine
async def main():
    me = Principal(actor="ada", org="acme", scopes="*")
    async with open_engine("memory:") as engine:
        await engine.remember([Fact(id=f"f{n:02}", text="the nightly backup failed", tags=("x", "y")) for n in range(40)], me)
        answer = await engine.recall(Request(query="nightly backup", limit=10, sources=("fact",)), me)
        print(json.dumps([[card.id, card.score] for card in answer.data]))
anyio.run(main)
"""


def test_a_tie_is_settled_alike_in_every_process_whatever_its_hash_seed() -> None:
    running = [
        subprocess.Popen([sys.executable, "-P", "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE)
        for seed in ("0", "1", "77")
    ]
    told = [process.communicate(timeout=60)[0] for process in running]

    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(set(told)) == 1
    assert [each[0] for each in json.loads(told[0])] == [f"f{n:02}" for n in range(10)]


async def test_ties_between_sources_follow_the_configured_order_and_then_the_id(new_store: NewStore) -> None:
    level = {
        "recall": {
            "tieBreakOrder": ["session", "fact", "doc"],
            "boosts": {"sessionRecency": 1.0},
            "laneShare": {"fact": 1.0, "session": 1.0, "doc": 1.0},
        },
        "embedding": {"provider": "none"},
    }
    items = [Fact(id="b", text=TEXT), Fact(id="a", text=TEXT), Session(id="c", text=TEXT)]
    async with engine_at(new_store(), *items, config=level) as engine:
        answer = await engine.recall(Request(query="nightly backup"), ADA)

    # Places in a lane are given per source, so the session and the first fact are both at place 0.
    assert [(card.source, card.id, card.ranks) for card in answer.data] == [
        ("session", "c", {"lexical": 0}),
        ("fact", "a", {"lexical": 0}),
        ("fact", "b", {"lexical": 1}),
    ]
    assert answer.data[0].score == answer.data[1].score == round(1 / 60, 12)
