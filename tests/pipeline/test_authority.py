"""Who asks, what was granted, and what of it a recall may read."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.authority import (
    AsStated,
    Grants,
    Narrowing,
    Principal,
    access_for,
    access_to_write,
    checked,
    default_principal,
    granted,
    principal_from,
    scope_at,
    scope_filter,
)
from remit.pipeline.config import load
from remit.pipeline.errors import ConfigError, InvalidRequest, NotAuthorised
from remit.pipeline.fields import blank
from remit.stages.access import KINDS, Shelf
from remit.stages.request import Source

CONFIG = load()
LIMITS = CONFIG.limits
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ADA = Principal(actor="ada", org="acme", scopes=("project:alpha", "person:ada"))


def reads(narrowing: Narrowing, shelf: Shelf, principal: Principal = ADA) -> bool:
    return access_for(checked(principal, LIMITS), narrowing, NOW).reaches(shelf)


def fact(scope: str, org: str = "acme") -> Shelf:
    return Shelf(org=org, source=Source.FACT, scope=scope)


def doc(scope: str) -> Shelf:
    return Shelf(org="acme", source=Source.DOC, scope=scope)


def test_the_principal_of_a_machine_without_settings_is_its_one_user() -> None:
    assert default_principal(CONFIG) == Principal(actor="me", org="local", scopes="*")


def test_a_principal_of_the_config_that_is_none_is_a_fault_of_the_config() -> None:
    with pytest.raises(ConfigError, match=r"principal\.scopes"):
        default_principal(load({"principal": {"scopes": ["team:x"]}}))


def test_every_scope_is_the_host_s_to_give() -> None:
    stated = {"actor": "ada", "org": "acme", "scopes": "*"}

    assert principal_from(stated, host=True, limits=LIMITS).scopes == "*"
    with pytest.raises(NotAuthorised):
        principal_from(stated, host=False, limits=LIMITS)


@pytest.mark.parametrize(
    "stated, field",
    [
        (None, "principal"),
        ([], "principal"),
        ({"org": "acme"}, "principal.actor"),
        ({"actor": "ada"}, "principal.org"),
        ({"actor": "ada", "org": "acme", "admin": True}, "principal.admin"),
        ({"actor": "", "org": "acme"}, "principal.actor"),
        ({"actor": "ada", "org": " acme"}, "principal.org"),
        ({"actor": "ada", "org": "acme\0"}, "principal.org"),
        ({"actor": "a\nda", "org": "acme"}, "principal.actor"),
        ({"actor": "ada", "org": "\ud83d"}, "principal.org"),
        ({"actor": "ada", "org": "\u200b"}, "principal.org"),
        ({"actor": "a" * 201, "org": "acme"}, "principal.actor"),
        ({"actor": 7, "org": "acme"}, "principal.actor"),
        ({"actor": "ada", "org": "acme", "scopes": "project:alpha"}, "principal.scopes"),
        ({"actor": "ada", "org": "acme", "scopes": {"project:alpha": 1}}, "principal.scopes"),
        ({"actor": "ada", "org": "acme", "scopes": ["global", "*"]}, "principal.scopes[1]"),
        ({"actor": "ada", "org": "acme", "scopes": [["project:alpha"]]}, "principal.scopes[0]"),
        ({"actor": "ada", "org": "acme", "scopes": ["project:a"] * 10_001}, "principal.scopes"),
    ],
)
def test_a_principal_that_is_wrong_is_refused_by_the_name_of_its_field(stated: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        principal_from(stated, host=True, limits=LIMITS)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    "scope",
    [
        "",
        " ",
        "auto",
        "all",
        "*",
        "Global",
        "project",
        "project:",
        "project: alpha",
        "project:alpha ",
        "team:alpha",
        "PROJECT:a",
        ":a",
        "project:a\0",
        None,
        7,
    ],
)
def test_a_scope_is_global_or_a_known_kind_and_a_whole_name(scope: object) -> None:
    with pytest.raises(InvalidRequest):
        scope_at("scopes[0]", scope, LIMITS)


@given(
    kind=st.sampled_from(KINDS),
    name=st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=200).filter(lambda name: not blank(name)),
)
def test_a_scope_keeps_its_name_to_the_letter(kind: str, name: str) -> None:
    assert scope_at("scope", f"{kind}:{name}", LIMITS) == f"{kind}:{name}"


@pytest.mark.parametrize("name", ["alpha2", "alpha-b", "Alpha", "alph_", "alph%", "alph", "alpha:b"])
def test_a_grant_matches_whole_names_only(name: str) -> None:
    assert reads(Narrowing(), fact("project:alpha"))
    assert not reads(Narrowing(), fact(f"project:{name}"))


def test_global_of_the_own_org_is_always_granted_and_nothing_of_another_org() -> None:
    nobody = Principal(actor="ada", org="acme")

    assert reads(Narrowing(), fact("global"), nobody)
    assert not reads(Narrowing(), fact("project:alpha"), nobody)
    assert not reads(Narrowing(), fact("global", org="other"), Principal(actor="ada", org="acme", scopes="*"))


def test_nothing_declared_narrows_nothing() -> None:
    assert all(reads(Narrowing(), fact(scope)) for scope in ("global", "project:alpha", "person:ada"))


def test_a_declared_project_leaves_of_the_facts_the_global_ones_and_its_own() -> None:
    everything = Principal(actor="ada", org="acme", scopes="*")
    declared = Narrowing(project="alpha")

    assert [reads(declared, fact(scope), everything) for scope in ("global", "project:alpha", "project:beta", "machine:m", "agent:a")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert reads(declared, doc("project:beta"), everything)


def test_named_fact_scopes_win_over_a_declared_project() -> None:
    narrowing = Narrowing(project="alpha", fact_scopes=frozenset({"person:ada"}))

    assert reads(narrowing, fact("person:ada"))
    assert not reads(narrowing, fact("project:alpha"))
    assert not reads(narrowing, fact("global"))


def test_a_request_never_widens_what_was_granted() -> None:
    for narrowing in (
        Narrowing(project="beta"),
        Narrowing(scopes=frozenset({"project:beta"})),
        Narrowing(fact_scopes=frozenset({"project:beta"})),
    ):
        assert not reads(narrowing, fact("project:beta"))


def test_an_empty_list_means_none_of_them() -> None:
    assert not reads(Narrowing(fact_scopes=frozenset()), fact("global"))
    assert reads(Narrowing(fact_scopes=frozenset()), doc("global"))
    assert not reads(Narrowing(scopes=frozenset()), doc("global"))
    assert not reads(Narrowing(sources=frozenset()), doc("global"))


def test_a_write_may_touch_all_that_is_granted_and_no_more() -> None:
    access = access_to_write(checked(ADA, LIMITS), NOW)

    assert access.reaches(fact("project:alpha"))
    assert not access.reaches(fact("project:beta"))
    assert not access.reaches(Shelf(org="acme", source=Source.DOC, project="beta"))


@pytest.mark.parametrize(
    "scopes, narrowing, told",
    [
        ("*", Narrowing(), {"scopes": "*", "project": None, "factScopes": None}),
        (("project:alpha",), Narrowing(), {"scopes": ["global", "project:alpha"], "project": None, "factScopes": None}),
        ("*", Narrowing(project="alpha"), {"scopes": "*", "project": "alpha", "factScopes": ["global", "project:alpha"]}),
        ((), Narrowing(project="alpha"), {"scopes": ["global"], "project": "alpha", "factScopes": ["global"]}),
        ((), Narrowing(scopes=frozenset({"project:beta"})), {"scopes": [], "project": None, "factScopes": None}),
        ("*", Narrowing(fact_scopes=frozenset()), {"scopes": "*", "project": None, "factScopes": []}),
        (
            "*",
            Narrowing(scopes=frozenset({"global"}), fact_scopes=frozenset({"person:ada", "global"})),
            {"scopes": ["global"], "project": None, "factScopes": ["global"]},
        ),
    ],
)
def test_the_scope_filter_says_what_was_searched(scopes: tuple[str, ...], narrowing: Narrowing, told: dict[str, object]) -> None:
    access = access_for(checked(Principal(actor="ada", org="acme", scopes=scopes), LIMITS), narrowing, NOW)

    assert scope_filter(access, narrowing) == {"org": "acme", **told}


class GrantTable:
    def __init__(self, **scopes: tuple[str, ...]) -> None:
        self.scopes = scopes

    async def resolve(self, principal: Principal) -> Principal:
        return Principal(actor=principal.actor, org=principal.org, scopes=self.scopes.get(principal.actor, ()))


async def test_what_counts_is_what_the_authority_grants_now() -> None:
    table = GrantTable(ada=("project:beta",))

    assert await granted(ADA, table, LIMITS) == Grants(actor="ada", org="acme", scopes=frozenset({"project:beta"}))
    table.scopes.clear()
    assert await granted(ADA, table, LIMITS) == Grants(actor="ada", org="acme", scopes=frozenset())
    assert await granted(ADA, AsStated(), LIMITS) == checked(ADA, LIMITS)


async def test_an_authority_that_answers_for_another_principal_is_not_believed() -> None:
    class Elsewhere:
        async def resolve(self, principal: Principal) -> Principal:
            return Principal(actor=principal.actor, org="other", scopes="*")

    with pytest.raises(NotAuthorised):
        await granted(ADA, Elsewhere(), LIMITS)


async def test_no_authority_is_asked_about_a_principal_that_is_none() -> None:
    class Unasked:
        async def resolve(self, principal: Principal) -> Principal:
            raise AssertionError

    with pytest.raises(InvalidRequest):
        await granted(Principal(actor="", org="acme"), Unasked(), LIMITS)
