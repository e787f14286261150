"""Places and natures of a memory become exactly the published numbers."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.config import load
from remit.stages.boosts import affinity, boost_of, named_scopes, recency
from remit.stages.evidence import Hit, Lane, MemoryId, Outline, PassageId, Route, Status
from remit.stages.fusion import BY_PLACE, Compared, Fusion, Together, Weights, compared, reciprocal_rank
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SHIPPED = load().recall.boosts
EQUAL = Fusion(k=60, rank_origin=0, weights=Weights(semantic=1.0, local=1.0, lexical=1.0))


def outline(source: Source = Source.FACT, **values: object) -> Outline:
    known = {"key": 1, "passage": PassageId(MemoryId(source, "m"), 0), "scope": "global", "version": 1, "aged_from": NOW}
    return Outline(**{**known, **values})  # type: ignore[arg-type]  # plain values of each test


def test_a_lone_first_hit_is_exactly_one_sixtieth() -> None:
    assert reciprocal_rank({Lane.LEXICAL: 0}, EQUAL) == 1 / 60
    assert reciprocal_rank({Lane.LOCAL: 0}, EQUAL) == 1 / 60


def test_the_other_published_form_starts_at_one() -> None:
    assert reciprocal_rank({Lane.LEXICAL: 0}, Fusion(k=60, rank_origin=1, weights=EQUAL.weights)) == 1 / 61


def test_a_lane_that_did_not_find_it_adds_nothing_and_agreement_beats_one_outlier() -> None:
    third_in_both = reciprocal_rank({Lane.LOCAL: 2, Lane.LEXICAL: 2}, EQUAL)
    assert third_in_both == 1 / 62 + 1 / 62
    assert third_in_both > reciprocal_rank({Lane.LEXICAL: 0}, EQUAL)
    assert reciprocal_rank({Lane.LOCAL: 0, Lane.LEXICAL: 1}, EQUAL) > reciprocal_rank({Lane.LOCAL: 0}, EQUAL)


def test_place_sixty_in_both_lanes_ties_with_first_in_one() -> None:
    assert reciprocal_rank({Lane.LOCAL: 60, Lane.LEXICAL: 60}, EQUAL) == reciprocal_rank({Lane.LOCAL: 0}, EQUAL)


def test_the_shipped_weights_keep_a_weak_lane_from_overturning_the_words() -> None:
    shipped = load().recall.fusion
    by_words_first = reciprocal_rank({Lane.LEXICAL: 0}, shipped)
    assert by_words_first == 1 / 60
    assert by_words_first > reciprocal_rank({Lane.LOCAL: 0, Lane.LEXICAL: 40}, shipped)


def test_a_vote_counts_what_is_left_of_it() -> None:
    shares = {Lane.SEMANTIC: 1.0, Lane.LEXICAL: 0.5}

    assert reciprocal_rank({Lane.LEXICAL: 0}, EQUAL, {Lane.LEXICAL: 1.0}) == 1 / 60, "the best of a lane has a whole vote"
    assert reciprocal_rank({Lane.SEMANTIC: 0, Lane.LEXICAL: 4}, EQUAL, shares) == 1 / 60 + 0.5 / 64
    assert reciprocal_rank({Lane.SEMANTIC: 0, Lane.LEXICAL: 4}, EQUAL) == 1 / 60 + 1 / 64, "by place alone where no share is told"


TOGETHER = Together(
    spaces=("known-",),
    words=2,
    hits=4,
    place=2,
    whole=0.5,
    least=0.125,
    coverage=0.5,
    powers=Weights(semantic=2.0, local=0.0, lexical=1.0),
)


def hit(lane: Lane, key: int, place: int, strength: float, source: Source = Source.FACT) -> Hit:
    passage = PassageId(MemoryId(source, f"m{key}"), 0)
    return Hit(outline(source, key=key, passage=passage), lane, Route.SEMANTIC_EXACT, place, strength)


def test_the_weaker_a_hit_beside_the_best_of_its_lane_the_less_its_vote_counts() -> None:
    best = Compared(best={(lane, Source.FACT): 8.0 for lane in Lane})

    assert [best.share(lane, outline(), 4.0, TOGETHER) for lane in Lane] == [0.25, 1.0, 0.5]
    assert [best.share(lane, outline(), 8.0, TOGETHER) for lane in Lane] == [1.0, 1.0, 1.0]
    assert [best.share(lane, outline(), 4.0, BY_PLACE) for lane in Lane] == [1.0, 1.0, 1.0]


def test_the_less_of_the_question_a_passage_holds_the_less_the_vote_of_words_counts() -> None:
    best = Compared(best={(lane, Source.FACT): 8.0 for lane in Lane}, covered={7: 0.25})

    assert [best.share(lane, outline(key=7), 8.0, TOGETHER) for lane in Lane] == [1.0, 1.0, 0.5]


def test_the_less_words_leave_open_and_the_less_they_find_in_its_favourites_the_less_a_models_vote_counts() -> None:
    assert [TOGETHER.trust(left, agreed) for left, agreed in ((1.0, 1.0), (1.0, 0.5), (0.5, 1.0), (0.5, 0.5))] == [1.0, 1.0, 1.0, 0.5]
    assert TOGETHER.trust(0.5, 0.0) == TOGETHER.least, "what it alone found keeps an order and a place behind the others"
    assert BY_PLACE.trust(0.0, 0.0) == 1.0


def test_votes_are_measured_source_by_source_and_a_passage_that_two_routes_found_once() -> None:
    first = [
        hit(Lane.LEXICAL, 1, 0, 8.0),
        hit(Lane.LEXICAL, 2, 1, 4.0),
        hit(Lane.LEXICAL, 3, 2, 2.0),
        *(hit(Lane.SEMANTIC, 2, 0, 0.9) for _ in range(2)),
        hit(Lane.SEMANTIC, 9, 1, 0.8),
        hit(Lane.SEMANTIC, 1, 2, 0.7),
        hit(Lane.LEXICAL, 4, 0, 3.0, Source.DOC),
    ]
    later = [hit(Lane.LEXICAL, 5, 3, 1.0), hit(Lane.SEMANTIC, 6, 0, 0.5, Source.SESSION)]

    told = compared([*first, *later], first, {1: 0.8, 2: 0.4, 3: 0.8, 4: 0.3, 5: 0.2}, TOGETHER)

    assert told.best == {
        (Lane.LEXICAL, Source.FACT): 8.0,
        (Lane.SEMANTIC, Source.FACT): 0.9,
        (Lane.LEXICAL, Source.DOC): 3.0,
        (Lane.SEMANTIC, Source.SESSION): 0.5,
    }
    # A half is left at the second place; of the model's two favourites words find one half as strong as their best, the other not at all.
    assert told.trust == {Source.FACT: TOGETHER.trust(0.5, 0.25), Source.DOC: 1.0}
    assert told.covered == {1: 1.0, 2: 0.5, 3: 1.0, 4: 1.0, 5: 0.25}


@given(
    st.lists(st.tuples(st.sampled_from(list(Lane)), st.integers(0, 30), st.floats(0.01, 40)), min_size=1, max_size=30),
    st.lists(st.floats(0, 1), min_size=31, max_size=31),
)
def test_whatever_was_found_a_share_is_between_nothing_and_a_whole_vote(found: list[tuple[Lane, int, float]], covered: list[float]) -> None:
    hits = [hit(lane, key, place, strength) for place, (lane, key, strength) in enumerate(found)]

    told = compared(hits, hits, dict(enumerate(covered)), TOGETHER)

    assert all(0 <= told.share(each.lane, each.outline, each.strength, TOGETHER) <= 1 for each in hits)
    if all(each.lane is Lane.SEMANTIC for each in hits):
        assert max(told.share(each.lane, each.outline, each.strength, TOGETHER) for each in hits) == 1.0


@given(
    st.lists(st.tuples(st.sampled_from([Lane.SEMANTIC, Lane.LEXICAL]), st.integers(0, 9), st.floats(0.01, 40)), min_size=1, max_size=20),
    st.lists(st.floats(0, 1), min_size=10, max_size=10),
)
def test_what_a_model_alone_found_has_no_more_of_a_vote_than_the_model_is_trusted_with(
    found: list[tuple[Lane, int, float]], covered: list[float]
) -> None:
    hits = [hit(lane, key, place, strength) for place, (lane, key, strength) in enumerate(found)]

    told = compared(hits, hits, dict(enumerate(covered)), TOGETHER)

    for each in (each for each in hits if each.lane is Lane.SEMANTIC):
        shares = {Lane.SEMANTIC: told.share(each.lane, each.outline, each.strength, TOGETHER)}
        assert reciprocal_rank({Lane.SEMANTIC: 0}, EQUAL, shares) <= told.trust.get(Source.FACT, 1.0) / 60


@pytest.mark.parametrize(
    "words, semantic, lexical, so", [(2, 4, 4, True), (1, 60, 60, False), (9, 3, 60, False), (9, 60, 3, False), (9, 0, 60, False)]
)
def test_strengths_are_compared_only_where_there_is_enough_of_both(words: int, semantic: int, lexical: int, so: bool) -> None:
    hits = {Lane.SEMANTIC: semantic, Lane.LEXICAL: lexical, Lane.LOCAL: 60}
    assert TOGETHER.goes_for("known-7", words, {lane: number for lane, number in hits.items() if number}) is so


def test_votes_of_a_model_whose_similarities_nobody_measured_count_by_their_places() -> None:
    many = dict.fromkeys(Lane, 100)

    assert TOGETHER.goes_for("known-7", 9, many)
    assert not TOGETHER.goes_for("unknown-7", 9, many)
    assert not TOGETHER.goes_for(None, 9, many)


@pytest.mark.parametrize("importance, boost", [(0.0, 1.0), (0.5, 1.25), (0.8, 1.4), (1.0, 1.5)])
def test_a_fact_counts_one_plus_half_its_importance(importance: float, boost: float) -> None:
    assert boost_of(outline(importance=importance), SHIPPED, NOW) == pytest.approx(boost, abs=1e-15)


def test_a_pin_changes_no_order() -> None:
    assert boost_of(outline(pinned=True), SHIPPED, NOW) == boost_of(outline(), SHIPPED, NOW) == 1.0


@pytest.mark.parametrize("days, factor", [(0, 1.0), (30, 0.5), (60, 0.25), (-10, 1.0)])
def test_a_session_halves_every_thirty_days_and_the_future_is_never_boosted(days: int, factor: float) -> None:
    aged = outline(Source.SESSION, aged_from=NOW - timedelta(days=days))
    assert boost_of(aged, SHIPPED, NOW) == pytest.approx(factor, abs=1e-12)


def test_the_ends_of_time_have_a_recency() -> None:
    assert recency(NOW - datetime.max.replace(tzinfo=UTC), timedelta(days=30)) == 1.0
    assert recency(NOW - datetime.min.replace(tzinfo=UTC), timedelta(days=30)) == 0.0


@pytest.mark.parametrize("status, factor", [(Status.ACTIVE, 1.25), (Status.ARCHIVED, 1.0), (Status.MISSING, 1.0)])
def test_only_a_doc_in_use_is_boosted(status: Status, factor: float) -> None:
    assert boost_of(outline(Source.DOC, status=status), SHIPPED, NOW) == factor


def test_every_boost_set_to_one_is_off() -> None:
    ones = {name: 1.0 for name in load_keys("recall", "boosts") if name != "sessionHalfLifeDays"}
    off = load({"recall": {"boosts": ones}}).recall.boosts
    for memory in (
        outline(importance=0.9, pinned=True, scope="project:alpha"),
        outline(Source.SESSION, aged_from=NOW - timedelta(days=300)),
        outline(Source.DOC),
    ):
        assert boost_of(memory, off, NOW) == 1.0
        assert affinity(memory, frozenset({"project:beta"}), off) == 1.0


def load_keys(*path: str) -> list[str]:
    import tomllib

    from remit.pipeline.config import SHIPPED as SHIPPED_FILE

    table = tomllib.loads(SHIPPED_FILE.read_text(encoding="utf-8"))
    for part in path:
        table = table[part]
    return list(table)


def test_the_four_tiers_of_scope_affinity() -> None:
    alpha = outline(scope="project:alpha")
    assert affinity(alpha, frozenset({"project:alpha"}), SHIPPED) == 1.5
    assert affinity(alpha, frozenset({"project:beta"}), SHIPPED) == 0.8
    assert affinity(alpha, frozenset(), SHIPPED) == 1.0
    assert affinity(outline(), frozenset({"project:beta"}), SHIPPED) == 1.0


def test_scope_affinity_is_for_facts_alone() -> None:
    assert affinity(outline(Source.DOC, scope="project:alpha"), frozenset({"project:beta"}), SHIPPED) == 1.0


@pytest.mark.parametrize(
    "query, named",
    [
        ("how do we deploy alpha?", {"project:alpha"}),
        ("Alpha's deploy", {"project:alpha"}),
        ("alphabet soup", set()),
        ("alpha-b is down", {"project:alpha-b"}),
        ("is (alpha) or alpha-b down", {"project:alpha", "project:alpha-b"}),
        ("what does ada think", {"person:ada"}),
        ("Canada", set()),
        ("global rules", set()),
    ],
)
def test_a_question_names_a_scope_by_its_whole_word(query: str, named: set[str]) -> None:
    scopes = ["project:alpha", "project:alpha-b", "person:ada", "global"]
    assert named_scopes(query, scopes, None) == named


def test_a_declared_project_is_named_without_a_word() -> None:
    assert named_scopes("deploy", ["project:alpha"], "alpha") == {"project:alpha"}


@given(st.text(), st.lists(st.text(min_size=1).map(lambda name: f"project:{name}")))
def test_any_text_and_any_name_can_be_compared(query: str, scopes: list[str]) -> None:
    assert named_scopes(query, scopes, None) <= set(scopes)
