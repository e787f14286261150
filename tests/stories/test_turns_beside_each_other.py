"""What answers a question was often said beside what repeats it: turns of one conversation lift each other, and nobody else's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from stories.world import NOW, NewStore, bytes_of, engine_at, ids

from remit.pipeline import Fact, Principal, Request, Session

READER = Principal(actor="ada", org="acme", scopes=("conversation:7",))
ASKED = Request(query="Which colour did Ben choose for the kayak he bought?", sources=("session",))
ALONE = {"recall": {"turns": {"anchors": 0}}}

SAID = (
    "Ana: Did you see the game on Sunday?",
    "Ben: No, I was out on the lake all day.",
    "Ana: Oh right! Ben, which colour did you choose for the kayak you bought?",
    "Ben: Signal orange, so that the ferries see me.",
    "Ana: Wise. My brother painted his fence last week.",
    "Ben: I bought paint too, for the shed.",
)


def conversation(name: str = "7", said: Sequence[str] = SAID, **stated: object) -> list[Session]:
    return [
        Session(
            id=f"{name}-{place}",
            text=text,
            scope=f"conversation:{name}",
            created_at=NOW - timedelta(hours=1, seconds=-20 * place),
            ended_at=NOW,
        )
        for place, text in enumerate(said)
    ]


async def test_the_answer_is_found_beside_the_question_it_was_given_to(new_store: NewStore) -> None:
    async with engine_at(new_store(), *conversation(), config=ALONE) as engine:
        assert ids(await engine.recall(ASKED, READER)) == ["7-2"]
    async with engine_at(new_store(), *conversation()) as engine:
        assert ids(await engine.recall(ASKED, READER)) == ["7-2", "7-1", "7-3"], "Ben's words before and after, and not what he said later"


async def test_turns_said_at_unknown_times_stand_alone(new_store: NewStore) -> None:
    async with engine_at(new_store(), *(replace(turn, created_at=NOW) for turn in conversation())) as engine:
        assert ids(await engine.recall(ASKED, READER)) == ["7-2"]


async def test_whatever_others_said_in_between_the_answer_is_the_same_to_the_byte(new_store: NewStore) -> None:
    between = [replace(turn, created_at=turn.created_at + timedelta(seconds=5)) for turn in conversation()]  # type: ignore[operator]
    foreign = [replace(turn, org="rival") for turn in between]
    elsewhere = [replace(turn, id=f"8-{turn.id}", scope="conversation:8") for turn in between]
    waiting = [replace(turn, id=f"w-{turn.id}", approval="proposed") for turn in between]
    facts = [Fact(id=turn.id, text=turn.text, scope=turn.scope, created_at=turn.created_at) for turn in between]
    async with engine_at(new_store(), *conversation()) as engine:
        alone = bytes_of(await engine.recall(ASKED, READER))
    async with engine_at(new_store(), *foreign, *elsewhere, *waiting, *conversation()) as engine:
        assert bytes_of(await engine.recall(ASKED, READER)) == alone
    async with engine_at(new_store(), *facts, *conversation()) as engine:
        assert ids(await engine.recall(ASKED, READER)) == ["7-2", "7-1", "7-3"]
