"""Commands that make a store and look after it, and who is granted what in it."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from remit.pipeline.faces.commands.app import commands, host_of, json_line
from remit.pipeline.faces.failing import ANSWERED, UNAVAILABLE, WRONG
from remit.pipeline.faces.options import Common

command = commands("The store")


@command
def init(*, common: Common) -> int:
    """Make the store, or upgrade it: also when its words were made in another language."""
    import anyio

    from remit.pipeline.faces.making import made, show_made
    from remit.pipeline.faces.progress import Progress

    with Progress("indexing", None) as progress:
        done = anyio.run(made, host_of(common), progress.at)
    if common.json:
        print(json_line(done.wire()))
    else:
        show_made(done)
    return ANSWERED if done.healthy else UNAVAILABLE


@command
def embed(
    stream: Annotated[str | None, typer.Option("--stream", help="Only this one: semantic or local.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", metavar="TEXTS", help="The most texts a second.")] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Then drop the vectors that other models left.")] = False,
    *,
    common: Common,
) -> int:
    """Make the vectors that memories lack, as after another model was chosen; stopped at any time, it goes on where it was."""
    import anyio

    from remit.pipeline.faces.embedding import embedded, show_embedded
    from remit.pipeline.faces.progress import Progress
    from remit.pipeline.faces.show import terminal

    with Progress("embedding", None) as progress:
        work = partial(embedded, host_of(common), stream, rate, lambda step: progress.at(step.having, step.passages), prune=prune)
        done = anyio.run(work)
    if common.json:
        print(json_line(done.wire()))
    else:
        show_embedded(terminal(), done)
    return ANSWERED if done.done else UNAVAILABLE


@command
def doctor(*, common: Common) -> int:
    """What this store can do and whether it is safe and whole, with the fix for what is not."""
    import anyio

    from remit.pipeline.faces.show import show_examination, terminal
    from remit.pipeline.faces.wire import examination_to

    examination = anyio.run(host_of(common).examination)
    if common.json:
        print(json_line(examination_to(examination)))
    else:
        show_examination(terminal(), examination)
    return ANSWERED if examination.healthy else UNAVAILABLE


@command
def roots(
    drop: Annotated[str | None, typer.Option("--drop", metavar="PATH", help="Allow this one no longer.")] = None,
    *,
    common: Common,
) -> int:
    """Tell where file: origins of the principal's org may be looked at."""
    import anyio

    allowed, dropped = anyio.run(host_of(common).roots, drop)
    if common.json:
        print(json_line({"roots": allowed, **({} if drop is None else {"dropped": dropped})}))
    else:
        print("\n".join(allowed) or "no file may be looked at")
    return ANSWERED if drop is None or dropped else WRONG


@command
def grant(
    actor: Annotated[str, typer.Argument(metavar="ACTOR", help="Whom.")],
    scopes: Annotated[list[str], typer.Argument(metavar="SCOPE...", help="global, kind:name, or * for every scope.")],
    *,
    common: Common,
) -> int:
    """Grant an actor of the principal's org scopes, in the store; recalls go by them when authority.grants is store."""
    return _granting(actor, scopes, common, take_back=False)


@command
def revoke(
    actor: Annotated[str, typer.Argument(metavar="ACTOR", help="From whom.")],
    scopes: Annotated[list[str], typer.Argument(metavar="SCOPE...", help="global, kind:name, or * for every scope.")],
    *,
    common: Common,
) -> int:
    """Take scopes back from an actor; gone at its next recall."""
    return _granting(actor, scopes, common, take_back=True)


def _granting(actor: str, scopes: list[str], common: Common, *, take_back: bool) -> int:
    import anyio

    host = host_of(common)
    left = anyio.run(host.granting, actor, scopes, take_back)
    if common.json:
        print(json_line({"org": host.principal.org, "actor": actor, "scopes": left}))
    else:
        print(f"{actor} of {host.principal.org} is granted: {', '.join(left) or 'nothing'}")
    return ANSWERED
