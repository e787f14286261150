"""The table of what can happen to a recall: of each the one outcome, its reasons, whose job they are and whether to ask again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import numpy as np
import pytest
from faults.broken import Broken, Late, over
from stories.world import ADA, NOW, Item, NewStore, balanced, engine_at, ids

from remit.pipeline import ContextWanted, Doc, Engine, Fact, Memory, Origin, Principal, Request, TagFilter, Verdict
from remit.pipeline.crews import Overloaded
from remit.pipeline.errors import StorageUnavailable, UnsafeStorage
from remit.stages.evidence import Lane
from remit.stages.report import StageName

TEXT = "the deploy key rotates monthly"
KEYS = [Fact(id=f"f{n}", text=f"the deploy key of server {n} rotates") for n in range(4)]
ALL = ["f0", "f1", "f2", "f3"]
WATCHED = [replace(fact, origin=Origin(uri=f"crm:{fact.id}")) for fact in KEYS]
WORDS = {"embedding": {"provider": "none"}}
QUICK = {"freshness": {"checkSeconds": 0.02}}
SECRET = Fact(id="plan", text=TEXT, scope="project:secret")

Says = tuple[str | None, str, str, bool]
"""One reason: stage, code, owner, and whether asking again can help."""

OPERATOR, CALLER, PROVIDER, SOURCES, AUTHORITY = "operator", "caller", "provider", "source_owner", "authority"
DOWN, BUSY = ("store_unavailable", OPERATOR, True), ("overloaded", OPERATOR, True)
UNSAFE, BUG = ("unsafe_storage", OPERATOR, False), ("internal", OPERATOR, False)
NO_AUTHORITY: Says = (None, "authority", OPERATOR, True)
NOT_GRANTED: Says = (None, "unauthorised", AUTHORITY, False)
NOT_COUNTED: Says = ("pack", "counter", OPERATOR, False)
STALE: Says = ("verify", "stale_sources", SOURCES, False)
NO_MATCH: Says = ("generate", "no_match", CALLER, False)
BLIND: Says = ("verify", "freshness", OPERATOR, True)
NO_EMBEDDER: Says = ("generate", "embedding_failed", PROVIDER, True)


def cut(stage: str, limit: str) -> Says:
    return (stage, f"ceiling_{limit}", CALLER, limit == "seconds")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What there is and what goes wrong, and what has to be said of it. `found` are the cards that are kept."""

    outcome: str
    because: Sequence[Says] = ()
    found: Sequence[str] = ()
    degraded: Sequence[str] = ()
    items: Sequence[Item] = tuple(KEYS)
    asked: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=lambda: WORDS)
    who: Principal = ADA
    parts: Mapping[str, Any] = field(default_factory=dict)
    store: Callable[[Any], Any] = lambda store: store
    taken: StageName | str | None = None


def enough(found: Sequence[str] = ALL, **setting: Any) -> Cell:
    return Cell(outcome="enough", found=found, **setting)


def exhausted(*because: Says, **setting: Any) -> Cell:
    return Cell(outcome="exhausted", because=because, **setting)


def unavailable(*because: Says, **setting: Any) -> Cell:
    return Cell(outcome="unavailable", because=because, **setting)


def nothing(*because: Says, **setting: Any) -> Cell:
    return Cell(outcome="nothing_found", because=because, **setting)


def broken(method: str, fault: Exception | None) -> Callable[[Any], Any]:
    return lambda store: Broken(store, {method: fault})


def late(method: str) -> Callable[[Any], Any]:
    return lambda store: Late(store, method, works=1, fault=StorageUnavailable("gone"))


def ceiling(stage: str, **limits: float) -> dict[str, Any]:
    return {"ceilings": {stage: limits}}


class Writers:
    """An authority that lets the test write, and answers as it is told to for who asks."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def resolve(self, principal: Principal) -> Any:
        if principal.actor == "writer":
            return principal
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is None:
            await anyio.sleep_forever()
        return self._answer


class Embedder:
    """A host's embedder that knows what it is given to keep, and answers a question as it is told to."""

    lane, space, dimensions = Lane.SEMANTIC, "axes/3", 3

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def embed(self, texts: Sequence[str]) -> Any:
        if any("deploy key of" in text for text in texts):
            return np.tile(np.array([1, 0, 0], dtype=np.float32), (len(texts), 1))
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is None:
            await anyio.sleep_forever()
        return self._answer


class Reranker:
    name = "test"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def scores(self, _question: str, _passages: Sequence[str]) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is None:
            await anyio.sleep_forever()
        return self._answer


