"""The app that the commands are commands of, and what each of them needs to become one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remit.pipeline.faces.options import Common, spread

if TYPE_CHECKING:
    from remit.pipeline.faces.host import Host

# What a command needs is imported when it runs, so that --help and --version do not wait for an engine.

app = typer.Typer(
    name="remit",
    help="The memory of an agent: recall within your authority and your budget.",
    epilog="Exit status: 0 answered, also nothing_found; 2 something stated is wrong; 3 exhausted; 4 unavailable.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def commands(panel: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Makes functions commands of the app, each followed by the telemetry that was asked for; `--help` lists them under `panel`."""

    def command(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def followed(*, common: Common, **values: Any) -> int:
            from remit.pipeline.faces.telemetry import telemetry

            with telemetry(common.trace, log=common.log):
                return function(common=common, **values)

        app.command(name=function.__name__.rstrip("_"), rich_help_panel=panel)(spread(followed))
        return function

    return command


@app.callback(invoke_without_command=True)
@spread
def remit(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    *,
    common: Common,
) -> None:
    if version:
        from importlib.metadata import version as of

        print(f"remit {of('remit')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
    context.obj = common


def host_of(common: Common) -> Host:
    from remit.pipeline.faces.host import Host

    return Host.of(common)


def json_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def make_printable(*, as_json: bool) -> None:
    """JSON is UTF-8 wherever it goes; for a person, what their terminal cannot show is spelled out."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(**({"encoding": "utf-8"} if as_json else {}), errors="backslashreplace")
