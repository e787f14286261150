"""Digests: one short name for a value, the same wherever and however it is written down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from typing import Any

from remit.pipeline.times import moment_at
from remit.stages.request import Request

BUDGETS = frozenset({"continuation", "ceilings", "context", "deadline_seconds"})
"""The fields of a request that say what may be spent, not what is asked."""

_SETS = ("sources", "scopes", "fact_scopes")
_MOMENTS = ("as_of", "created_from", "created_until")


def canonical(value: Any) -> str:
    """JSON in the one form that is digested: keys in order, no blanks, plain ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: Any) -> str:
    """SHA-256 of a plain value, as lower-case hex."""
    return sha256(canonical(plain(value)).encode()).hexdigest()


def request_digest(request: Request, *, without: Set[str] = frozenset()) -> str:
    """The digest of what a checked request states, whatever its spelling: times as moments, lists that are sets in order."""
    stated = {each.name: getattr(request, each.name) for each in fields(request) if each.name not in without}
    for name in stated.keys() & _SETS:
        stated[name] = None if stated[name] is None else frozenset(map(str, stated[name]))
    for name in stated.keys() & _MOMENTS:
        stated[name] = None if stated[name] is None else moment_at(name, stated[name])
    return digest_of({name: value for name, value in stated.items() if value not in (None, (), [], {})})


def config_digest(config: Any) -> str:
    """The digest of a configuration, where receipts lie aside: that changes no answer."""
    return digest_of({each.name: getattr(config, each.name) for each in fields(config) if each.name != "receipts"})


def plain(value: Any) -> Any:
    """A value as JSON can hold it. Of an object of ours only what is not as it would be anyway."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if getattr(value, each.name) != _default(each)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Set):
        return sorted(map(plain, value))
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
