"""Why a memory is not in an answer: the stage that lost it and the reason, for what may be read; for all else, the same one word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from faults.broken import over
from stories.world import ADA, NOW, Item, NewStore, engine_at, ids

from remit.pipeline import ContextWanted, Doc, Fact, Memory, Origin, Request, Session, TagFilter, Verdict
from remit.pipeline.errors import InvalidRequest, NotAuthorised

TEXT = "the deploy key rotates monthly"
WANTED = Fact(id="wanted", text=TEXT)
BETTER = [Fact(id=f"better-{n}", text="the deploy key") for n in range(3)]
WORDS_ONLY = {"embedding": {"provider": "none"}}


async def crm(memory: Memory, _access: object) -> Verdict:
    if memory.origin and memory.origin.uri == "crm:broken":
        raise ConnectionError
    return Verdict.CHANGED


def fact(**stated: Any) -> Fact:
    return Fact(id="wanted", text=stated.pop("text", TEXT), **stated)


QUERY = Request(query="deploy key", sources=("fact",))


def asked(**stated: Any) -> Request:
    return Request(query=stated.pop("query", "deploy key"), sources=("fact",), **stated)


LOST: dict[str, tuple[list[Item], Request, str | None, str]] = {
    "returned": ([WANTED], QUERY, None, "returned"),
    "expired": ([fact(expires_at=NOW)], QUERY, "generate", "expired"),
    "not yet valid": ([fact(valid_from=NOW + timedelta(days=1))], QUERY, "generate", "expired"),
    "superseded": ([WANTED, Fact(id="newer", text=TEXT, supersedes=("fact:wanted",))], QUERY, "generate", "superseded"),
    "another language": ([fact(text="something else entirely")], QUERY, "generate", "no_common_word"),
    "too little of the question": (
        [fact(text="one key"), Fact(id="x", text="deploy rollback window canary")],
        asked(query="deploy rollback window canary key"),
        "generate",
        "weak",
    ),
    "a filter on tags": ([WANTED], asked(tags=TagFilter(all=("x",))), "generate", "filtered"),
    "a filter on time": ([fact(created_at=NOW - timedelta(days=9))], asked(created_from=NOW - timedelta(days=1)), "generate", "filtered"),
    "a filter, although it is a weaker match": (
        [fact(text="the key of the cellar"), Fact(id="x", text="deploy key", tags=("x",))],
        asked(query="deploy key rollback", tags=TagFilter(any=("x",))),
        "generate",
        "filtered",
    ),
    "a phrase": ([WANTED], asked(phrases=("key deploy",)), "generate", "filtered"),
    "the ceiling of generate": ([*BETTER, WANTED], asked(ceilings={"generate": {"items": 2}}), "generate", "over_ceiling"),
    "the ceiling of dedupe": ([*BETTER, WANTED], asked(ceilings={"dedupe": {"items": 2}}), "dedupe", "over_ceiling"),
    "the ceiling of rank": ([*BETTER, WANTED], asked(ceilings={"rank": {"items": 2}}), "rank", "over_ceiling"),
    "the ceiling of verify": ([*BETTER, WANTED], asked(ceilings={"verify": {"items": 2}}), "verify", "over_ceiling"),
    "the limit": ([*BETTER, WANTED], asked(limit=2), "verify", "limit"),
    "a share": ([*BETTER, WANTED, Session(id="s", text=TEXT)], Request(query="deploy key", limit=4), "verify", "share"),
    "a changed source": ([fact(origin=Origin(uri="crm:1"))], QUERY, "verify", "changed"),
    "a source that nobody could look at": ([fact(origin=Origin(uri="crm:broken"))], QUERY, "verify", "unverified"),
    "the passages of the context": ([*BETTER, WANTED], asked(context=ContextWanted(passages=1)), "pack", "passages"),
    "the room of the context": ([WANTED], asked(context=ContextWanted(tokens=1)), "pack", "oversized"),
    "saying the same again": ([Fact(id="a", text=TEXT), WANTED], QUERY, "pack", "repeats"),
}


@pytest.mark.parametrize("how", LOST)
async def test_the_stage_that_lost_it_and_the_reason_are_told(new_store: NewStore, how: str) -> None:
    items, request, stage, reason = LOST[how]
    async with engine_at(new_store(), *items, config=WORDS_ONLY, checkers={"crm": crm}) as engine:
        told = await engine.why(request, "fact:wanted", ADA)
        answer = await engine.recall(request, ADA)

    assert (told.id, told.stage, told.reason) == ("fact:wanted", stage, reason)
    if stage is not None and stage != "pack" and reason != "no_common_word":
        (entry,) = [each for each in answer.meta.stages if each.stage == stage]
        assert entry.rejected.get(reason, 0) >= 1
    assert ("wanted" in ids(answer)) == (stage in (None, "pack"))


NUMBERS: dict[str, tuple[dict[str, float], dict[str, str]]] = {
    "returned": ({"rank": 1, "place.lexical": 0}, {"verdict": "fresh", "routes": "lexical"}),
    "a filter on tags": ({}, {"filter": "tags"}),
    "a filter on time": ({}, {"filter": "created"}),
    "a phrase": ({}, {"filter": "phrases"}),
    "the ceiling of generate": ({"place.lexical": 3, "placeNeeded.lexical": 1}, {}),
    "the ceiling of dedupe": ({"candidate": 4, "candidateNeeded": 2, "place.lexical": 3}, {}),
    "the ceiling of rank": ({"candidate": 4, "candidateNeeded": 2, "place.lexical": 3}, {}),
    "the ceiling of verify": ({"rank": 4, "looks": 2, "looksMost": 2}, {"routes": "lexical"}),
    "the limit": ({"rank": 4, "rankNeeded": 2}, {}),
    "a share": ({"rank": 5, "rankNeeded": 1}, {}),
    "a changed source": ({"rank": 1}, {"verdict": "changed"}),
    "a source that nobody could look at": ({"rank": 1}, {"verdict": "unverified"}),
    "the passages of the context": ({"rank": 4, "passages": 1, "passagesMost": 1}, {"verdict": "fresh"}),
    "the room of the context": ({"rank": 1, "room": 1, "roomWhole": 1}, {}),
    "saying the same again": ({"rank": 2}, {"repeats": "fact:a"}),
}


@pytest.mark.parametrize("how", NUMBERS)
async def test_the_numbers_stand_beside_what_was_needed(new_store: NewStore, how: str) -> None:
    items, request, _, _ = LOST[how]
    numbers, details = NUMBERS[how]
    async with engine_at(new_store(), *items, config=WORDS_ONLY, checkers={"crm": crm}) as engine:
        told = await engine.why(request, "fact:wanted", ADA)
        answer = await engine.recall(request, ADA)

    assert numbers.items() <= told.numbers.items(), told
    assert details.items() <= told.details.items(), told
    for card in answer.data:
        if card.id == "wanted":
            assert (told.numbers["tokens"], told.numbers["score"]) == (card.tokens, card.score)


async def test_a_place_is_needed_in_every_lane_that_proposed_it_and_all_rounds_count_together(new_store: NewStore) -> None:
    items = [*(replace(each, origin=Origin(uri="crm:1")) for each in BETTER), WANTED, Fact(id="z", text=f"{TEXT} and so on")]
    async with engine_at(new_store(), *items, config=WORDS_ONLY, checkers={"crm": crm}) as engine:
        told = await engine.why(asked(ceilings={"generate": {"items": 2}}), "fact:z", ADA)

    assert (told.reason, told.numbers["place.lexical"], told.numbers["placeNeeded.lexical"]) == ("over_ceiling", 4, 3)


HIDDEN: Mapping[str, Item] = {
    "of another org": fact(org="rival"),
    "of another scope": fact(scope="project:beta"),
    "of a project that is not granted": fact(origin=Origin(uri="crm:1", project="beta")),
    "of a conversation that is not granted": fact(origin=Origin(uri="crm:1", conversation="42")),
    "not approved": fact(approval="proposed"),
    "rejected": fact(approval="rejected"),
}


@pytest.mark.parametrize("what", HIDDEN)
async def test_what_may_not_be_read_and_what_is_not_there_are_not_in_scope_alike(new_store: NewStore, what: str) -> None:
    told = []
    for items in ([HIDDEN[what], *BETTER], BETTER):
        async with engine_at(new_store(), *items) as engine:
            told.append(await engine.why(QUERY, "fact:wanted", ADA))

    assert told[0] == told[1]
    assert (told[0].stage, told[0].reason, dict(told[0].numbers), dict(told[0].details)) == (None, "not_in_scope", {}, {})


class Noting:
    """A store that notes which of its methods are asked, and with how much."""

    def __init__(self, store: Any, noted: list[tuple[str, int]]) -> None:
        self._store, self._noted = store, noted

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._store, name)

        async def noting(*given: Any, **named: Any) -> Any:
            self._noted.append((name, len(given[0]) if isinstance(given[0], list | tuple) else 1))
            return await asked(*given, **named)

        return noting


@pytest.mark.parametrize("what", HIDDEN)
async def test_the_work_done_for_what_is_hidden_and_for_what_is_not_there_is_the_same(new_store: NewStore, what: str) -> None:
    noted: list[list[tuple[str, int]]] = []
    for items in ([HIDDEN[what], *BETTER], BETTER):
        async with engine_at(new_store(), *items) as engine:
            noted.append([])
            await over(engine, lambda store: Noting(store, noted[-1])).why(QUERY, "fact:wanted", ADA)

    assert noted[0] == noted[1]
    assert noted[0][-1] == ("passages_of", 2)


@pytest.mark.parametrize(
    "narrowed, reason",
    [({"fact_scopes": ("person:ada",)}, "not_in_scope"), ({"project": "beta"}, "returned"), ({"sources": ("doc",)}, "not_in_scope")],
)
async def test_what_the_request_itself_leaves_out_is_not_in_its_scope(new_store: NewStore, narrowed: dict[str, Any], reason: str) -> None:
    async with engine_at(new_store(), WANTED) as engine:
        told = await engine.why(Request(query="deploy key", **narrowed), "fact:wanted", ADA)

    assert told.reason == reason


async def test_the_numbers_that_decided_are_told(new_store: NewStore) -> None:
    async with engine_at(new_store(), *BETTER, WANTED, config=WORDS_ONLY) as engine:
        limited = await engine.why(asked(limit=2), "fact:wanted", ADA)
        returned = await engine.why(QUERY, "fact:better-1", ADA)
        weak = await engine.why(asked(query="deploy some wholly unknown incantation of wizards"), "fact:wanted", ADA)

    assert (limited.numbers["rank"], limited.numbers["place.lexical"]) == (4, 3)
    assert limited.numbers["score"] <= limited.numbers["scoreNeeded"]
    assert limited.numbers["rankNeeded"] == 2
    assert (returned.numbers["rank"], returned.numbers["score"]) == (2, round(1 / 61, 12))
    assert weak.reason == "weak"
    assert weak.numbers["share"] < weak.numbers["shareNeeded"]


async def test_a_document_is_explained_as_a_whole(new_store: NewStore) -> None:
    doc = Doc(id="guide", text="# Keys\n\nthe deploy key rotates\n\n# Other\n\n" + "nothing of the kind. " * 60)
    async with engine_at(new_store(), doc, config={"chunking": {"tokens": 32}}) as engine:
        told = await engine.why(Request(query="deploy key"), "doc:guide", ADA)

    assert (told.reason, told.numbers["rank"]) == ("returned", 1)


@pytest.mark.parametrize("name", ["", "wanted", "fact:", "memory:wanted", "fact: wanted", "fact:" + "x" * 300, None])
async def test_what_is_no_name_of_a_memory_is_refused(new_store: NewStore, name: Any) -> None:
    async with engine_at(new_store(), WANTED) as engine:
        with pytest.raises(InvalidRequest, match="memory"):
            await engine.why(QUERY, name, ADA)


async def test_an_authority_that_refuses_refuses_why_too(new_store: NewStore) -> None:
    class Refusing:
        async def resolve(self, principal: Any) -> Any:
            if principal.actor == "ada":
                raise NotAuthorised
            return principal

    async with engine_at(new_store(), WANTED, authority=Refusing()) as engine:
        with pytest.raises(NotAuthorised):
            await engine.why(QUERY, "fact:wanted", ADA)
