"""The answer as other programs rely on it: every documented name is there, and all of it is plain JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from stories.world import ADA, NOW, Item, NewStore, engine_at, ids

from remit.pipeline import ContextWanted, Doc, Fact, Memory, Origin, Request, Session, Verdict
from remit.pipeline.envelope import Wire, moment

CARD = {"rank", "id", "source", "scope", "title", "text", "score", "matchedBy", "ranks", "parts", "chunks", "version", "origin"}
CARD |= {"verifiedAt", "trust", "packed", "cite", "tokens"}
META = {"outcome", "because", "mode", "bySource", "truncated", "available", "scopeFilter", "stages", "context", "asOf", "traceId"}
STAGE = {"stage", "received", "returned", "rejected", "ceiling", "exhausted", "degraded", "outcome", "seconds"}
BECAUSE = {"stage", "code", "detail", "owner", "retryable", "next"}
CONTEXT = {"text", "tokens", "budget", "passages", "dropped"}

TEXT = "the deploy key rotates"
ITEMS: list[Item] = [
    Fact(id="fact", text=TEXT, scope="project:alpha", importance=1.0, origin=Origin(uri="crm:7", version="3")),
    Session(id="session", text=TEXT, ended_at=NOW - timedelta(days=30)),
    Doc(id="doc", text=f"# Keys\n\n{TEXT}", title="Guide"),
]


async def crm(_memory: Memory, _access: object) -> Verdict:
    return Verdict.FRESH


async def test_every_documented_name_is_there_and_all_of_it_is_json(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ITEMS, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", context=ContextWanted(passages=2)), ADA)
        nothing = await engine.recall(Request(query="wholly unrelated"), ADA)

    wire = json.loads(json.dumps(answer.wire(), allow_nan=False))
    assert list(wire) == ["data", "meta"]
    assert len(wire["data"]) == 3
    for card in wire["data"]:
        assert card.keys() >= CARD
    assert wire["meta"].keys() >= META
    assert wire["meta"]["context"].keys() >= CONTEXT
    assert {"routes", "degraded", "embedding"} <= wire["meta"]["mode"].keys()
    assert {"org", "scopes", "project", "factScopes"} <= wire["meta"]["scopeFilter"].keys()
    assert [stage.keys() >= STAGE for stage in wire["meta"]["stages"]] == [True] * 5
    assert [each.keys() >= BECAUSE for each in nothing.meta.because] == [True]
    assert [set(each) for each in wire["meta"]["context"]["dropped"]] == [{"id", "reason"}]


def kinds(value: Any) -> Iterator[type]:
    """The type of a value and of all that it holds."""
    yield type(value)
    held = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for each in held:
        yield from kinds(each)


async def test_words_are_plain_text_on_the_wire_and_no_members_of_a_list(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ITEMS, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", context=ContextWanted(passages=2)), ADA)
        nothing = await engine.recall(Request(query="wholly unrelated"), ADA)

    assert {*kinds(answer.wire()), *kinds(nothing.wire())} <= {dict, Wire, list, str, int, float, bool, type(None)}


class Autumn(tzinfo):
    """A zone whose clocks go back by an hour."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1 if when is not None and when.fold else 2)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta()


def test_the_hour_that_a_zone_has_twice_is_two_hours_on_the_wire() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=Autumn())

    assert [moment(first), moment(first.replace(fold=1))] == ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    assert moment(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)) == moment(first)


async def test_a_cards_parts_make_its_score(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ITEMS, config={"embedding": {"provider": "none"}}) as engine:
        answer = await engine.recall(Request(query="deploy key", project="alpha"), ADA)

    for card in answer.data:
        assert card.score == round(card.parts["fused"] * card.parts["boost"] * card.parts["scope"], 12)
    of = {card.id: card for card in answer.data}
    assert (of["fact"].parts, of["fact"].ranks) == ({"fused": 1 / 60, "boost": 1.5, "scope": 1.5}, {"lexical": 0})
    assert of["session"].parts == {"fused": 1 / 60, "boost": 0.5, "scope": 1.0}
    assert of["doc"].parts == {"fused": 1 / 60, "boost": 1.25, "scope": 1.0}


