"""Set-up: made once, kept while it fits, whole after any interruption, and deaf to what else is on the machine.

The project set up here is a small one with a build backend of its own and an empty lock, so that no network is asked.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEV = Path(__file__).parents[2] / "ops" / "dev"

PYPROJECT = """
build-system = { requires = [], build-backend = "backend", backend-path = ["."] }
project = { name = "small", version = "1" }
tool.setuptools = {}
"""
BACKEND = '''
import zipfile

def build_editable(folder, settings=None, metadata=None):
    """A wheel of one module, `small`, that says where it is."""
    name = "small-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("small.py", "print('small, from', __file__)")
        wheel.writestr("small-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: small\\nVersion: 1\\n")
        wheel.writestr("small-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("small-1.dist-info/RECORD", "")
    return name
'''


@pytest.fixture
def small(tmp_path: Path) -> Path:
    root = tmp_path / "a checkout"
    (root / "ops").mkdir(parents=True)
    shutil.copy(DEV, root / "ops" / "dev")
    (root / "requirements.lock").write_text("# none\n")
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "backend.py").write_text(BACKEND)
    return root


def dev(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line(root, *arguments), cwd="/", env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def line(root: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(root / "ops" / "dev"), *arguments]


def test_the_first_set_up_makes_it_and_the_next_says_only_that_it_is_ready(small: Path) -> None:
    first, second = dev(small, "setup"), dev(small, "setup")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert "making" in first.stderr
    assert second.stderr.count("\n") == 1
    assert (small / ".dev" / "venv" / "bin" / "python").exists()
    assert (small / ".dev" / "remit").resolve() == small


def test_what_else_is_on_the_machine_is_not_seen(small: Path, tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("print('a stray one')")

    ran = dev(small, "run", "python", "-c", "import small", PYTHONPATH=str(tmp_path), PIP_TARGET=str(tmp_path / "elsewhere"))

    assert ran.stdout.startswith(f"small, from {small / '.dev'}"), ran.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_a_changed_lock_is_another_environment_and_a_changed_project_only_another_install(small: Path) -> None:
    dev(small, "setup")
    before = (small / ".dev" / "venv").resolve()

    (small / "pyproject.toml").write_text(PYPROJECT.replace('"1"', '"2"'))
    changed_project = dev(small, "setup").stderr
    same = (small / ".dev" / "venv").resolve()
    (small / "requirements.lock").write_text("# none, but another\n")
    changed_lock = dev(small, "setup").stderr

    assert same == before
    assert ("making" in changed_project, "installing the project" in changed_project) == (False, True)
    assert "making" in changed_lock
    assert (small / ".dev" / "venv").resolve() != before


def test_one_that_was_killed_half_way_is_made_anew(small: Path) -> None:
    killed = subprocess.Popen(line(small, "setup"), stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert killed.stderr
    while "installing" not in killed.stderr.readline():
        assert killed.poll() is None
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()

    again = dev(small, "run", "python", "-c", "import small")

    assert "making" in again.stderr
    assert again.stdout.startswith("small, from"), again.stderr


def test_a_pip_that_outlives_a_killed_set_up_is_waited_for(small: Path) -> None:
    slow = "    import pathlib, time; pathlib.Path('begun').touch(); time.sleep(1)\n    name ="
    (small / "backend.py").write_text(BACKEND.replace("    name =", slow))
    killed = subprocess.Popen(line(small, "setup"), stderr=subprocess.PIPE, text=True)
    while not (small / "begun").exists():
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.communicate()

    again = dev(small, "setup")

    assert "waiting for another set-up" in again.stderr
    assert again.returncode == 0


def test_two_at_once_make_one(small: Path) -> None:
    both = [subprocess.Popen(line(small, "setup"), stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[1] for process in both]

    assert [process.returncode for process in both] == [0, 0], told
    assert sum("making" in words for words in told) == 1
    assert len(list((small / ".dev").glob("venv-*"))) == 1


def test_a_failed_install_says_why_and_is_not_taken_for_done(small: Path) -> None:
    (small / "backend.py").write_text("raise RuntimeError('no wheel today')")
    failed = dev(small, "setup")
    (small / "backend.py").write_text(BACKEND)
    mended = dev(small, "setup")

    assert failed.returncode == 1
    assert "no wheel today" in failed.stderr
    assert mended.returncode == 0


def test_an_unknown_command_is_refused_with_the_list(small: Path) -> None:
    refused = dev(small, "tset")

    assert refused.returncode == 2
    assert "ops/dev test" in refused.stderr
