"""The import contracts: kept as the house stands, and each of those that matter most seen to break when it is broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).parent / "lint-imports"


def lint(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    found_first = {**os.environ, "PYTHONPATH": str(root / ".dev")}
    line = [LINT, "--no-logo", "--no-cache", *arguments]
    return subprocess.run(line, cwd=root, env=found_first, capture_output=True, text=True, check=False)


def test_the_layers_are_kept() -> None:
    kept = lint(ROOT)

    assert kept.returncode == 0, kept.stdout + kept.stderr


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("house")
    shutil.copyfile(ROOT / "pyproject.toml", root / "pyproject.toml")
    for part in ("stages", "pipeline"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".dev").mkdir()
    (root / ".dev" / "remit").symlink_to("..")
    return root


@pytest.mark.parametrize(
    "contract, file, line",
    [
        ("arrow", "stages/bm25.py", "import remit.pipeline.errors"),
        ("stages", "stages/rank.py", "import remit.stages.dedupe"),
        ("stages", "stages/without_a_place.py", ""),
        ("pure", "stages/rank.py", "import apsw"),
        ("pipeline", "pipeline/errors.py", "import remit.pipeline.config"),
        ("pipeline", "pipeline/without_a_place.py", ""),
        ("storage", "pipeline/storage/memory/store.py", "import remit.pipeline.storage.sqlite"),
        ("front-door", "pipeline/faces/cli.py", "import remit.stages.rank"),
        ("backends", "pipeline/recall.py", "import remit.pipeline.storage.sqlite"),
        ("telemetry", "pipeline/recall.py", "import structlog"),
        ("terminal", "pipeline/recall.py", "import rich"),
    ],
)
def test_a_contract_breaks(house: Path, contract: str, file: str, line: str) -> None:
    path = house / file
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    try:
        broken = lint(house, "--contract", contract)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)

    assert broken.returncode == 1
    assert "1 broken" in broken.stdout