def checking(answer: Any, *, of: Sequence[str] = ALL) -> dict[str, Any]:
    """A host's check that answers so of some, and that all others are fresh."""

    async def check(memory: Memory, _access: object) -> Any:
        if memory.id.id not in of:
            return Verdict.FRESH
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await anyio.sleep_forever()
        return answer

    return {"checkers": {"crm": check}}


async def never(_text: str) -> int:
    await anyio.sleep_forever()
    return 0


def raising(_text: str) -> int:
    raise OSError("host:hunter2")


def answered(rerank: Any) -> dict[str, Any]:
    return {"parts": {"reranker": Reranker(rerank)}, "asked": {"profile": "answer"}, "config": {**WORDS, "reranking": {"seconds": 0.05}}}


FINDING = {"find": "generate", "outlines": "generate", "vocabulary": "generate", "read": "verify"}
TYPO = {"query": "deplyo key rotates"}
FAULTS = {
    "is down": (StorageUnavailable("gone"), DOWN),
    "is unsafe": (UnsafeStorage("x"), UNSAFE),
    "has a bug": (KeyError("x"), BUG),
    "has no place": (Overloaded(), BUSY),
}
STAGES = ["generate", "dedupe", "rank", "verify", "pack"]
ONE_ROUND = {"recall": {"profiles": {"memory": {"verify": {"rounds": 1}}}}}

