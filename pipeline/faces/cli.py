"""The command line: one function a command; the memory is asked, taken in, changed, carried and looked after from here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remit.pipeline.faces.failing import ANSWERED, INTERRUPTED, OF_OUTCOME, PIPE_CLOSED, UNAVAILABLE, UNSOUND, WRONG, failure_of
from remit.pipeline.faces.options import Asked, Common, spelled_out, spread

if TYPE_CHECKING:
    from remit.pipeline.faces.host import Host
    from remit.pipeline.faces.taking import Intaking, Taken
    from remit.stages.request import Request

# What a command needs is imported when it runs, so that --help and --version do not wait for an engine.

app = typer.Typer(
    name="remit",
    help="The memory of an agent: recall within your authority and your budget.",
    epilog="Exit status: 0 answered, also nothing_found; 2 something stated is wrong; 3 exhausted; 4 unavailable.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status. No exception leaves it."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in given
    _make_whole()
    _make_printable(as_json=as_json)
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
            print(_json(failure.wire()))
        else:
            print(f"remit: {failure.message}", file=sys.stderr)
        return failure.status


def command(function: Callable[..., int]) -> Callable[..., int]:
    """A command of the app, followed by the telemetry that was asked for."""

    @wraps(function)
    def followed(*, common: Common, **values: Any) -> int:
        from remit.pipeline.faces.telemetry import telemetry

        with telemetry(common.trace, log=common.log):
            return function(common=common, **values)

    app.command(name=function.__name__.rstrip("_"))(spread(followed))
    return function


Named = Annotated[list[str], typer.Argument(metavar="SOURCE:ID...", help="Which, by name.")]


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


@command
def demo(*, common: Common) -> int:
    """Take in a small shipped memory, ask it, and show how the answers came about."""
    import anyio

    from remit.pipeline.engine import now_in_utc
    from remit.pipeline.faces.demo.tour import show_tour, tour_to, toured
    from remit.pipeline.faces.show import terminal

    tour = anyio.run(toured, common, now_in_utc())
    if common.json:
        print(_json(tour_to(tour)))
    else:
        show_tour(terminal(), tour)
    return ANSWERED


@command
def init(*, common: Common) -> int:
    """Make the store, or upgrade it: also when its words were made in another language."""
    import anyio

    from remit.pipeline.faces.making import made, show_made
    from remit.pipeline.faces.progress import Progress

    with Progress("indexing", None) as progress:
        done = anyio.run(made, _host(common), progress.at)
    if common.json:
        print(_json(done.wire()))
    else:
        show_made(done)
    return ANSWERED if done.healthy else UNAVAILABLE


@command
def add(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="JSON Lines, Markdown or text files, or folders of such.")],
    scope: Annotated[str | None, typer.Option("--scope", help="Of what states none itself; else global.")] = None,
    org: Annotated[str | None, typer.Option("--org", help="Of what states none itself; else the principal's.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="What text files become: fact, session or doc.")] = None,
    *,
    common: Common,
) -> int:
    """Take in memories: one receipt a line; what is wrong is listed again at the end, and costs the rest nothing."""
    from remit.pipeline.faces.progress import Progress
    from remit.pipeline.faces.taking import intaking, sizes_of

    host = _host(common)
    with Progress("taking in", sizes_of(files)) as progress:
        taking = intaking(files, host.config.limits, scope=scope, org=org, source=source, told=progress.advance)
        wrong = _taken(taking, host, common)
    return _told(taking, wrong, common)


def _taken(taking: Intaking, host: Host, common: Common) -> list[Taken]:
    """Takes everything in, a receipt line for each; what was wrong."""
    import anyio

    wrong: list[Taken] = []

    async def work() -> None:
        async with host.engine(make=True) as engine:
            async for taken in taking.into(engine, host.principal):
                print(_json(taken.wire()) if common.json else taken.line_for_people())
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


@command
def recall(
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="What is asked; or see --request.", show_default=False)] = None,
    *,
    asked: Asked,
    common: Common,
) -> int:
    """Ask: the ranked list, the funnel of the five stages, and the packed context."""
    import anyio

    host = _host(common)
    request = _request(query, asked, host)
    answer = anyio.run(host.recall, request)
    if common.json:
        print(_json(answer.wire()))
    else:
        from remit.pipeline.faces.show import show_answer, terminal

        show_answer(terminal(), answer.wire())
    return OF_OUTCOME[answer.outcome]


@command
def brief(
    tokens: Annotated[int | None, typer.Option("--tokens", help="The most tokens the brief may take.")] = None,
    project: Annotated[str | None, typer.Option("--project", help="Leaves the global facts and this project's.")] = None,
    *,
    common: Common,
) -> int:
    """What an agent should know before its first question: pinned facts first, within a budget."""
    import anyio

    from remit.pipeline.faces.show import show_brief, terminal
    from remit.pipeline.faces.wire import brief_to

    told = anyio.run(_host(common).brief, tokens, project)
    if common.json:
        print(_json(brief_to(told)))
    else:
        show_brief(terminal(), terminal(stderr=True), told)
    return ANSWERED


@command
def why(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What was asked.")],
    memory: Annotated[str, typer.Argument(metavar="SOURCE:ID", help="The memory that was expected.")],
    *,
    asked: Asked,
    common: Common,
) -> int:
    """Which stage lost a memory, and why, from asking again."""
    import anyio

    from remit.pipeline.faces.show import show_why, terminal
    from remit.pipeline.faces.wire import explanation_to

    host = _host(common)
    explanation = anyio.run(host.why, _request(query, asked, host), memory)
    if common.json:
        print(_json(explanation_to(explanation)))
    else:
        show_why(terminal(), explanation)
    return UNAVAILABLE if explanation.reason == "stopped" else ANSWERED


@command
def grant(
    actor: Annotated[str, typer.Argument(metavar="ACTOR", help="Whom.")],
    scopes: Annotated[list[str], typer.Argument(metavar="SCOPE...", help="global, or kind:name.")],
    *,
    common: Common,
) -> int:
    """Grant an actor of the principal's org scopes, in the store; recalls go by them when authority.grants is store."""
    return _granting(actor, scopes, common, take_back=False)


