"""The floor: both searches, a fusion and the best rows, by SQL written for the tables of Remit's rows, under the restricted role."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import remit_peer
from asked import CLIENTS, Ask, Question, Work
from postgres_by_hand import ByHand

NAME = "by hand"
LANES = "words and vectors"
load = remit_peer.load


async def asking(work: Work, place: str) -> Ask:
    """A connection to each client and tenant, lent from question to question."""
    idle: dict[str, asyncio.Queue[ByHand]] = defaultdict(asyncio.Queue)
    for org in dict.fromkeys(each.org for each in work.questions):
        for _ in range(CLIENTS):
            idle[org].put_nowait(await ByHand.connected(place, org, work.dimensions, space=remit_peer.Given.space))

    async def ask(question: Question) -> list[str]:
        hand = await idle[question.org].get()
        try:
            return [str(row[1]) for row in await hand.found(question.text, question.vector)]
        finally:
            idle[question.org].put_nowait(hand)

    return ask