CELLS: dict[str, Cell] = {
    # the store, at each of its calls
    **{
        f"the store {what} at {method}": unavailable(
            (stage, *says), degraded=["near_words"] * (method == "read"), asked=TYPO, store=broken(method, fault)
        )
        for what, (fault, says) in FAULTS.items()
        for method, stage in FINDING.items()
    },
    "find never answers": exhausted(cut("generate", "seconds"), asked=ceiling("generate", seconds=0.02), store=broken("find", None)),
    "outlines never answer": exhausted(cut("generate", "seconds"), asked=ceiling("generate", seconds=0.3), store=broken("outlines", None)),
    "near words never come": exhausted(
        cut("generate", "seconds"), found=ALL, asked={**TYPO, **ceiling("generate", seconds=0.4)}, store=broken("vocabulary", None)
    ),
    "read never answers": exhausted(cut("verify", "seconds"), asked=ceiling("verify", seconds=0.02), store=broken("read", None)),
    "the second search fails": unavailable(
        ("generate", *DOWN),
        found=["f0"],
        items=WATCHED,
        asked=ceiling("generate", items=2),
        parts=checking(False, of=["f1"]),
        store=late("find"),
    ),
    "the second reading fails": unavailable(
        ("verify", *DOWN),
        found=["f0"],
        items=WATCHED,
        asked=ceiling("generate", items=2),
        parts=checking(False, of=["f1"]),
        store=late("read"),
    ),
    # the request's own time
    "no time at all": exhausted(cut("generate", "seconds"), asked={"deadline_seconds": 0}),
    "the time ends in generate": exhausted(cut("generate", "seconds"), asked={"deadline_seconds": 0.05}, store=broken("find", None)),
    "the time ends in verify": exhausted(cut("verify", "seconds"), asked={"deadline_seconds": 0.3}, store=broken("read", None)),
    "the time ends in pack": exhausted(cut("pack", "seconds"), found=ALL, asked={"deadline_seconds": 0.3}, parts={"counter": never}),
    "the time ends before the authority answers": unavailable(
        NO_AUTHORITY, asked={"deadline_seconds": 0.02}, parts={"authority": Writers(None)}
    ),
    # places
    "no place for the org": unavailable((None, *BUSY), taken="org"),
    **{
        f"no place in {stage}": unavailable((stage, *BUSY), found=ALL if stage == "pack" else [], taken=StageName(stage))
        for stage in ("generate", "dedupe", "verify", "pack")
    },
    # who may read
    "the authority fails": unavailable(NO_AUTHORITY, parts={"authority": Writers(ConnectionError("ldap"))}),
    "the authority talks nonsense": unavailable(NO_AUTHORITY, parts={"authority": Writers(7)}),
    "scopes that are not granted": unavailable(NOT_GRANTED, items=[SECRET], asked={"scopes": ("project:secret",)}),
    "facts' scopes that are not granted": unavailable(
        NOT_GRANTED, items=[SECRET], asked={"sources": ("fact",), "fact_scopes": ("project:secret",)}
    ),
    "nothing granted": nothing(NO_MATCH, items=[SECRET], who=Principal(actor="eve", org="acme")),
    "nothing granted but what is everybody's": enough(items=[*KEYS, SECRET], who=Principal(actor="eve", org="acme")),
    "another org's": nothing(NO_MATCH, who=Principal(actor="eve", org="nobody", scopes="*")),
    "no scopes": nothing(NO_MATCH, asked={"scopes": ()}),
    "no facts' scopes": nothing(NO_MATCH, asked={"sources": ("fact",), "fact_scopes": ()}),
    "no sources": nothing(NO_MATCH, asked={"sources": ()}),
    # the embedder
    "the embedder fails and words answer": enough(degraded=["embedding_failed"], config={}, parts={"embedder": Embedder(OSError())}),
    "the embedder hangs and words answer": enough(
        degraded=["embedding_failed"], asked=ceiling("generate", seconds=0.5), config={}, parts={"embedder": Embedder(None)}
    ),
    "the embedder talks nonsense and words answer": enough(degraded=["embedding_failed"], config={}, parts={"embedder": Embedder([["a"]])}),
    **{
        f"the embedder {what} and no word stands there": unavailable(
            NO_EMBEDDER,
            NO_MATCH,
            degraded=["embedding_failed"],
            asked={"query": "blarghnizophor", **ceiling("generate", seconds=0.3)},
            config={},
            parts={"embedder": Embedder(answer)},
        )
        for what, answer in {"fails": OSError(), "hangs": None, "talks nonsense": "vectors"}.items()
    },
    "embeddings are off and no word stands there": nothing(NO_MATCH, degraded=["embeddings_off"], asked={"query": "blarghnizophor"}),
    # the sources
    **{
        f"every check {what}": unavailable(BLIND, items=WATCHED, parts=checking(answer), config={**WORDS, **QUICK})
        for what, answer in {"raises": OSError(), "hangs": None, "talks nonsense": {"fresh": True}, "says nothing": b""}.items()
    },
    "some checks raise": enough(found=["f1", "f2", "f3"], items=WATCHED, parts=checking(OSError(), of=["f0"])),
    "some checks hang": enough(found=["f1", "f2", "f3"], items=WATCHED, parts=checking(None, of=["f0"]), config={**WORDS, **QUICK}),
    "every check raises and more were there than may be looked at": unavailable(
        BLIND, items=WATCHED, asked=ceiling("verify", items=2), parts=checking(OSError())
    ),
    "every check raises, round after round": unavailable(
        BLIND, items=WATCHED, asked=ceiling("generate", items=1), parts=checking(OSError())
    ),
    "checks raise and their org keeps such": enough(
        degraded=["unverified"], items=WATCHED, parts=checking(OSError()), config={**WORDS, "freshness": {"unverified": "mark"}}
    ),
    "checks raise or find a change": unavailable(BLIND, STALE, items=WATCHED, parts={"checkers": {"crm": None}}),
    **{
        f"every source is {verdict}": nothing(STALE, items=WATCHED, parts=checking(verdict))
        for verdict in (Verdict.CHANGED, Verdict.MISSING, Verdict.INACCESSIBLE)
    },
    "a check denies": nothing(STALE, items=WATCHED, parts=checking(PermissionError())),
    "nobody watches": enough(degraded=["unwatched"], items=WATCHED),
    "the rounds run out": exhausted(
        cut("generate", "items"), cut("verify", "rounds"), items=WATCHED, asked=ceiling("generate", items=1), parts=checking(False)
    ),
    "one round, and stale": exhausted(
        cut("generate", "items"),
        cut("verify", "rounds"),
        items=WATCHED,
        asked=ceiling("generate", items=2),
        parts=checking(False),
        config={**WORDS, **ONE_ROUND},
    ),
    # counting and ordering anew
    "the counter fails": unavailable(NOT_COUNTED, found=ALL, parts={"counter": raising}),
    "the counter talks nonsense": unavailable(NOT_COUNTED, found=ALL, parts={"counter": lambda _: "7"}),
    "the counter hangs": exhausted(cut("pack", "seconds"), found=ALL, asked=ceiling("pack", seconds=0.02), parts={"counter": never}),
    "the reranker fails": enough(degraded=["reranker_failed"], **answered(OSError())),
    "the reranker hangs": enough(degraded=["reranker_failed"], **answered(None)),
    "the reranker talks nonsense": enough(degraded=["reranker_failed"], **answered([float("nan")] * 4)),
    # every ceiling: none, met exactly, met halfway
    **{
        f"no {limit} for {stage}": exhausted(cut(stage, limit), found=ALL if stage == "pack" else [], asked=ceiling(stage, **{limit: 0}))
        for stage in STAGES
        for limit in ("items", "seconds")
    },
    **{f"{stage} meets its items exactly": enough(asked=ceiling(stage, items=4)) for stage in STAGES},
    **{
        f"{stage} is cut at its items": exhausted(cut(stage, "items"), found=ALL[:2], asked=ceiling(stage, items=2))
        for stage in STAGES[:-1]
    },
    "pack is cut at its items, with something in the context": enough(asked=ceiling("pack", items=2)),
    **{
        f"{stage} is cut behind a full page": enough(found=ALL[:2], asked={"limit": 2, "sources": ("fact",), **ceiling(stage, items=3)})
        for stage in STAGES[:-1]
    },
    "no postings": exhausted(cut("generate", "postings"), degraded=["common_words_left_out"], asked=ceiling("generate", postings=0)),
    "postings for the rarer words": enough(
        found=["f2"], degraded=["common_words_left_out"], asked={"query": "deploy key of server 2", **ceiling("generate", postings=1)}
    ),
    "no tokens": exhausted(cut("pack", "tokens"), found=ALL, asked=ceiling("pack", tokens=0)),
    "no room beside the instructions": exhausted(
        cut("pack", "tokens"), found=ALL, asked={"context": ContextWanted(tokens=100, instructions=100)}
    ),
    "too few tokens for any": exhausted(cut("pack", "tokens"), found=ALL, asked={"context": ContextWanted(tokens=5)}),
    "room for fewer than are needed": exhausted(
        cut("pack", "tokens"), found=ALL, asked={"context": ContextWanted(tokens=90), "evidence_minimum": 4}
    ),
    "room for some": enough(asked={"context": ContextWanted(tokens=90)}),
    "no context wanted": enough(asked={"context": ContextWanted(passages=0)}),
    # nothing of the kind
    "an empty store": nothing(NO_MATCH, items=[]),
    "nothing there": nothing(NO_MATCH, asked={"query": "harbour crane"}),
    "too weak": nothing(
        ("generate", "too_weak", CALLER, False), asked={"query": "when does the blarghnizophor phlogiston transmogrify a deploy"}
    ),
    "a typing error": enough(degraded=["near_words"], asked={"query": "deplyo rotates"}),
    "excluded by tags": nothing(NO_MATCH, asked={"tags": TagFilter(all=("x",))}),
    "excluded by a phrase": nothing(NO_MATCH, asked={"phrases": ("key deploy",)}),
    "excluded by time": nothing(NO_MATCH, asked={"created_until": "2020-01-01"}),
    "expired": nothing(NO_MATCH, items=[replace(KEYS[0], expires_at=NOW)]),
    "not approved": nothing(NO_MATCH, items=[replace(KEYS[0], approval="proposed")]),
    "everything as it should be": enough(),
    "a document": enough(found=["d"], items=[Doc(id="d", text=TEXT)]),
}


