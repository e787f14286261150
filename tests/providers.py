"""A provider on this machine for tests: an HTTP server that answers as it is told to, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream

NEVER = b""
"""An answer that does not come, nor end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came: what stands before the body, in lower case where case means nothing, and the body."""

    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answers = Callable[[Asked], bytes]
"""The bytes of a whole HTTP answer; `NEVER` and what breaks off in the middle leave the connection open, as a hanging provider does."""


@dataclass(slots=True, kw_only=True)
class Provider:
    port: int
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@asynccontextmanager
async def serving(answers: Answers, *, hang_up: bool = False) -> AsyncIterator[Provider]:
    """A provider that answers every request with these bytes, on a port of its own; `hang_up` closes after the bytes."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, _answering(listener, answers, hang_up=hang_up) as provider:
        yield provider


@asynccontextmanager
async def _answering(listener: Listener[SocketStream], answers: Answers, *, hang_up: bool) -> AsyncIterator[Provider]:
    provider = Provider(port=listener.extra(SocketAttribute.local_port))  # noqa: S610 - no query: what a stream knows of its socket

    async def serve(stream: SocketStream) -> None:
        provider.connections += 1
        async with stream:
            try:
                while (request := await _request(stream)) is not None:
                    provider.asked.append(request)
                    await stream.send(answers(request))
                    if hang_up:
                        return
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        try:
            yield provider
        finally:
            tasks.cancel_scope.cancel()


async def _request(stream: SocketStream) -> Asked | None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += await stream.receive()
        if not received[:4].isalpha():
            return None  # no HTTP, as a TLS handshake
    head, _, body = received.partition(b"\r\n\r\n")
    line, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive()
    return Asked(line=line, headers=headers, body=body)


def reply(body: bytes | object, *, status: int = 200, content_type: str | None = "application/json", **headers: str) -> bytes:
    """A whole HTTP answer; a body that is no bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type is not None:
        named["Content-Type"] = content_type
    named.setdefault("Content-Length", str(len(content)))
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + content


def embedding_of(text: str) -> list[float]:
    """Four numbers that tell short texts apart."""
    return [float(len(text)) + 0.5, float(text.count("a")) + 0.25, sum(map(ord, text)) % 97 + 0.125, 1.5]


def embeddings(texts: Sequence[str], *, model: str = "toy") -> dict[str, Any]:
    """What an honest provider answers for these texts."""
    data = [{"object": "embedding", "index": place, "embedding": embedding_of(text)} for place, text in enumerate(texts)]
    return {"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def honest(asked: Asked) -> bytes:
    return reply(embeddings(asked.json["input"]))
