"""The five steps together: rounds, what is refused before any work, and what no step may do to another's count."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from faults.broken import Broken, over
from stories.world import ADA, NOW, Item, NewStore, balanced, bytes_of, codes, engine_at, entry, ids

from remit.pipeline import ContextWanted, Doc, Fact, Memory, Origin, Principal, Request, Session, TagFilter, Verdict
from remit.pipeline.errors import ConfigError, InvalidRequest, NotAuthorised

TEXT = "the deploy key rotates"
WORDS_ONLY = {"embedding": {"provider": "none"}}


async def crm(memory: Memory, _access: object) -> Verdict:
    return Verdict.CHANGED if memory.id.id.startswith("stale") else Verdict.FRESH


def with_origin(kind: type[Any], *names: str, **stated: Any) -> list[Item]:
    return [kind(id=name, text=TEXT, origin=Origin(uri="crm:1"), **stated) for name in names]


def generating(items: int, **verify: int) -> dict[str, Any]:
    return {**WORDS_ONLY, "recall": {"profiles": {"memory": {"generate": {"items": items}, "verify": verify}}}}


async def test_cards_are_best_first_over_all_rounds(new_store: NewStore) -> None:
    # The first two places of each source; the doc behind the stale one is found in the second round and scores above the session.
    items = [
        *with_origin(Session, "a", "b", ended_at=NOW - timedelta(days=90)),
        *with_origin(Doc, "stale-1", "stale-2", "z"),
    ]
    async with engine_at(new_store(), *items, config=generating(2), checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert ids(answer) == ["z", "a", "b"]
    assert [card.rank for card in answer.data] == [1, 2, 3]
    scores = [card.score for card in answer.data]
    assert scores == sorted(scores, reverse=True)
    balanced(answer)


async def test_a_second_round_is_made_for_stale_evidence_only(new_store: NewStore) -> None:
    for items, looked_at in [(with_origin(Fact, "a", "b", "c"), 2), (with_origin(Fact, "stale-1", "stale-2", "c"), 3)]:
        async with engine_at(new_store(), *items, config=generating(2), checkers={"crm": crm}) as engine:
            answer = await engine.recall(Request(query="deploy key", sources=("fact",)), ADA)
        assert entry(answer, "verify").received == looked_at


async def test_no_round_is_made_for_places_that_are_already_filled(new_store: NewStore) -> None:
    items = with_origin(Fact, "a", "b", "stale-1", "z")
    async with engine_at(new_store(), *items, config=generating(3), checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=("fact",), limit=2), ADA)

    assert (answer.outcome, ids(answer), entry(answer, "generate").received) == ("enough", ["a", "b"], 4)


async def test_the_last_round_that_still_left_more_behind_is_exhausted_by_rounds(new_store: NewStore) -> None:
    items = with_origin(Fact, *(f"stale-{n}" for n in range(6)), "z")
    async with engine_at(new_store(), *items, config=generating(2, rounds=2), checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=("fact",)), ADA)

    assert (answer.outcome, ids(answer)) == ("exhausted", [])
    assert {(each.stage, each.code) for each in answer.meta.because} == {("generate", "ceiling_items"), ("verify", "ceiling_rounds")}
    assert entry(answer, "verify").rejected == {"changed": 4}
    assert answer.meta.truncated


async def test_a_second_round_that_leaves_nothing_behind_is_complete(new_store: NewStore) -> None:
    items = with_origin(Fact, "stale-1", "stale-2", "y", "z")
    async with engine_at(new_store(), *items, config=generating(2), checkers={"crm": crm}) as engine:
        found = await engine.recall(Request(query="deploy key", sources=("fact",)), ADA)
    async with engine_at(
        new_store(), *with_origin(Fact, "stale-1", "stale-2", "stale-3"), config=generating(2), checkers={"crm": crm}
    ) as engine:
        nothing = await engine.recall(Request(query="deploy key", sources=("fact",)), ADA)

    assert (found.outcome, ids(found), found.meta.truncated) == ("enough", ["y", "z"], False)
    assert (nothing.outcome, codes(nothing)) == ("nothing_found", ["stale_sources"])


async def test_what_no_longer_stands_is_counted_once_however_many_rounds(new_store: NewStore) -> None:
    items = [*with_origin(Fact, "stale-1", "stale-2", "z"), Fact(id="expired", text=TEXT, expires_at=NOW)]
    async with engine_at(new_store(), *items, config=generating(2), checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=("fact",)), ADA)

    assert entry(answer, "verify").received == 3
    assert entry(answer, "generate").rejected["expired"] == 1


async def test_a_memory_that_a_later_round_finds_keeps_the_place_it_had_behind_the_others(new_store: NewStore) -> None:
    items = with_origin(Fact, "stale-1", "stale-2", "z")
    async with engine_at(new_store(), *items, config=generating(2), checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=("fact",)), ADA)

    assert (answer.data[0].ranks, answer.data[0].score) == ({"lexical": 2}, round(1 / 62, 12))


WRONG: dict[str, Request] = {
    "query": Request(query=" \u200b\n"),
    "limit": Request(query="q", limit=0),
    "sources[0]": Request(query="q", sources=("facts",)),
    "profile": Request(query="q", profile="fast"),
    "scopes[0]": Request(query="q", scopes=("team:x",)),
    "factScopes[0]": Request(query="q", fact_scopes=("",)),
    "project": Request(query="q", project=""),
    "tags.any[0]": Request(query="q", tags=TagFilter(any=("",))),
    "deadlineSeconds": Request(query="q", deadline_seconds=float("nan")),
    "selection.local": Request(query="q", selection={"local": 0.01}),
    "ceilings.verify.items": Request(query="q", ceilings={"verify": {"items": 501}}),
    "ceilings.search": Request(query="q", ceilings={"search": {"items": 1}}),
    "context.tokens": Request(query="q", context=ContextWanted(tokens=-1)),
}


@pytest.mark.parametrize("field", WRONG)
async def test_a_wrong_request_is_refused_by_name_before_anything_is_asked(new_store: NewStore, field: str) -> None:
    class Untouched:
        async def resolve(self, _principal: Principal) -> Principal:
            raise AssertionError("the authority was asked")

    async def untouched(_memory: Memory, _access: object) -> Verdict:
        raise AssertionError("a source was asked")

    nothing = {name: AssertionError("the store was asked") for name in ("find", "outlines", "vocabulary", "read", "passages_of")}
    async with engine_at(new_store(), authority=Untouched(), checkers={"crm": untouched}) as engine:
        with pytest.raises(InvalidRequest) as refused:
            await over(engine, lambda store: Broken(store, nothing)).recall(WRONG[field], ADA)

    assert refused.value.field == field
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(
    "principal",
    [
        Principal(actor="", org="acme"),
        Principal(actor="ada", org=""),
        Principal(actor="ada", org="acme", scopes=("alpha",)),
        Principal(actor="ada", org="acme", scopes=("project:",)),
        Principal(actor="ada", org="acme", scopes="all"),  # type: ignore[arg-type]  # what a host may get wrong
        {"actor": "ada", "org": "acme"},
    ],
)
async def test_a_principal_that_is_none_is_refused_by_name(new_store: NewStore, principal: Any) -> None:
    async with engine_at(new_store()) as engine:
        with pytest.raises(InvalidRequest, match="principal"):
            await engine.recall(Request(query="q"), principal)


async def test_who_asks_when_nobody_says_so_is_the_configs_principal(new_store: NewStore) -> None:
    async with engine_at(new_store(), Fact(id="mine", text=TEXT, org="local", scope="machine:laptop")) as engine:
        answer = await engine.recall(Request(query="deploy key"))

    assert (ids(answer), answer.meta.scope_filter.org, answer.meta.scope_filter.scopes) == (["mine"], "local", "*")


@pytest.mark.parametrize("url", ["", "sqlite:", "postgres", "mysql://x", "remit.db"])
async def test_a_store_that_is_none_of_ours_is_refused_with_what_may_be_named(url: str) -> None:
    with pytest.raises(ConfigError, match="store"):
        async with engine_at(url):
            pass


async def test_an_errors_base_says_who_may_catch_it() -> None:
    assert issubclass(InvalidRequest, ValueError)
    assert issubclass(NotAuthorised, PermissionError)
    assert issubclass(ConfigError, ValueError)


async def test_the_same_question_gives_the_same_bytes_alone_and_beside_others(new_store: NewStore) -> None:
    items = [*with_origin(Fact, "a", "b", "stale-1"), *with_origin(Doc, "c", "stale-2"), *with_origin(Session, "d")]
    answers: list[str] = []

    async def ask() -> None:
        answers.append(bytes_of(await engine.recall(Request(query="deploy key"), ADA)))

    async with engine_at(new_store(), *items, config=generating(1), checkers={"crm": crm}) as engine:
        alone = bytes_of(await engine.recall(Request(query="deploy key"), ADA))
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(ask)

    assert answers == [alone] * 12


async def test_a_recall_sees_what_was_acknowledged_before_it_began(new_store: NewStore) -> None:
    async with engine_at(new_store()) as engine:
        before = await engine.recall(Request(query="deploy key"), ADA)
        await engine.remember([Fact(id="new", text=TEXT)], ADA)
        after = await engine.recall(Request(query="deploy key"), ADA)

    assert (before.outcome, codes(before), ids(after)) == ("nothing_found", ["no_match"], ["new"])


@pytest.mark.parametrize("sources", [(), ("fact",), ("doc", "session"), ("session", "session", "fact")])
async def test_only_the_sources_that_were_asked_are_answered(new_store: NewStore, sources: tuple[str, ...]) -> None:
    items = [Fact(id="f", text=TEXT), Session(id="s", text=TEXT), Doc(id="d", text=TEXT)]
    async with engine_at(new_store(), *items) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=sources), ADA)

    assert {card.source for card in answer.data} == set(sources)
    assert list(answer.meta.by_source) == [source for source in ("fact", "session", "doc") if source in sources]
    assert answer.outcome == ("enough" if sources else "nothing_found")
