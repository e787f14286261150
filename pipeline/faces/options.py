"""Options of the command line: what every command takes, what a question may state, and how both become a command's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, get_type_hints

import typer

OF_EVERY_COMMAND = "Options of every command"

SHORTHANDS = {"--trace": ("tree", "otlp")}
"""Options that may stand without a value; the first of the values is then meant."""


def _shared(*names: str, metavar: str | None = None, help: str) -> Any:  # noqa: A002 - as typer calls it
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=OF_EVERY_COMMAND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every command takes, before its name or after it."""

    store: Annotated[
        str | None,
        _shared(
            "--store",
            metavar="URL",
            help="sqlite:PATH, postgresql://…, embedded:DIR or memory:; else $REMIT_STORE, else sqlite:remit.db.",
        ),
    ] = None
    config: Annotated[str | None, _shared("--config", metavar="FILE", help="Laid over the shipped config.toml; else $REMIT_CONFIG.")] = None
    principal: Annotated[
        str | None,
        _shared("--principal", metavar="FILE-or-JSON", help="Who asks; else $REMIT_PRINCIPAL, else the config's principal."),
    ] = None
    json: Annotated[bool, _shared("--json", help="Print results, and errors, as JSON.")] = False
    trace: Annotated[
        str | None, _shared("--trace", metavar="[tree|otlp]", help="Show the spans of this command on stderr, or send them over OTLP.")
    ] = None
    log: Annotated[bool, _shared("--log", help="Log events to stderr; also when $REMIT_LOG is set.")] = False

    def over(self, earlier: Common) -> Common:
        """These options, and where they say nothing those given before the command's name."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(earlier, **{name: value for name, value in said.items() if value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request's fields as options."""

    request: Annotated[
        str | None, typer.Option("--request", metavar="FILE", help="A whole request as JSON; - is stdin. Options win over it.")
    ] = None
    limit: Annotated[int | None, typer.Option("--limit", help="The most memories to return.")] = None
    source: Annotated[list[str] | None, typer.Option("--source", help="fact, session or doc; may be repeated.")] = None
    project: Annotated[str | None, typer.Option("--project", help="Leaves, of the facts, the global ones and this project's.")] = None
    fact_scope: Annotated[list[str] | None, typer.Option("--fact-scope", help="Facts of this scope only; may be repeated.")] = None
    scope: Annotated[list[str] | None, typer.Option("--scope", help="Memories of this scope only; may be repeated.")] = None
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="Ask as of this time, ISO 8601.")] = None
    phrase: Annotated[list[str] | None, typer.Option("--phrase", help="Must stand there exactly; may be repeated.")] = None
    tag: Annotated[list[str] | None, typer.Option("--tag", help="A tag it must carry; may be repeated.")] = None
    not_tag: Annotated[list[str] | None, typer.Option("--not-tag", help="A tag it must not carry; may be repeated.")] = None
    created_from: Annotated[str | None, typer.Option("--created-from", metavar="TIME", help="Made at this time or later.")] = None
    created_until: Annotated[str | None, typer.Option("--created-until", metavar="TIME", help="Made before this time.")] = None
    profile: Annotated[str | None, typer.Option("--profile", help="The set of ceilings: memory, answer.")] = None
    tokens: Annotated[int | None, typer.Option("--tokens", help="Room of the packed context.")] = None
    passages: Annotated[int | None, typer.Option("--passages", help="The most passages in the packed context.")] = None
    format: Annotated[str | None, typer.Option("--format", help="Of the packed context: markdown, xml or json.")] = None
    continuation: Annotated[
        str | None, typer.Option("--continue", metavar="TOKEN", help="Go on from an exhausted answer, with its meta.continuation.")
    ] = None
    deadline: Annotated[float | None, typer.Option("--deadline", metavar="SECONDS", help="The most time the answer may take.")] = None

    def wire(self) -> dict[str, Any]:
        """The options that were given, as fields of a request on the wire."""
        return _given(
            limit=self.limit,
            sources=self.source,
            project=self.project,
            factScopes=self.fact_scope,
            scopes=self.scope,
            asOf=self.as_of,
            phrases=self.phrase,
            tags=_given(all=self.tag, none=self.not_tag),
            createdFrom=self.created_from,
            createdUntil=self.created_until,
            profile=self.profile,
            context=_given(tokens=self.tokens, passages=self.passages, format=self.format),
            deadlineSeconds=self.deadline,
            continuation=self.continuation,
        )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value not in ([], {})}


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command as Typer wants to see it: parameters that are options classes stand there field by field.

    Its `Common` options are those given after its name, and where they say nothing those given before it.
    """
    hints = get_type_hints(command, include_extras=True)
    stated = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    def called(context: typer.Context, **values: Any) -> Any:
        built = {name: kind(**{each.name: values.pop(each.name) for each in fields(kind)}) for name, kind in groups.items()}
        built = {name: group.over(context.obj) if isinstance(group, Common) and context.obj else group for name, group in built.items()}
        return command(**values, **built, **({"context": context} if "context" in stated else {}))

    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name, each in stated.items():
        if name in groups:
            parameters += _fields_of(groups[name])
        elif name != "context":
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what `inspect.signature` then answers
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    return called


def _fields_of(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(kind)
    ]


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """The arguments with a value for every option that stands without one."""
    ended = list(arguments).index("--") if "--" in arguments else len(arguments)
    told: list[str] = []
    ahead = list(arguments[:ended])
    while ahead:
        argument = ahead.pop(0)
        if argument in SHORTHANDS:
            values = SHORTHANDS[argument]
            argument += "=" + (ahead.pop(0) if ahead and ahead[0] in values else values[0])
        told.append(argument)
    return [*told, *arguments[ended:]]
