"""The four outcomes exclude each other and are right at the edges."""

from collections import Counter
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.outcome import Because, Code, Evidence, Outcome, Owner, decided, fault
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
    weak = reports(generate={"rejected": {Reason.WEAK: 2}, "degraded": [Degradation.NO_VECTORS]})
    outcome, reasons = decided(weak, evidence(0), [])
    assert (outcome, [why.code for why in reasons]) == (Outcome.NOTHING_FOUND, [Code.TOO_WEAK, Code.NO_VECTORS])


def test_sources_that_nobody_could_look_at_are_unavailable_whatever_ceiling_was_met_meanwhile() -> None:
    blind = reports(verify={"rejected": {Reason.UNVERIFIED: 500, Reason.OVER_CEILING: 9}, "exhausted": Limit.ITEMS})
    assert decided(blind, evidence(0), [])[0] is Outcome.UNAVAILABLE
    seeing = reports(verify={"rejected": {Reason.UNVERIFIED: 9, Reason.CHANGED: 491}, "exhausted": Limit.ITEMS})
    assert decided(seeing, evidence(0), [])[0] is Outcome.EXHAUSTED


def test_less_than_there_has_to_be_is_never_enough_though_nothing_was_cut() -> None:
    outcome, (why,) = decided(reports(), evidence(2, minimum=3), [])
    assert (outcome, why.stage, why.code, why.retryable) == (Outcome.EXHAUSTED, StageName.GENERATE, Code.TOO_FEW, False)
    assert decided(reports(), evidence(3, minimum=3), []) == (Outcome.ENOUGH, ())
    repeated = reports(pack={"rejected": {Reason.REPEATS: 2}})
    outcome, (why,) = decided(repeated, evidence(3, packed=1, minimum=3), [])
    assert (outcome, why.stage, why.code) == (Outcome.EXHAUSTED, StageName.PACK, Code.TOO_FEW)
    assert decided(repeated, evidence(3, packed=0, minimum=3, asked=False), []) == (Outcome.ENOUGH, ())


def test_less_than_there_has_to_be_is_unavailable_when_the_rest_may_be_where_nobody_could_look() -> None:
    blind = reports(verify={"rejected": {Reason.UNVERIFIED: 1}})
    outcome, reasons = decided(blind, evidence(2, minimum=3), [])
    assert (outcome, [why.code for why in reasons]) == (Outcome.UNAVAILABLE, [Code.FRESHNESS, Code.TOO_FEW])
    unasked = reports(generate={"degraded": [Degradation.EMBEDDING_FAILED]})
    assert [why.code for why in decided(unasked, evidence(2, minimum=3), [])[1]] == [Code.EMBEDDING_FAILED, Code.TOO_FEW]
    assert decided(blind, evidence(3, minimum=3), []) == (Outcome.ENOUGH, ())


@pytest.mark.parametrize(
    "degraded, code, owner, retryable",
    [
        ([Degradation.EMBEDDING_FAILED], Code.EMBEDDING_FAILED, Owner.PROVIDER, True),
        ([Degradation.EMBEDDING_FAILED, Degradation.EMBEDDING_INCOMPATIBLE], Code.EMBEDDING_INCOMPATIBLE, Owner.OPERATOR, False),
    ],
)
def test_an_embedder_that_failed_makes_finding_nothing_unavailable_and_costs_what_was_found_nothing(
    degraded: list[Degradation], code: Code, owner: Owner, retryable: bool
) -> None:
    outcome, (why, nothing) = decided(reports(generate={"degraded": degraded}), evidence(0), [])
    assert (outcome, why.stage, why.code, why.owner, why.retryable) == (Outcome.UNAVAILABLE, StageName.GENERATE, code, owner, retryable)
    assert nothing.code is Code.NO_MATCH
    assert decided(reports(generate={"degraded": degraded}), evidence(1), []) == (Outcome.ENOUGH, ())


@pytest.mark.parametrize(
    "degraded, codes",
    [
        (Degradation.EMBEDDING_PENDING, [Code.NO_MATCH, Code.EMBEDDING_PENDING]),
        (Degradation.EMBEDDING_DISABLED, [Code.NO_MATCH, Code.EMBEDDING_DISABLED]),
        (Degradation.NO_VECTORS, [Code.NO_MATCH, Code.NO_VECTORS]),
        (Degradation.EMBEDDINGS_OFF, [Code.NO_MATCH]),
    ],
)
def test_a_way_of_finding_that_is_not_to_be_had_is_told_beside_finding_nothing(degraded: Degradation, codes: list[Code]) -> None:
    outcome, reasons = decided(reports(), evidence(0), [], [degraded])
    assert (outcome, [why.code for why in reasons]) == (Outcome.NOTHING_FOUND, codes)


