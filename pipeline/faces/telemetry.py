"""Telemetry of one command: its spans, shown as a tree or sent over OTLP, and its events on stderr; only when asked for."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from remit.pipeline.errors import InvalidRequest

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from rich.text import Text

FLUSH_SECONDS = 5.0
"""The most an ending command waits for its spans to be delivered: a collector that is down must not hold a shell."""


@contextmanager
def telemetry(trace: str | None, *, log: bool) -> Iterator[None]:
    """What a command's spans and events go to while it runs: `trace` is None, `tree` or `otlp`. Nothing is set up otherwise.

    Raises `InvalidRequest` when a trace cannot be had like that.
    """
    with ExitStack() as stack:
        if log or os.environ.get("REMIT_LOG"):
            stack.enter_context(events_on_stderr())
        if trace is not None:
            stack.enter_context(spans(trace))
        yield


@contextmanager
def events_on_stderr() -> Iterator[None]:
    """One line an event: for a person on a terminal, as JSON everywhere else."""
    import structlog

    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.reset_defaults()


@contextmanager
def spans(trace: str) -> Iterator[None]:
    """Keeps the spans of what runs inside, then shows or sends them."""
    if trace not in ("tree", "otlp"):
        raise InvalidRequest("trace", "must be tree or otlp")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = _otlp() if trace == "otlp" else None
    kept = InMemorySpanExporter()
    _provider().add_span_processor(SimpleSpanProcessor(kept))
    try:
        yield
    finally:
        kept.shutdown()
        ended = kept.get_finished_spans()
        if exporter is not None and ended:
            deliver(ended, exporter)
        elif ended:
            print_tree(ended)


@contextmanager
def ears() -> Iterator[Mapping[str, Callable[[], str]]]:
    """Hears every event (`logs`) and every span (`spans`) of what runs inside: each call gives all of it since the one before."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, heard = InMemorySpanExporter(), _Heard()
    _provider().add_span_processor(SimpleSpanProcessor(kept))

    def spans_told() -> str:
        told = " ".join(span.to_json(indent=None) for span in kept.get_finished_spans())
        kept.clear()
        return told

    logger = logging.getLogger("remit")
    level = logger.level
    logger.addHandler(heard)
    logger.setLevel(logging.DEBUG)
    try:
        yield {"logs": heard.told, "spans": spans_told}
    finally:
        logger.removeHandler(heard)
        logger.setLevel(level)
        kept.shutdown()


class _Heard(logging.Handler):
    """Keeps what is logged until it is asked for."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def told(self) -> str:
        lines, self._lines = self._lines, []
        return "\n".join(lines)


def _provider() -> TracerProvider:
    """The process's provider: a process can have one only, and it must not wait for anybody when the process ends."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider

    found = trace.get_tracer_provider()
    if isinstance(found, TracerProvider):
        return found
    resource = Resource.create({"service.name": "remit"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    trace.set_tracer_provider(provider)
    return provider


def _otlp() -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise InvalidRequest("trace", "otlp needs the extra: pip install 'remit[otlp]'") from None
    return OTLPSpanExporter()


def deliver(ended: Sequence[ReadableSpan], exporter: SpanExporter, *, seconds: float = FLUSH_SECONDS) -> None:
    """Sends the spans, and waits for it no longer than `seconds`: the thread is a daemon, so the process ends without it."""
    # Its own complaints would come in the middle of an answer, many lines each, and hold addresses.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    logging.getLogger("opentelemetry").propagate = False
    delivered: list[bool] = []
    sending = threading.Thread(target=_send, args=(ended, exporter, delivered), daemon=True)
    sending.start()
    sending.join(seconds)
    if delivered != [True]:
        print("remit: the trace was not delivered; where it goes is said by OTEL_EXPORTER_OTLP_ENDPOINT", file=sys.stderr)


def _send(spans: Sequence[ReadableSpan], exporter: SpanExporter, delivered: list[bool]) -> None:
    try:
        delivered.append(exporter.export(spans).name == "SUCCESS")
    except Exception:  # noqa: BLE001 - whatever an exporter raises, the command has its answer
        delivered.append(False)


def print_tree(ended: Sequence[ReadableSpan]) -> None:
    """The spans on stderr, each under its parent, with how long it took and what it says."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    known = {context.span_id: (context, span) for span in ended if (context := span.get_span_context())}
    trees = {number: Tree(_line(span), guide_style="dim") for number, (_, span) in known.items()}
    whole = Tree(Text(f"trace {next(iter(known.values()))[0].trace_id:032x}", style="dim"), guide_style="dim")
    for number, (_, span) in sorted(known.items(), key=lambda each: each[1][1].start_time or 0):
        above = trees.get(span.parent.span_id, whole) if span.parent else whole
        above.children.append(trees[number])
    Console(stderr=True, highlight=False).print(whole)


def _line(span: ReadableSpan) -> Text:
    from rich.text import Text

    milliseconds = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
    said = " ".join(f"{name.removeprefix('remit.')}={value!s}" for name, value in (span.attributes or {}).items())
    return Text.assemble((span.name, "bold"), f"  {milliseconds:.1f} ms  ", (said, "dim"))
