"""What a recall leaves in traces and logs: how it went and what it cost, and nothing of what was asked or found."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
import structlog
from hearing import every_span
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from stories.world import NewStore, engine_at

from remit.pipeline import Fact, Memory, Origin, Principal, Request, TagFilter, Verdict
from remit.pipeline.trail import StageReport, Trail
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.report import Reason, Staged, StageName, Unbalanced

STAGES = ["generate", "dedupe", "rank", "verify", "pack"]
CANARY = "canary7"
ME = Principal(actor=f"{CANARY}-actor", org=f"{CANARY}-org", scopes=(f"project:{CANARY}",))
FACT = Fact(
    id=f"{CANARY}-id",
    text=f"{CANARY} deploy key rotates",
    title=f"{CANARY} title",
    scope=f"project:{CANARY}",
    org=ME.org,
    tags=(f"{CANARY}-tag",),
    aliases=(f"{CANARY} alias",),
    origin=Origin(uri=f"crm:{CANARY}", project=CANARY),
)
REQUEST = Request(
    query=f"{CANARY} deplyo key", project=CANARY, phrases=(CANARY,), tags=TagFilter(any=(f"{CANARY}-tag",)), questions=(CANARY,)
)


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    yield from every_span()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    exporter.clear()
    return exporter


async def crm(memory: Memory, _access: object) -> Verdict:
    return Verdict.FRESH if memory.id.id == FACT.id else Verdict.CHANGED


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_recall_is_one_trace_of_a_root_and_a_child_for_each_stage(new_store: NewStore, spans: InMemorySpanExporter) -> None:
    async with engine_at(new_store(), FACT, checkers={"crm": crm}) as engine:
        answer = await engine.recall(REQUEST, ME)

    *stages, root = spans.get_finished_spans()
    assert [span.name for span in stages] == STAGES
    assert (root.name, root.parent) == ("search_memory", None)
    assert {span.parent.span_id for span in stages if span.parent} == {root.context.span_id}
    assert answer.meta.trace_id == trace.format_trace_id(root.context.trace_id)
    assert attributes_of(root)["gen_ai.operation.name"] == "search_memory"
    assert (attributes_of(root)["remit.outcome"], attributes_of(root)["remit.returned"]) == ("enough", 1)


async def test_a_span_tells_what_the_answer_tells_of_its_stage(new_store: NewStore, spans: InMemorySpanExporter) -> None:
    async with engine_at(new_store(), FACT, checkers={"crm": crm}) as engine:
        answer = await engine.recall(REQUEST, ME)

    for span, told in zip(spans.get_finished_spans(), answer.meta.stages, strict=False):
        attributes = attributes_of(span)
        assert attributes["remit.stage"] == told.stage == span.name
        assert (attributes["remit.received"], attributes["remit.returned"]) == (told.received, told.returned)
        assert {key: value for key, value in attributes.items() if "rejected" in key} == {
            f"remit.rejected.{reason}": count for reason, count in told.rejected.items()
        }
        assert attributes["remit.outcome"] == told.outcome
        assert attributes["remit.ceiling.items"] == told.ceiling["items"]


async def test_every_attribute_is_a_plain_value_and_every_status_unset(
    new_store: NewStore, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    async with engine_at(new_store(), FACT, checkers={"crm": crm}) as engine:
        for ceilings in ({}, {"generate": {"items": 0}}, {"verify": {"seconds": 0}}, {"pack": {"tokens": 0}}):
            await engine.recall(Request(query=REQUEST.query, ceilings=ceilings), ME)

    finished = spans.get_finished_spans()
    assert len(finished) == 4 * 6
    for span in finished:
        assert {type(value) for value in attributes_of(span).values()} <= {str, bool, int, float}
        assert span.status.status_code is StatusCode.UNSET
        assert (span.events, span.status.description) == ((), None)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("failing", [None, "checker", "counter", "embedder"])
async def test_nothing_that_was_asked_or_stored_is_in_a_trace_or_a_log(
    new_store: NewStore, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture, failing: str | None
) -> None:
    def refuse(*_: object) -> Any:
        raise ConnectionError(f"{CANARY} is refused")

    parts: dict[str, Any] = {"checkers": {"crm": refuse if failing == "checker" else crm}}
    if failing == "counter":
        parts["counter"] = refuse
    async with engine_at(new_store(), FACT, **parts) as engine:
        if failing == "embedder":
            engine.kit.streams.all[0].questions.embed = refuse  # type: ignore[method-assign]  # the only one this engine has
        with caplog.at_level(logging.DEBUG):
            await engine.recall(REQUEST, ME)
            await engine.why(REQUEST, f"fact:{CANARY}-id", ME)

    assert len(spans.get_finished_spans()) >= 6
    for span in spans.get_finished_spans():
        told = span.to_json() + repr(span.events) + repr(span.status.description) + repr(span.links)
        assert CANARY not in told
    assert caplog.records
    assert CANARY not in "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)


async def test_why_is_a_trace_of_its_own_and_not_six_loose_spans(new_store: NewStore, spans: InMemorySpanExporter) -> None:
    async with engine_at(new_store(), FACT, checkers={"crm": crm}) as engine:
        await engine.why(REQUEST, f"fact:{FACT.id}", ME)

    assert [span.name for span in spans.get_finished_spans() if span.parent is None] == ["search_memory"]


async def test_a_second_round_has_spans_of_its_own_and_the_answer_their_sums(new_store: NewStore, spans: InMemorySpanExporter) -> None:
    stale = [Fact(id=f"a{n}", text=FACT.text, scope=FACT.scope, org=ME.org, origin=Origin(uri="crm:1")) for n in range(2)]
    config = {"recall": {"profiles": {"memory": {"generate": {"items": 2}}}}, "embedding": {"provider": "none"}}
    async with engine_at(new_store(), *stale, FACT, config=config, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query="deploy key", sources=("fact",)), ME)

    *stages, _ = spans.get_finished_spans()
    assert [span.name for span in stages] == [*STAGES[:4], *STAGES]
    received: Counter[str] = Counter()
    for span in stages:
        received[span.name] += attributes_of(span)["remit.received"]
        rejected = [value for key, value in attributes_of(span).items() if "rejected" in key]
        assert attributes_of(span)["remit.received"] == attributes_of(span)["remit.returned"] + sum(rejected)
    assert received == {stage.stage: stage.received for stage in answer.meta.stages}


async def test_a_hundred_recalls_at_once_are_a_hundred_traces_of_six_spans(
    new_store: NewStore, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    answers = []

    async def ask() -> None:
        answers.append(await engine.recall(REQUEST, ME))

    async with engine_at(new_store(), FACT, checkers={"crm": crm}) as engine, anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(ask)

    of_trace: defaultdict[int, list[ReadableSpan]] = defaultdict(list)
    for span in spans.get_finished_spans():
        of_trace[span.context.trace_id].append(span)
    assert {answer.outcome for answer in answers} == {"enough"}
    assert len(of_trace) == 100
    assert {answer.meta.trace_id for answer in answers} == set(map(trace.format_trace_id, of_trace))
    for whole in of_trace.values():
        (root,) = [span for span in whole if span.parent is None]
        assert sorted(span.name for span in whole if span is not root) == sorted(STAGES)
        assert {span.parent.span_id for span in whole if span.parent} == {root.context.span_id}
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


@pytest.mark.parametrize("stage", ["generate", "verify", "pack"])
async def test_a_cancelled_stage_says_so_and_its_status_stays_unset(new_store: NewStore, spans: InMemorySpanExporter, stage: str) -> None:
    scope = anyio.CancelScope()

    async def cancelling(*_: object) -> Any:
        scope.cancel()
        await anyio.sleep_forever()

    parts: dict[str, Any] = {"checkers": {"crm": cancelling if stage == "verify" else crm}}
    if stage == "pack":
        parts["counter"] = cancelling
    async with engine_at(new_store(), FACT, **parts) as engine:
        if stage == "generate":
            embedder = engine.kit.streams.all[0].questions  # the only one this engine has
            embedder.at_once, embedder.embed = None, cancelling  # type: ignore[attr-defined,method-assign]
        with scope:
            await engine.recall(REQUEST, ME)

    assert scope.cancelled_caught
    *stages, root = spans.get_finished_spans()
    assert [span.name for span in stages] == STAGES[: STAGES.index(stage) + 1]
    assert attributes_of(stages[-1])["remit.outcome"] == "cancelled"
    assert attributes_of(root)["remit.outcome"] == "cancelled"
    assert {span.status.status_code for span in (*stages, root)} == {StatusCode.UNSET}


async def test_log_events_have_the_keys_of_the_spans(new_store: NewStore, spans: InMemorySpanExporter) -> None:
    async with engine_at(new_store(), FACT, checkers={"crm": crm}) as engine:
        heard = structlog.testing.LogCapture()
        structlog.configure(processors=[heard])
        try:
            await engine.recall(REQUEST, ME)
        finally:
            structlog.reset_defaults()

    events = heard.entries
    *stages, root = spans.get_finished_spans()
    assert [event["event"] for event in events] == ["stage"] * 5 + ["recall"]
    for event, span in zip(events, stages, strict=False):
        assert {key: value for key, value in event.items() if key not in ("event", "log_level")} == attributes_of(span)
    recalled = {key: value for key, value in events[-1].items() if key not in ("event", "log_level")}
    assert recalled.items() <= attributes_of(root).items()


async def test_nothing_is_printed_and_no_handler_is_set_unless_a_host_does(new_store: NewStore, capfd: pytest.CaptureFixture[str]) -> None:
    async with engine_at(new_store(), FACT, checkers={"crm": crm}) as engine:
        await engine.recall(REQUEST, ME)

    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("remit").handlers == []


async def test_what_is_lost_between_two_stages_is_noticed() -> None:
    trail = Trail(dict.fromkeys(StageName, Ceiling(items=9)))

    async def generated() -> Staged[str]:
        return Staged(received=3, kept=("a", "b"), rejected={Reason.WEAK: 1}, exhausted=Limit.ITEMS)

    async def deduped() -> Staged[str]:
        return Staged(received=1, kept=("a",))

    await trail.follow(StageName.GENERATE, generated)
    trail.balance()
    await trail.follow(StageName.DEDUPE, deduped)
    with pytest.raises(Unbalanced):
        trail.balance()


def test_rounds_add_up_and_a_cut_in_any_of_them_stays() -> None:
    total = StageReport(stage=StageName.VERIFY, ceiling=Ceiling(items=9))
    first: Staged[str] = Staged(received=3, kept=("a",), rejected={Reason.CHANGED: 2}, exhausted=Limit.ITEMS)
    second: Staged[str] = Staged(received=2, kept=("b",), rejected={Reason.CHANGED: 1})
    for each in (first, second):
        total.add(each)

    assert (total.received, total.returned, dict(total.rejected)) == (5, 2, {Reason.CHANGED: 3})
    assert (total.exhausted, total.outcome) == (Limit.ITEMS, "exhausted")
    assert json.loads(json.dumps(total.outcome)) == "exhausted"
