"""Failures: what Postgres reports, told plainly and without its text, which may hold statements, rows and addresses."""

from __future__ import annotations

from remit.pipeline.crews import Overloaded
from remit.pipeline.errors import RemitError, StorageUnavailable

CANCELED = "57014"
NO_RIGHT = "42501"
TAKEN = "23505"
IN_THE_WAY = "40"
"""The class of deadlocks and their like: all of the transaction was taken back, and may be tried again."""

UNFIT = ("22", "54")
"""Classes of faults that lie in a value and not in the database."""

LOST = "The connection was lost: try again."

NO_MEMBER = "This login may not become its restricted role: let a DBA grant it that role, as ops/postgres/roles.sql shows."

_POOLED = "A prepared statement was lost on the way: set postgres.prepare to false behind a pooler that does not keep them."

_SENTENCES = {
    "08": LOST,
    "22023": "Its restricted role is not there: run `remit init` with an owner's DSN.",
    "25006": "It takes no writes now: it is read-only.",
    "26": _POOLED,
    "40": "Another writer was in the way: try again.",
    NO_RIGHT: "Its role may not do this: run `remit init` with an owner's DSN.",
    "42P05": _POOLED,
    "42P01": "Its schema is not there: run `remit init` with an owner's DSN.",
    "3F000": "Its schema is not there: run `remit init` with an owner's DSN.",
    "53100": "The disk is full: make room and try again.",
    "53200": "It is out of memory: try again.",
    "53": "It is short of something it needs: try again.",
    "54": "A value is larger than it can hold.",
    "55P03": "Another writer was in the way: try again.",
    CANCELED: "It took too long: try again, or allow more time.",
    "57": "It is starting or stopping: try again.",
    "58": "Reading or writing its disk failed.",
    "XX": "Its data is damaged: see its log.",
}


class InTheWay(StorageUnavailable):
    """The store cannot be used now.

    Somebody else's locks were in the way, as in a deadlock: all of the transaction was taken back, and may be begun anew.
    """


_NOT_CONNECTED = (
    (("password", "authentication", "pg_hba", "certificate", "role "), "It refused the login: look at user and password."),
    (("database ",), "The database is not there: create it, or look at its name."),
    (("starting up", "shutting down", "not accepting", "recovery"), "It is starting or stopping: try again."),
)
_FULL = ("too many clients", "too many connections", "connection slots", "connection limit")


def told(sqlstate: str) -> StorageUnavailable:
    """The error for what a statement ran into, by its SQLSTATE or the class of that."""
    kind = InTheWay if sqlstate[:2] == IN_THE_WAY else StorageUnavailable
    for known in (sqlstate, sqlstate[:2]):
        if known in _SENTENCES:
            return kind(_SENTENCES[known])
    return StorageUnavailable(f"Postgres reported {sqlstate or 'a fault'}.")


def unwritten(sqlstate: str) -> StorageUnavailable:
    """The same of a write, whose caller wants to know that nothing of it was kept."""
    error = told(sqlstate)
    return type(error)(f"{error.fact} Nothing was written.")


def not_connected(message: str) -> RemitError:
    """The error for what libpq says of a connection it could not make, in English or else without a hint."""
    said = message.lower()
    if any(each in said for each in _FULL):
        return Overloaded()
    if "does not support ssl" in said:
        return StorageUnavailable("It does not encrypt, which the address asks for: look at sslmode.")
    if "fatal" in said or "authentication" in said or "password" in said:
        for marks, sentence in _NOT_CONNECTED:
            if any(mark in said for mark in marks):
                return StorageUnavailable(sentence)
    return StorageUnavailable("Nothing answers there: is it running, and is the address right?")
