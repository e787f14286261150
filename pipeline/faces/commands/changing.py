"""Commands on the life of single memories: how they stand, what became of them, and their end."""

from __future__ import annotations

from typing import Annotated

import typer

from remit.pipeline.faces.commands.app import commands, host_of, json_line
from remit.pipeline.faces.failing import ANSWERED, WRONG
from remit.pipeline.faces.options import Common

Named = Annotated[list[str], typer.Argument(metavar="SOURCE:ID...", help="Which, by name.")]

command = commands("The life of a memory")


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

    receipts = anyio.run(host_of(common).changed, what, memories)
    for receipt in receipts:
        print(json_line(receipt_to(receipt)) if common.json else receipt_line(receipt))
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
    forgotten = anyio.run(host_of(common).forget, memories or None, conditions)
    if common.json:
        print(json_line(forgotten_to(forgotten)))
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

    events = anyio.run(host_of(common).history, memory)
    if common.json:
        print(json_line({"id": memory, "history": [event_to(each) for each in events]}))
    else:
        show_history(terminal(), memory, events)
    return ANSWERED
