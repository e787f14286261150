"""How a store searches: words under a ceiling, vectors to the last tie, filters, phrases as words and never as syntax."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from conformance.answers import filled, found
from conformance.worlds import EVERYTHING, NOW, SPACE, WHOLE, direction, memory, seen_from, wanting

from remit.pipeline.storage.store import NOTHING_ALLOWED, NOTHING_ASKED, OUT_OF_TIME, RAN, Store
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, MemoryId, Route
from remit.stages.ports import Found, Probe
from remit.stages.report import Degradation, Reason
from remit.stages.request import Filters, Source, TagFilter

pytestmark = pytest.mark.anyio


async def holding(store: Store, filters: Filters) -> list[str]:
    return (await found(store, wanting("red", filters=filters), EVERYTHING))["eligible"]


async def test_postings_tell_counts_lengths_and_sources(store: Store) -> None:
    await filled(store, [memory("one", "red red fox"), memory("two", "red", source=Source.DOC)])

    answer = await found(store, wanting("red", "fox", "nowhere", "red"), EVERYTHING)

    assert answer["postings"] == {
        "red": [("doc:two#0", 1, 1, 2), ("fact:one#0", 2, 3, 0)],
        "fox": [("fact:one#0", 1, 3, 0)],
        "nowhere": [],
    }
    assert answer["routes"] == {Route.LEXICAL: RAN}
    assert (answer["left_out"], answer["degraded"], answer["exhausted"]) == ((), (), None)


CROWD = [*[memory(f"a{at}", "often rare" if at < 2 else "often") for at in range(6)], memory("b", "once")]


async def test_a_ceiling_met_exactly_leaves_nothing_out(store: Store) -> None:
    await filled(store, CROWD)

    answer = await found(store, wanting("often", "rare", "once", postings=9), EVERYTHING)

    assert {word: len(rows) for word, rows in answer["postings"].items()} == {"often": 6, "rare": 2, "once": 1}
    assert (answer["left_out"], answer["degraded"], answer["exhausted"]) == ((), (), None)


async def test_one_too_many_leaves_the_commonest_word_out(store: Store) -> None:
    await filled(store, CROWD)

    answer = await found(store, wanting("often", "rare", "once", postings=8), EVERYTHING)

    assert {word: len(rows) for word, rows in answer["postings"].items()} == {"rare": 2, "once": 1}
    assert answer["left_out"] == ("often",)
    assert answer["degraded"] == (Degradation.COMMON_WORDS_LEFT_OUT,)
    assert answer["exhausted"] is Limit.POSTINGS


async def test_words_that_stand_nowhere_need_no_room(store: Store) -> None:
    await filled(store, CROWD)

    answer = await found(store, wanting("often", "nowhere", postings=1), EVERYTHING)

    assert answer["postings"] == {"nowhere": []}
    assert answer["left_out"] == ("often",)


async def test_no_postings_allowed_looks_nothing_up_and_says_so(store: Store) -> None:
    await filled(store, CROWD)

    answer = await found(store, wanting("once", postings=0), EVERYTHING)

    assert (answer["postings"], answer["left_out"], answer["exhausted"]) == ({}, ("once",), Limit.POSTINGS)
    assert answer["routes"] == {Route.LEXICAL: NOTHING_ALLOWED}


async def test_what_no_longer_stands_is_counted_and_takes_no_room(store: Store) -> None:
    dead = [memory(f"dead{at}", "red fox", valid_until=NOW) for at in range(5)] + [
        memory("early", "red", valid_from=NOW + timedelta(days=1))
    ]
    await filled(store, [*dead, memory("one", "red fox")])

    answer = await found(store, wanting("red", "fox", postings=4), EVERYTHING)

    assert {word: len(rows) for word, rows in answer["postings"].items()} == {"red": 1, "fox": 1}
    assert answer["dead"] == {Reason.EXPIRED: 4}, "counted once a passage, and no further than the ceiling"
    assert answer["exhausted"] is None


async def test_what_is_both_superseded_and_over_is_counted_once(store: Store) -> None:
    await filled(store, [memory("old", "red", valid_until=NOW), memory("new", "blue", supersedes=(MemoryId(Source.FACT, "old"),))])

    assert (await found(store, wanting("red"), EVERYTHING))["dead"] == {Reason.SUPERSEDED: 1}


async def test_no_time_does_no_work_and_says_so(store: Store) -> None:
    await filled(store, CROWD)

    assert await store.find(wanting("once", near=0, seconds=0), EVERYTHING) == Found(
        routes={Route.LEXICAL: OUT_OF_TIME, Route.LOCAL_EXACT: OUT_OF_TIME}, exhausted=Limit.SECONDS
    )
    assert await store.find(wanting(seconds=0), EVERYTHING) == Found()


async def test_nothing_asked_tells_what_is_in_reach_and_no_more(store: Store) -> None:
    await filled(store, CROWD)

    answer = await found(store, wanting(), EVERYTHING)

    assert (answer["passages"], answer["postings"], answer["neighbours"], answer["exhausted"]) == ((7, 9), {}, [], None)
    assert answer["routes"] == {Route.LEXICAL: NOTHING_ASKED}


async def test_vectors_are_found_nearest_first_up_to_the_last_tie_and_by_source(store: Store) -> None:
    facts = [memory(f"f{degrees}{twin}", "x", degrees=degrees) for degrees in (0, 20, 40, 60) for twin in "ab"]
    await filled(store, [*facts, memory("d", "x", source=Source.DOC, degrees=170)])

    answer = await found(store, wanting(near=0, rows=3), EVERYTHING)

    assert [(source, more, [name for name, _ in rows]) for _, _, source, more, rows in answer["neighbours"]] == [
        (Source.FACT, True, ["fact:f0a#0", "fact:f0b#0", "fact:f20a#0", "fact:f20b#0"]),
        (Source.DOC, False, ["doc:d#0"]),
    ]
    assert answer["compared"] == {Lane.LOCAL: 9}
    assert answer["routes"][Route.LOCAL_EXACT] == RAN


async def test_as_many_vectors_as_allowed_is_not_more(store: Store) -> None:
    await filled(store, [memory(f"f{degrees}", "x", degrees=degrees) for degrees in (0, 20, 40)])

    answer = await found(store, wanting(near=0, rows=3), EVERYTHING)

    assert [(more, len(rows)) for _, _, _, more, rows in answer["neighbours"]] == [(False, 3)]


async def test_thousands_of_vectors_are_reached_behind_nearer_ones_that_may_not_be(store: Store) -> None:
    many = [45 + at / 100 for at in range(4_200)]
    mine = memory("mine", source=Source.DOC, parts=["x"] * len(many), degrees=many)
    theirs = memory("theirs", source=Source.DOC, parts=["x"] * 4_100, degrees=[0.0] * 4_100, scope="project:beta")
    await filled(store, [theirs, mine])

    few, most = [await store.find(wanting(near=0, rows=rows), seen_from()) for rows in (3, 4_150)]

    assert [(each.keys.size, each.more) for each in (*few.neighbours, *most.neighbours)] == [(3, True), (4_150, True)]
    assert few.compared == {Lane.LOCAL: 4_200}


async def test_differences_too_small_for_float32_still_decide(store: Store) -> None:
    await filled(store, [memory(f"f{at}", "x", degrees=10 + at * 1e-5) for at in range(40)])

    answer = await found(store, wanting(near=0, rows=1), EVERYTHING)

    nearest = max(float(direction(10 + at * 1e-5)[0]) for at in range(40))
    assert {vector[0] for *_, rows in answer["neighbours"] for _, vector in rows} == {nearest}


async def test_no_rows_allowed_compares_nothing_and_says_so(store: Store) -> None:
    await filled(store, [memory("one", "x", degrees=0)])

    answer = await found(store, wanting(near=0, rows=0), EVERYTHING)

    assert (answer["neighbours"], answer["exhausted"]) == ([], Limit.ITEMS)
    assert answer["routes"][Route.LOCAL_EXACT] == NOTHING_ALLOWED


@pytest.mark.parametrize("vector", [np.zeros(2), np.array([np.nan, 1]), np.array([np.inf, 1])], ids=["zero", "nan", "infinite"])
async def test_a_vector_without_direction_is_near_to_nothing(store: Store, vector: np.ndarray) -> None:
    probe = Probe(lane=Lane.LOCAL, space=SPACE, vector=vector.astype(np.float32))
    odd = memory("odd", "x", degrees=0)
    odd = replace(odd, passages=(replace(odd.passages[0], vectors={SPACE: vector.astype(np.float32)}),))
    await filled(store, [odd, memory("one", "x", degrees=0)])

    asked_with = await store.find(replace(wanting(), probes=(probe,)), EVERYTHING)
    standing_there = await found(store, wanting(near=0), EVERYTHING)

    assert (asked_with.neighbours, asked_with.routes[Route.LOCAL_EXACT]) == ((), NOTHING_ASKED)
    assert [[name for name, _ in rows] for *_, rows in standing_there["neighbours"]] == [["fact:one#0"]]
    assert await store.coverage(SPACE, EVERYTHING) == (1, 2)


@pytest.mark.parametrize("rows", [1, WHOLE])
@pytest.mark.parametrize("filters", [Filters(), Filters(created_from=NOW)], ids=["unfiltered", "filtered"])
async def test_vectors_of_another_space_or_length_are_never_compared(store: Store, rows: int, filters: Filters) -> None:
    await filled(store, [memory("one", "x", degrees=0), memory("two", "x", degrees=9)])
    longer = Probe(lane=Lane.LOCAL, space=SPACE, vector=np.ones(3, dtype=np.float32))
    elsewhere = Probe(lane=Lane.SEMANTIC, space="other:2", vector=direction(0))

    answer = await store.find(replace(wanting(filters=filters, rows=rows), probes=(longer, elsewhere)), EVERYTHING)

    assert answer.neighbours == ()
    assert answer.routes == {Route.LEXICAL: NOTHING_ASKED, Route.LOCAL_EXACT: RAN, Route.SEMANTIC_EXACT: RAN}
    assert answer.compared == {Lane.LOCAL: 2, Lane.SEMANTIC: 0}


TAGGED = [memory("one", "red", tags=("x", "y")), memory("two", "red", tags=("y", "x%")), memory("three", "red")]


@pytest.mark.parametrize(
    "tags, passing",
    [
        (TagFilter(all=("x",)), ["fact:one#0"]),
        (TagFilter(all=("x", "y")), ["fact:one#0"]),
        (TagFilter(all=("x", "z")), []),
        (TagFilter(any=("x", "x%")), ["fact:one#0", "fact:two#0"]),
        (TagFilter(none=("x",)), ["fact:three#0", "fact:two#0"]),
        (TagFilter(all=("y",), none=("x",)), ["fact:two#0"]),
        (TagFilter(any=("X",)), []),
    ],
)
async def test_tags_filter_whole_and_to_the_letter(store: Store, tags: TagFilter, passing: list[str]) -> None:
    await filled(store, TAGGED)

    assert await holding(store, Filters(tags=tags)) == passing


async def test_made_from_is_inclusive_and_made_until_is_not(store: Store) -> None:
    moments = [NOW + timedelta(microseconds=offset) for offset in (-1, 0, 1)]
    await filled(store, [memory(f"m{at}", "red", created_at=moment) for at, moment in enumerate(moments)])

    assert await holding(store, Filters(created_from=NOW)) == ["fact:m1#0", "fact:m2#0"]
    assert await holding(store, Filters(created_until=NOW)) == ["fact:m0#0"]


async def test_filters_leave_the_statistics_alone_and_the_vectors_out(store: Store) -> None:
    await filled(store, [memory("one", "red", tags=("x",), degrees=90), *[memory(f"near{at}", "red", degrees=0) for at in range(5)]])

    answer = await found(store, wanting("red", near=0, rows=1, filters=Filters(tags=TagFilter(all=("x",)))), EVERYTHING)

    assert (answer["passages"], len(answer["postings"]["red"]), answer["compared"]) == ((6, 6), 6, {Lane.LOCAL: 6})
    assert answer["eligible"] == ["fact:one#0"]
    assert [[name for name, _ in rows] for *_, rows in answer["neighbours"]] == [["fact:one#0"]], "what is left out spends no rows"


async def test_what_was_seen_before_spends_no_rows(store: Store) -> None:
    await filled(
        store, [memory("seen", source=Source.DOC, parts=["red", "red"], degrees=0), memory("new", "red", source=Source.DOC, degrees=9)]
    )

    answer = await found(store, wanting("red", near=0, rows=1, without=frozenset({MemoryId(Source.DOC, "seen")})), EVERYTHING)

    assert answer["eligible"] == ["doc:new#0"]
    assert [[name for name, _ in rows] for *_, rows in answer["neighbours"]] == [["doc:new#0"]]
    assert len(answer["postings"]["red"]) == 3


async def test_a_phrase_is_contiguous_words_inside_one_passage(store: Store) -> None:
    await filled(
        store,
        [
            memory("one", "the red fox"),
            memory("two", "red the fox"),
            memory("three", "tired redfox"),
            memory("four", parts=["the red", "fox"]),
        ],
    )

    assert await holding(store, Filters(phrases=("red fox",))) == ["fact:one#0"]
    assert await holding(store, Filters(phrases=("the", "red"))) == ["fact:four#0", "fact:one#0", "fact:two#0"]
    assert await holding(store, Filters(phrases=("red fo",))) == []


HOSTILE = (
    *("\x00", "a\x00b", "\t", "\n", "\u2028", "\u200d", "\ufeff", '"', "'", ")", "((((", "*", "a*", "^a", "-a", "+", "%", "a;b", "--"),
    *(
        "AND",
        "NOT",
        "NEAR(",
        "org",
        "org:acme",
        "words:",
        "{a",
        "_22",
        "é",
        "e\u0301",
        "\U0001f98a",
        "ＡＢ",
        "売上",
        "Ab",
        "aB",
        "x" * 50_000,
    ),
)


async def test_whatever_stands_in_a_word_is_only_a_word(store: Store) -> None:
    mine = [memory(f"mine{at}", f"a {word} b") for at, word in enumerate(HOSTILE)]
    hidden = [memory(f"hidden{at}", f"a {word} b", scope="project:beta") for at, word in enumerate(HOSTILE)]
    await store.put(mine + hidden, EVERYTHING)

    for at, word in enumerate(HOSTILE):
        search = wanting(word, filters=Filters(phrases=(f"a {word} b",)))
        answer = await found(store, search, seen_from())
        assert [row[0] for row in answer["postings"][word]] == [f"fact:mine{at}#0"], ascii(word[:9])
        assert answer["eligible"] == [f"fact:mine{at}#0"], ascii(word[:9])
        elsewhere = await found(store, search, seen_from("other"))
        assert (elsewhere["postings"], elsewhere["eligible"]) == ({word: []}, [])


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00"])
async def test_text_that_is_no_text_is_looked_up_and_found_nowhere(store: Store, text: str) -> None:
    await filled(store, [memory("one", "a b", tags=("x",))])

    answer = await found(store, wanting(text, filters=Filters(phrases=(text,), tags=TagFilter(any=(text,)))), seen_from(granted=[text]))

    assert (answer["postings"], answer["eligible"]) == ({text: []}, [])


async def test_the_same_words_of_other_orgs_are_not_in_a_phrase(store: Store) -> None:
    await filled(store, [memory("one", "red fox", org=org) for org in ("acme", "acme x", 'acme" OR "', "Acme")])

    assert await holding(store, Filters(phrases=("red fox",))) == ["fact:one#0"]


def keys_of(found: Found) -> list[int]:
    return sorted({int(key) for each in (*found.postings.values(), *found.neighbours) for key in each.keys})


async def test_what_is_likely_is_asked_once_of_all_that_was_found_and_its_outlines_come_with_it(store: Store) -> None:
    await filled(store, [memory("one", "red", degrees=0), memory("two", source=Source.DOC, parts=["red", "blue"], degrees=[9, 90])])
    asked: list[Found] = []

    def likely(found: Found) -> list[int]:
        asked.append(found)
        return keys_of(found)

    answer = await store.find(replace(wanting("red", "blue", near=0), likely=likely), EVERYTHING)

    assert len(keys_of(answer)) == 3
    assert answer.outlines == await store.outlines(keys_of(answer), EVERYTHING)
    assert [repr(each) for each in asked] == [repr(replace(answer, outlines=None))]


async def test_outlines_that_are_not_asked_for_or_have_no_time_do_not_come(store: Store) -> None:
    await filled(store, CROWD)
    asked: list[Found] = []

    unasked = await store.find(wanting("once"), EVERYTHING)
    nothing = await store.find(replace(wanting("once"), likely=lambda found: ()), EVERYTHING)
    no_time = await store.find(replace(wanting("once", seconds=0), likely=lambda found: asked.append(found) or ()), EVERYTHING)

    assert (unasked.outlines, nothing.outlines, no_time.outlines, asked) == (None, {}, None, [])


async def test_what_may_not_be_read_or_is_nothing_has_no_outline_however_likely(store: Store) -> None:
    dead = [memory("over", "red", valid_until=NOW), memory("old", "red"), memory("new", "red", supersedes=(MemoryId(Source.FACT, "old"),))]
    await filled(store, [memory("mine", "red"), memory("theirs", "red", scope="project:beta"), memory("other", "red", org="rival"), *dead])
    keys = [*range(-1, 20), 2**40]

    answer = await store.find(replace(wanting("red"), likely=lambda found: [*keys, *keys_of(found)]), seen_from())

    assert answer.outlines is not None
    assert sorted(each.memory.id for each in answer.outlines.values()) == ["mine", "new"]
    assert all(key == each.key for key, each in answer.outlines.items())


async def test_thousands_of_likely_passages_come_as_those_asked_for_do(store: Store) -> None:
    await filled(store, [memory("many", source=Source.DOC, parts=["red"] * 4_200)])

    answer = await store.find(replace(wanting("red"), likely=keys_of), EVERYTHING)

    assert answer.outlines is not None
    assert sorted(each.passage.ordinal for each in answer.outlines.values()) == list(range(4_200))


class Unforeseen(Exception):
    """No fault of any store."""


async def test_what_fails_in_foreseeing_is_raised_as_it_is_and_the_store_goes_on(store: Store) -> None:
    await filled(store, CROWD)

    def failing(found: Found) -> list[int]:
        raise Unforeseen

    for _ in range(5):
        with pytest.raises(Unforeseen):
            await store.find(replace(wanting("once"), likely=failing), EVERYTHING)

    answer = await store.find(replace(wanting("once"), likely=keys_of), EVERYTHING)
    assert [str(each.memory) for each in (answer.outlines or {}).values()] == ["fact:b"]
