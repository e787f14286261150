"""Condition: how the tables of a Postgres store are kept, apart from what stands in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from remit.pipeline.storage.postgres.making import indexes_made
from remit.pipeline.storage.postgres.means import Means
from remit.pipeline.storage.store import Fault

SOUND_FROM = (0, 8, 4)
"""The first pgvector whose index stays whole under writers, deleters and vacuum; from 0.8.0 on it can scan until enough is found."""

MOST_DEAD = 10_000
"""Dead rows of a table that vacuum may have left when it comes by itself; more, and more than live ones, says that it does not come."""

INIT = "run `remit init` with an owner's DSN"
_VACUUM = "run VACUUM (ANALYZE) on it, and look at why autovacuum does not come"
_WRITE = "take default_transaction_read_only back, or use the address of the server that takes writes"


def faults(told: bytes | None, means: Means) -> Iterator[Fault]:
    """What is not as it should be, of what the statement `condition` told."""
    condition = json.loads(told or b"{}")
    yield from _indexes(condition.get("indexes") or {})
    yield from _extension(means)
    for table, missing in (condition.get("forbidden") or {}).items():
        yield Fault(code="missing_rights", detail=f"the role may not do this to {table}: {missing}", fix=INIT)
    for table, dead, live in condition.get("dead") or []:
        yield Fault(code="dead_rows", detail=f"{table} holds {dead} dead rows beside {live} live ones", fix=_VACUUM)
    if condition.get("read_only"):
        yield Fault(code="read_only", detail="the database takes no writes, and is no replica", fix=_WRITE)


def number(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (version or "0").split(".") if part.isdigit())


def _indexes(there: Mapping[str, Any]) -> Iterator[Fault]:
    for name in indexes_made():
        if name not in there:
            yield Fault(code="missing_index", detail=f"the index {name} is gone", fix=INIT)
    for name, usable in there.items():
        if not usable and not name.startswith("vector_"):
            yield Fault(code="invalid_index", detail=f"the index {name} was left half made", fix=INIT)


def _extension(means: Means) -> Iterator[Fault]:
    if means.version is not None and number(means.version) < SOUND_FROM:
        yield Fault(code="old_extension", detail=f"pgvector {means.version} may damage its index", fix="update the extension, and reindex")
    if means.version is not None and not means.places:
        yield Fault(code="no_vector_tables", detail="the extension came after the store was made", fix=INIT)
    for name, place in means.places.items():
        if not place.indexed:
            yield Fault(code="no_vector_index", detail=f"{name} vectors have no index that can be used", fix=INIT)
