"""A ceiling that is met is told by stage and limit, at each stage in turn; it is never an empty answer, and what was found is kept."""

from __future__ import annotations

from typing import Any

import pytest
from stories.world import ADA, NewStore, balanced, codes, engine_at, entry, ids

from remit.pipeline import ContextWanted, Fact, Request

FACTS = [Fact(id=f"f{n}", text=f"the deploy key of server {n} rotates monthly") for n in range(6)]
STAGES = ["generate", "dedupe", "rank", "verify", "pack"]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("limit", ["items", "seconds"])
async def test_a_ceiling_of_nothing_is_exhausted_at_its_stage_and_does_no_work(new_store: NewStore, stage: str, limit: str) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        answer = await engine.recall(Request(query="deploy key", ceilings={stage: {limit: 0}}), ADA)

    assert answer.outcome == "exhausted"
    assert [(each.stage, each.code) for each in answer.meta.because] == [(stage, f"ceiling_{limit}")]
    assert (entry(answer, stage).exhausted, entry(answer, stage).returned) == (limit, 0)
    assert entry(answer, stage).ceiling[limit] == 0
    assert len(answer.data) == (5 if stage == "pack" else 0)
    balanced(answer)


async def test_no_postings_at_all_are_exhausted_at_generate(new_store: NewStore) -> None:
    async with engine_at(new_store(), *FACTS, config={"embedding": {"provider": "none"}}) as engine:
        answer = await engine.recall(Request(query="deploy key", ceilings={"generate": {"postings": 0}}), ADA)

    assert (answer.outcome, codes(answer), answer.meta.because[0].stage) == ("exhausted", ["ceiling_postings"], "generate")
    assert answer.meta.mode.left_out == ["deploy", "key"]


@pytest.mark.parametrize("ceiling", [{"items": 0}, {"seconds": 0}, {"postings": 0}], ids=str)
async def test_why_never_says_that_words_are_missing_when_a_ceiling_kept_them_from_being_looked_up(
    new_store: NewStore, ceiling: dict[str, Any]
) -> None:
    async with engine_at(new_store(), *FACTS, config={"embedding": {"provider": "none"}}) as engine:
        cut = await engine.why(Request(query="deploy key", ceilings={"generate": ceiling}), "fact:f1", ADA)
        unlike = await engine.why(Request(query="harbour crane"), "fact:f1", ADA)

    assert (cut.stage, cut.reason) == ("generate", "over_ceiling")
    assert (unlike.stage, unlike.reason) == ("generate", "no_common_word")


@pytest.mark.parametrize("stage", ["generate", "dedupe", "rank", "verify"])
async def test_a_ceiling_met_halfway_keeps_what_was_found_and_says_that_it_is_partial(new_store: NewStore, stage: str) -> None:
    request = Request(query="deploy key", sources=("fact",), ceilings={stage: {"items": 2}})
    async with engine_at(new_store(), *FACTS, config={"embedding": {"provider": "none"}}) as engine:
        answer = await engine.recall(request, ADA)

    assert (answer.outcome, codes(answer), answer.meta.truncated) == ("exhausted", ["ceiling_items"], True)
    assert (answer.meta.because[0].stage, ids(answer)) == (stage, ["f0", "f1"])
    balanced(answer)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_ceiling_met_exactly_with_nothing_cut_is_not_exhausted(new_store: NewStore, stage: str) -> None:
    request = Request(query="deploy key", sources=("fact",), ceilings={stage: {"items": 6}})
    async with engine_at(new_store(), *FACTS, config={"embedding": {"provider": "none"}}) as engine:
        answer = await engine.recall(request, ADA)

    assert (answer.outcome, len(answer.data), answer.meta.truncated) == ("enough", 6, False)
    assert [each.exhausted for each in answer.meta.stages] == [None] * 5


async def test_no_time_at_all_is_exhausted_where_the_work_would_have_begun_and_nowhere_else(new_store: NewStore) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        answer = await engine.recall(Request(query="deploy key", deadline_seconds=0), ADA)

    assert (answer.outcome, ids(answer)) == ("exhausted", [])
    assert [(each.stage, each.code) for each in answer.meta.because] == [("generate", "ceiling_seconds")]
    balanced(answer)


@pytest.mark.parametrize(
    "empty", [{"context": ContextWanted(passages=0)}, {"ceilings": {"pack": {"passages": 0}}}], ids=["context.passages", "pack.passages"]
)
async def test_a_caller_who_wants_no_context_has_enough_in_the_cards(new_store: NewStore, empty: dict[str, Any]) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        answer = await engine.recall(Request(query="deploy key", **empty), ADA)

    assert (answer.outcome, len(answer.data), answer.meta.context.text) == ("enough", 5, "")


@pytest.mark.parametrize("stage", STAGES)
async def test_a_ceiling_lowered_in_the_config_binds_as_one_in_the_request_does(new_store: NewStore, stage: str) -> None:
    config = {"recall": {"profiles": {"memory": {stage: {"items": 0}}}}}
    async with engine_at(new_store(), *FACTS, config=config) as engine:
        answer = await engine.recall(Request(query="deploy key"), ADA)

    assert [(each.stage, each.code) for each in answer.meta.because] == [(stage, "ceiling_items")]
