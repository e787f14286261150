"""The wire: camelCase JSON in and out, and nothing unknown passed over."""

from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.asking import asked
from remit.pipeline.authority import Grants
from remit.pipeline.config import load
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.faces.wire import item_from, receipt_to, request_from, time_to
from remit.pipeline.items import Doc, Fact, Session, record_of
from remit.pipeline.storage.entry import Receipt, Refusal, Written
from remit.stages.evidence import Claim, Origin
from remit.stages.request import ContextWanted, Request, TagFilter

CONFIG = load()
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

WHOLE = {
    "query": "why",
    "limit": 20,
    "sources": ["fact", "session", "doc"],
    "project": "alpha",
    "factScopes": ["global"],
    "scopes": None,
    "asOf": "2026-11-30T12:00:00Z",
    "phrases": ["exactly this"],
    "tags": {"all": [], "any": ["a"], "none": []},
    "createdFrom": None,
    "createdUntil": None,
    "profile": "memory",
    "questions": ["how"],
    "deadlineSeconds": 5,
    "selection": {"lexical": 0.3, "local": 0.2, "semantic": 0.3},
    "context": {"tokens": 6000, "passages": 8, "instructions": 0, "tools": 0, "reserve": 0, "format": "markdown"},
    "ceilings": {"generate": {"items": 500, "seconds": 2.0}, "verify": {"items": 500}, "pack": {"tokens": 6000}},
}


def test_the_request_of_the_contract_is_read_whole() -> None:
    request = request_from(WHOLE)

    assert request == Request(
        query="why",
        limit=20,
        sources=("fact", "session", "doc"),
        project="alpha",
        fact_scopes=("global",),
        as_of="2026-11-30T12:00:00Z",
        phrases=("exactly this",),
        tags=TagFilter(any=("a",)),
        profile="memory",
        questions=("how",),
        deadline_seconds=5,
        selection=WHOLE["selection"],  # type: ignore[arg-type]
        context=ContextWanted(tokens=6000, passages=8, format="markdown"),
        ceilings=WHOLE["ceilings"],  # type: ignore[arg-type]
    )
    assert asked(request, CONFIG, NOW).question.limit == 20


def test_null_is_as_if_it_were_not_there() -> None:
    assert request_from({**dict.fromkeys(WHOLE), "query": "why"}) == Request(query="why")
    assert item_from({"source": "fact", "id": "a", "text": "b", "tags": None, "origin": None}) == Fact(id="a", text="b")


def test_an_empty_list_is_no_null() -> None:
    request = request_from({"query": "why", "sources": [], "factScopes": [], "scopes": []})

    assert (request.sources, request.fact_scopes, request.scopes) == ((), (), ())


def test_every_kind_of_memory_is_read_whole() -> None:
    common = {"id": "a", "text": "b", "createdAt": "2026-01-01", "derivedFrom": ["doc:x"], "claims": ["c", {"about": "d", "says": "e"}]}
    stated: dict[str, Any] = {
        "id": "a",
        "text": "b",
        "created_at": "2026-01-01",
        "derived_from": ("doc:x",),
        "claims": ("c", Claim(about="d", says="e")),
    }
    origin = {"uri": "file:///a", "sha256": "0" * 64}

    assert item_from({**common, "source": "fact", "importance": 0.5, "pinned": True}) == Fact(**stated, importance=0.5, pinned=True)
    assert item_from({**common, "source": "session", "endedAt": "2026-01-02"}) == Session(**stated, ended_at="2026-01-02")
    assert item_from({**common, "source": "doc", "status": "archived", "origin": origin}) == Doc(
        **stated, status="archived", origin=Origin(uri="file:///a", sha256="0" * 64)
    )


