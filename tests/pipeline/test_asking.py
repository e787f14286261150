"""What a request may say, and what it is refused for, by name, before anything is asked."""

import time
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from remit.pipeline.asking import asked
from remit.pipeline.config import load
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import TooLarge
from remit.stages.report import StageName
from remit.stages.request import ContextWanted, Filters, Request, Source, TagFilter

CONFIG = load()
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=12)
    | st.datetimes()
    | st.sampled_from(Source),
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def plan(**given: Any) -> Any:
    return asked(Request(**{"query": "why", **given}), CONFIG, NOW)


def refused_field(**given: Any) -> str:
    with pytest.raises(InvalidRequest) as refusal:
        plan(**given)
    assert refusal.value.fact.startswith(refusal.value.field)
    return refusal.value.field


def plan_or_refusal(**given: Any) -> tuple[Any, InvalidRequest | None]:
    try:
        return plan(**given), None
    except InvalidRequest as refusal:
        return None, refusal


def test_a_bare_query_takes_every_gap_from_the_config() -> None:
    made = plan()

    assert made.question.limit == 20
    assert made.question.sources == (Source.FACT, Source.SESSION, Source.DOC)
    assert made.question.as_of == NOW
    assert made.question.filters == Filters()
    assert made.profile == "memory"
    assert made.postings == 200_000
    assert (made.ceilings[StageName.VERIFY].items, made.ceilings[StageName.VERIFY].rounds) == (500, 2)
    assert made.ceilings[StageName.PACK].tokens == made.room.tokens == 6000
    assert made.selection == CONFIG.recall.selection
    assert made.deadline_seconds == 5.0


@pytest.mark.parametrize(
    "query", [None, "", "  \n\t", "\u200b\u200d\ufeff", "\u3000\u00a0", "\0", "\ud83d", "\u3164\u2800", 7, b"why", ["why"]]
)
def test_a_blank_query_is_refused(query: object) -> None:
    assert refused_field(query=query) == "query"


@pytest.mark.parametrize(
    "query", ["x", "?", "-bar", '"unclosed', "NEAR(a", "a\0b", "\u202ert", "👩\u200d👩", "e" + "\u0301" * 10_000, "IT", "x" * 20_000]
)
def test_any_other_text_is_a_query_as_it_stands(query: str) -> None:
    assert plan(query=query).question.query == query


def test_half_a_character_in_a_query_is_replaced() -> None:
    assert plan(query="ok \ud83d").question.query == "ok \ufffd"


@pytest.mark.parametrize("limit", [-1, -100, 0, 501, 2.5, 2.0, True, False, "5", nan, inf, 10**30, [5]])
def test_a_limit_is_a_whole_number_from_one_to_the_configured_most(limit: object) -> None:
    assert refused_field(limit=limit) == "limit"


@pytest.mark.parametrize("limit", [1, 500])
def test_both_ends_of_the_limit_are_allowed(limit: int) -> None:
    assert plan(limit=limit).question.limit == limit


