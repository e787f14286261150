"""Commands that carry memories in and out: many lines, a receipt for each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from remit.pipeline.faces.commands.app import commands, host_of, json_line, make_printable
from remit.pipeline.faces.failing import ANSWERED, WRONG
from remit.pipeline.faces.options import Common

if TYPE_CHECKING:
    from remit.pipeline.faces.host import Host
    from remit.pipeline.faces.taking import Intaking, Taken

command = commands("Taking in and out")


@command
def add(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="JSON Lines (- is stdin), Markdown or text files, or folders of such.")
    ],
    scope: Annotated[str | None, typer.Option("--scope", help="Of what states none itself; else global.")] = None,
    org: Annotated[str | None, typer.Option("--org", help="Of what states none itself; else the principal's.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="What text files become: fact, session or doc.")] = None,
    *,
    common: Common,
) -> int:
    """Take in memories: one receipt a line; what is wrong is listed again at the end, and costs the rest nothing."""
    from remit.pipeline.faces.progress import Progress
    from remit.pipeline.faces.taking import intaking, sizes_of

    host = host_of(common)
    with Progress("taking in", sizes_of(files)) as progress:
        taking = intaking(files, host.config.limits, scope=scope, org=org, source=source, told=progress.advance)
        wrong = _taken(taking, host, common)
    return _told(taking, wrong, common)


@command
def import_(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="What remit export printed; - is stdin.")],
    *,
    common: Common,
) -> int:
    """Take in an export, exactly as it stood: versions, times, approval, history; what is there already is unchanged."""
    from remit.pipeline.faces.living import importing
    from remit.pipeline.faces.progress import Progress
    from remit.pipeline.faces.taking import sizes_of

    host = host_of(common)
    with Progress("importing", sizes_of(files)) as progress:
        taking = importing(files, host.config.limits, progress.advance)
        wrong = _taken(taking, host, common)
    return _told(taking, wrong, common)


@command
def export(*, common: Common) -> int:
    """Print everything the principal may read, one JSON object a line, for remit import."""
    import anyio

    from remit.pipeline.faces.living import exported_lines
    from remit.pipeline.faces.progress import Progress

    host = host_of(common)

    async def work() -> None:
        async with host.engine() as engine:
            async for line in exported_lines(engine, host.principal):
                print(line)
                progress.advance(1)

    make_printable(as_json=True)
    with Progress("exporting", None) as progress:
        anyio.run(work)
    return ANSWERED


def _taken(taking: Intaking, host: Host, common: Common) -> list[Taken]:
    """Takes everything in, a receipt line for each; what was wrong."""
    import anyio

    wrong: list[Taken] = []

    async def work() -> None:
        async with host.engine(make=True) as engine:
            async for taken in taking.into(engine, host.principal):
                print(json_line(taken.wire()) if common.json else taken.line_for_people())
                if taken.refused:
                    wrong.append(taken)

    anyio.run(work)
    return wrong


def _told(taking: Intaking, wrong: list[Taken], common: Common) -> int:
    if not common.json:
        print(taking.summary(), file=sys.stderr)
        for each in wrong:
            print(f"  {each.wrong}", file=sys.stderr)
    return WRONG if wrong else ANSWERED
