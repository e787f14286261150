"""The four outcomes exclude each other and are right at the edges."""

from collections import Counter
from itertools import product

import pytest

from remit.pipeline.outcome import Code, Evidence, Outcome, Owner, decided, fault
from remit.pipeline.trail import StageReport
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.report import Degradation, Reason, StageName

SEARCH = (StageName.GENERATE, StageName.DEDUPE, StageName.RANK, StageName.VERIFY)


def reports(**changed: dict[str, object]) -> dict[StageName, StageReport]:
    """Five stages that did their work; `verify={"exhausted": …}` changes one."""
    made = {}
    for stage in StageName:
        values = {"outcome": "done", **changed.get(stage.value, {})}
        values["rejected"] = Counter(values.get("rejected", {}))  # type: ignore[arg-type]  # plain values of each test
        made[stage] = StageReport(stage=stage, ceiling=Ceiling(items=500, seconds=2.0), **values)  # type: ignore[arg-type]
    return made


def evidence(fresh: int = 3, *, full: bool = False, packed: int | None = None, minimum: int = 1, asked: bool = True) -> Evidence:
    return Evidence(fresh=fresh, full=full, packed=fresh if packed is None else packed, minimum=minimum, context_asked=asked)


def test_fresh_evidence_and_nothing_cut_is_enough() -> None:
    assert decided(reports(), evidence(), []) == (Outcome.ENOUGH, ())


@pytest.mark.parametrize("stage", SEARCH)
@pytest.mark.parametrize("fresh", [0, 3])
def test_a_ceiling_that_cut_a_search_with_places_left_is_exhausted_and_names_the_stage(stage: StageName, fresh: int) -> None:
    outcome, (why,) = decided(reports(**{stage.value: {"exhausted": Limit.ITEMS}}), evidence(fresh), [])
    assert (outcome, why.stage, why.code, why.owner) == (Outcome.EXHAUSTED, stage, Code.CEILING_ITEMS, Owner.CALLER)


def test_a_full_page_is_enough_whatever_more_there_was() -> None:
    cut = reports(generate={"exhausted": Limit.ITEMS}, verify={"exhausted": Limit.SECONDS})
    assert decided(cut, evidence(20, full=True), [])[0] is Outcome.ENOUGH


def test_common_words_that_were_left_out_exhaust_only_an_answer_that_found_nothing() -> None:
    cut = reports(generate={"exhausted": Limit.POSTINGS})
    assert decided(cut, evidence(1), [])[0] is Outcome.ENOUGH
    outcome, (why,) = decided(cut, evidence(0), [])
    assert (outcome, why.code) == (Outcome.EXHAUSTED, Code.CEILING_POSTINGS)


def test_no_room_for_any_passage_is_exhausted_at_pack_and_some_room_is_enough() -> None:
    cut = reports(pack={"exhausted": Limit.TOKENS})
    outcome, (why,) = decided(cut, evidence(5, full=True, packed=0), [])
    assert (outcome, why.stage, why.code) == (Outcome.EXHAUSTED, StageName.PACK, Code.CEILING_TOKENS)
    assert decided(cut, evidence(5, packed=2), [])[0] is Outcome.ENOUGH
    assert decided(cut, evidence(5, packed=2, minimum=3), [])[0] is Outcome.EXHAUSTED
    assert decided(cut, evidence(5, packed=0, asked=False), [])[0] is Outcome.ENOUGH


def test_sources_that_nobody_could_look_at_are_unavailable_and_not_nothing() -> None:
    outcome, (why,) = decided(reports(verify={"rejected": {Reason.UNVERIFIED: 4}}), evidence(0), [])
    assert (outcome, why.stage, why.code, why.retryable) == (Outcome.UNAVAILABLE, StageName.VERIFY, Code.FRESHNESS, True)


@pytest.mark.parametrize("reason", [Reason.CHANGED, Reason.MISSING, Reason.INACCESSIBLE])
def test_evidence_that_is_all_stale_is_nothing_found_with_the_owner_of_the_sources(reason: Reason) -> None:
    outcome, (why,) = decided(reports(verify={"rejected": {reason: 4}}), evidence(0), [])
    assert (outcome, why.code, why.owner) == (Outcome.NOTHING_FOUND, Code.STALE_SOURCES, Owner.SOURCE_OWNER)


def test_nothing_found_tells_weak_matches_from_none_and_what_was_done_without() -> None:
    assert [why.code for why in decided(reports(), evidence(0), [])[1]] == [Code.NO_MATCH]
    weak = reports(generate={"rejected": {Reason.WEAK: 2}, "degraded": [Degradation.NO_VECTORS, Degradation.EMBEDDING_FAILED]})
    outcome, reasons = decided(weak, evidence(0), [])
    assert (outcome, {why.code for why in reasons}) == (
        Outcome.NOTHING_FOUND,
        {Code.TOO_WEAK, Code.NO_VECTORS, Code.EMBEDDING_FAILED},
    )


def test_every_combination_has_one_outcome_and_a_fault_or_a_cut_is_never_nothing_found() -> None:
    faults = [[], [fault(StageName.GENERATE, Code.STORE_UNAVAILABLE)]]
    limits = [None, *Limit]
    for broken, stage, limit, fresh, full, packed in product(faults, StageName, limits, (0, 1, 20), (False, True), (0, 1)):
        made = reports(**{stage.value: {"exhausted": limit}})
        outcome, reasons = decided(made, evidence(fresh, full=full, packed=min(packed, fresh)), broken)
        assert (outcome is Outcome.UNAVAILABLE) == bool(broken)
        assert bool(reasons) == (outcome is not Outcome.ENOUGH)
        if limit and stage in SEARCH and not full and not broken and not (limit is Limit.POSTINGS and fresh):
            assert outcome is Outcome.EXHAUSTED
        if outcome is Outcome.NOTHING_FOUND:
            assert not fresh