# The whole table

DOWN = fault(StageName.GENERATE, Code.STORE_UNAVAILABLE)
CUTS = [{}, *({stage: limit} for stage in StageName for limit in Limit)]
REJECTED = [{}, {Reason.UNVERIFIED: 2}, {Reason.CHANGED: 2}, {Reason.UNVERIFIED: 1, Reason.MISSING: 1}]


def told(
    faults: list[Because], cuts: Mapping[StageName, Limit], rejected: Mapping[Reason, int], failed: bool, found: Evidence
) -> tuple[Outcome, tuple[Because, ...]]:
    made: dict[str, dict[str, object]] = {stage.value: {"exhausted": limit} for stage, limit in cuts.items()}
    made.setdefault("verify", {})["rejected"] = rejected
    made.setdefault("generate", {})["degraded"] = [Degradation.EMBEDDING_FAILED] if failed else []
    return decided(reports(**made), found, faults)


def right(faults: list[Because], cuts: Mapping[StageName, Limit], rejected: Mapping[Reason, int], failed: bool, found: Evidence) -> Outcome:
    """The rules once more, in the words of `DESIGN`: what a reader would decide."""
    unverified, stale = rejected.get(Reason.UNVERIFIED, 0), sum(rejected.get(reason, 0) for reason in (Reason.CHANGED, Reason.MISSING))
    searching = {stage: limit for stage, limit in cuts.items() if stage is not StageName.PACK}
    if not found.behind and searching.get(StageName.GENERATE) is Limit.ITEMS:
        del searching[StageName.GENERATE]
    if found.fresh:
        searching = {stage: limit for stage, limit in searching.items() if limit is not Limit.POSTINGS}
    short_of_places = bool(searching) and not found.full
    short_of_room = StageName.PACK in cuts and found.context_asked and found.packed < found.minimum
    if faults or (not found.fresh and unverified and not stale):
        return Outcome.UNAVAILABLE
    if short_of_places or short_of_room:
        return Outcome.EXHAUSTED
    if found.fresh and (found.packed if found.context_asked else found.fresh) >= found.minimum:
        return Outcome.ENOUGH
    if unverified or failed:
        return Outcome.UNAVAILABLE
    return Outcome.EXHAUSTED if found.fresh else Outcome.NOTHING_FOUND


def complete(outcome: Outcome, reasons: tuple[Because, ...]) -> bool:
    """Whether there are reasons where there have to be, each once, and every one says whose job it is and what comes next."""
    said = {(why.stage, why.code) for why in reasons}
    return bool(reasons) == (outcome is not Outcome.ENOUGH) and len(said) == len(reasons) and all(why.owner and why.next for why in reasons)


def test_every_combination_has_exactly_the_outcome_that_the_rules_give() -> None:
    seen = set()
    for broken, cuts, rejected, failed, fresh in product((False, True), CUTS, REJECTED, (False, True), (0, 1, 20)):
        for full, packed, minimum, asked, behind in product((False, True), (0, 1), (1, 3), (False, True), (False, True)):
            packs = min(packed, fresh) if asked else 0
            found = Evidence(fresh=fresh, full=full and fresh > 0, packed=packs, minimum=minimum, context_asked=asked, behind=behind)
            case = ([DOWN] if broken else [], cuts, rejected, failed, found)
            outcome, reasons = told(*case)
            assert outcome is right(*case), case
            assert complete(outcome, reasons), case
            seen.add(outcome)
    assert seen == set(Outcome)


@given(
    faults=st.lists(st.builds(fault, st.sampled_from(StageName), st.sampled_from([Code.STORE_UNAVAILABLE, Code.COUNTER])), max_size=1),
    cuts=st.dictionaries(st.sampled_from(StageName), st.sampled_from(Limit)),
    rejected=st.dictionaries(st.sampled_from([Reason.UNVERIFIED, Reason.CHANGED, Reason.MISSING, Reason.GONE]), st.integers(0, 3)),
    failed=st.booleans(),
    found=st.builds(
        Evidence,
        fresh=st.integers(0, 4),
        full=st.booleans(),
        packed=st.integers(0, 4),
        minimum=st.integers(1, 5),
        context_asked=st.booleans(),
        behind=st.booleans(),
    ),
)
def test_so_have_several_ceilings_and_faults_at_once(
    faults: list[Because], cuts: dict[StageName, Limit], rejected: dict[Reason, int], failed: bool, found: Evidence
) -> None:
    outcome, reasons = told(faults, cuts, rejected, failed, found)

    assert outcome is right(faults, cuts, rejected, failed, found)
    assert complete(outcome, reasons)
