"""Asking: a request as it was given becomes a plan in which every gap is filled and every value is allowed, or is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, get_args, get_type_hints

from remit.pipeline.authority import Allowance, Narrowing, allowance, scopes_at
from remit.pipeline.config import Config, Context, Limits, PackCeiling, Profile
from remit.pipeline.continuing import START, Onward
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import (
    WHOLE,
    list_at,
    mapping_at,
    member_at,
    name_at,
    names_at,
    number_at,
    one_of,
    text_at,
    unknown,
    whole_at,
    without_surrogates,
)
from remit.pipeline.times import BEGINNING, END, moment_at
from remit.stages.ceiling import Ceiling
from remit.stages.pack import Room
from remit.stages.report import StageName
from remit.stages.request import ContextWanted, Filters, Question, Request, Source, TagFilter
from remit.stages.selection import Selection

FORMATS: tuple[str, ...] = get_args(get_type_hints(Context)["format"])

SOURCES = tuple(Source)

NO_TAGS = TagFilter()

LANES = ("lexical", "local", "semantic")

LIMITS = {stage: tuple(each.name for each in fields(get_type_hints(Profile)[stage.value])) for stage in StageName}
"""What can be limited in each stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A checked request: what is asked, of what part of the access, and the most it may cost.

    `ceilings` has every stage; that of pack carries `room.tokens`. `postings` is the most (word, passage) pairs generate may
    read, `rerank` how many of the best a reranker may look at, `evidence_minimum` how many passages have to be packed for `enough`.
    `onward` is where the recall begins, and `continuations` how many answers before it there may be.
    """

    question: Question
    narrowing: Narrowing
    profile: str
    ceilings: Mapping[StageName, Ceiling]
    postings: int
    rerank: int
    selection: Selection
    room: Room
    deadline_seconds: float
    evidence_minimum: int
    continuations: int
    onward: Onward = START


def asked(request: Request, config: Config, now: datetime) -> Plan:
    """The plan of a request. Asks no store, no provider and no clock; `now` is aware, and what `as_of` means when it is not given.

    Raises `InvalidRequest` naming the field that is wrong, as on the wire (`context.tokens`, `tags.any[2]`).
    """
    if not isinstance(request, Request):
        raise InvalidRequest("request", "must be a Request")
    profile = config.recall.profile if request.profile is None else one_of("profile", request.profile, tuple(config.recall.profiles))
    allowed = allowance(profile, config)
    question = _question(request, allowed, config, now)
    narrowing = _narrowing(request, question, config.limits)
    limits = _limits(request.ceilings, allowed.ceilings)
    room = _room(request.context, allowed.ceilings.pack, limits.pack, config)
    return Plan(
        question=question,
        narrowing=narrowing,
        profile=profile,
        ceilings=_ceilings(limits, room),
        postings=limits.generate.postings,
        rerank=limits.rank.rerank,
        selection=_selection(request.selection, config.recall.selection),
        room=room,
        deadline_seconds=allowed.deadline_seconds
        if request.deadline_seconds is None
        else number_at("deadlineSeconds", request.deadline_seconds, 0, allowed.deadline_seconds),
        evidence_minimum=_minimum(request, room.passages or question.limit, config),
        continuations=limits.verify.continuations,
    )


def _minimum(request: Request, most: int, config: Config) -> int:
    """How much evidence there has to be; no more than there is a place for, in the context or, where none is asked for, on the page."""
    if request.evidence_minimum is None:
        return min(config.recall.evidence_minimum, most)
    return whole_at("evidenceMinimum", request.evidence_minimum, 1, most)


def _question(request: Request, allowed: Allowance, config: Config, now: datetime) -> Question:
    limits = config.limits
    return Question(
        query=without_surrogates(text_at("query", request.query, limits.query_characters)),
        limit=config.recall.limit if request.limit is None else whole_at("limit", request.limit, 1, allowed.limit),
        sources=_sources(request.sources, limits),
        project=None if request.project is None else name_at("project", request.project, limits.name_characters),
        as_of=now if request.as_of is None else _as_of(request.as_of),
        filters=_filters(request, limits),
        questions=_texts("questions", request.questions, limits.questions, limits.query_characters),
    )


def _sources(given: Any, limits: Limits) -> tuple[Source, ...]:
    """The sources asked, each once, in their own order."""
    if given is None:
        return SOURCES
    named = {member_at(f"sources[{place}]", each, Source) for place, each in enumerate(list_at("sources", given, limits.list_items))}
    return tuple(source for source in SOURCES if source in named)


def _as_of(given: Any) -> datetime:
    when = moment_at("asOf", given)
    if when in (BEGINNING, END):
        raise InvalidRequest("asOf", "must be a moment")
    return when


def _filters(request: Request, limits: Limits) -> Filters:
    tags = request.tags
    if not isinstance(tags, TagFilter):
        raise InvalidRequest("tags", "must be an object")
    since = None if request.created_from is None else moment_at("createdFrom", request.created_from)
    until = None if request.created_until is None else moment_at("createdUntil", request.created_until)
    if since is not None and until is not None and since > until:
        raise InvalidRequest("createdFrom", "is later than createdUntil")
    return Filters(
        phrases=_texts("phrases", request.phrases, limits.phrases, limits.query_characters),
        tags=tags if tags == NO_TAGS else _tags(tags, limits),
        created_from=None if since == BEGINNING else since,
        created_until=None if until == END else until,
    )


def _tags(given: TagFilter, limits: Limits) -> TagFilter:
    return TagFilter(
        all=names_at("tags.all", given.all, most=limits.list_items, characters=limits.name_characters),
        any=names_at("tags.any", given.any, most=limits.list_items, characters=limits.name_characters),
        none=names_at("tags.none", given.none, most=limits.list_items, characters=limits.name_characters),
    )


def _texts(field: str, given: Any, most: int, characters: int) -> tuple[str, ...]:
    return tuple(
        without_surrogates(text_at(f"{field}[{place}]", each, characters)) for place, each in enumerate(list_at(field, given, most))
    )


def _narrowing(request: Request, question: Question, limits: Limits) -> Narrowing:
    return Narrowing(
        sources=frozenset(question.sources),
        project=question.project,
        scopes=None if request.scopes is None else scopes_at("scopes", request.scopes, limits),
        fact_scopes=None if request.fact_scopes is None else scopes_at("factScopes", request.fact_scopes, limits),
    )


def _limits(given: Any, allowed: Profile) -> Profile:
    """What is allowed, lowered to what the request states."""
    lowered: dict[str, Any] = {}
    for stage, stated in mapping_at("ceilings", given).items():
        if not isinstance(stage, str) or stage not in list(StageName):
            raise unknown("ceilings", stage)
        of_stage, lower = getattr(allowed, stage), {}
        for name, value in mapping_at(f"ceilings.{stage}", stated).items():
            if name not in LIMITS[StageName(stage)]:
                raise unknown(f"ceilings.{stage}", name)
            if value is not None:
                lower[name] = _lowered(f"ceilings.{stage}.{name}", value, getattr(of_stage, name))
        lowered[stage] = replace(of_stage, **lower)
    return replace(allowed, **lowered) if lowered else allowed


def _lowered(field: str, value: Any, allowed: Any) -> Any:
    if field.endswith(".seconds"):
        return number_at(field, value, 0, allowed)
    return whole_at(field, value, 1 if field.endswith(".rounds") else 0, allowed)


def _ceilings(limits: Profile, room: Room) -> dict[StageName, Ceiling]:
    return {
        StageName.GENERATE: Ceiling(items=limits.generate.items, seconds=limits.generate.seconds),
        StageName.DEDUPE: Ceiling(items=limits.dedupe.items, seconds=limits.dedupe.seconds),
        StageName.RANK: Ceiling(items=limits.rank.items, seconds=limits.rank.seconds),
        StageName.VERIFY: Ceiling(items=limits.verify.items, seconds=limits.verify.seconds, rounds=limits.verify.rounds),
        StageName.PACK: Ceiling(items=limits.pack.items, seconds=limits.pack.seconds, tokens=room.tokens),
    }


def _selection(given: Any, configured: Selection) -> Selection:
    """The configured thresholds, moved to what the request states, which may not be below the floor."""
    stated: dict[str, Any] = {}
    for lane, value in mapping_at("selection", given).items():
        if lane not in LANES:
            raise unknown("selection", lane)
        if value is not None:
            stated[lane] = number_at(f"selection.{lane}", value, getattr(configured.floor, lane), 1)
    return replace(configured, **stated) if stated else configured


def _room(wanted: Any, allowed: PackCeiling, lowered: PackCeiling, config: Config) -> Room:
    """The room of the packed context: the lower of what it states itself and of what `ceilings.pack` left."""
    if not isinstance(wanted, ContextWanted):
        raise InvalidRequest("context", "must be an object")
    tokens = allowed.tokens if wanted.tokens is None else whole_at("context.tokens", wanted.tokens, 0, allowed.tokens)
    passages = allowed.passages if wanted.passages is None else whole_at("context.passages", wanted.passages, 0, allowed.passages)
    return Room(
        tokens=min(tokens, lowered.tokens),
        passages=min(passages, lowered.passages),
        instructions=whole_at("context.instructions", wanted.instructions, 0, WHOLE),
        tools=whole_at("context.tools", wanted.tools, 0, WHOLE),
        reserve=whole_at("context.reserve", wanted.reserve, 0, WHOLE),
        format=config.context.format if wanted.format is None else one_of("context.format", wanted.format, FORMATS),
    )
