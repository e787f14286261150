"""C14: empty, unavailable and exhausted are never mixed up. Rule 12; a store, checker or authority that fails is in faults/."""

from __future__ import annotations

from typing import Any

import pytest
from stories.world import ADA, NewStore, codes, engine_at, entry, ids

from remit.pipeline import Doc, Fact, Principal, Request
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.outcome import Code, Outcome, Owner

ROWS = [
    Fact(id="g", text="the deploy key"),
    Fact(id="a", text="the deploy key of alpha", scope="project:alpha"),
    Doc(id="d", text="the deploy key"),
]


@pytest.mark.parametrize(
    "stated, found",
    [
        ({"fact_scopes": ()}, ["d"]),
        ({"fact_scopes": None}, ["a", "d", "g"]),
        ({"fact_scopes": ("global",)}, ["d", "g"]),
        ({"scopes": ()}, []),
        ({"scopes": None}, ["a", "d", "g"]),
        ({"sources": ()}, []),
        ({"sources": ("fact",), "fact_scopes": ()}, []),
    ],
)
async def test_c14_4_an_empty_list_means_none_and_no_list_narrows_nothing(
    new_store: NewStore, stated: dict[str, Any], found: list[str]
) -> None:
    async with engine_at(new_store(), *ROWS) as engine:
        answer = await engine.recall(Request(query="deploy key", **stated), ADA)

    assert sorted(ids(answer)) == found
    assert answer.outcome == ("enough" if found else "nothing_found")


@pytest.mark.parametrize("wrong", [("", ""), ("global", ""), (" ",), ("project:",), ("project",), (None,)])
async def test_c14_4_a_list_of_blanks_is_refused(new_store: NewStore, wrong: Any) -> None:
    async with engine_at(new_store(), *ROWS) as engine:
        for field in ("fact_scopes", "scopes"):
            with pytest.raises(InvalidRequest):
                await engine.recall(Request(query="deploy key", **{field: wrong}), ADA)


async def test_c14_4_a_principal_that_was_granted_nothing_sees_what_is_global_and_nothing_else(new_store: NewStore) -> None:
    async with engine_at(new_store(), *ROWS) as engine:
        answer = await engine.recall(Request(query="deploy key"), Principal(actor="new", org="acme"))

    assert sorted(ids(answer)) == ["d", "g"]
    assert answer.meta.scope_filter.scopes == ["global"]


@pytest.mark.parametrize("query", [None, "", " ", "\n\t", "\u200b", "\u3164", 7, ["deploy"], b"deploy"])
async def test_c14_5_a_query_that_is_none_is_refused_and_never_answered_with_something(new_store: NewStore, query: Any) -> None:
    async with engine_at(new_store(), *ROWS) as engine:
        with pytest.raises(InvalidRequest, match="query"):
            await engine.recall(Request(query=query), ADA)


async def test_c14_6_every_reason_says_whether_to_ask_again_whose_it_is_and_what_to_do(new_store: NewStore) -> None:
    requests = [
        Request(query="wholly unrelated"),
        Request(query="deploy key", ceilings={"verify": {"items": 0}}),
        Request(query="deploy key", ceilings={"generate": {"seconds": 0}}),
        Request(query="deploy key", ceilings={"pack": {"tokens": 0}}),
        Request(query="deploy key", scopes=("person:bob",)),
    ]
    async with engine_at(new_store(), *ROWS) as engine:
        answers = [await engine.recall(request, ADA) for request in requests]

    assert [answer.outcome for answer in answers] == ["nothing_found", "exhausted", "exhausted", "exhausted", "unavailable"]
    for answer in answers:
        assert answer.meta.because
        for each in answer.meta.because:
            assert each.code in [code.value for code in Code]
            assert each.owner in [owner.value for owner in Owner]
            assert each.retryable in (True, False)
            assert each.next
            assert each.detail


@pytest.mark.parametrize("sources, returned", [(("fact",), 3), (None, 1)], ids=["the page is full", "the share of facts is used up"])
async def test_what_was_cut_off_and_had_no_place_anyway_exhausts_nothing(
    new_store: NewStore, sources: tuple[str, ...] | None, returned: int
) -> None:
    rows = [Fact(id=f"f{n}", text="the deploy key") for n in range(9)]
    async with engine_at(new_store(), *rows) as engine:
        answer = await engine.recall(Request(query="deploy key", limit=3, sources=sources, ceilings={"generate": {"items": 3}}), ADA)

    assert (answer.outcome, codes(answer), answer.meta.truncated, len(answer.data)) == ("enough", [], True, returned)
    assert entry(answer, "generate").exhausted == "items"


async def test_what_was_cut_off_and_had_a_place_is_exhausted(new_store: NewStore) -> None:
    rows = [Doc(id=f"d{n}", text="the deploy key") for n in range(9)]
    async with engine_at(new_store(), *rows) as engine:
        answer = await engine.recall(Request(query="deploy key", ceilings={"generate": {"items": 3}}), ADA)

    assert (answer.outcome, codes(answer), len(answer.data)) == ("exhausted", ["ceiling_items"], 3)


async def test_there_are_four_outcomes() -> None:
    assert {outcome.value for outcome in Outcome} == {"enough", "exhausted", "unavailable", "nothing_found"}
