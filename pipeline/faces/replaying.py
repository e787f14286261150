"""Replaying at the command line: the requests that receipts are of, and what became of each receipt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from remit.pipeline.errors import InvalidRequest
from remit.pipeline.faces.failing import ANSWERED, UNAVAILABLE, UNSOUND
from remit.pipeline.faces.wire import request_from
from remit.pipeline.replaying import Replayed, Verdict
from remit.stages.request import Request

COLOURS = {Verdict.IDENTICAL: "green", Verdict.DRIFTED: "yellow", Verdict.NOT_CHECKABLE: "cyan"}


def requests_of(name: str, most_bytes: int) -> list[Request]:
    """The requests of a file: one JSON object, or one a line. Raises `InvalidRequest` naming the line that is none."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(most_bytes + 1).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidRequest("request", f"{name!r} cannot be read: {getattr(error, 'strerror', None) or 'no text in UTF-8'}") from None
    if len(content) > most_bytes:
        raise InvalidRequest("request", f"more than {most_bytes} bytes")
    whole = _parsed(content)
    if isinstance(whole, Mapping):
        return [request_from(whole)]
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    return [request_from(_object(number, line)) for number, line in lines]


def _object(number: int, line: str) -> Mapping[str, Any]:
    stated = _parsed(line)
    if not isinstance(stated, Mapping):
        raise InvalidRequest("request", f"line {number} is not a JSON object")
    return stated


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def replayed_to(replayed: Replayed) -> dict[str, Any]:
    """What became of a receipt as JSON; `why` only of one that cannot be checked."""
    told: dict[str, Any] = {
        "number": replayed.number,
        "hash": replayed.hash,
        "verdict": replayed.verdict.value,
        "changes": [{"id": each.id, "reason": str(each.reason)} for each in replayed.changes],
        "around": [each.value for each in replayed.around],
    }
    return told if replayed.why is None else {**told, "why": replayed.why.value}


def show_replayed(console: Console, replayed: Sequence[Replayed]) -> None:
    for each in replayed:
        verdict = Text(each.verdict.replace("_", " "), style=f"bold {COLOURS[each.verdict]}")
        console.print(Text.assemble(f"{each.number}  {each.hash[:12]}  ", verdict, f"  {each.why or ''}".rstrip()))
        for change in each.changes:
            console.print(Text(f"  {change.id or 'the answer'}: {change.reason}"), soft_wrap=True)
        if each.around:
            console.print(Text(f"  since then: {', '.join(each.around)}", style="dim"), soft_wrap=True)


def status_of(replayed: Sequence[Replayed]) -> int:
    """The exit status: something drifted, or could not be checked, or all is as it was."""
    verdicts = {each.verdict for each in replayed}
    if Verdict.DRIFTED in verdicts:
        return UNSOUND
    return UNAVAILABLE if Verdict.NOT_CHECKABLE in verdicts else ANSWERED
