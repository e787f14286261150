"""Commands that ask the memory."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from remit.pipeline.faces.commands.app import commands, host_of, json_line
from remit.pipeline.faces.failing import ANSWERED, OF_OUTCOME, UNAVAILABLE
from remit.pipeline.faces.options import Asked, Common
from remit.pipeline.sealing import SECRET

if TYPE_CHECKING:
    from remit.pipeline.faces.host import Host
    from remit.stages.request import Request

command = commands("Asking")


@command
def recall(
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="What is asked; or see --request.", show_default=False)] = None,
    receipt: Annotated[
        str | None, typer.Option("--receipt", metavar="FILE", help="Append a receipt, without content, to this file.")
    ] = None,
    *,
    asked: Asked,
    common: Common,
) -> int:
    """Ask: the ranked list, the funnel of the five stages, and the packed context."""
    import anyio

    host = host_of(common)
    request = _request(query, asked, host)
    answer = anyio.run(host.recall, request, receipt)
    if common.json:
        print(json_line(answer.wire()))
    else:
        from remit.pipeline.faces.show import show_answer, show_onward, terminal

        show_answer(terminal(), answer.wire())
        if answer.meta.continuation is not None:
            show_onward(terminal(), answer.meta.continuation, lasting=bool(os.environ.get(SECRET)))
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

    told = anyio.run(host_of(common).brief, tokens, project)
    if common.json:
        print(json_line(brief_to(told)))
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

    host = host_of(common)
    explanation = anyio.run(host.why, _request(query, asked, host), memory)
    if common.json:
        print(json_line(explanation_to(explanation)))
    else:
        show_why(terminal(), explanation)
    return UNAVAILABLE if explanation.reason == "stopped" else ANSWERED


@command
def replay(
    receipts: Annotated[str, typer.Argument(metavar="RECEIPT", help="A file of receipts, as recall --receipt keeps them.")],
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="What was asked, with the options it was asked with.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="NUMBER-or-HASH", help="One receipt of the file.")] = None,
    *,
    asked: Asked,
    common: Common,
) -> int:
    """Ask again as of then, and say of each receipt whether the answer is identical, what drifted, or why that cannot be checked."""
    import anyio

    from remit.pipeline.faces.replaying import replayed_to, requests_of, show_replayed, status_of
    from remit.pipeline.faces.show import terminal

    host = host_of(common)
    requests = [] if asked.request is None else requests_of(asked.request, host.config.limits.line_bytes)
    if query is not None:
        requests.append(_request(query, replace(asked, request=None), host))
    replayed = anyio.run(host.replay, receipts, requests, only)
    if common.json:
        print(json_line({"receipts": [replayed_to(each) for each in replayed]}))
    else:
        show_replayed(terminal(), replayed)
    return status_of(replayed)


def _request(query: str | None, asked: Asked, host: Host) -> Request:
    """The request of query, options and file, checked whole before any store is opened; says where an option wins over the file."""
    from remit.pipeline.asking import asked as checked
    from remit.pipeline.faces.host import json_file
    from remit.pipeline.faces.wire import laid_over, request_from
    from remit.pipeline.starting import now_in_utc

    stated = asked.wire() | ({} if query is None else {"query": query})
    if asked.request is not None:
        file = json_file("request", asked.request, host.config.limits.line_bytes, stdin=sys.stdin.buffer)
        stated, clashes = laid_over(file, stated)
        for field in clashes:
            print(f"remit: {field}: the option is used, not what the request file says", file=sys.stderr)
    request = request_from(stated)
    checked(request, host.config, now_in_utc())
    return request