@pytest.mark.parametrize(
    "given, field",
    [
        ({"query": "x" * 20_001}, "query"),
        ({"sources": ["memo"]}, "sources[0]"),
        ({"sources": "fact"}, "sources"),
        ({"sources": ["fact", "Doc"]}, "sources[1]"),
        ({"profile": "turbo"}, "profile"),
        ({"profile": ["memory"]}, "profile"),
        ({"project": ""}, "project"),
        ({"project": " alpha"}, "project"),
        ({"project": ["alpha"]}, "project"),
        ({"scopes": ["project:alpha", "auto"]}, "scopes[1]"),
        ({"scopes": "global"}, "scopes"),
        ({"fact_scopes": ["", ""]}, "factScopes[0]"),
        ({"fact_scopes": ["team:x"]}, "factScopes[0]"),
        ({"scopes": ["global"] * 10_001}, "scopes"),
        ({"as_of": "yesterday"}, "asOf"),
        ({"as_of": "infinity"}, "asOf"),
        ({"as_of": "-0044-03-15"}, "asOf"),
        ({"as_of": 1_700_000_000}, "asOf"),
        ({"created_from": "2026-13-01"}, "createdFrom"),
        ({"created_until": "soon"}, "createdUntil"),
        ({"created_from": "2026-02-01", "created_until": "2026-01-01"}, "createdFrom"),
        ({"phrases": ["ok", " "]}, "phrases[1]"),
        ({"phrases": "ok"}, "phrases"),
        ({"phrases": ["ok"] * 17}, "phrases"),
        ({"questions": ["ok", None]}, "questions[1]"),
        ({"questions": ["ok"] * 17}, "questions"),
        ({"tags": {"any": ["a"]}}, "tags"),
        ({"tags": TagFilter(any=("a", "b", ""))}, "tags.any[2]"),
        ({"tags": TagFilter(all="urgent")}, "tags.all"),  # type: ignore[arg-type]
        ({"tags": TagFilter(none=(3,))}, "tags.none[0]"),  # type: ignore[arg-type]
        ({"evidence_minimum": 0}, "evidenceMinimum"),
        ({"evidence_minimum": 9}, "evidenceMinimum"),
        ({"evidence_minimum": 1.5}, "evidenceMinimum"),
        ({"evidence_minimum": 3, "context": ContextWanted(passages=2)}, "evidenceMinimum"),
        ({"evidence_minimum": 3, "context": ContextWanted(passages=0), "limit": 2}, "evidenceMinimum"),
        ({"deadline_seconds": 5.1}, "deadlineSeconds"),
        ({"deadline_seconds": -1}, "deadlineSeconds"),
        ({"deadline_seconds": nan}, "deadlineSeconds"),
        ({"deadline_seconds": True}, "deadlineSeconds"),
        ({"selection": {"lexical": 0.04}}, "selection.lexical"),
        ({"selection": {"semantic": 1.1}}, "selection.semantic"),
        ({"selection": {"local": nan}}, "selection.local"),
        ({"selection": {"local": "0.3"}}, "selection.local"),
        ({"selection": {"words": 0.3}}, "selection.words"),
        ({"selection": 0.3}, "selection"),
        ({"context": {"tokens": 1}}, "context"),
        ({"context": ContextWanted(tokens=6001)}, "context.tokens"),
        ({"context": ContextWanted(tokens=-1)}, "context.tokens"),
        ({"context": ContextWanted(passages=9)}, "context.passages"),
        ({"context": ContextWanted(reserve=-1)}, "context.reserve"),
        ({"context": ContextWanted(tools=10**30)}, "context.tools"),
        ({"context": ContextWanted(instructions=1.5)}, "context.instructions"),  # type: ignore[arg-type]
        ({"context": ContextWanted(format="html")}, "context.format"),
        ({"ceilings": {"fetch": {"items": 1}}}, "ceilings.fetch"),
        ({"ceilings": {"verify": {"tokens": 1}}}, "ceilings.verify.tokens"),
        ({"ceilings": {"verify": 5}}, "ceilings.verify"),
        ({"ceilings": {"verify": {"items": 501}}}, "ceilings.verify.items"),
        ({"ceilings": {"verify": {"rounds": 3}}}, "ceilings.verify.rounds"),
        ({"ceilings": {"verify": {"rounds": 0}}}, "ceilings.verify.rounds"),
        ({"ceilings": {"generate": {"postings": 200_001}}}, "ceilings.generate.postings"),
        ({"ceilings": {"generate": {"seconds": inf}}}, "ceilings.generate.seconds"),
        ({"ceilings": {"generate": {"items": "500"}}}, "ceilings.generate.items"),
        ({"ceilings": {"pack": {"tokens": 6001}}}, "ceilings.pack.tokens"),
        ({"ceilings": {"pack": {"passages": 9}}}, "ceilings.pack.passages"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name_on_the_wire(given: dict[str, Any], field: str) -> None:
    assert refused_field(**given) == field


def test_what_is_too_much_is_told_apart_from_what_is_wrong() -> None:
    with pytest.raises(TooLarge):
        plan(query="x" * 20_001)


def test_a_request_lowers_what_each_stage_may_do() -> None:
    made = plan(
        ceilings={
            "generate": {"items": 10, "seconds": 0.5, "postings": 100},
            "verify": {"items": 0, "rounds": 1, "seconds": None},
            "pack": {"tokens": 640, "passages": 2},
        },
        deadline_seconds=1,
        evidence_minimum=2,
    )

    assert (made.ceilings[StageName.GENERATE].items, made.ceilings[StageName.GENERATE].seconds, made.postings) == (10, 0.5, 100)
    assert (made.ceilings[StageName.VERIFY].items, made.ceilings[StageName.VERIFY].rounds, made.ceilings[StageName.VERIFY].seconds) == (
        0,
        1,
        3.0,
    )
    assert (made.room.tokens, made.room.passages) == (640, 2)
    assert (made.deadline_seconds, made.evidence_minimum) == (1.0, 2)


@pytest.mark.parametrize(
    "of_context, of_pack, tokens", [(1000, 600, 600), (600, 1000, 600), (600, None, 600), (None, 600, 600), (0, None, 0)]
)
def test_of_two_numbers_for_one_room_the_lower_wins(of_context: int | None, of_pack: int | None, tokens: int) -> None:
    made = plan(context=ContextWanted(tokens=of_context), ceilings={"pack": {"tokens": of_pack}})

    assert made.room.tokens == made.ceilings[StageName.PACK].tokens == tokens


def test_another_profile_is_another_allowance() -> None:
    assert plan(profile="answer").ceilings[StageName.GENERATE].items == 50
    assert refused_field(profile="answer", ceilings={"verify": {"items": 101}}) == "ceilings.verify.items"


def test_thresholds_move_down_to_the_floor() -> None:
    moved = plan(selection={"lexical": 0.05, "semantic": 1}).selection

    assert (moved.lexical, moved.local, moved.semantic) == (0.05, 0.2, 1.0)


def test_no_sources_and_no_fact_scopes_mean_none() -> None:
    assert plan(sources=()).question.sources == ()
    assert plan(sources=[]).narrowing.sources == frozenset()
    assert plan(fact_scopes=()).narrowing.facts == frozenset()
    assert plan().narrowing.facts is None


def test_sources_stand_in_one_order_each_once() -> None:
    assert plan(sources=["doc", Source.FACT, "doc"]).question.sources == (Source.FACT, Source.DOC)


@pytest.mark.parametrize(
    "written, meant",
    [
        ("2026-10-31T12:00:00", datetime(2026, 10, 31, 12, tzinfo=UTC)),
        ("2026-10-31T12:00:00Z", datetime(2026, 10, 31, 12, tzinfo=UTC)),
        ("2026-10-31T15:30:00+03:30", datetime(2026, 10, 31, 12, tzinfo=UTC)),
        ("2026-11-01T02:00:00+14:00", datetime(2026, 10, 31, 12, tzinfo=UTC)),
        (datetime(2026, 10, 31, 12), datetime(2026, 10, 31, 12, tzinfo=UTC)),  # noqa: DTZ001  naive on purpose
        (datetime(2026, 10, 31, 8, tzinfo=timezone(timedelta(hours=-4))), datetime(2026, 10, 31, 12, tzinfo=UTC)),
        ("2026-10-31", datetime(2026, 10, 31, tzinfo=UTC)),
        ("0001-01-02T00:00:00+14:00", datetime(1, 1, 1, 10, tzinfo=UTC)),
        ("9999-12-31T00:00:00Z", datetime(9999, 12, 31, tzinfo=UTC)),
    ],
)
def test_the_same_instant_is_the_same_however_it_is_written(written: Any, meant: datetime) -> None:
    assert plan(as_of=written).question.as_of == meant
    assert plan(created_from=written).question.filters.created_from == meant


@pytest.fixture
def machine_in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("machine_in_kolkata")
def test_a_time_without_an_offset_is_utc_wherever_the_machine_stands() -> None:
    assert plan(as_of="2026-10-31T12:00:00").question.as_of == datetime(2026, 10, 31, 12, tzinfo=UTC)


def test_endless_bounds_of_a_time_range_bound_nothing() -> None:
    assert plan(created_from="-infinity", created_until="infinity").question.filters == Filters()
    assert plan(created_until="9999-12-31T23:59:59.999999-14:00").question.filters.created_until is None


def test_equal_ends_of_a_time_range_are_a_range_with_nothing_in_it() -> None:
    made = plan(created_from="2026-01-01", created_until="2026-01-01").question.filters

    assert made.created_from == made.created_until == datetime(2026, 1, 1, tzinfo=UTC)


NAMES = {each.name: to_camel(each.name) for each in fields(Request)}


@given(name=st.sampled_from(sorted(NAMES)), junk=JUNK)
@example(name="profile", junk={})
@example(name="sources", junk=({},))
@example(name="limit", junk=10**400)
@example(name="as_of", junk="\ud83d")
@example(name="ceilings", junk={"verify": {"\ud83d\n": 1}})
def test_whatever_stands_in_a_field_it_works_or_is_refused_by_that_name(name: str, junk: Any) -> None:
    made, refusal = plan_or_refusal(**{name: junk})

    if refusal is None:
        assert_within_allowance(made)
    else:
        assert refusal.field.split(".")[0].split("[")[0] == NAMES[name]
        assert str(refusal).encode()


@given(part=st.sampled_from(["tags", "context"]), data=st.data(), junk=JUNK)
def test_whatever_stands_inside_a_field_is_refused_with_its_path(part: str, data: st.DataObject, junk: Any) -> None:
    whole: Any = TagFilter() if part == "tags" else ContextWanted()
    inner = data.draw(st.sampled_from([each.name for each in fields(whole)]))
    made, refusal = plan_or_refusal(**{part: replace(whole, **{inner: junk})})

    if refusal is None:
        assert_within_allowance(made)
    else:
        assert refusal.field.split("[")[0] == f"{part}.{inner}"


@given(stage=st.sampled_from(StageName), name=st.sampled_from(["items", "seconds", "rounds", "tokens", "passages", "postings"]), junk=JUNK)
def test_no_request_raises_a_ceiling(stage: StageName, name: str, junk: Any) -> None:
    made, refusal = plan_or_refusal(ceilings={str(stage): {name: junk}})

    if refusal is None:
        assert_within_allowance(made)
    else:
        assert refusal.field == f"ceilings.{stage}.{name}"


def assert_within_allowance(made: Any) -> None:
    allowed = CONFIG.recall.profiles[made.profile]
    for stage, ceiling in made.ceilings.items():
        most = getattr(allowed, stage)
        assert 0 <= ceiling.items <= most.items
        assert 0 <= ceiling.seconds <= most.seconds
    assert 1 <= made.ceilings[StageName.VERIFY].rounds <= allowed.verify.rounds
    assert 0 <= made.postings <= allowed.generate.postings
    assert 0 <= made.room.tokens <= allowed.pack.tokens
    assert 0 <= made.room.passages <= allowed.pack.passages
    assert 1 <= made.question.limit <= CONFIG.recall.most_limit
    assert 0 <= made.deadline_seconds <= CONFIG.recall.deadline_seconds
