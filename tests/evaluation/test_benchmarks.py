"""What is wrong with a benchmark's command line is told before anything is made, and a peer that cannot be had ends nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "ops" / "benchmarks"


@pytest.mark.parametrize(
    "given, fact",
    [
        (["recal"], "there is no benchmark recal; there are recall, postgres"),
        (["--data", "nowhere"], "--data nowhere: has no corpus.jsonl in locomo, cranfield"),
        (["recall", "--out", "nowhere/results.json"], "--out nowhere/results.json: its folder is not there"),
    ],
)
def test_a_wrong_command_line_is_one_clear_word(
    given: list[str], fact: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run

    with pytest.raises(SystemExit) as ended:
        run.arguments_of(given)
    assert ended.value.code == 2
    assert fact in capsys.readouterr().err


def test_a_peer_whose_packages_cannot_be_installed_is_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import against_peers

    nobody: Any = None
    monkeypatch.setattr(against_peers.sys, "executable", shutil.which("false"))
    peer = against_peers.Peer("a peer", "a_peer", "folder", ("a-peer==1",))
    failed = against_peers.asked(peer, tmp_path, tmp_path, nobody)
    assert failed == {"failed": "its packages cannot be installed"}
    assert against_peers.line(peer, [failed], [failed], [failed]) == {"name": "a peer", "p50": "its packages cannot be installed"}


def test_a_collection_that_is_not_there_is_named_and_nothing_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import converters

    assert converters.main([str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 2
    assert "nowhere/corpus.jsonl: No such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
