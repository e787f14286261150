"""Quality figures: what is fused stands beside the best of its lanes, question by question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "ops" / "benchmarks"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import quality

    return quality.Figures


def test_what_is_fused_is_compared_with_the_best_of_its_lanes_in_each_measure(figures: Any) -> None:
    weak, strong, fused = figures(), figures(), figures()
    for name in "ab":
        weak.add([], {name}, 0.1)
        strong.add(["x", name], {name}, 0.1)
        fused.add([name], {name}, 0.1)

    assert fused.beyond([weak, strong]) == {
        "recall@20 beyond best": "+0.000 [+0.000, +0.000]",
        "nDCG@10 beyond best": "+0.369 [+0.369, +0.369]",
    }