@command
def revoke(
    actor: Annotated[str, typer.Argument(metavar="ACTOR", help="From whom.")],
    scopes: Annotated[list[str], typer.Argument(metavar="SCOPE...", help="global, or kind:name.")],
    *,
    common: Common,
) -> int:
    """Take scopes back from an actor; gone at its next recall."""
    return _granting(actor, scopes, common, take_back=True)


def _granting(actor: str, scopes: list[str], common: Common, *, take_back: bool) -> int:
    import anyio

    host = _host(common)
    left = anyio.run(host.granting, actor, scopes, take_back)
    if common.json:
        print(_json({"org": host.principal.org, "actor": actor, "scopes": left}))
    else:
        print(f"{actor} of {host.principal.org} is granted: {', '.join(left) or 'nothing'}")
    return ANSWERED


@command
def approve(memories: Named, *, common: Common) -> int:
    """Approve memories that were proposed or rejected, so that they are found."""
    return _changed("approve", memories, common)


@command
def reject(memories: Named, *, common: Common) -> int:
    """Reject memories, so that they are not found (any more)."""
    return _changed("reject", memories, common)


@command
def restore(memories: Named, *, common: Common) -> int:
    """Let memories stand again that were superseded."""
    return _changed("restore", memories, common)


@command
def supersede(
    older: Annotated[str, typer.Argument(metavar="OLDER", help="The memory that holds no longer, as SOURCE:ID.")],
    newer: Annotated[str, typer.Argument(metavar="NEWER", help="The one that takes its place, as SOURCE:ID.")],
    *,
    common: Common,
) -> int:
    """Let a memory take the place of an older one, which is no longer found."""
    return _changed("supersede", [older, newer], common)


@command
def dispute(
    memory: Annotated[str, typer.Argument(metavar="MEMORY", help="A memory, as SOURCE:ID.")],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The one that says otherwise, as SOURCE:ID.")],
    *,
    common: Common,
) -> int:
    """Note that two memories contradict each other, so that a context holds both."""
    return _changed("dispute", [memory, other], common)


def _changed(what: str, memories: list[str], common: Common) -> int:
    import anyio

    from remit.pipeline.faces.living import receipt_line
    from remit.pipeline.faces.wire import receipt_to

    receipts = anyio.run(_host(common).changed, what, memories)
    for receipt in receipts:
        print(_json(receipt_to(receipt)) if common.json else receipt_line(receipt))
    return WRONG if any(receipt.code for receipt in receipts) else ANSWERED


