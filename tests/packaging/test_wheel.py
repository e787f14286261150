"""The wheel: all of stages and pipeline and config.toml, all of it inside `remit`, and working from there."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("stages", "pipeline")
LEAVINGS = shutil.ignore_patterns("__pycache__", "*.pyc")


def shipped_files() -> set[str]:
    files = [path for part in PARTS for path in (ROOT / part).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {f"remit/{path.relative_to(ROOT).as_posix()}" for path in files} | {"remit/config.toml"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the locked setuptools, without network, from a copy: the checkout stays as it was."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        shutil.copytree(ROOT / part, copy / part, ignore=LEAVINGS)
    for name in ("pyproject.toml", "config.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, copy / name)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-P", "-c", build, str(out)], cwd=copy, capture_output=True, text=True, check=True)
    (built,) = out.glob("*.whl")
    return built


def test_the_package_list_is_what_is_on_disk() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {str(Path(file).parent).replace("/", ".") for file in shipped_files()}

    assert sorted(listed) == sorted(folders)


def test_the_wheel_holds_every_file_and_nothing_outside_remit(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == shipped_files()


@pytest.mark.parametrize("kind", ["config.toml", ".sql", ".jsonl", "stages/py.typed", "pipeline/py.typed"])
def test_the_wheel_holds_what_is_no_python(wheel: Path, kind: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(kind) for name in archive.namelist())


def test_the_wheel_works_by_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    demo = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from remit.pipeline.faces import cli; print(cli.__file__); cli.main()"

    ran = subprocess.run([sys.executable, "-P", "-c", demo, "demo"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(tmp_path))
