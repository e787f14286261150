"""Gold: questions with the evidence that should be found, one JSON object a line, checked before anything is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from remit.pipeline.authority import Principal, principal_from
from remit.pipeline.config import Limits
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import list_at, mapping_at, member_at, name_at, unknown, without_surrogates
from remit.pipeline.items import memory_id
from remit.pipeline.outcome import Outcome
from remit.stages.request import Request

NEEDED = ("query", "principal", "asOf", "relevant")
MAY = ("needs", "outcome", "request", "name", "half", "mustNot", "related")
OF_THE_LINE = {"query": "query", "asOf": "asOf"}
"""What of a request a gold line states itself, so that its `request` cannot state it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question. Ids are `source:id`: `relevant` is the known evidence this principal may read, `needs` the part of it that the task
    cannot do without (all of it when not stated), `must_not` what would be wrong to return, `related` what is neither."""

    name: str
    request: Request
    principal: Principal
    relevant: tuple[str, ...]
    needs: tuple[str, ...]
    must_not: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    outcome: Outcome | None = None
    half: str | None = None

    @property
    def query(self) -> str:
        return self.request.query


def cases_from(
    lines: Iterable[str], *, file: str, request_from: Callable[[object], Request], check: Callable[[Request], object], limits: Limits
) -> list[Case]:
    """The cases of a gold file. Blank lines are passed by; names that are not stated are line numbers.

    `request_from` reads a request from the wire, `check` raises `InvalidRequest` for one that cannot be asked. Raises
    `InvalidRequest` for the first wrong line, naming `file:line` and the field.
    """
    cases: dict[str, Case] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            case = _case(_object(line), str(number), request_from, check, limits)
        except InvalidRequest as error:
            raise InvalidRequest(f"{where}: {error.field}", error.fact.removeprefix(f"{error.field}: ")) from None
        if case.name in cases:
            raise InvalidRequest(f"{where}: name", f"{case.name!r} was used before")
        cases[case.name] = case
    if not cases:
        raise InvalidRequest(file, "holds no case")
    return list(cases.values())


def _object(line: str) -> Mapping[Any, Any]:
    try:
        return mapping_at("line", json.loads(line))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidRequest):
            raise
        raise InvalidRequest("line", "is not JSON") from None


def _case(
    given: Mapping[Any, Any], number: str, request_from: Callable[[object], Request], check: Callable[[Request], object], limits: Limits
) -> Case:
    for key in given:
        if key not in (*NEEDED, *MAY):
            raise unknown("", key)
    for key in NEEDED:
        if key not in given:
            raise InvalidRequest(key, "is missing")
    relevant = _ids("relevant", given["relevant"], limits)
    needs = _ids("needs", given["needs"], limits) if "needs" in given else relevant
    must_not = _apart("mustNot", given, limits, {"relevant": relevant, "needed": needs})
    outcome = given.get("outcome")
    return Case(
        name=name_at("name", given.get("name", number), limits.name_characters),
        request=_request(given, request_from, check),
        principal=principal_from(given["principal"], host=True, limits=limits),
        relevant=relevant,
        needs=needs,
        must_not=must_not,
        related=_apart("related", given, limits, {"relevant": relevant, "in mustNot": must_not}),
        outcome=None if outcome is None else member_at("outcome", outcome, Outcome),
        half=None if given.get("half") is None else name_at("half", given["half"], limits.name_characters),
    )


def _request(given: Mapping[Any, Any], request_from: Callable[[object], Request], check: Callable[[Request], object]) -> Request:
    stated = dict(mapping_at("request", given.get("request", {})))
    for key in OF_THE_LINE:
        if key in stated:
            raise InvalidRequest(f"request.{key}", "is stated by the line itself")
    if "continuation" in stated:
        raise InvalidRequest("request.continuation", "cannot stand here: a case is asked from its start")
    try:
        request = replace(request_from({**stated, "query": given["query"]}), as_of=given["asOf"])
        check(request)
    except InvalidRequest as error:
        if error.field.split(".")[0] in OF_THE_LINE or error.field.startswith("request"):
            raise
        raise InvalidRequest(f"request.{error.field}", error.fact.removeprefix(f"{error.field}: ")) from None
    return replace(request, query=without_surrogates(request.query))


def _ids(field: str, value: object, limits: Limits) -> tuple[str, ...]:
    ids = [str(memory_id(f"{field}[{place}]", each, limits)) for place, each in enumerate(list_at(field, value, limits.list_items))]
    return tuple(dict.fromkeys(ids))


def _apart(field: str, given: Mapping[Any, Any], limits: Limits, others: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Ids of a list that cannot be in any of the others as well."""
    ids = _ids(field, given.get(field, ()), limits)
    for each in ids:
        for what, other in others.items():
            if each in other:
                raise InvalidRequest(field, f"{each} is {what}")
    return ids
