"""Values of a config: what could reach a statement or break a formula is refused when it is loaded, by its key. B6.4, B6.6, C8.7."""

from __future__ import annotations

import math
from typing import Any

import pytest

from remit.pipeline.config import load
from remit.pipeline.errors import ConfigError

HOSTILE = "x'; DROP TABLE memory; --"


def nested(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


@pytest.mark.parametrize(
    "path",
    [
        "analysis.language",
        "postgres.role",
        "postgres.profile",
        "postgres.iterativeScan",
        "recall.profile",
        "context.format",
        "embedding.provider",
        "reranking.provider",
        "authority.grants",
        "freshness.unverified",
    ],
)
def test_b6_4_a_name_is_one_of_a_list_or_of_a_shape(path: str) -> None:
    for value in (HOSTILE, "", None, 7, [HOSTILE]):
        with pytest.raises(ConfigError, match=path.split(".", maxsplit=1)[0]):
            load(nested(path, value))


@pytest.mark.parametrize("order", [["doc", "fact", HOSTILE], ["doc", "fact"], ["doc", "doc", "fact"], [], "doc"])
def test_b6_4_ties_are_broken_by_the_three_sources(order: Any) -> None:
    with pytest.raises(ConfigError, match="tieBreakOrder"):
        load(nested("recall.tieBreakOrder", order))


@pytest.mark.parametrize("share", [0, -1, 2, math.nan, math.inf, "0.5", True, None])
def test_b6_6_a_share_is_a_part_of_the_page(share: Any) -> None:
    with pytest.raises(ConfigError, match="laneShare"):
        load(nested("recall.laneShare.fact", share))


@pytest.mark.parametrize("k", [0, -60, -61, 2.5, math.nan, "60", True, None])
def test_b6_6_k_is_a_whole_number_that_divides(k: Any) -> None:
    with pytest.raises(ConfigError, match=r"fusion\.k"):
        load(nested("recall.fusion.k", k))


@pytest.mark.parametrize("days", [0, -1, math.nan, math.inf, "30", True, None])
def test_c8_7_a_half_life_is_a_time_that_passes(days: Any) -> None:
    with pytest.raises(ConfigError, match="sessionHalfLifeDays"):
        load(nested("recall.boosts.sessionHalfLifeDays", days))


def test_b6_4_a_key_that_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigError, match="memory"):
        load({HOSTILE: 1})
