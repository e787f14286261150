"""The command line in a folder of its own, with a terminal of 80 columns that is none."""

import io
import sys
from pathlib import Path

import pytest
from faces.running import Ran, Remit

from remit.pipeline.faces.cli import main


@pytest.fixture
def remit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Remit:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = main(arguments)
        said = capsys.readouterr()
        return Ran(status, said.out, said.err)

    return run
