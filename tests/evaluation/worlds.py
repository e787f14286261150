"""A small memory of two orgs with questions about it, and engines of which a guard was switched off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from remit.pipeline import Doc, Engine, Fact, Principal, Request, open_engine
from remit.pipeline.asking import asked
from remit.pipeline.config import load
from remit.pipeline.evaluation.gold import Case
from remit.pipeline.items import Item
from remit.pipeline.outcome import Outcome
from remit.stages.access import Access
from remit.stages.evidence import Memory, Outline, PassageId
from remit.stages.ports import Found, Wanted

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ADA = Principal(actor="ada", org="acme", scopes=("project:alpha",))
EVERYTHING = {org: Principal(actor="host", org=org, scopes="*") for org in ("acme", "rival")}

MEMORIES: Mapping[str, Sequence[Item]] = {
    "acme": (
        Fact(id="crane", text="The harbour crane lifts forty tonnes.", created_at=NOW),
        Fact(id="winch", text="The winch of the harbour crane was oiled in May.", scope="project:alpha", created_at=NOW),
        Fact(id="secret", text="Quixotic zeppelins are being bought.", scope="project:beta", created_at=NOW),
        Doc(id="guide", text="# Guide\n\nBuoys are painted yellow every second spring.", created_at=NOW),
    ),
    "rival": (Fact(id="plan", text="Gargantuan dredgers arrive at midnight.", created_at=NOW),),
}


def case(query: str, *relevant: str, name: str = "", principal: Principal = ADA, outcome: Outcome | None = None, **more: Any) -> Case:
    request = Request(query=query, as_of=NOW, **more.pop("request", {}))
    return Case(name=name or query, request=request, principal=principal, relevant=relevant, needs=relevant, outcome=outcome, **more)


CASES = (
    case("how many tonnes does the crane lift?", "fact:crane", outcome=Outcome.ENOUGH),
    case("when was the winch oiled?", "fact:winch", outcome=Outcome.ENOUGH),
    case("what colour are buoys painted?", "doc:guide", outcome=Outcome.ENOUGH),
    case("quixotic zeppelins", outcome=Outcome.NOTHING_FOUND),
)


async def filled(engine: Engine) -> None:
    for org, items in MEMORIES.items():
        await engine.remember(items, EVERYTHING[org])


@asynccontextmanager
async def world(store: str = "memory:", **more: Any) -> AsyncIterator[Engine]:
    async with open_engine(store, clock=lambda: NOW, **more) as engine:
        await filled(engine)
        yield engine


def checked(request: Request) -> object:
    return asked(request, load(), NOW)


class Leaky:
    """A store with its guards changed: `widened` is the access it is asked with, `seen` what it gives of a memory, `like` how a search
    is put. Everything else is the store's own."""

    def __init__(
        self,
        store: Any,
        *,
        widened: Callable[[Access], Access] = lambda access: access,
        seen: Callable[[Memory], Memory] = lambda memory: memory,
        like: Callable[[Wanted], Wanted] = lambda wanted: wanted,
    ) -> None:
        self._store, self._widened, self._seen, self._like = store, widened, seen, like

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found: Found = await self._store.find(self._like(wanted), self._widened(access))
        return found

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        outlines: Mapping[int, Outline] = await self._store.outlines(keys, self._widened(access))
        return outlines

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        beside: Mapping[int, Sequence[int]] = await self._store.around(keys, reach, within, self._widened(access))
        return beside

    async def vocabulary(self, shortest: int, longest: int, access: Access) -> Sequence[str]:
        words: Sequence[str] = await self._store.vocabulary(shortest, longest, self._widened(access))
        return words

    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        found = await self._store.read(passages, self._widened(access))
        return {name: self._seen(memory) for name, memory in found.items()}


def leaking(engine: Engine, **guards: Any) -> Engine:
    """The same engine over a leaky store."""
    leaky: Any = Leaky(engine.store, **guards)
    return replace(engine, store=leaky, kit=replace(engine.kit, finder=leaky, reader=leaky))


def every_scope(access: Access) -> Access:
    return replace(access, granted=None)


def long_ago(access: Access) -> Access:
    return replace(access, as_of=datetime(2000, 1, 1, tzinfo=UTC))


def never_expiring(memory: Memory) -> Memory:
    return memory._replace(label=replace(memory.label, expires_at=None))


def for_all(memory: Memory) -> Memory:
    return memory._replace(label=replace(memory.label, shelf=replace(memory.label.shelf, scope="global")))
