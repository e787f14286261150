"""Failing: what a person or a program is told when a command cannot do what was asked, and with which exit status."""

from __future__ import annotations

import errno
import json
import re
import traceback
from dataclasses import dataclass
from typing import Any

import typer

ANSWERED, UNSOUND, WRONG, EXHAUSTED, UNAVAILABLE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 4, 130, 141
"""Exit statuses: an answer, also `nothing_found` · an evaluation found a leak · something stated is wrong · a ceiling cut the
answer · a fault · Ctrl-C · a reader that left."""

OF_OUTCOME = {"enough": ANSWERED, "nothing_found": ANSWERED, "exhausted": EXHAUSTED, "unavailable": UNAVAILABLE}

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_FIELD = re.compile(r"([A-Za-z][\w.\[\]-]*): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong: the exit status, a code, the field it is about when there is one, and one line for a person."""

    status: int
    code: str
    message: str
    field: str | None = None

    def wire(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "field": self.field, "message": self.message}}

    def json(self) -> str:
        return json.dumps(self.wire(), ensure_ascii=False)


def failure_of(error: Exception) -> Failure:
    """The failure an exception stands for. Of one that is not ours only its kind and place are told: its text may hold anything."""
    if isinstance(error, typer.TyperException):
        return Failure(status=WRONG, code="usage", message=_one_line(f"{error.format_message()} (see --help)"))
    if isinstance(error, OSError) and error.errno in _FULL:
        return Failure(status=UNAVAILABLE, code="output", message=f"the output cannot be written: {error.strerror}")
    return _of_remit(error) or Failure(status=UNAVAILABLE, code="internal", message=f"this should not happen: {_kind_and_place(error)}")


def _of_remit(error: Exception) -> Failure | None:
    from remit.pipeline import errors

    if isinstance(error, errors.InvalidRequest):
        return Failure(status=WRONG, code="invalid", message=_one_line(error.fact), field=error.field)
    if isinstance(error, errors.ConfigError):
        named = _FIELD.match(error.fact)
        return Failure(status=WRONG, code="config", message=_one_line(str(error)), field=named[1] if named else None)
    if isinstance(error, errors.NotAuthorised):
        return Failure(status=WRONG, code="not_authorised", message=_one_line(str(error)))
    if isinstance(error, errors.UnsafeStorage):
        return Failure(status=UNAVAILABLE, code="unsafe_storage", message=_one_line(str(error)))
    if isinstance(error, errors.StorageUnavailable):
        return Failure(status=UNAVAILABLE, code="store_unavailable", message=_one_line(str(error)))
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _kind_and_place(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {'/'.join(last[0].filename.split('/')[-2:])}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}{place}"
