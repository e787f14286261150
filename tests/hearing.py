"""Hears what is told beside the answers: log lines and spans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs


@contextmanager
def logged() -> Iterator[list[Any]]:
    """The log lines of a while, whatever structlog was set up as before."""
    structlog.configure()
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        structlog.reset_defaults()


def every_span() -> Iterator[InMemorySpanExporter]:
    """Hears every span. A process can have one provider only, so this one stays; its exporter is shut at the end."""
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    heard = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(heard))
    yield heard
    heard.shutdown()
