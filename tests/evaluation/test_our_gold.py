"""Our own gold set: large enough, sound, and answered as it must be by words and hash alone."""

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from evaluation.worlds import NOW, checked

from remit.pipeline import Principal, open_engine
from remit.pipeline.config import load
from remit.pipeline.evaluation.gold import cases_from
from remit.pipeline.evaluation.harness import evaluated
from remit.pipeline.faces.wire import item_from, request_from

GOLD = Path(__file__).parents[2] / "ops" / "gold"
LINES = (GOLD / "cases.jsonl").read_text().splitlines()
MEMORIES = [json.loads(line) for line in (GOLD / "memories.jsonl").read_text().splitlines()]
CASES = cases_from(LINES, file="cases.jsonl", request_from=request_from, check=checked, limits=load().limits)
KINDS = {"alias", "scope", "superseded", "typo", "miss", "rambling", "nothing", "turn", "one", "pin"}


@pytest.fixture
def anyio_backend() -> str:
    """What is found does not depend on the loop."""
    return "asyncio"


def test_it_is_large_and_of_many_kinds() -> None:
    assert (len(CASES) >= 120, len(MEMORIES) >= 60) == (True, True)
    assert len({each["org"] for each in MEMORIES}) == 2
    assert min(Counter(case.name.rpartition("-")[0] for case in CASES)[kind] for kind in KINDS) >= 5


def test_every_id_that_a_case_names_is_there() -> None:
    known = {f"{each['source']}:{each['id']}" for each in MEMORIES}
    assert {name for case in CASES for name in (*case.relevant, *case.needs, *case.must_not, *case.related)} - known == set()


def test_the_halves_were_dealt_by_the_question_alone() -> None:
    dealt = {case.name: ("decide", "report")[sha256(case.query.encode()).digest()[0] % 2] for case in CASES}
    assert {case.name: case.half for case in CASES} == dealt


@pytest.mark.parametrize("half", ["decide", "report"])
async def test_what_is_returned_is_wanted_and_what_is_wanted_is_returned(half: str) -> None:
    mine = [case for case in CASES if case.half == half]
    async with open_engine("memory:", clock=lambda: NOW) as engine:
        for org in ("kestrel", "marlow"):
            items = [item_from(each) for each in MEMORIES if each["org"] == org]
            await engine.remember(items, Principal(actor="host", org=org, scopes="*"))
        run = await evaluated(engine, mine, k=10)

    returned, evidence = run.returned(), sum(len(case.relevant) for case in mine)
    assert returned["precision"] >= 0.9
    assert returned["relevant"] / evidence >= 0.95
    assert (returned["mustNot"], sum(run.exposure().values())) == (0, 0)
    assert evidence > 60


def test_a_case_that_decides_is_no_case_that_is_reported() -> None:
    of_half: dict[str | None, set[str]] = {}
    for case in CASES:
        of_half.setdefault(case.half, set()).add(case.query)
    assert of_half["decide"] & of_half["report"] == set()