@pytest.mark.parametrize(
    "given, field",
    [
        ([], "request"),
        ("why", "request"),
        ({}, "query"),
        ({"query": None}, "query"),
        ({"query": "why", "org": "other"}, "org"),
        ({"query": "why", "fact_scopes": []}, "fact_scopes"),
        ({"query": "why", "factscopes": []}, "factscopes"),
        ({"query": "why", "tags": {"every": []}}, "tags.every"),
        ({"query": "why", "tags": []}, "tags"),
        ({"query": "why", "context": {"tokens": 5, "room": 1}}, "context.room"),
        ({"query": "why", "selection": {"words": 1}}, "selection.words"),
        ({"query": "why", "ceilings": {"verify": {"tries": 1}}}, "ceilings.verify.tries"),
        ({"query": "why", "ceilings": {"check": {}}}, "ceilings.check"),
        ({"query": "why", "sources": ["fact", "memo"]}, "sources[1]"),
        ({"query": "why", "tags": {"any": ["a", "b", ""]}}, "tags.any[2]"),
    ],
)
def test_a_request_is_refused_by_the_name_of_what_is_wrong(given: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        asked(request_from(given), CONFIG, NOW)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    "given, field",
    [
        (["fact"], "item"),
        ({"id": "a", "text": "b"}, "source"),
        ({"source": "memo", "id": "a", "text": "b"}, "source"),
        ({"source": ["fact"], "id": "a", "text": "b"}, "source"),
        ({"source": "fact", "text": "b"}, "id"),
        ({"source": "fact", "id": "a"}, "text"),
        ({"source": "fact", "id": "a", "text": "b", "colour": "red"}, "colour"),
        ({"source": "doc", "id": "a", "text": "b", "importance": 1}, "importance"),
        ({"source": "session", "id": "a", "text": "b", "pinned": True}, "pinned"),
        ({"source": "fact", "id": "a", "text": "b", "endedAt": "2026-01-01"}, "endedAt"),
        ({"source": "fact", "id": "a", "text": "b", "status": "active"}, "status"),
        ({"source": "fact", "id": "a", "text": "b", "origin": {"version": "1"}}, "origin.uri"),
        ({"source": "fact", "id": "a", "text": "b", "origin": {"uri": "x:y", "hash": ""}}, "origin.hash"),
        ({"source": "fact", "id": "a", "text": "b", "origin": "x:y"}, "origin"),
        ({"source": "fact", "id": "a", "text": "b", "claims": ["c", {"about": "d"}]}, "claims[1].says"),
        ({"source": "fact", "id": "a", "text": "b", "claims": [{"says": "d", "who": "e"}]}, "claims[0].who"),
        ({"source": "fact", "id": "a", "text": "b", "version": 3}, "version"),
    ],
)
def test_a_memory_is_refused_by_the_name_of_what_is_wrong(given: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        item_from(given)

    assert refusal.value.field == field


@given(mapping=st.dictionaries(st.sampled_from(sorted(WHOLE)) | st.text(max_size=5), JSON, max_size=4))
def test_no_json_raises_anything_but_a_refusal_of_the_request(mapping: dict[str, Any]) -> None:
    with suppress(InvalidRequest):
        asked(request_from({"query": "why", **mapping}), CONFIG, NOW)


ITEM_FIELDS = sorted(
    {each.name for kind in (Fact, Session, Doc) for each in fields(kind)} | {"source", "createdAt", "validUntil", "derivedFrom"}
)


@given(source=st.sampled_from(["fact", "session", "doc"]), mapping=st.dictionaries(st.sampled_from(ITEM_FIELDS), JSON, max_size=4))
def test_no_json_raises_anything_but_a_refusal_of_the_memory(source: str, mapping: dict[str, Any]) -> None:
    with suppress(InvalidRequest):
        record_of(
            item_from({"source": source, "id": "a", "text": "b", **mapping}), Grants(actor="ada", org="acme", scopes=None), CONFIG, NOW
        )


def test_a_receipt_tells_what_there_is_to_tell() -> None:
    refused = Receipt(id="fact:a", written=Written.REFUSED, code=Refusal.INVALID, detail="text: is blank")

    assert receipt_to(Receipt(id="fact:a", written=Written.STORED, version=1)) == {"id": "fact:a", "written": "stored", "version": 1}
    assert receipt_to(refused) == {"id": "fact:a", "written": "refused", "code": "invalid", "detail": "text: is blank"}


def test_times_go_out_in_utc_with_z() -> None:
    assert time_to(datetime(2026, 11, 30, 14, tzinfo=timezone(timedelta(hours=2)))) == "2026-11-30T12:00:00Z"
    assert time_to(datetime(2026, 11, 30, 12, 0, 0, 5, tzinfo=UTC)) == "2026-11-30T12:00:00.000005Z"
