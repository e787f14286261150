"""A store that fails is never an empty answer: what could not be done is said, and what was found before is kept."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import anyio
import pytest
from faults.broken import Broken, Late, over
from stories.world import ADA, NewStore, balanced, codes, engine_at, entry, ids

from remit.pipeline import Fact, Memory, Origin, Request, Verdict
from remit.pipeline.errors import StorageUnavailable, UnsafeStorage

FACTS = [Fact(id=f"f{n}", text=f"the deploy key of server {n} rotates monthly") for n in range(3)]
TELLTALE = "postgresql://root:hunter2@10.0.0.7/acme: DETAIL: Key (id)=(f1) the deploy key"

METHODS = [("find", "generate"), ("outlines", "generate"), ("vocabulary", "generate"), ("read", "verify")]


@pytest.mark.parametrize("method, stage", METHODS)
async def test_a_store_that_is_down_is_unavailable_at_the_stage_that_needed_it(new_store: NewStore, method: str, stage: str) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        broken = over(engine, lambda store: Broken(store, {method: StorageUnavailable("the disk is gone")}))
        answer = await broken.recall(Request(query="deplyo key"), ADA)
        mended = await engine.recall(Request(query="deplyo key"), ADA)

    (because,) = answer.meta.because
    assert (answer.outcome, because.stage, because.code) == ("unavailable", stage, "store_unavailable")
    assert (because.owner, because.retryable, bool(because.next)) == ("operator", True, True)
    assert entry(answer, stage).outcome == "unavailable"
    assert answer.data == []
    balanced(answer)
    assert mended.outcome == "enough"


@pytest.mark.parametrize("name", ["pipe", "no\0name", "\udc80", "."], ids=ascii)
async def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")

    with anyio.fail_after(60), pytest.raises(StorageUnavailable, match="whether it is a file"):
        async with engine_at(f"sqlite:{tmp_path}/{name}"):
            pass


@pytest.mark.parametrize(
    "fault, code, retryable",
    [
        (UnsafeStorage("the role may do anything"), "unsafe_storage", False),
        (RuntimeError(TELLTALE), "internal", False),
        (KeyError(7), "internal", False),
    ],
)
@pytest.mark.parametrize("method, stage", METHODS)
async def test_every_other_fault_has_a_code_of_the_closed_list_too(
    new_store: NewStore, method: str, stage: str, fault: Exception, code: str, retryable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        with caplog.at_level(logging.DEBUG):
            answer = await over(engine, lambda store: Broken(store, {method: fault})).recall(Request(query="deplyo key"), ADA)

    (because,) = answer.meta.because
    assert (answer.outcome, because.stage, because.code, because.retryable) == ("unavailable", stage, code, retryable)
    told = json.dumps(answer.wire()) + caplog.text
    assert "hunter2" not in told
    assert "DETAIL" not in told


@pytest.mark.parametrize("method, stage", [("find", "generate"), ("read", "verify")])
async def test_what_an_earlier_round_found_is_kept_when_the_store_fails_in_a_later_one(
    new_store: NewStore, method: str, stage: str
) -> None:
    async def crm(memory: Memory, _access: object) -> Verdict:
        return Verdict.FRESH if memory.id.id == "f0" else Verdict.CHANGED

    facts = [Fact(id=f"f{n}", text=f"the deploy key of server {n} rotates", origin=Origin(uri="crm:1")) for n in range(4)]
    config = {"recall": {"profiles": {"memory": {"generate": {"items": 2}}}}}
    async with engine_at(new_store(), *facts, config=config, checkers={"crm": crm}) as engine:
        late = over(engine, lambda store: Late(store, method, works=1, fault=StorageUnavailable("gone")))
        answer = await late.recall(Request(query="deploy key rotates", sources=("fact",)), ADA)

    assert (answer.outcome, codes(answer), ids(answer)) == ("unavailable", ["store_unavailable"], ["f0"])
    assert answer.meta.because[0].stage == stage
    assert answer.meta.context.passages == 0


async def test_a_store_that_never_answers_is_given_up_at_the_ceiling(new_store: NewStore) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        hanging = over(engine, lambda store: Broken(store, {"find": None}))
        answer = await hanging.recall(Request(query="deploy key", ceilings={"generate": {"seconds": 0.01}}), ADA)

    assert (answer.outcome, codes(answer)) == ("exhausted", ["ceiling_seconds"])
    assert (answer.meta.because[0].stage, answer.meta.because[0].retryable) == ("generate", True)


async def test_near_words_that_never_come_cost_themselves_and_nothing_else(new_store: NewStore) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        hanging = over(engine, lambda store: Broken(store, {"vocabulary": None}))
        answer = await hanging.recall(Request(query="deplyo key rotates", ceilings={"generate": {"seconds": 0.2}}), ADA)

    assert (answer.outcome, codes(answer), ids(answer)) == ("exhausted", ["ceiling_seconds"], ["f0", "f1", "f2"])
    balanced(answer)


async def test_a_read_that_never_answers_leaves_its_batch_unfinished_and_keeps_the_rest(new_store: NewStore) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        hanging = over(engine, lambda store: Broken(store, {"read": None}))
        answer = await hanging.recall(Request(query="deploy key", ceilings={"verify": {"seconds": 0.01}}), ADA)

    assert (answer.outcome, codes(answer), answer.meta.because[0].stage) == ("exhausted", ["ceiling_seconds"], "verify")
    assert entry(answer, "verify").rejected == {"unfinished": 3}
    balanced(answer)


async def test_the_requests_deadline_ends_a_recall_whatever_its_stages_may_take(new_store: NewStore) -> None:
    async with engine_at(new_store(), *FACTS) as engine:
        hanging = over(engine, lambda store: Broken(store, {"read": None}))
        answer = await hanging.recall(Request(query="deploy key", deadline_seconds=0.05), ADA)

    assert answer.outcome == "exhausted"
    assert "verify" in [each.stage for each in answer.meta.because]
    balanced(answer)
