"""Identity: on whose behalf a transaction runs, set for that transaction alone and read back from the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import TypeVar

from remit.pipeline.errors import UnsafeStorage
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.postgres.line import Line
from remit.pipeline.storage.postgres.rows import EVERY, SEPARATOR, scopes_setting, spelled
from remit.pipeline.storage.postgres.statements import Command, Statement, plain
from remit.stages.access import Access

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Identity:
    """An org and the setting app.scopes. Nobody in particular has neither, and no policy lets anything of a tenant through for nobody.

    `actor` is whose grants are to be looked up again in the transaction; None for who was granted elsewhere what `granted` lists.
    """

    org: str
    scopes: str
    actor: str | None = None
    granted: tuple[str, ...] = ()

    @classmethod
    def of(cls, access: Access) -> Identity:
        """Raises `UnsafeStorage` for an access to no org: it would leave the identity open."""
        if not access.org:
            raise UnsafeStorage("The identity is open: no org was given.")
        if not access.kept:
            return cls(spelled(access.org), scopes_setting(access.granted))
        granted = (EVERY,) if access.granted is None else tuple(sorted(map(spelled, access.granted)))
        return cls(spelled(access.org), scopes_setting(access.granted), spelled(access.actor), granted)

    @classmethod
    def of_org(cls, org: str) -> Identity:
        """An org as a whole, for the host's own maintenance."""
        return cls(spelled(org), scopes_setting(None))


NOBODY = Identity("", "")


class Regranted(Exception):
    """An actor is granted less now than the access says, of which nothing was used: these scopes are left."""

    def __init__(self, left: Sequence[str]) -> None:
        super().__init__()
        self.left = left


async def as_granted(access: Access, work: Callable[[Access], Awaitable[T]]) -> T:
    """What `work` makes of the access, of as much as its own transaction finds granted. Each time is with less, so this ends."""
    while True:
        try:
            return await work(access)
        except Regranted as told:
            access = access.left(told.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How transactions of a store run: as which role (None: as the one that logged in), and where the extension's own names are found."""

    role: str | None
    vectors_in: str | None = None

    @property
    def path(self) -> str:
        """Where names without a schema are looked for: never first among what a stranger may have made."""
        return ", ".join(f'"{schema}"' for schema in ("pg_catalog", *([self.vectors_in] if self.vectors_in else ()), "pg_temp"))


OF_ORG = plain("SET LOCAL app.scopes = '*'")
"""From here on a transaction sees all of its org: for what must reach rows that the caller does not see, and tells nothing of them."""

BECOMING = b"SET LOCAL ROLE"
"""How the statement begins by which a transaction becomes the restricted role, where it is not set up at once."""

AT_ONCE = "set_up"
"""The statement that sets a transaction up at once."""

NAMED = "remit "
"""How the name of an application begins that is followed by its operation."""

READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGIN_READING = plain(READING)


def opening(line: Line, begin: str, identity: Identity, terms: Terms, seconds: float) -> list[Command]:
    """The statements that begin a transaction. The time limit comes first; each setting is a literal, which reaches the nodes of a cluster,
    and is gone when the transaction ends."""
    return [
        plain(begin),
        plain(f"SET LOCAL statement_timeout = {_milliseconds(seconds)}"),
        *([plain(f'{BECOMING.decode()} "{terms.role}"')] if terms.role is not None else []),
        paths(terms),
        plain(f"SET LOCAL app.org = {line.literal(identity.org)}"),
        scopes_as(line, identity.scopes),
        *(_PLANNED_ONCE if begin == READING else []),
    ]


def opening_at_once(identity: Identity, terms: Terms, seconds: float, set_up: Statement) -> list[Command]:
    """The same for a transaction that reads as the restricted role, where nothing has to be a literal: in one statement."""
    values = {
        "role": terms.role,
        "path": terms.path,
        "org": identity.org,
        "scopes": identity.scopes,
        "milliseconds": _milliseconds(seconds),
    }
    return [_BEGIN_READING, set_up.given(values)]


def _milliseconds(seconds: float) -> str:
    return str(max(1, ceil(seconds * 1000)))


def named(operation: Operation) -> Command:
    """Tells whoever waits for this transaction what it is; gone when it ends."""
    return plain(f"SET LOCAL application_name = '{NAMED}{operation}'")


def paths(terms: Terms) -> Command:
    return plain(f"SET LOCAL search_path = {terms.path}")


def lock_of_grants(org: str, actor: str) -> int:
    """The number of the lock that who writes by an actor's grants shares, and who revokes one has alone; the names as they are spelled."""
    return int.from_bytes(sha256(f"{org}{SEPARATOR}{actor}".encode()).digest()[:8], signed=True)


def scopes_as(line: Line, scopes: str) -> Command:
    return plain(f"SET LOCAL app.scopes = {line.literal(scopes)}")


# The statements that read are written so that one plan, by the indexes, is right for every org. The planner would make a new one each time,
# which takes as long as the statement, or keep one that it made while a table was nearly empty.
_PLANNED_ONCE = [plain("SET LOCAL plan_cache_mode = force_generic_plan"), plain("SET LOCAL enable_seqscan = off")]


def confirmed(told: Sequence[bytes | None], identity: Identity, terms: Terms) -> None:
    """Sees that role, app.org and app.scopes, as the database tells them, are those that were set. Raises `UnsafeStorage` when not."""
    role, org, scopes = (each.decode() if each is not None else None for each in told[:3])
    if (org, scopes) != (identity.org, identity.scopes) or terms.role not in (None, role):
        raise UnsafeStorage("The identity did not reach the database: look for what changes settings between here and there.")
