"""One candidate per passage, one place per document, and one order."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.config import load
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.dedupe import dedupe
from remit.stages.evidence import Candidate, Hit, Lane, MatchedBy, MemoryId, Outline, PassageId, Route, Status
from remit.stages.fusion import Compared, Fusion, Together, Weights
from remit.stages.rank import RankRules, rank
from remit.stages.report import Reason
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ROOM = Ceiling(items=10_000, seconds=60)
OFF = load({"recall": {"boosts": {"docActive": 1.0, "factImportance": 1.0}}}).recall.boosts
ONE = Weights(semantic=1.0, local=1.0, lexical=1.0)
BY_STRENGTH = Fusion(
    k=60,
    rank_origin=0,
    weights=ONE,
    together=Together(spaces=("",), words=1, hits=1, place=10, whole=0.5, least=0.125, coverage=1.0, powers=ONE),
)
ROUTES = {Lane.LOCAL: Route.LOCAL_EXACT, Lane.LEXICAL: Route.LEXICAL, Lane.SEMANTIC: Route.SEMANTIC_EXACT}


def rules(**changed: object) -> RankRules:
    equal = Fusion(k=60, rank_origin=0, weights=Weights(semantic=1.0, local=1.0, lexical=1.0))
    order = (Source.DOC, Source.FACT, Source.SESSION)
    known = {"fusion": equal, "boosts": OFF, "named": frozenset(), "now": NOW, "tie_break_order": order}
    return RankRules(**{**known, **changed})  # type: ignore[arg-type]  # plain values of each test


def outline(name: str, **values: object) -> Outline:
    """`fact:a` is a fact, `doc:d1#2` the third passage of a doc."""
    source, _, rest = name.partition(":")
    own, _, ordinal = rest.partition("#")
    passage = PassageId(MemoryId(Source(source), own), int(ordinal or 0))
    known = {"key": 1, "passage": passage, "scope": "global", "version": 1, "aged_from": NOW}
    return Outline(**{**known, **values})  # type: ignore[arg-type]  # plain values of each test


def hits(lane: Lane, *names: str, route: Route | None = None, **values: object) -> list[Hit]:
    return [
        Hit(outline=outline(name, **values), lane=lane, route=route or ROUTES[lane], place=place, strength=1.0)
        for place, name in enumerate(names)
    ]


async def ordered(*lists: list[Hit], **changed: object) -> list[tuple[str, float]]:
    candidates = await dedupe([hit for each in lists for hit in each], ceiling=ROOM)
    ranked = await rank(candidates.kept, rules=rules(**changed), ceiling=ROOM)
    return [(str(each.outline.memory), each.score) for each in ranked.kept]


async def test_found_by_both_lanes_beats_first_in_one_and_a_missing_lane_adds_nothing() -> None:
    result = await ordered(hits(Lane.LOCAL, "fact:X", "fact:a", "fact:Y"), hits(Lane.LEXICAL, "fact:b", "fact:c", "fact:Y"))
    assert result[0] == ("fact:Y", round(2 / 62, 12))
    assert dict(result)["fact:X"] == round(1 / 60, 12)


async def test_what_a_lane_finds_weakly_has_little_of_a_vote_where_votes_count_by_strength() -> None:
    flat = [hit._replace(strength=0.9 - 0.01 * hit.place) for hit in hits(Lane.SEMANTIC, "fact:a", "fact:b", "fact:c")]
    steep = [hit._replace(strength=9.0 - 7.0 * hit.place) for hit in hits(Lane.LEXICAL, "fact:c", "fact:a")]

    assert [name for name, _ in await ordered(flat, steep, fusion=BY_STRENGTH)] == ["fact:a", "fact:c", "fact:b"]
    best = {(Lane.SEMANTIC, Source.FACT): 0.9, (Lane.LEXICAL, Source.FACT): 9.0}
    told = await ordered(flat, steep, fusion=BY_STRENGTH, compared=Compared(best=best))
    assert [name for name, _ in told] == ["fact:c", "fact:a", "fact:b"]
    assert dict(told)["fact:c"] == round(0.88 / 0.9 / 62 + 1 / 60, 12)
    fallen = await ordered(flat, steep, fusion=BY_STRENGTH, compared=Compared(best=best, trust={Source.FACT: 0.25}, covered={1: 0.5}))
    assert dict(fallen)["fact:b"] == round(0.25 * (0.89 / 0.9) / 61, 12), "of a model's vote a quarter is left where words know"
    assert dict(fallen)["fact:c"] == round(0.25 * (0.88 / 0.9) / 62 + 0.5 / 60, 12), (
        "and of theirs a half where half of the question is held"
    )


async def test_the_strongest_of_an_earlier_round_is_what_later_ones_are_measured_by() -> None:
    (late,) = hits(Lane.LEXICAL, "fact:a")

    best = Compared(best={(Lane.LEXICAL, Source.FACT): 8.0})
    assert await ordered([late._replace(place=7, strength=2.0)], fusion=BY_STRENGTH, compared=best) == [("fact:a", round(0.25 / 67, 12))]


async def test_a_document_is_as_strong_as_its_strongest_passage_in_each_lane() -> None:
    meant = [hit._replace(strength=0.8 - 0.4 * hit.place) for hit in hits(Lane.SEMANTIC, "doc:d#0", "doc:d#1")]
    worded = [hit._replace(strength=6.0 - 3.0 * hit.place) for hit in hits(Lane.LEXICAL, "doc:d#1", "doc:d#0")]

    best = {(Lane.SEMANTIC, Source.DOC): 0.8, (Lane.LEXICAL, Source.DOC): 6.0}
    assert await ordered(meant, worded, fusion=BY_STRENGTH, compared=Compared(best=best)) == [("doc:d", round(2 / 60, 12))]


async def test_a_document_has_one_term_per_lane_however_many_passages_were_found() -> None:
    result = await ordered(hits(Lane.LOCAL, "doc:d1#0", "doc:d1#1", "doc:d2#0"), hits(Lane.LEXICAL, "doc:d2#0"))
    assert result == [("doc:d2", round(1 / 62 + 1 / 60, 12)), ("doc:d1", round(1 / 60, 12))]


async def test_forty_passages_of_one_file_are_one_result_that_says_so() -> None:
    many = [f"doc:A#{n}" for n in range(40)]
    candidates = await dedupe(hits(Lane.LEXICAL, *many, "doc:B", "doc:C"), ceiling=ROOM)
    ranked = await rank(candidates.kept, rules=rules(), ceiling=ROOM)
    assert [(each.outline.memory.id, each.chunks, each.outline.passage.ordinal) for each in ranked.kept] == [
        ("A", 40, 0),
        ("B", 1, 0),
        ("C", 1, 0),
    ]
    assert ranked.rejected == {Reason.COLLAPSED: 39}


async def test_two_sessions_stay_two_results() -> None:
    assert len(await ordered(hits(Lane.LEXICAL, "session:s1", "session:s2"))) == 2


async def test_several_routes_of_one_lane_count_once_at_their_best_place() -> None:
    approximate = hits(Lane.LOCAL, "fact:b", "fact:a", route=Route.LOCAL_APPROXIMATE)
    exact = hits(Lane.LOCAL, "fact:a", "fact:b", route=Route.LOCAL_EXACT)
    candidates = await dedupe(approximate + exact, ceiling=ROOM)
    assert [dict(each.ranks) for each in candidates.kept] == [{Lane.LOCAL: 0}, {Lane.LOCAL: 0}]
    assert candidates.rejected == {Reason.DUPLICATE: 2}


async def test_the_same_passage_in_both_lanes_is_matched_by_both() -> None:
    candidates = await dedupe(hits(Lane.LOCAL, "doc:d#1") + hits(Lane.LEXICAL, "doc:d#1"), ceiling=ROOM)
    ranked = await rank(candidates.kept, rules=rules(), ceiling=ROOM)
    assert [each.matched_by for each in ranked.kept] == [MatchedBy.BOTH]


async def test_equal_scores_are_settled_by_source_and_then_by_code_point() -> None:
    same = [hits(Lane.LEXICAL, name) for name in ("session:a", "fact:b", "fact:B", "fact:a", "doc:z")]
    assert [name for name, _ in await ordered(*same)] == ["doc:z", "fact:B", "fact:a", "fact:b", "session:a"]
    reverse = (Source.SESSION, Source.FACT, Source.DOC)
    assert (await ordered(*same, tie_break_order=reverse))[0][0] == "session:a"


async def test_archived_documents_come_last_whatever_their_score() -> None:
    archived = hits(Lane.LEXICAL, "doc:old", status=Status.ARCHIVED) + hits(Lane.LOCAL, "doc:old", status=Status.ARCHIVED)
    assert [name for name, _ in await ordered(archived, hits(Lane.LEXICAL, "fact:x", "fact:a", "fact:b"))][-1] == "doc:old"


async def test_score_is_the_product_of_its_parts_in_one_order() -> None:
    boosts = load().recall.boosts
    found = hits(Lane.LEXICAL, "fact:a", scope="project:alpha", importance=0.8)
    candidates = await dedupe(found, ceiling=ROOM)
    ranked = await rank(candidates.kept, rules=rules(boosts=boosts, named=frozenset({"project:alpha"})), ceiling=ROOM)
    (best,) = ranked.kept
    assert (best.fused, best.boost, best.scope) == (1 / 60, pytest.approx(1.4), 1.5)
    assert best.score == round(best.fused * best.boost * best.scope, 12)


names = st.sampled_from([f"{source}:{letter}" for source in ("fact", "session") for letter in "abcdef"] + ["doc:a#0", "doc:a#1", "doc:b#0"])
found_lists = st.lists(
    st.tuples(st.sampled_from([Lane.LOCAL, Lane.LEXICAL]), st.lists(names, unique=True, max_size=9)).map(
        lambda each: hits(each[0], *each[1])
    ),
    max_size=3,
)


@given(found_lists, st.integers(0, 12))
async def test_both_stages_balance_keep_their_ceiling_and_repeat_themselves(lists: list[list[Hit]], most: int) -> None:
    everything = [hit for each in lists for hit in each]
    ceiling = Ceiling(items=most, seconds=60)
    candidates = await dedupe(everything, ceiling=ceiling)
    assert candidates.received == len(everything) == len(candidates.kept) + sum(candidates.rejected.values())
    assert len(candidates.kept) <= most
    assert (candidates.exhausted is Limit.ITEMS) == (len({hit.outline.passage for hit in everything}) > most)
    ranked = await rank(candidates.kept, rules=rules(), ceiling=ceiling)
    assert ranked.received == len(candidates.kept) == len(ranked.kept) + sum(ranked.rejected.values())
    assert ranked.exhausted is None
    assert ranked == await rank(candidates.kept, rules=rules(), ceiling=ceiling)
    assert candidates == await dedupe(list(reversed(everything)), ceiling=ceiling)


async def test_a_rank_ceiling_cuts_the_least_promising_and_says_so() -> None:
    candidates = await dedupe(hits(Lane.LEXICAL, "fact:a", "fact:b", "fact:c"), ceiling=ROOM)
    ranked = await rank(candidates.kept, rules=rules(), ceiling=Ceiling(items=2, seconds=60))
    assert [each.outline.memory.id for each in ranked.kept] == ["a", "b"]
    assert (ranked.rejected, ranked.exhausted) == ({Reason.OVER_CEILING: 1}, Limit.ITEMS)


@pytest.mark.parametrize("ceiling", [Ceiling(items=0, seconds=60), Ceiling(items=9, seconds=0)])
async def test_a_ceiling_of_nothing_does_no_work(ceiling: Ceiling) -> None:
    found = hits(Lane.LEXICAL, "fact:a")
    staged = await dedupe(found, ceiling=ceiling)
    assert (staged.kept, staged.rejected) == ((), {Reason.OVER_CEILING: 1})
    candidate = Candidate(outline=found[0].outline, ranks={Lane.LEXICAL: 0}, routes=(Route.LEXICAL,))
    ranked = await rank([candidate], rules=rules(), ceiling=ceiling)
    assert (ranked.kept, ranked.rejected) == ((), {Reason.OVER_CEILING: 1})
    assert ranked.exhausted is staged.exhausted is (Limit.ITEMS if ceiling.items == 0 else Limit.SECONDS)
