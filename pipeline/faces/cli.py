"""The command line: runs one command, and tells of any failure in one line and a documented exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from remit.pipeline.faces.commands import asking, carrying, changing, measuring, upkeep
from remit.pipeline.faces.commands.app import app, json_line, make_printable
from remit.pipeline.faces.failing import ANSWERED, INTERRUPTED, PIPE_CLOSED, failure_of
from remit.pipeline.faces.options import spelled_out

COMMANDS = (asking, carrying, changing, upkeep, measuring)
"""The modules whose functions became commands of `app` when they were imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status. No exception leaves it."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in given
    _make_whole()
    make_printable(as_json=as_json)
    try:
        status = app(spelled_out(given), prog_name="remit", standalone_mode=False)
        sys.stdout.flush()
        return int(status or ANSWERED)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # Typer and rich end the process when the reader of stdout has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing complains at the end of the process
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - whatever is wrong, a person gets one line and a program one object, never a traceback
        failure = failure_of(error)
        if as_json:
            print(json_line(failure.wire()))
        else:
            print(f"remit: {failure.message}", file=sys.stderr)
        return failure.status


def _make_whole() -> None:
    """A stream that was closed before we began reads as empty and takes what is written; no file of ours can get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it lives as long as the process
