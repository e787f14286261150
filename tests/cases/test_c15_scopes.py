"""C15: the name of a scope is matched whole, never by its beginning or a part of it. Rule 13."""

from __future__ import annotations

import pytest
from stories.world import ADA, NewStore, codes, engine_at, ids, taken_in

from remit.pipeline import Doc, Fact, Origin, Principal, Request, Session
from remit.pipeline.errors import InvalidRequest

NAMES = ["alpha", "alpha2", "alpha-b", "Alpha", "alph_", "alph%", "alph*", "a", "ALPHA", "alpha.", "alphα", "alpha:x", "alpha/x"]
TEXT = "the harbour crane"
QUERY = "harbour crane"
EVERYWHERE = Principal(actor="ada", org="acme", scopes="*")


def in_each_scope() -> list[Fact]:
    return [Fact(id="global", text=TEXT), *(Fact(id=name, text=TEXT, scope=f"project:{name}") for name in NAMES)]


@pytest.mark.parametrize("name", NAMES)
async def test_c15_1_a_declared_project_leaves_its_own_facts_and_the_global_ones(new_store: NewStore, name: str) -> None:
    async with engine_at(new_store(), *in_each_scope()) as engine:
        answer = await engine.recall(Request(query=QUERY, project=name, sources=("fact",)), EVERYWHERE)

    assert sorted(ids(answer)) == sorted(["global", name])
    assert answer.meta.scope_filter.fact_scopes == sorted(["global", f"project:{name}"])


@pytest.mark.parametrize("name", NAMES)
async def test_c15_1_a_grant_reaches_the_scope_it_names_and_no_other(new_store: NewStore, name: str) -> None:
    async with engine_at(new_store(), *in_each_scope()) as engine:
        answer = await engine.recall(Request(query=QUERY, sources=("fact",)), Principal(actor="x", org="acme", scopes=(f"project:{name}",)))

    assert sorted(ids(answer)) == sorted(["global", name])


async def test_c15_1_kinds_are_told_apart(new_store: NewStore) -> None:
    kinds = ["project", "person", "conversation", "machine", "agent"]
    facts = [Fact(id=kind, text=TEXT, scope=f"{kind}:x") for kind in kinds]
    async with engine_at(new_store(), *facts) as engine:
        for kind in kinds:
            answer = await engine.recall(Request(query=QUERY), Principal(actor="x", org="acme", scopes=(f"{kind}:x",)))
            assert ids(answer) == [kind]


@pytest.mark.parametrize("org", ["acme2", "acm", "ACME", "acme%", "a_me", "*", "acme\u200b"])
async def test_an_org_is_matched_whole_too(new_store: NewStore, org: str) -> None:
    async with engine_at(new_store(), Fact(id="ours", text=TEXT)) as engine:
        answer = await engine.recall(Request(query=QUERY), Principal(actor="x", org=org, scopes="*"))

    assert (answer.outcome, ids(answer)) == ("nothing_found", [])


@pytest.mark.parametrize(
    "scope", ["auto", "all", "*", "any", "project", "project:", ":alpha", "team:alpha", "Global", "global:x", "project: alpha", ""]
)
async def test_c15_3_a_scope_that_is_none_is_refused_wherever_it_stands(new_store: NewStore, scope: str) -> None:
    async with engine_at(new_store(), Fact(id="it", text=TEXT)) as engine:
        with pytest.raises(InvalidRequest, match="scopes"):
            await engine.recall(Request(query=QUERY, scopes=(scope,)), ADA)
        with pytest.raises(InvalidRequest, match="factScopes"):
            await engine.recall(Request(query=QUERY, fact_scopes=(scope,)), ADA)
        with pytest.raises(InvalidRequest, match=r"principal\.scopes"):
            await engine.recall(Request(query=QUERY), Principal(actor="x", org="acme", scopes=(scope,)))
        (receipt,) = await engine.remember([Fact(id="it", text=TEXT, scope=scope)], EVERYWHERE)

    assert receipt.code == "invalid"


async def test_c15_a_scope_that_is_not_granted_can_be_written_by_nobody_without_it(new_store: NewStore) -> None:
    async with engine_at(new_store()) as engine:
        receipts = await engine.remember(
            [
                Fact(id="a", text=TEXT, scope="project:alpha2"),
                Fact(id="b", text=TEXT, org="acme2"),
                Fact(id="c", text=TEXT, origin=Origin(uri="crm:1", project="alph")),
                Fact(id="d", text=TEXT, scope="project:alpha"),
            ],
            ADA,
        )

    assert [receipt.code for receipt in receipts] == ["not_authorised"] * 3 + [None]


async def test_a_declared_project_narrows_facts_alone(new_store: NewStore) -> None:
    items = [
        Fact(id="f", text=TEXT, scope="person:ada"),
        Session(id="s", text=TEXT, scope="person:ada"),
        Doc(id="d", text=TEXT, scope="person:ada"),
    ]
    async with engine_at(new_store(), *items) as engine:
        answer = await engine.recall(Request(query=QUERY, project="alpha"), ADA)

    assert sorted(ids(answer)) == ["d", "s"]


async def test_scopes_narrow_every_source(new_store: NewStore) -> None:
    items = [
        kind(id=f"{kind.__name__}-{scope}", text=TEXT, scope=scope) for kind in (Fact, Session, Doc) for scope in ("global", "person:ada")
    ]
    async with engine_at(new_store(), *items) as engine:
        answer = await engine.recall(Request(query=QUERY, scopes=("person:ada",)), ADA)

    assert sorted(ids(answer)) == ["Doc-person:ada", "Fact-person:ada", "Session-person:ada"]


@pytest.mark.parametrize(
    "query, tier",
    [
        ("harbour crane of alpha", {"alpha": 1.5, "alpha-b": 0.8, "global": 1.0}),
        ("harbour crane of ALPHA", {"alpha": 1.5, "alpha-b": 0.8, "global": 1.0}),
        ("harbour crane of alpha-b", {"alpha": 0.8, "alpha-b": 1.5, "global": 1.0}),
        ("harbour crane of alphabet", {"alpha": 1.0, "alpha-b": 1.0, "global": 1.0}),
        ("harbour crane of (alpha)?", {"alpha": 1.5, "alpha-b": 0.8, "global": 1.0}),
        ("harbour crane", {"alpha": 1.0, "alpha-b": 1.0, "global": 1.0}),
    ],
)
async def test_a_question_names_a_scope_by_its_whole_word(new_store: NewStore, query: str, tier: dict[str, float]) -> None:
    facts = [Fact(id="global", text=TEXT), *(Fact(id=name, text=TEXT, scope=f"project:{name}") for name in ("alpha", "alpha-b"))]
    async with engine_at(new_store(), *facts) as engine:
        answer = await engine.recall(Request(query=query), EVERYWHERE)

    assert {card.id: card.parts["scope"] for card in answer.data} == tier


async def test_a_memory_that_was_moved_to_a_scope_is_found_there_and_nowhere_else(new_store: NewStore) -> None:
    async with engine_at(new_store(), Fact(id="it", text=TEXT, scope="project:alpha2")) as engine:
        hidden = await engine.recall(Request(query=QUERY), ADA)
        await taken_in(engine, [Fact(id="it", text=TEXT, scope="project:alpha")])
        found = await engine.recall(Request(query=QUERY), ADA)

    assert (codes(hidden), ids(found)) == (["no_match"], ["it"])
