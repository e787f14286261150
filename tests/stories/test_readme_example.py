"""The README's library example, run as a reader would run it, on both event loops."""

import re
from functools import partial
from pathlib import Path

import anyio
import pytest

README = Path(__file__).parents[2] / "README.md"


def example() -> str:
    """The first Python block of the README."""
    assert README.is_file(), "README.md is not there"
    block = re.search(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert block, "README.md has no block that opens with ```python"
    return block.group(1)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_readmes_library_example_runs_as_it_stands(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(anyio, "run", partial(anyio.run, backend=loop))

    exec(compile(example(), "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own README is what is tested

    assert capsys.readouterr().out.startswith("enough ["), "the example should print an outcome and the ids that it found"
