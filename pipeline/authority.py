"""Authority: who asks, what was granted, and the one place where that becomes what may be read and spent."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from remit.pipeline.config import Config, Limits, Profile
from remit.pipeline.errors import AuthorityFailed, ConfigError, InvalidRequest, NotAuthorised, RemitError
from remit.pipeline.fields import list_at, mapping_at, name_at, one_of, shown, unknown
from remit.stages.access import EVERY, GLOBAL, KINDS, Access
from remit.stages.request import Source

_PLAIN = re.compile(rf"(?:{'|'.join(KINDS)}):[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks, as the host vouches for it. `scopes` holds the granted scopes by their whole names, or is `"*"` for all of the org;
    `global` of the own org is always granted."""

    actor: str
    org: str
    scopes: tuple[str, ...] | Literal["*"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """A principal, checked, with what it is granted now. Only this module makes these. `scopes` is None for every scope of the org;
    `kept` says that the store at hand keeps them, and has the last word."""

    actor: str
    org: str
    scopes: frozenset[str] | None
    kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The most that may be done for one recall of a principal; its request may lower it, never raise it."""

    limit: int
    deadline_seconds: float
    ceilings: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What a request leaves of an access. None narrows nothing, an empty set leaves nothing."""

    sources: frozenset[Source] = frozenset(Source)
    project: str | None = None
    scopes: frozenset[str] | None = None
    fact_scopes: frozenset[str] | None = None

    @property
    def facts(self) -> frozenset[str] | None:
        """The scopes that facts are left of: those named, else what a declared project leaves."""
        if self.fact_scopes is not None or self.project is None:
            return self.fact_scopes
        return frozenset({GLOBAL, f"project:{self.project}"})


class Authority(Protocol):
    """Says what a principal is granted at this moment. Asked at every recall and write, so that what was revoked is gone at the next."""

    async def resolve(self, principal: Principal) -> Principal: ...


class AsStated:
    """The authority of a host that states the grants with the principal itself."""

    async def resolve(self, principal: Principal) -> Principal:
        return principal


class Granting(Protocol):
    """A store that keeps who was granted what."""

    async def granted(self, actor: str, org: str) -> Sequence[str]: ...


class FromStore:
    """The authority of a service: the store's own table of grants, whatever scopes the principal states.

    What it says is a moment old when it is used, so the store looks at its table again inside each transaction (`Access.kept`).
    """

    def __init__(self, store: Granting) -> None:
        self._store = store

    async def resolve(self, principal: Principal) -> Principal:
        scopes = await self._store.granted(principal.actor, principal.org)
        return replace(principal, scopes=tuple(scopes)) if EVERY not in scopes else replace(principal, scopes="*")


def principal_from(mapping: object, *, host: bool, limits: Limits) -> Principal:
    """The principal of a JSON object `{actor, org, scopes}`, checked.

    `host` says that the mapping comes from the host or its config: from anywhere else `"*"` raises `NotAuthorised`.
    """
    given = mapping_at("principal", mapping)
    for key in given:
        if key not in ("actor", "org", "scopes"):
            raise unknown("principal", key)
    scopes = given.get("scopes", ())
    scopes = tuple(scopes) if isinstance(scopes, list) else scopes
    if scopes == EVERY and not host:
        raise NotAuthorised('principal.scopes: "*" is honoured from the host and its config only.')
    principal = Principal(
        actor=given.get("actor", ""), org=given.get("org", ""), scopes=tuple(scopes) if isinstance(scopes, list) else scopes
    )
    checked(principal, limits)
    return principal


def default_principal(config: Config) -> Principal:
    """Who asks when nobody says so. Raises `ConfigError` when the config's principal is none."""
    stated: dict[str, Any] = {"actor": config.principal.actor, "org": config.principal.org, "scopes": config.principal.scopes}
    try:
        return principal_from(stated, host=True, limits=config.limits)
    except InvalidRequest as error:
        raise ConfigError(error.fact) from None


def checked(principal: Principal, limits: Limits) -> Grants:
    """What a principal is granted by its own statement, every name of it whole. Raises `InvalidRequest` naming the wrong field."""
    if not isinstance(principal, Principal):
        raise InvalidRequest("principal", "must be a Principal")
    actor = name_at("principal.actor", principal.actor, limits.name_characters)
    org = name_at("principal.org", principal.org, limits.name_characters)
    if principal.scopes == EVERY:
        return Grants(actor=actor, org=org, scopes=None)
    return Grants(actor=actor, org=org, scopes=scopes_at("principal.scopes", principal.scopes, limits))


async def granted(principal: Principal, authority: Authority, limits: Limits) -> Grants:
    """What the authority grants this principal now.

    Raises `NotAuthorised` when it answers for somebody else, and `AuthorityFailed` when it raises anything but our own errors, whose text
    would be the host's, or when its answer is no principal: whoever asks stated nothing wrong, and could change nothing about it.
    """
    stated = checked(principal, limits)
    try:
        resolved = await authority.resolve(principal)
    except RemitError:
        raise
    except Exception as error:
        raise AuthorityFailed(f"It raised {type(error).__name__}.") from error
    if resolved is principal:
        return stated
    try:
        grants = checked(resolved, limits)
    except InvalidRequest as error:
        raise AuthorityFailed(f"{error.field} of its answer is wrong") from error
    if (grants.actor, grants.org) != (stated.actor, stated.org):
        raise NotAuthorised("The authority answered for another principal.")
    return replace(grants, kept=isinstance(authority, FromStore))


def allowance(profile: str, config: Config) -> Allowance:
    """What a recall under this profile may spend."""
    return Allowance(
        limit=config.recall.most_limit, deadline_seconds=config.recall.deadline_seconds, ceilings=config.recall.profiles[profile]
    )


def access_for(grants: Grants, narrowing: Narrowing, as_of: datetime) -> Access:
    """What a recall may read: the grants, narrowed by the request and never widened by it."""
    return Access(
        actor=grants.actor,
        org=grants.org,
        granted=grants.scopes,
        as_of=as_of,
        sources=narrowing.sources,
        scopes=narrowing.scopes,
        fact_scopes=narrowing.facts,
        kept=grants.kept,
    )


def within(grants: Grants, admits: Callable[[str], bool]) -> Grants:
    """Of what is granted, the scopes for which something holds; never more."""
    return replace(grants, scopes=frozenset(filter(admits, grants.scopes or ())))


def access_to_write(grants: Grants, as_of: datetime) -> Access:
    """What a write may touch: all that is granted."""
    return Access(actor=grants.actor, org=grants.org, granted=grants.scopes, as_of=as_of, kept=grants.kept)


def scope_filter(access: Access, narrowing: Narrowing) -> dict[str, Any]:
    """`meta.scopeFilter`: the scopes that were searched (`"*"`: all of the org), the declared project, and the scopes of facts
    when those were narrowed further (None: as the rest)."""
    facts = None if access.fact_scopes is None else _reached(access.fact_scopes, access)
    searched = _reached(access.scopes, access) if access.scopes is not None else _everything(access)
    return {"org": access.org, "scopes": searched, "project": narrowing.project, "factScopes": facts}


def _everything(access: Access) -> list[str] | str:
    return EVERY if access.granted is None else sorted({GLOBAL, *access.granted})


def _reached(scopes: Collection[str], access: Access) -> list[str]:
    within = [scope for scope in scopes if access.scopes is None or scope in access.scopes]
    return sorted(scope for scope in within if scope == GLOBAL or access.granted is None or scope in access.granted)


def scope_at(field: str, value: object, limits: Limits) -> str:
    """A scope: `global`, or `kind:name` with a known kind and a whole name."""
    if value == GLOBAL:
        return GLOBAL
    if not isinstance(value, str) or ":" not in value:
        raise InvalidRequest(field, f"{shown(value)} is neither global nor kind:name")
    kind, _, name = value.partition(":")
    one_of(field, kind, KINDS)
    name_at(field, name, limits.name_characters)
    return value


def scopes_at(field: str, value: object, limits: Limits) -> frozenset[str]:
    """A list of scopes; an empty one means none."""
    return frozenset(
        each if _plainly_a_scope(each, limits) else scope_at(f"{field}[{place}]", each, limits)
        for place, each in enumerate(list_at(field, value, limits.scopes))
    )


def _plainly_a_scope(value: object, limits: Limits) -> bool:
    # A principal may hold ten thousand scopes, and each recall looks at all of them: nearly all are of this shape.
    return isinstance(value, str) and len(value) <= limits.name_characters and _PLAIN.fullmatch(value) is not None