async def changed_or_broken(memory: Memory, _access: object) -> bool:
    if memory.id.id == "f0":
        return False
    raise OSError


@asynccontextmanager
async def all_taken(engine: Engine, where: StageName | str | None) -> AsyncIterator[None]:
    """Somebody else has every place there is."""
    async with AsyncExitStack() as stack:
        if isinstance(where, StageName):
            await stack.enter_async_context(engine.kit.crews.at(where, within=1))
        elif where is not None:
            await stack.enter_async_context(engine.kit.crews.admitted("acme", within=1))
        yield


ONE_PLACE = {"generate": 1, "rank": 1, "verify": 1, "pack": 1, "perOrg": 1, "waitSeconds": 0.01}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio as well the other files of this folder run
async def test_each_cell_has_its_outcome_and_says_whose_job_it_is(new_other_store: NewStore, name: str) -> None:
    cell = CELLS[name]
    parts = {"checkers": {"crm": changed_or_broken}} if name == "checks raise or find a change" else cell.parts
    config = {**cell.config, "recall": {"crews": ONE_PLACE}} if cell.taken else cell.config
    async with engine_at(new_other_store(), *cell.items, config=config, **parts) as engine, all_taken(engine, cell.taken):
        answer = await over(engine, cell.store).recall(Request(**{"query": "deploy key rotates", **cell.asked}), cell.who)

    said = [(each.stage, each.code, each.owner, each.retryable) for each in answer.meta.because]
    assert (answer.outcome, said) == (cell.outcome, list(cell.because))
    assert sorted(ids(answer)) == sorted(cell.found)
    assert [each for each in answer.meta.mode.degraded if each != "embeddings_off" or "embeddings_off" in cell.degraded] == list(
        cell.degraded
    )
    assert all(each.next for each in answer.meta.because)
    balanced(answer)


def test_the_table_has_every_code_that_a_host_alone_can_bring_about_and_many_more_than_sixty_cells() -> None:
    assert len(CELLS) >= 60
    assert {cell.outcome for cell in CELLS.values()} == {"enough", "exhausted", "unavailable", "nothing_found"}
