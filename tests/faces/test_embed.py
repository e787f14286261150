"""`remit embed`: what a person and a program are told, and with which exit status it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from faces.running import Remit
from providers import embeddings


class Handler(BaseHTTPRequestHandler):
    """Embeds for `server.model`, or says that it is away."""

    server: Any

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.texts += asked["input"]
        body = json.dumps(embeddings(asked["input"], model=asked["model"])).encode()
        self.send_response(200 if self.server.works else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.texts, server.works = [], True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("REMIT_EMBEDDINGS_URL", f"http://127.0.0.1:{server.server_port}/v1")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def remit_with(remit: Remit, tmp_path: Path) -> Any:
    """Runs a command with a config in which a model of the provider is named."""

    def run(model: str, *arguments: str, orgs: str = '["local"]') -> Any:
        lines = [
            '[embedding]\nprovider = "openai"',
            f'[embedding.openai]\nmodel = "{model}"\ndimensions = 4\npassageSeconds = 60.0',
            f"[outbound]\nembeddingOrgs = {orgs}\ncoolSeconds = 0.001\nlongestCoolSeconds = 0.001",
        ]
        (tmp_path / "config.toml").write_text("\n".join(lines))
        return remit(*arguments, "--config", str(tmp_path / "config.toml"))

    facts = [{"source": "fact", "id": f"f{n}", "text": f"fact {n}"} for n in range(5)]
    (tmp_path / "facts.jsonl").write_text("".join(json.dumps(fact) + "\n" for fact in facts))
    assert remit("add", "facts.jsonl").status == 0
    return run


def test_what_was_taken_in_before_a_model_is_embedded_once(remit_with: Any, provider: Any) -> None:
    first, again = remit_with("m1", "embed", "--json"), remit_with("m1", "embed")

    assert first.status == again.status == 0
    assert [(each["stream"], each["step"], each["coverage"], each["embedded"]) for each in first.json["streams"]] == [
        ("semantic", "complete", 1.0, 5),
        ("local", "complete", 1.0, 0),
    ]
    assert first.err == again.err == "", "no bar where nobody sits in front of it"
    assert "semantic m1/4/plain: 5 of 5 passages have a vector (0 embedded now), everything has a vector" in again.out
    assert len(provider.texts) == 5


def test_what_another_model_left_is_told_and_dropped_on_request(remit_with: Any, provider: Any) -> None:
    remit_with("m1", "embed")

    kept, dropped = remit_with("m2", "embed", "--stream", "semantic"), remit_with("m2", "embed", "--prune", "--json")

    assert "5 vectors of m1/4/plain are compared with nothing: `remit embed --prune` drops them" in kept.out
    assert (dropped.status, dropped.json["dropped"], dropped.json["otherSpaces"]) == (0, 5, {})
    assert remit_with("m2", "doctor").status == 0


def test_a_provider_that_is_away_ends_it_with_4_and_what_is_left_and_drops_nothing(remit_with: Any, provider: Any) -> None:
    remit_with("m1", "embed")
    provider.works = False

    ran = remit_with("m2", "embed", "--prune", "--json")

    semantic = ran.json["streams"][0]
    assert (ran.status, semantic["step"], semantic["having"], semantic["passages"]) == (4, "unavailable", 0, 5)
    assert semantic["failed"] == {"not_allowed": 5}
    assert (ran.json["dropped"], ran.json["otherSpaces"]) == (0, {"m1/4/plain": 5})


def test_an_org_that_keeps_its_text_in_is_passed_by_and_told(remit_with: Any, provider: Any) -> None:
    ran = remit_with("m1", "embed", orgs="[]")

    assert ran.status == 0
    assert "semantic m1/4/plain: this org does not let its text go there, so nothing was sent" in " ".join(ran.out.split())
    assert provider.texts == []


@pytest.mark.parametrize("options, told", [(["--rate", "0"], "rate: must be more than 0"), (["--stream", "x"], "stream: x is not one of")])
def test_what_cannot_be_meant_is_refused(remit_with: Any, provider: Any, options: list[str], told: str) -> None:
    ran = remit_with("m1", "embed", *options)

    assert ran.status == 2
    assert told in ran.err
    assert provider.texts == []


def test_init_after_another_model_leaves_the_vectors_of_the_one_before(remit_with: Any, provider: Any) -> None:
    remit_with("m1", "embed")

    made = remit_with("m2", "init", "--json")

    assert (made.json["reindexed"], [fault["code"] for fault in made.json["faults"]]) == (None, ["uncovered"])
    assert remit_with("m1", "embed", "--json").json["streams"][0]["embedded"] == 0, "they are still there"
