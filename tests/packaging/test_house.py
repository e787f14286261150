"""The house: what lies where, what each file opens with, and nothing in it that only this machine knows."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def files_of_the_project() -> list[Path]:
    """What is committed or would be: tracked, or new and not ignored."""
    line = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(line, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for path in (ROOT / name for name in listed.split("\0") if name) if path.is_file()]


FILES = files_of_the_project()
MODULES = [path for path in FILES if path.suffix == ".py" or path == ROOT / "ops" / "dev"]


def test_no_module_lies_in_the_root() -> None:
    assert [path.name for path in ROOT.glob("*.py")] == []


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in MODULES])
def test_a_module_opens_with_a_sentence(path: Path) -> None:
    told = ast.get_docstring(ast.parse(path.read_text()))

    assert told, "the first statement is not a docstring"
    opening = told.partition("\n\n")[0]
    assert re.match(r"[A-Z`\d]", opening), opening
    assert re.search(r"[.!?]$", opening), opening


# In pieces, so that this file is not what it finds.
FORBIDDEN = {
    "a registry": [
        host.replace(" ", r"\.")
        for host in ("pypi org", "pythonhosted org", "npmjs org", "npmjs com", "deb debian org", "proxy golang org", "crates io")
    ],
    "a path of this machine": [rf"(?<![\w.]){re.escape(str(folder))}/" for folder in {ROOT, Path.home()} - {Path("/")}]
    + [rf"(?<![\w./])/{folder}/" for folder in ("work", "root")],
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    pattern = re.compile("|".join(FORBIDDEN[what]).encode())
    found = [(path.relative_to(ROOT), match.group()) for path in FILES for match in pattern.finditer(path.read_bytes())]

    assert found == []
