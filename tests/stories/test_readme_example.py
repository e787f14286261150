"""The README's library example, as a reader would run it."""

import ast
import inspect
import re
from pathlib import Path
from types import CodeType

import pytest

README = Path(__file__).parents[2] / "README.md"


def example() -> CodeType:
    """The first Python block of the README, which may `await` where it stands."""
    assert README.is_file(), "README.md is not there"
    block = re.search(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert block, "README.md has no block that opens with ```python"
    return compile(block.group(1), "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def test_the_readmes_library_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "readme"}

    running = eval(example(), names)  # noqa: S307 - our own README is what is tested
    if inspect.isawaitable(running):
        await running

    answer = names.get("answer")
    assert getattr(answer, "outcome", None) == "enough", "the example should end with an answer named `answer` that found something"
