"""Operations: what a write is for, in the words by which who waits for it is told of it."""

from __future__ import annotations

from enum import StrEnum

UNKNOWN = "unknown"
"""The holder when nothing is noted, or nothing that can be believed: another program, or a process that is gone."""


class Operation(StrEnum):
    """What a transaction that writes is for. Nothing else that a database tells of one is ever repeated."""

    CHANGE = "change"
    EMBED = "embed"
    FORGET = "forget"
    GRANT = "grant"
    IMPORT = "import"
    MIGRATE = "migrate"
    PRUNE = "prune"
    PUT = "put"
    REINDEX = "reindex"
    REVOKE = "revoke"
    ROOTS = "roots"
