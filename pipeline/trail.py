"""The trail of one recall: what each stage told, as spans, log lines and the five entries of `meta.stages`."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

import anyio
import structlog
from opentelemetry import context, trace
from opentelemetry.trace import Span

from remit.stages.ceiling import Ceiling, Limit
from remit.stages.report import Degradation, Reason, Staged, StageName, Unbalanced

ROOT = "search_memory"
"""Name of the root span: what the GenAI conventions call looking something up in a memory."""

_REJECTED = {reason: f"remit.rejected.{reason}" for reason in Reason}

_TRACER = trace.get_tracer("remit")
"""Records nothing until the host sets a tracer provider; asking for it anew for each span would cost more than the span."""

S = TypeVar("S", bound=Staged[Any])


class Log:
    """Events of this package through structlog: as the host configured it, or else quietly through standard logging."""

    def __init__(self) -> None:
        self._standard = logging.getLogger("remit")
        self._quiet = structlog.wrap_logger(
            self._standard,
            wrapper_class=structlog.stdlib.BoundLogger,
            processors=[structlog.stdlib.filter_by_level, structlog.processors.KeyValueRenderer()],
        )

    @property
    def listened(self) -> bool:
        """Whether anybody hears what is no warning. It costs more to put together than to ask."""
        return structlog.is_configured() or self._standard.isEnabledFor(logging.INFO)

    def info(self, event: str, **values: str | bool | int | float) -> None:
        if self.listened:
            (structlog.get_logger("remit") if structlog.is_configured() else self._quiet).info(event, **values)

    def warning(self, event: str, **values: str | bool | int | float) -> None:
        (structlog.get_logger("remit") if structlog.is_configured() else self._quiet).warning(event, **values)

    def error(self, event: str, **values: str | bool | int | float) -> None:
        (structlog.get_logger("remit") if structlog.is_configured() else self._quiet).error(event, **values)


log = Log()


@dataclass(slots=True, kw_only=True)
class StageReport:
    """What one stage did in one recall, all its rounds together. `outcome` is done, exhausted, unavailable, cancelled or skipped."""

    stage: StageName
    ceiling: Ceiling
    received: int = 0
    returned: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    exhausted: Limit | None = None
    degraded: list[Degradation] = field(default_factory=list)
    outcome: str = "skipped"
    seconds: float = 0.0

    def add(self, staged: Staged[Any]) -> None:
        """What the stage came to in one more round."""
        self.received += staged.received
        self.returned += len(staged.kept)
        for reason, count in staged.rejected.items():
            self.rejected[reason] += count
        self.degraded += [each for each in staged.degraded if each not in self.degraded]
        self.exhausted = staged.exhausted or self.exhausted
        self.outcome = "exhausted" if self.exhausted else "done"


def attributes(report: StageReport) -> dict[str, str | bool | int | float]:
    """A report as flat values, for a span, a log line or a metric alike: names, counts and limits, never content."""
    values: dict[str, str | bool | int | float] = {
        "remit.stage": report.stage.value,
        "remit.outcome": report.outcome,
        "remit.received": report.received,
        "remit.returned": report.returned,
        "remit.ceiling.items": report.ceiling.items,
        "remit.ceiling.seconds": report.ceiling.seconds,
    }
    if report.ceiling.tokens is not None:
        values["remit.ceiling.tokens"] = report.ceiling.tokens
    if report.exhausted is not None:
        values["remit.exhausted"] = report.exhausted.value
    if report.degraded:
        values["remit.degraded"] = ",".join(sorted(report.degraded))
    for reason, count in sorted(report.rejected.items()):
        values[_REJECTED[reason]] = count
    return values


class Trail:
    """Follows one recall through its stages. Everything a stage is given must have come out of the stage before it."""

    def __init__(self, ceilings: Mapping[StageName, Ceiling]) -> None:
        self.reports = {stage: StageReport(stage=stage, ceiling=ceilings[stage]) for stage in StageName}

    async def follow(self, stage: StageName, work: Callable[[], Awaitable[S]]) -> S:
        """Runs one stage inside its span, which tells of this round, and keeps what it tells, also when it fails or is cancelled."""
        whole = this = self.reports[stage]
        if whole.outcome != "skipped":
            this = StageReport(stage=stage, ceiling=whole.ceiling)
        started = perf_counter()
        with _Current(_TRACER.start_span(stage.value)) as span:
            try:
                staged = await work()
                this.add(staged)
                if this is not whole:
                    whole.add(staged)
                return staged
            except anyio.get_cancelled_exc_class():
                whole.outcome = this.outcome = "cancelled"
                raise
            except Exception:
                whole.outcome = this.outcome = "unavailable"
                raise
            finally:
                whole.seconds += perf_counter() - started
                tell(span, this)

    def balance(self) -> None:
        """Raises `Unbalanced` when something was lost between two stages."""
        stages = [report for report in self.reports.values() if report.outcome in ("done", "exhausted")]
        for before, after in itertools.pairwise(stages):
            if before.returned != after.received:
                raise Unbalanced(f"{before.stage} returned {before.returned}, {after.stage} received {after.received}")


class _Current:
    """Makes a span the current one and ends it. OpenTelemetry's own way, which can record exceptions, costs twice as much."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        context.detach(self._token)
        self._span.end()


class _Root(_Current):
    """The span of a whole recall, which says when that was cancelled; a stage's own does so in its report."""

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, anyio.get_cancelled_exc_class()):
            self._span.set_attribute("remit.outcome", "cancelled")
        super().__exit__(kind)


def tell(span: Span, report: StageReport) -> None:
    """One report to its span and the log, with the same keys; nothing is put together for nobody."""
    if span.is_recording() or log.listened:
        values = attributes(report)
        span.set_attributes(values)
        log.info("stage", **values)


def root_span(sources: Sequence[str], limit: int, profile: str) -> AbstractContextManager[Span]:
    """The span of one recall. Its attributes are settings, counts and the outcome; never the question."""
    first: dict[str, str | int] = {
        "gen_ai.operation.name": ROOT,
        "remit.sources": ",".join(sources),
        "remit.limit": limit,
        "remit.profile": profile,
    }
    return _Root(_TRACER.start_span(ROOT, attributes=first))


def finish(span: Span, outcome: str, returned: int) -> None:
    """What a recall came to, to its span and the log."""
    values: dict[str, str | bool | int | float] = {"remit.outcome": outcome, "remit.returned": returned}
    span.set_attributes(values)
    log.info("recall", **values)


def trace_id(span: Span) -> str | None:
    """The trace's id as 32 hex digits, or None when nobody records traces."""
    context = span.get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None
