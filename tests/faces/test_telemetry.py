"""Telemetry: set up only when a command is asked to, complete and without content, and no collector can hold a command."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from faces.running import Remit
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from remit.pipeline.faces.telemetry import deliver
from remit.stages.report import StageName

HIDDEN = "xylophone"
COMMAND = [sys.executable, "-P", "-c", "import sys; from remit.pipeline.faces.cli import main; sys.exit(main())"]


@pytest.fixture
def store(remit: Remit, tmp_path: Path) -> Path:
    """A folder with a store that holds a fact about the secret."""
    (tmp_path / "facts.jsonl").write_text(json.dumps({"source": "fact", "id": "f", "text": f"The {HIDDEN} is in the attic."}))
    assert remit("add", "facts.jsonl").status == 0
    return tmp_path


def ran(store: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, because tracer providers are for a whole process."""
    env = {**os.environ, "COLUMNS": "200", **environment}
    return subprocess.run([*COMMAND, *arguments], cwd=store, env=env, capture_output=True, text=True, check=False)


def test_importing_the_library_sets_nothing_up_and_says_nothing() -> None:
    look = """if True:
        import logging, sys
        before = list(logging.getLogger().handlers)
        import remit.pipeline, remit.pipeline.faces.cli
        import structlog
        from opentelemetry import trace
        assert "opentelemetry.sdk" not in sys.modules
        assert not structlog.is_configured()
        assert logging.getLogger().handlers == before == []
        assert logging.getLogger("remit").handlers == []
        assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
    """

    looked = subprocess.run([sys.executable, "-P", "-c", look], capture_output=True, text=True, check=False)

    assert (looked.returncode, looked.stdout, looked.stderr) == (0, "", "")


def test_a_trace_has_the_root_and_the_five_stages_and_no_content(store: Path) -> None:
    traced = ran(store, "recall", f"Where is the {HIDDEN}?", "--trace", "--json")
    lines = traced.stderr.splitlines()

    assert traced.returncode == 0
    assert lines[0].split() == ["trace", json.loads(traced.stdout)["meta"]["traceId"]]
    assert [next(word for word in line.split() if word.isidentifier()) for line in lines[1:]] == ["search_memory", *StageName]
    assert HIDDEN not in traced.stderr
    assert "outcome=enough" in lines[1]
    assert "received=" in lines[2]


def test_events_have_the_keys_of_the_spans_and_no_content(store: Path) -> None:
    asked = ran(store, "recall", f"Where is the {HIDDEN}?", "--log")
    of_environment = ran(store, "recall", f"Where is the {HIDDEN}?", REMIT_LOG="1")
    events = [json.loads(line) for line in asked.stderr.splitlines()]

    assert [(each["event"], each.get("remit.stage")) for each in events] == [*(("stage", name) for name in StageName), ("recall", None)]
    assert events[-1]["remit.returned"] == 1
    assert HIDDEN not in asked.stderr
    assert len(of_environment.stderr.splitlines()) == len(events)


def test_without_being_asked_a_command_says_nothing_on_stderr(store: Path) -> None:
    assert ran(store, "recall", f"Where is the {HIDDEN}?").stderr == ""


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A collector's address, and the bodies it was sent."""
    bodies: list[bytes] = []

    class Collecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Collecting) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            serving.join()


def test_a_trace_goes_to_a_collector_by_the_standard_environment(store: Path) -> None:
    with collector() as (address, bodies):
        sent = ran(store, "recall", f"Where is the {HIDDEN}?", "--trace", "otlp", OTEL_EXPORTER_OTLP_ENDPOINT=address, NO_PROXY="*")

    assert (sent.returncode, sent.stderr) == (0, "")
    assert len(bodies) == 1
    assert all(name.encode() in bodies[0] for name in ("search_memory", "remit.received", *StageName))
    assert HIDDEN.encode() not in bodies[0]


def test_without_the_extra_a_person_is_told_what_to_install(remit: Remit, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    told = remit("recall", "attic", "--trace", "otlp")

    assert (told.status, told.out) == (2, "")
    assert told.err == "remit: trace: otlp needs the extra: pip install 'remit[otlp]'\n"


class Answering(SpanExporter):
    """Says what it is told to; with `until`, only then."""

    def __init__(self, result: SpanExportResult | Exception, until: threading.Event | None = None) -> None:
        self.result, self.until = result, until

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.until is not None:
            self.until.wait()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def ended() -> list[ReadableSpan]:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("search_memory")
    span.end()
    assert isinstance(span, ReadableSpan)
    return [span]


def test_a_collector_that_hangs_fails_or_raises_is_one_line_and_no_wait(capsys: pytest.CaptureFixture[str]) -> None:
    never = threading.Event()
    for exporter in (
        Answering(SpanExportResult.SUCCESS, until=never),
        Answering(SpanExportResult.FAILURE),
        Answering(RuntimeError("http://user:password@collector")),
    ):
        deliver(ended(), exporter, seconds=0 if exporter.until else 5)

        assert capsys.readouterr().err == "remit: the trace was not delivered; where it goes is said by OTEL_EXPORTER_OTLP_ENDPOINT\n"
    never.set()


def test_a_delivered_trace_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(ended(), Answering(SpanExportResult.SUCCESS))

    assert capsys.readouterr().err == ""
