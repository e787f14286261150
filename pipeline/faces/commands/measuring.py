"""Commands that show and measure what Remit does."""

from __future__ import annotations

from typing import Annotated

import typer

from remit.pipeline.faces.commands.app import commands, host_of, json_line
from remit.pipeline.faces.failing import ANSWERED, UNSOUND
from remit.pipeline.faces.options import Common

command = commands("Trying and measuring")


@command
def demo(*, common: Common) -> int:
    """Take in a small shipped memory, ask it, and show how the answers came about."""
    import anyio

    from remit.pipeline.faces.demo.tour import show_tour, tour_to, toured
    from remit.pipeline.faces.show import terminal
    from remit.pipeline.starting import now_in_utc

    tour = anyio.run(toured, common, now_in_utc())
    if common.json:
        print(json_line(tour_to(tour)))
    else:
        show_tour(terminal(), tour)
    return ANSWERED


@command
def eval(  # noqa: A001 - what people type
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Questions and their evidence, one JSON object a line.")],
    memories: Annotated[
        str | None, typer.Option("--memories", metavar="FILE", help="Ask these, in a store of their own, not the host's.")
    ] = None,
    half: Annotated[str | None, typer.Option("--half", help="Only the cases of this half.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Cards looked at by recall@k and nDCG@k.")] = None,
    curves: Annotated[bool, typer.Option("--curves", help="Also ask with lowered budgets, stage by stage.")] = False,
    mutations: Annotated[bool, typer.Option("--mutations", help="Also change a copy of the memory, and say what still holds.")] = False,
    copy: Annotated[
        str | None,
        typer.Option("--copy", metavar="URL", help="An empty store for that copy; else one of the host's kind, where it can be made."),
    ] = None,
    against: Annotated[str | None, typer.Option("--against", metavar="FILE", help="Say what moved since this result of --json.")] = None,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write the report as one HTML page; draws curves too.")] = None,
    *,
    common: Common,
) -> int:
    """Measure what is found of what should be, where the rest is lost, and whether anything leaks."""
    import anyio

    from remit.pipeline.faces.evaluating import Evaluating, compared, sound, writable, write_report
    from remit.pipeline.faces.measured import show_result
    from remit.pipeline.faces.progress import Progress
    from remit.pipeline.faces.show import terminal

    host = host_of(common)
    evaluating = Evaluating.of(
        host,
        gold,
        memories=memories,
        half=half,
        k=k,
        with_curves=curves or html is not None,
        with_mutations=mutations,
        copy=copy,
        against=against,
    )
    if html is not None:
        writable(html)
    with Progress("evaluating", evaluating.steps) as progress:
        result = anyio.run(evaluating.result, progress.at)
    if evaluating.before is not None:
        result["compared"] = compared(result, evaluating.before, host.config)
    if html is not None:
        write_report(html, result)
    if common.json:
        print(json_line(result))
    else:
        show_result(terminal(), result)
    return ANSWERED if sound(result) else UNSOUND
