"""The harness tells what was found, where the rest was lost, and what crossed a boundary that it must not."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import pytest
from evaluation.worlds import CASES, NOW, case, every_scope, for_all, leaking, world

from remit.pipeline import Answer, Engine, Principal, Session
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.evaluation.curves import curves, lowered
from remit.pipeline.evaluation.harness import evaluated
from remit.pipeline.evaluation.report import report_of
from remit.pipeline.evaluation.result import figures_of, result_of
from remit.pipeline.evaluation.runs import BOUNDARIES, shape_of
from remit.stages.evidence import Memory
from remit.stages.request import ContextWanted, Request


async def test_everything_is_found_and_nothing_is_exposed() -> None:
    async with world() as engine:
        run = await evaluated(engine, CASES, k=10)

    assert {name: value for name, value in run.measures().items() if value != 1.0} == {}
    assert run.exposure() == dict.fromkeys(BOUNDARIES, 0)
    assert (run.lost(), run.returned()["wrong"]) == ([], 0)


async def test_each_piece_of_lost_evidence_has_its_stage_reason_and_budget() -> None:
    lost = [
        case("when was the winch of the harbour oiled?", "fact:crane", name="weak"),
        case("harbour crane", "fact:winch", "fact:crane", name="page", request={"limit": 1}),
        case("harbour crane", "fact:winch", "fact:crane", name="context", request={"context": ContextWanted(passages=1)}),
        case("quixotic zeppelins", "fact:secret", name="hidden"),
        case("anything", "fact:nowhere", name="absent"),
    ]
    async with world() as engine:
        run = await evaluated(engine, lost, k=10)

    told = {each.case: (each.stage, each.reason, dict(each.budget)) for each in run.lost()}
    assert told["weak"][:2] == ("generate", "weak")
    assert told["page"] == ("verify", "limit", told["page"][2])
    assert told["page"][2]["items"] == 500
    assert told["context"][:2] == ("pack", "passages")
    assert told["context"][2]["tokens"] > 0
    assert told["hidden"] == told["absent"] == (None, "not_in_scope", {})


async def test_the_four_recalls_are_kept_apart() -> None:
    asked = [case("harbour crane", "fact:winch", "fact:crane", request={"context": ContextWanted(passages=1)})]
    async with world() as engine:
        measures = (await evaluated(engine, asked, k=1)).measures()

    assert (measures["candidateRecall"], measures["freshValidRecall"]) == (1.0, 1.0)
    assert (measures["packedCoverage"], measures["answerSupport"], measures["authorizedRecall@k"]) == (0.5, 0.5, 0.5)


async def test_a_store_that_forgets_scopes_is_caught_at_the_boundaries_it_leaks_over() -> None:
    async with world() as engine:
        run = await evaluated(leaking(engine, widened=every_scope, seen=for_all), CASES, k=10)

    exposure = run.exposure()
    assert min(exposure["candidates"], exposure["packedText"]) > 0
    assert run.exposed() == ["quixotic zeppelins"]


def ear(text: str) -> Callable[[], str]:
    """Hears nothing while Remit is asked for its own words, then this."""
    silent = iter(range(OWN_WORDS + 1))
    return lambda: "" if next(silent, None) is not None else text


OWN_WORDS = 4
"""How often a memory of one odd word is asked."""


@pytest.mark.parametrize("boundary", ["logs", "spans"])
async def test_what_is_overheard_counts(boundary: str) -> None:
    async with world() as engine:
        run = await evaluated(engine, CASES[:1], k=10, ears={boundary: ear("bought zeppelins, see fact:secret")})
        own = await evaluated(engine, CASES[:1], k=10, ears={boundary: ear("the harbour crane, fact:crane")})

    assert (run.exposure()[boundary], own.exposure()[boundary]) == (3, 0)


class Talkative(Engine):
    """Asks more than it was asked, as a broken rewriting of questions would."""

    async def recall(self, request: Request, principal: Principal) -> Answer:
        return await super().recall(replace(request, query=f"{request.query} quixotic zeppelins"), principal)


class Chatty(Engine):
    """Fails, and says of what."""

    async def recall(self, request: Request, principal: Principal) -> Answer:
        raise StorageUnavailable("quixotic zeppelins are not to be had")


@pytest.mark.parametrize("kind, boundary", [(Talkative, "embedderInput"), (Chatty, "errors")])
async def test_what_is_embedded_and_what_an_error_says_count(kind: type[Engine], boundary: str) -> None:
    async with world() as engine:
        broken = kind(**{each.name: getattr(engine, each.name) for each in fields(engine)})
        run = await evaluated(broken, CASES[:1], k=10)
        own = await evaluated(broken, [replace(CASES[0], request=replace(CASES[0].request, questions=("quixotic zeppelins?",)))], k=10)

    assert (run.exposure()[boundary], own.exposure()[boundary]) == (2, 0)


class InOrder:
    """A reranker that leaves the order as it is."""

    name = "in-order"

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        return [1.0 - place / 1000 for place in range(len(passages))]


async def test_what_a_reranker_is_given_counts() -> None:
    def mixed(memory: Memory) -> Memory:
        return memory._replace(text=f"{memory.text} Quixotic zeppelins are being bought.")

    crane = case("harbour crane", "fact:crane", "fact:winch", request={"profile": "answer"})
    async with world(reranker=InOrder()) as engine:
        run, own = await evaluated(leaking(engine, seen=mixed), [crane], k=10), await evaluated(engine, [crane], k=10)

    assert (run.exposure()["rerankerInput"] > 0, own.exposure()["rerankerInput"]) == (True, 0)


async def test_the_text_of_a_card_counts_where_the_context_has_no_room_for_it() -> None:
    crane = case("harbour crane", "fact:crane", request={"context": ContextWanted(passages=1)})
    async with world() as engine:
        (honest,) = (await evaluated(engine, [crane], k=10)).asked

        def mixed(memory: Memory) -> Memory:
            packed = str(memory.passage.memory) in honest.packed
            return memory if packed else memory._replace(text=f"{memory.text} Quixotic zeppelins.")

        (asked,) = (await evaluated(leaking(engine, seen=mixed), [crane], k=10)).asked

    assert (len(asked.found), asked.packed) == (2, honest.packed)
    assert (honest.exposure["packedText"], asked.exposure["packedText"]) == (0, 2)


async def test_a_count_above_what_may_be_read_is_an_exposure() -> None:
    async with world() as engine:
        run = await evaluated(leaking(engine, widened=every_scope), [case("harbour crane quixotic zeppelins winch")], k=10)
        assert run.exposure()["counts"] == 1  # three facts match, two may be read


async def test_curves_rise_with_the_budget_and_lower_one_stage_only() -> None:
    async with world() as engine:
        drawn = await curves(engine, CASES, items=[1, 10], tokens=[1, 6000])

    for points in drawn.values():
        shares = [share for _, share in points]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
    assert drawn["pack"][0] == (1, 0.0)


def test_a_cases_own_lower_limit_stays() -> None:
    assert lowered(Request(query="q", limit=3), "page", 10).limit == 3
    assert lowered(Request(query="q", ceilings={"verify": {"items": 2}}), "verify", 10).ceilings == {"verify": {"items": 2}}
    assert lowered(Request(query="q", context=ContextWanted(tokens=100)), "pack", 50).context.tokens == 50


async def test_a_result_is_json_and_a_report_stands_by_itself() -> None:
    hostile = Session(id="s", text="A crane <script>alert(1)</script> & more.", created_at=NOW)
    async with world() as engine:
        await engine.remember([hostile], Principal(actor="host", org="acme", scopes="*"))
        run = await evaluated(engine, [*CASES, case("crane <script>", "session:s", "fact:missing")], k=10)
        drawn = await curves(engine, CASES, items=[1, 10], tokens=[100])
    result = result_of(run, gold="g<o>ld.jsonl", curves=drawn)
    page = report_of(result)

    assert set(figures_of(result)) == {each.case.name for each in run.asked}
    assert {"measures", "exposure", "lost", "latency", "tokens", "route", "funnel", "curves"} <= result.keys()
    assert page.startswith("<!doctype html>")
    assert [foreign for foreign in ("http:", "https:", "<script", "<link", "<img", "g<o>ld") if foreign in page] == []
    assert page.count("<svg") >= 4 + len(drawn)


def test_shapes_sort_by_size() -> None:
    shapes = [shape_of(count) for count in (1, 100, 101, 5_000, 99_999, 1_000_000)]
    assert shapes == ["≤     100", "≤     100", "≤   1,000", "≤  10,000", "≤ 100,000", "> 100,000"]
