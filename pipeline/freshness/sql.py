"""Named queries of the host as a check: what a query answers now, against what the memory's origin states."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import apsw

from remit.pipeline.freshness.threads import POLL, Threads
from remit.stages.access import Access
from remit.stages.evidence import Memory, Origin, Verdict

STEPS = 10_000
"""Of SQLite's machine, some tenths of a millisecond, between asking whether anybody still waits for the answer."""

Query = Callable[[Mapping[str, str], Access], Awaitable[object]]
"""A host's own query: gets the URI's parameters and the access, and gives a version, a content or a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteQuery:
    """One statement over a SQLite file, which is opened for reading only, and gives at most one row of one value.

    `:name` in `sql` is the URI's parameter of that name; `:org`, `:actor` and `:scopes` (a JSON list; NULL is all) are the access's own
    whatever a URI says, so that the statement can ask whether this principal may read the row.
    """

    path: str | Path
    sql: str


class QueryChecker:
    """The check for `sql:NAME?id=42` origins: what the host's query of that name answers is still what the origin states.

    A text, whole number or bytes is compared with the origin's `version`; when it states none, with its `sha256`, as content. No row is
    missing, a name that nobody registered inaccessible, and everything else unverified. A URI only chooses a query and gives it values.
    At most `threads` statements run at once, none over values above `most_bytes`. Raises what a query raises.
    """

    def __init__(self, queries: Mapping[str, Query | SqliteQuery], *, most_bytes: int, threads: int) -> None:
        self._queries = dict(queries)
        self._most_bytes = most_bytes
        self._threads = Threads(threads)

    async def __call__(self, memory: Memory, access: Access, /) -> Verdict:
        if memory.origin is None:
            return Verdict.UNVERIFIED
        asked = asked_by(memory.origin.uri)
        query = self._queries.get(asked[0]) if asked else None
        if asked is None or query is None:
            return Verdict.INACCESSIBLE
        if isinstance(query, SqliteQuery):
            values = {**asked[1], **values_of(access)}
            answer = await self._threads.run(partial(only_value, query, values, self._most_bytes))
        else:
            answer = await query(asked[1], access)
        return answer if isinstance(answer, Verdict) else compared(answer, memory.origin)


def asked_by(uri: str) -> tuple[str, dict[str, str]] | None:
    """The query's name and the values a `sql:` URI gives it, percent-decoded once; None when one is given twice or is not written so."""
    name, mark, given = uri.partition(":")[2].partition("?")
    if "#" in uri:
        return None
    try:
        pairs = parse_qsl(given, keep_blank_values=True, strict_parsing=True, errors="strict") if mark else []
        values = dict(pairs)
        return (unquote(name, errors="strict"), values) if len(values) == len(pairs) else None
    except ValueError:
        return None


def values_of(access: Access) -> dict[str, str | None]:
    scopes = None if access.granted is None else json.dumps(sorted(access.granted))
    return {"org": access.org, "actor": access.actor, "scopes": scopes}


def compared(answer: object, origin: Origin) -> Verdict:
    """What a query's answer says of an origin. Neither a truth nor nothing is an answer: a host that means no row says `missing`."""
    if isinstance(answer, bool) or not isinstance(answer, str | int | bytes):
        return Verdict.UNVERIFIED
    if origin.version is not None:
        return Verdict.FRESH if stated(answer) == stated(origin.version) else Verdict.CHANGED
    if origin.sha256 is not None:
        return Verdict.FRESH if hashlib.sha256(stated(answer)).hexdigest() == origin.sha256.lower() else Verdict.CHANGED
    return Verdict.UNVERIFIED


def stated(answer: str | int | bytes) -> bytes:
    return answer if isinstance(answer, bytes) else str(answer).encode("utf-8", "surrogatepass")


def only_value(query: SqliteQuery, values: Mapping[str, str | None], most_bytes: int, unwanted: threading.Event) -> object:
    """The one value a statement gives; missing without a row, None with more than one row or value. Raises `apsw.Error`."""
    connection = apsw.Connection(str(query.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, most_bytes)
        connection.set_busy_handler(lambda _tries: not unwanted.wait(POLL))
        connection.set_progress_handler(unwanted.is_set, STEPS)
        rows = connection.execute(query.sql, values)
        first, second = next(rows, None), next(rows, None)
    finally:
        connection.close(True)
    if first is None:
        return Verdict.MISSING
    return first[0] if second is None and len(first) == 1 else None