async def test_values_are_read_by_their_names_in_either_spelling(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ITEMS, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    fact = next(card for card in answer.data if card.id == "fact")
    assert fact["verifiedAt"] == fact.verified_at == fact.verifiedAt == "2026-11-30T12:00:00Z"
    assert answer.meta["scopeFilter"]["scopes"] == answer.meta.scope_filter.scopes == ["global", "person:ada", "project:alpha"]
    with pytest.raises(AttributeError):
        _ = fact.no_such_name


async def test_what_matched_is_counted_by_source_and_available_is_their_sum(new_store: NewStore) -> None:
    more = [Fact(id=f"f{n}", text=TEXT) for n in range(30)]
    async with engine_at(new_store(), *ITEMS, *more) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert answer.meta.by_source == {
        "fact": {"returned": 5, "matched": 31},
        "session": {"returned": 1, "matched": 1},
        "doc": {"returned": 1, "matched": 1},
    }
    assert (answer.meta.available, answer.meta.truncated, answer.outcome) == (33, True, "enough")


async def test_what_was_applied_of_the_scope_is_told(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ITEMS) as engine:
        nothing = await engine.recall(Request(query="deploy key"), ADA)
        project = await engine.recall(Request(query="deploy key", project="alpha"), ADA)
        named = await engine.recall(Request(query="deploy key", fact_scopes=("project:alpha", "project:beta")), ADA)

    assert nothing.meta.scope_filter.fact_scopes is None
    assert project.meta.scope_filter == {
        "org": "acme",
        "scopes": ["global", "person:ada", "project:alpha"],
        "project": "alpha",
        "factScopes": ["global", "project:alpha"],
    }
    assert named.meta.scope_filter.fact_scopes == ["project:alpha"]


async def test_the_mode_names_the_routes_the_space_and_how_much_of_it_is_covered(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ITEMS) as engine:
        answer = await engine.recall(Request(query="deploy kez"), ADA)
        typo = await engine.recall(Request(query="deplyo key"), ADA)

    mode = answer.meta.mode
    assert mode.routes == {"lexical": "ran", "local.exact": "ran"}
    assert mode.embedding["local"].space.startswith("local-feature-hash-v1/128/")
    assert mode.embedding["local"].coverage == 1.0
    assert mode.embedding["semantic"] == {"space": None, "coverage": None, "state": "not_configured"}
    assert "semantic" not in json.dumps({name: value for name, value in mode.items() if name != "embedding"})
    assert (typo.meta.mode.near, typo.meta.mode.degraded) == ({"deplyo": ["deploy"]}, ["near_words", "unwatched"])


async def test_a_reply_can_be_cited_by_the_marks_in_the_context(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ITEMS) as engine:
        answer = await engine.recall(Request(query="deploy key", context=ContextWanted(format="markdown")), ADA)

    packed = [card for card in answer.data if card.packed]
    assert packed
    for card in packed:
        assert f"{card.cite} id={card.source}:{card.id} version={card.version}" in answer.meta.context.text
    assert {each.id for each in answer.meta.context.dropped} == {f"{card.source}:{card.id}" for card in answer.data if not card.packed}


async def test_as_of_is_told_and_governs_what_is_valid(new_store: NewStore) -> None:
    items = [Fact(id="was", text=TEXT, valid_until=NOW), Fact(id="is", text=TEXT, valid_from=NOW)]
    async with engine_at(new_store(), *items) as engine:
        now = await engine.recall(Request(query="deploy key"), ADA)
        before = await engine.recall(Request(query="deploy key", as_of="2026-11-30T11:59:59Z"), ADA)

    assert (ids(now), now.meta.as_of) == (["is"], "2026-11-30T12:00:00Z")
    assert (ids(before), before.meta.as_of) == (["was"], "2026-11-30T11:59:59Z")
