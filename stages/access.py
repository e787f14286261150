"""Who may read what: an access, the label every memory carries, and the one rule between them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from remit.stages.request import Source

GLOBAL = "global"
EVERY = "*"
"""In place of scopes: every scope of an org."""

KINDS = ("project", "person", "conversation", "machine", "agent")


class Approval(StrEnum):
    APPROVED = "approved"
    PROPOSED = "proposed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The part of a label that never changes: whoever may read one memory of a shelf may read all of it."""

    org: str
    source: Source
    scope: str = GLOBAL
    project: str | None = None
    conversation: str | None = None

    @property
    def of_conversation(self) -> bool:
        """Whether everything on it comes out of one conversation."""
        return self.conversation is not None or self.scope.startswith("conversation:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """All that decides whether a memory may be read, and when. `valid_until` and `expires_at` are exclusive."""

    shelf: Shelf
    approval: Approval = Approval.APPROVED
    superseded: bool = False
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A principal resolved to what it may read now. Only `remit.pipeline.authority` makes these.

    `granted` holds scopes by their whole names; `None` means every scope of the org. The rest narrows that further:
    `sources` asked for, `scopes` for every source, `fact_scopes` for facts alone; `None` narrows nothing, an empty set leaves nothing.
    `kept` says that `granted` is what the store's own table held for `actor` a moment ago: the store looks again in the transaction of
    every answer and write, and goes by what is left of it.
    """

    actor: str
    org: str
    granted: frozenset[str] | None
    as_of: datetime
    sources: frozenset[Source] = frozenset(Source)
    scopes: frozenset[str] | None = None
    fact_scopes: frozenset[str] | None = None
    kept: bool = False

    def admits(self, label: Label) -> bool:
        """THE visibility rule: on a shelf this access reaches, approved, not superseded, and inside its time."""
        return self.reaches(label.shelf) and self.stands(label)

    def reaches(self, shelf: Shelf) -> bool:
        """Same org, scope and origin granted, and not left out by what the request narrowed."""
        return (
            shelf.org == self.org
            and shelf.source in self.sources
            and self.grants(shelf.scope)
            and (shelf.project is None or self.grants(f"project:{shelf.project}"))
            and (shelf.conversation is None or self.grants(f"conversation:{shelf.conversation}"))
            and (self.scopes is None or shelf.scope in self.scopes)
            and (shelf.source is not Source.FACT or self.fact_scopes is None or shelf.scope in self.fact_scopes)
        )

    def stands(self, label: Label) -> bool:
        """Approved, not superseded, valid and unexpired at `as_of`."""
        return (
            label.approval is Approval.APPROVED
            and not label.superseded
            and (label.valid_from is None or label.valid_from <= self.as_of)
            and (label.valid_until is None or self.as_of < label.valid_until)
            and (label.expires_at is None or self.as_of < label.expires_at)
        )

    def grants(self, scope: str) -> bool:
        """Whether this scope of the own org was granted, by its whole name; `global` always is."""
        return scope == GLOBAL or self.granted is None or scope in self.granted

    def left(self, scopes: Collection[str]) -> Access:
        """What is left of it when the actor is granted these scopes now, `"*"` among them for all; never more than it was."""
        if EVERY in scopes:
            return self
        held = frozenset(scopes) if self.granted is None else self.granted & {GLOBAL, *scopes}
        return self if held == self.granted else replace(self, granted=held)