@command
def forget(
    memories: Annotated[list[str] | None, typer.Argument(metavar="[SOURCE:ID...]", help="Which, by name.", show_default=False)] = None,
    origin: Annotated[str | None, typer.Option("--origin", metavar="URI", help="All that came from there.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="All of a scope, by its whole name.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="All that somebody wrote.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="All whose expiresAt has come.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")] = False,
    *,
    common: Common,
) -> int:
    """Take memories out of everything, history and indexes included, for good; of several conditions all must hold."""
    import anyio

    from remit.pipeline.faces.living import show_forgotten
    from remit.pipeline.faces.show import terminal
    from remit.pipeline.faces.wire import forgotten_to

    conditions = {"origin": origin, "scope": scope, "actor": actor, "expired": expired, "dry_run": dry_run}
    forgotten = anyio.run(_host(common).forget, memories or None, conditions)
    if common.json:
        print(_json(forgotten_to(forgotten)))
    else:
        show_forgotten(terminal(), forgotten)
    return WRONG if any(receipt.code for receipt in forgotten.receipts) else ANSWERED


@command
def history(
    memory: Annotated[str, typer.Argument(metavar="SOURCE:ID", help="The memory.")],
    *,
    common: Common,
) -> int:
    """What happened to a memory: who wrote which version when, and what became of it."""
    import anyio

    from remit.pipeline.faces.living import show_history
    from remit.pipeline.faces.show import terminal
    from remit.pipeline.faces.wire import event_to

    events = anyio.run(_host(common).history, memory)
    if common.json:
        print(_json({"id": memory, "history": [event_to(each) for each in events]}))
    else:
        show_history(terminal(), memory, events)
    return ANSWERED


@command
def export(*, common: Common) -> int:
    """Print everything the principal may read, one JSON object a line, for remit import."""
    import anyio

    from remit.pipeline.faces.living import exported_lines
    from remit.pipeline.faces.progress import Progress

    host = _host(common)

    async def work() -> None:
        async with host.engine() as engine:
            async for line in exported_lines(engine, host.principal):
                print(line)
                progress.advance(1)

    _make_printable(as_json=True)
    with Progress("exporting", None) as progress:
        anyio.run(work)
    return ANSWERED


@command
def import_(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="What remit export printed.")],
    *,
    common: Common,
) -> int:
    """Take in an export, exactly as it stood: versions, times, approval, history; what is there already is unchanged."""
    from remit.pipeline.faces.living import importing
    from remit.pipeline.faces.progress import Progress
    from remit.pipeline.faces.taking import sizes_of

    host = _host(common)
    with Progress("importing", sizes_of(files)) as progress:
        taking = importing(files, host.config.limits, progress.advance)
        wrong = _taken(taking, host, common)
    return _told(taking, wrong, common)


@command
def doctor(*, common: Common) -> int:
    """What this store can do and whether it is safe and whole, with the fix for what is not."""
    import anyio

    from remit.pipeline.faces.show import show_examination, terminal
    from remit.pipeline.faces.wire import examination_to

    examination = anyio.run(_host(common).examination)
    if common.json:
        print(_json(examination_to(examination)))
    else:
        show_examination(terminal(), examination)
    return ANSWERED if examination.healthy else UNAVAILABLE


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
    against: Annotated[str | None, typer.Option("--against", metavar="FILE", help="Say what moved since this result of --json.")] = None,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write the report as one HTML page; draws curves too.")] = None,
    *,
    common: Common,
) -> int:
    """Measure what is found of what should be, where the rest is lost, and whether anything leaks."""
    import anyio

    from remit.pipeline.faces.evaluating import Evaluating, compared, show_result, sound, write_report
    from remit.pipeline.faces.progress import Progress
    from remit.pipeline.faces.show import terminal

    host = _host(common)
    evaluating = Evaluating.of(
        host, gold, memories=memories, half=half, k=k, with_curves=curves or html is not None, with_mutations=mutations
    )
    with Progress("evaluating", evaluating.steps) as progress:
        result = anyio.run(evaluating.result, progress.at)
    if against is not None:
        result["compared"] = compared(result, against, host.config)
    if html is not None:
        write_report(html, result)
    if common.json:
        print(_json(result))
    else:
        show_result(terminal(), result)
    return ANSWERED if sound(result) else UNSOUND


def _host(common: Common) -> Host:
    from remit.pipeline.faces.host import Host

    return Host.of(common)


def _request(query: str | None, asked: Asked, host: Host) -> Request:
    """The request of query, options and file, checked whole before any store is opened; says where an option wins over the file."""
    from remit.pipeline.asking import asked as checked
    from remit.pipeline.engine import now_in_utc
    from remit.pipeline.faces.host import json_file
    from remit.pipeline.faces.wire import laid_over, request_from

    stated = asked.wire() | ({} if query is None else {"query": query})
    if asked.request is not None:
        file = json_file("request", asked.request, host.config.limits.line_bytes, stdin=sys.stdin.buffer)
        stated, clashes = laid_over(file, stated)
        for field in clashes:
            print(f"remit: {field}: the option is used, not what the request file says", file=sys.stderr)
    request = request_from(stated)
    checked(request, host.config, now_in_utc())
    return request


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _make_whole() -> None:
    """A stream that was closed before we began reads as empty and takes what is written; no file of ours can get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it lives as long as the process


def _make_printable(*, as_json: bool) -> None:
    """JSON is UTF-8 wherever it goes; for a person, what their terminal cannot show is spelled out."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(**({"encoding": "utf-8"} if as_json else {}), errors="backslashreplace")
