"""Fresh evidence behind a front of five hundred stale memories: found when a second round is allowed, and never called an empty answer."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from stories.world import ADA, NewStore, balanced, codes, engine_at, entry, ids

from remit.pipeline import Doc, Memory, Origin, Request, Verdict

QUERY = "customer discount of the northern region"
# What matches better has its words more often; all of it carries the same information, so that only the order differs.
STALE = "customer discount northern region customer discount northern region "
FRESH = "customer discount northern region and much else that makes a longer text of it "

ROUNDS: dict[str, Any] = {"recall": {"profiles": {"memory": {"verify": {"items": 600}}}}}


def corpus(stale: int, fresh: int) -> list[Doc]:
    behind = [Doc(id=f"fresh-{n}", text=FRESH + f"w{n}", origin=Origin(uri=f"crm:fresh/{n}")) for n in range(fresh)]
    return [Doc(id=f"stale-{n}", text=STALE + f"w{n}", origin=Origin(uri=f"crm:stale/{n}")) for n in range(stale)] + behind


async def crm(memory: Memory, _access: object) -> Verdict:
    assert memory.origin is not None
    return Verdict.FRESH if memory.origin.uri.startswith("crm:fresh") else Verdict.CHANGED


async def test_five_hundred_stale_before_five_fresh_are_exhausted_at_verify_with_one_round(new_store: NewStore) -> None:
    async with engine_at(new_store(), *corpus(500, 5), config=ROUNDS, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query=QUERY, ceilings={"verify": {"rounds": 1}}), ADA)

    assert (answer.outcome, ids(answer)) == ("exhausted", [])
    assert "verify" in [each.stage for each in answer.meta.because]
    assert entry(answer, "verify").rejected == {"changed": 500}
    assert all(each.retryable is False and each.owner == "caller" for each in answer.meta.because)
    balanced(answer)


async def test_a_second_round_inside_the_ceilings_finds_the_five(new_store: NewStore) -> None:
    async with engine_at(new_store(), *corpus(500, 5), config=ROUNDS, checkers={"crm": crm}) as engine:
        answer = await engine.recall(Request(query=QUERY), ADA)

    assert sorted(ids(answer)) == [f"fresh-{n}" for n in range(5)]
    assert (answer.outcome, codes(answer)) == ("enough", [])
    assert (entry(answer, "verify").received, entry(answer, "verify").rejected) == (505, {"changed": 500})
    balanced(answer)


async def test_checks_are_counted_over_all_rounds_and_their_ceiling_is_kept(new_store: NewStore) -> None:
    looks: list[str] = []

    async def counted(memory: Memory, access: object) -> Verdict:
        looks.append(memory.id.id)
        return await crm(memory, access)

    async with engine_at(new_store(), *corpus(500, 5), config=ROUNDS, checkers={"crm": counted}) as engine:
        answer = await engine.recall(Request(query=QUERY, ceilings={"verify": {"items": 502}}), ADA)

    assert (len(looks), len(set(looks))) == (502, 502)
    assert (answer.outcome, len(ids(answer))) == ("exhausted", 2)
    assert entry(answer, "verify").rejected == {"changed": 500, "over_ceiling": 3}
    balanced(answer)


@pytest.mark.parametrize("ceiling", ["config", "request"])
async def test_a_ceiling_on_checks_from_the_config_or_the_request_is_exhausted_and_keeps_what_was_found(
    new_store: NewStore, ceiling: str
) -> None:
    config = {"recall": {"profiles": {"memory": {"verify": {"items": 12}}}}} if ceiling == "config" else {}
    request = Request(query=QUERY, ceilings={} if ceiling == "config" else {"verify": {"items": 12}})
    async with engine_at(new_store(), *corpus(10, 5), config=config, checkers={"crm": crm}) as engine:
        answer = await engine.recall(request, ADA)

    assert (answer.outcome, codes(answer), len(ids(answer))) == ("exhausted", ["ceiling_items"], 2)
    assert entry(answer, "verify").rejected == {"changed": 10, "over_ceiling": 3}


async def test_files_that_changed_since_are_stale_and_the_rest_is_found_in_the_second_round(new_store: NewStore, tmp_path: Path) -> None:
    docs = []
    for doc in corpus(40, 5):
        file = tmp_path / f"{doc.id}.md"
        file.write_text(doc.text)
        origin = Origin(uri=file.as_uri(), sha256=hashlib.sha256(doc.text.encode()).hexdigest())
        docs.append(Doc(id=doc.id, text=doc.text, origin=origin))
        if doc.id.startswith("stale"):
            file.write_text(doc.text + "and then somebody wrote more")
    config = {"freshness": {"roots": [str(tmp_path)]}, "recall": {"profiles": {"memory": {"generate": {"items": 40}}}}}
    async with engine_at(new_store(), *docs, config=config) as engine:
        two_rounds = await engine.recall(Request(query=QUERY), ADA)
        one_round = await engine.recall(Request(query=QUERY, ceilings={"verify": {"rounds": 1}}), ADA)

    assert (two_rounds.outcome, sorted(ids(two_rounds))) == ("enough", [f"fresh-{n}" for n in range(5)])
    assert all(card.verifiedAt for card in two_rounds.data)
    assert (one_round.outcome, ids(one_round)) == ("exhausted", [])
    assert entry(one_round, "verify").rejected == {"changed": 40}
