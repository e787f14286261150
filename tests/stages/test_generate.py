"""Generate proposes what clears its lane's rule, inside its ceiling, and counts the rest."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from remit.pipeline.config import load
from remit.stages.access import Access
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Lane, MemoryId, Outline, PassageId, Route
from remit.stages.generate import MANY_POSTINGS, Generated, Lookup, generate
from remit.stages.ports import Embedder, Finder, Found, Neighbours, Postings, Wanted
from remit.stages.report import Degradation, Reason
from remit.stages.request import Filters, Source
from remit.stages.selection import Selection, similarities
from remit.stages.terms import Term, Terms

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ACCESS = Access(actor="ada", org="acme", granted=None, as_of=NOW)
RECALL = load().recall
ROOM = Ceiling(items=500, seconds=60)


@dataclass
class Shelf(Finder):
    """A store of facts whose words are known: `texts` is key → text, and the vectors what a test says."""

    texts: Mapping[int, str]
    vectors: Mapping[int, Sequence[float]] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
    vanished: Collection[int] = ()
    asked: list[Wanted] = field(default_factory=list)

    async def find(self, wanted: Wanted, access: Access) -> Found:
        self.asked.append(wanted)
        keys = sorted(self.vectors)
        rows = np.array([self.vectors[key] for key in keys], dtype=np.float32)
        near = [Neighbours(Route.LOCAL_EXACT, Lane.LOCAL, Source.FACT, np.array(keys), rows)] if keys and wanted.probes else []
        return replace(
            self.found,
            passages=len(self.texts),
            words=sum(len(text.split()) for text in self.texts.values()),
            postings={word: self._postings(word) for word in wanted.words},
            neighbours=tuple(near),
            compared={Lane.LOCAL: 1},
            routes={Route.LEXICAL: "ran"},
        )

    def _postings(self, word: str) -> Postings:
        holding = sorted(key for key, text in self.texts.items() if word in text.split())
        counts = [self.texts[key].split().count(word) for key in holding]
        lengths = [len(self.texts[key].split()) for key in holding]
        return Postings(*(np.array(each, dtype=np.int64) for each in (holding, counts, lengths, [0] * len(holding))))

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        return {key: outline(key) for key in keys if key not in self.vanished}

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        return {}

    async def vocabulary(self, shortest: int, longest: int, access: Access) -> Sequence[str]:
        return sorted({word for text in self.texts.values() for word in text.split() if shortest <= len(word) <= longest})


@dataclass
class Nearest(Shelf):
    """A shelf whose vector route brings its first `most` passages, and says when there are more."""

    most: int = 500
    route: Route = Route.LOCAL_EXACT

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found = await super().find(wanted, access)
        cut = [
            replace(each, route=self.route, keys=each.keys[: self.most], vectors=each.vectors[: self.most], more=each.keys.size > self.most)
            for each in found.neighbours
        ]
        return replace(found, neighbours=tuple(cut))


@dataclass
class Fixed(Embedder):
    """An embedder that gives one vector to every text."""

    vector: Sequence[float]
    lane: Lane = Lane.LOCAL
    space: str = "test/3"
    dimensions: int = 3

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self.vector for _ in texts], dtype=np.float32)


@dataclass
class Instant(Fixed):
    """One that need not wait for short texts."""

    longest: int = 3

    def at_once(self, text: str) -> NDArray[np.float32] | None:
        return np.array(self.vector, np.float32) if len(text) <= self.longest else None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return -np.array([self.vector], np.float32)


class Broken(Fixed):
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise ConnectionError("provider down")


class Silent(Shelf):
    async def find(self, wanted: Wanted, access: Access) -> Found:
        await anyio.sleep_forever()
        raise AssertionError


def outline(key: int) -> Outline:
    return Outline(key=key, passage=PassageId(MemoryId(Source.FACT, f"f{key:03}"), 0), scope="global", version=1, aged_from=NOW)


async def search(
    shelf: Finder,
    words: str,
    *embedders: Embedder,
    ceiling: Ceiling = ROOM,
    selection: Selection = RECALL.selection,
    common: Collection[str] = (),
    idle: bool = False,
    terms: Terms | None = None,
    **lookup: object,
) -> Generated:
    told = tuple(Term(word, plain=word, common=word in common) for word in words.split())
    terms = terms or Terms(words=told, plain=tuple(words.split()), idle=idle)
    return await generate(
        Lookup(text=words, terms=terms, **lookup),  # type: ignore[arg-type]  # plain values of each test
        access=ACCESS,
        finder=shelf,
        embedders=embedders,
        words=RECALL.words,
        selection=selection,
        turns=RECALL.turns,
        postings=1000,
        ceiling=ceiling,
    )


def names(generated: Generated, lane: Lane = Lane.LEXICAL) -> list[str]:
    return [hit.outline.memory.id for hit in generated.kept if hit.lane is lane]


async def test_three_two_and_one_matching_words_take_the_places_zero_one_and_two() -> None:
    found = await search(Shelf({3: "red", 1: "red green blue", 2: "red green"}), "red green blue")
    assert [(hit.outline.memory.id, hit.place) for hit in found.kept] == [("f001", 0), ("f002", 1)]
    assert found.rejected == {Reason.WEAK: 1}


async def test_equal_passages_take_their_places_by_id() -> None:
    shelf = Shelf(dict.fromkeys(range(40, 0, -1), "red"))
    found = await search(shelf, "red", ceiling=Ceiling(items=10, seconds=60))
    assert names(found) == [f"f{key:03}" for key in range(1, 11)]
    assert (found.rejected, found.exhausted) == ({Reason.OVER_CEILING: 30}, Limit.ITEMS)


@pytest.mark.parametrize("most, exhausted", [(2, Limit.ITEMS), (3, None), (4, None)])
async def test_a_ceiling_met_exactly_cuts_nothing(most: int, exhausted: Limit | None) -> None:
    found = await search(Shelf({1: "red", 2: "red", 3: "red"}), "red", ceiling=Ceiling(items=most, seconds=60))
    assert (len(found.kept), found.exhausted) == (min(most, 3), exhausted)
    assert found.received == len(found.kept) + sum(found.rejected.values())


@pytest.mark.parametrize("ceiling", [Ceiling(items=0, seconds=60), Ceiling(items=10, seconds=0)])
async def test_a_ceiling_of_nothing_asks_nobody(ceiling: Ceiling) -> None:
    shelf = Shelf({1: "red"})
    found = await search(shelf, "red", ceiling=ceiling)
    assert (found.kept, shelf.asked) == ((), [])
    assert found.exhausted is (Limit.ITEMS if not ceiling.items else Limit.SECONDS)


async def test_a_store_that_never_answers_ends_at_the_ceiling_and_says_so() -> None:
    found = await search(Silent({}), "red", ceiling=Ceiling(items=10, seconds=0.01))
    assert (found.kept, found.exhausted) == ((), Limit.SECONDS)


async def test_a_question_about_something_unknown_is_not_answered_by_its_commonplace_words() -> None:
    shelf = Shelf({1: "we like the red boat", 2: "the boat is green"})
    assert names(await search(shelf, "boat")) == ["f002", "f001"]
    assert names(await search(shelf, "zebra giraffe elephant boat")) == []


async def test_one_more_word_that_nobody_knows_never_turns_hits_into_none() -> None:
    shelf = Shelf({1: "deploy restarts crash the queue workers"})
    for cue in ("", "yesterday", "honestly"):
        assert names(await search(shelf, f"crash {cue}")) == ["f001"]


async def test_one_word_of_three_is_an_accident_and_two_are_not() -> None:
    shelf = Shelf({1: "we like the red boat", 2: "red sails in the harbour"})
    assert names(await search(shelf, "red paint shop")) == []
    assert names(await search(shelf, "red boat paint")) == ["f001"]
    assert sorted(names(await search(shelf, "like sails red"))) == ["f001", "f002"]


async def test_three_words_that_are_known_may_stand_in_three_passages() -> None:
    shelf = Shelf({1: "oil comes by boat", 2: "the lamp is lit", 3: "visitors may climb"})
    assert sorted(names(await search(shelf, "oil lamp visitors"))) == ["f001", "f002", "f003"]


async def test_the_list_ends_where_the_number_of_words_falls_by_half() -> None:
    shelf = Shelf({1: "crane winch harbour oil", 2: "crane winch harbour", 3: "crane winch", 4: "winch of a well"})
    assert names(await search(shelf, "crane winch harbour oil")) == ["f001", "f002", "f003"]
    assert len(names(await search(shelf, "winch"))) == 4


async def test_a_passage_of_commonplace_words_goes_where_another_one_tells_more() -> None:
    shelf = Shelf({1: "take the second turn", 2: "second hand winch"})
    assert names(await search(shelf, "second winch", common={"second"})) == ["f002"]
    assert sorted(names(await search(shelf, "second", common={"second"}))) == ["f001", "f002"]


async def test_a_question_of_stop_words_is_answered_by_all_of_them_only() -> None:
    shelf = Shelf({1: "to be or not to be", 2: "not here"})
    assert names(await search(shelf, "to be or not", common={"to", "be", "or", "not"}, idle=True)) == ["f001"]
    assert names(await search(shelf, "not me", common={"not", "me"}, idle=True)) == []


async def test_a_short_guess_needs_another_word_that_agrees() -> None:
    shelf = Shelf({1: "goats need a vet", 2: "bread in the oven"})
    assert names(await search(shelf, "vet gaots")) == ["f001"]
    assert names(await search(shelf, "braed pudding recipe")) == []
    assert names(await search(shelf, "braed")) == ["f002"]


async def test_an_alias_that_is_met_leaves_no_unknown_word() -> None:
    shelf = Shelf({1: "consents =lindy", 2: "the new carrier"})
    terms = Terms(words=tuple(Term(word, plain=word) for word in ("lindy", "new", "carrier")), aliases=("=lindy",))
    found = await search(shelf, "lindy new carrier", terms=terms)
    assert "f001" in names(found)


async def test_the_feature_hash_brings_back_nothing_that_words_found_weak() -> None:
    shelf = Shelf({1: "red boat", 2: "red"}, {1: [1, 0, 0], 2: [1, 0, 0]})
    exact = replace(RECALL.selection, chance=replace(RECALL.selection.chance, local=0.0))
    found = await search(shelf, "red boat", Fixed([1, 0, 0]), selection=exact)
    assert (names(found), names(found, Lane.LOCAL)) == (["f001"], ["f001"])


async def test_a_commonplace_word_is_no_typing_error() -> None:
    shelf = Shelf({1: "the conveyor belt", 2: "the west wing"})
    assert dict((await search(shelf, "best", common={"best"})).near) == {}


async def test_a_typing_error_finds_the_callers_own_near_word_and_the_mode_can_say_so() -> None:
    shelf = Shelf({1: "kubernetes cluster", 2: "kitchen table"})
    found = await search(shelf, "kubernets")
    assert names(found) == ["f001"]
    assert (dict(found.near), found.degraded) == ({"kubernets": ("kubernetes",)}, (Degradation.NEAR_WORDS,))


async def test_a_known_word_is_never_replaced_by_a_near_one() -> None:
    found = await search(Shelf({1: "crash", 2: "crush"}), "crash")
    assert (names(found), dict(found.near)) == (["f001"], {})


async def test_vectors_that_clear_the_threshold_are_proposed_best_first_and_the_rest_is_weak() -> None:
    vectors = {1: [0.9, 0.1, 0], 2: [1, 0, 0], 3: [0, 1, 0], 4: [0, 0, 0]}
    exact = replace(RECALL.selection, chance=replace(RECALL.selection.chance, local=0.0))
    found = await search(Shelf(dict.fromkeys(vectors, "red"), vectors), "red", Fixed([1, 0, 0]), selection=exact)
    assert names(found, Lane.LOCAL) == ["f002", "f001"]
    assert found.rejected == {Reason.WEAK: 2}


@pytest.mark.parametrize("last, exhausted", [([0.9, 0.1, 0], Limit.ITEMS), ([0, 1, 0], None)])
async def test_a_vector_route_is_cut_only_where_more_could_have_been_proposed(last: Sequence[float], exhausted: Limit | None) -> None:
    exact = replace(RECALL.selection, chance=replace(RECALL.selection.chance, local=0.0))
    vectors = {1: [1.0, 0.0, 0.0], 2: last, 3: last}
    found = await search(Nearest(dict.fromkeys(vectors, "red"), vectors, most=2), "red", Fixed([1, 0, 0]), selection=exact)
    assert found.exhausted is exhausted


async def test_the_latest_rows_are_cut_wherever_there_are_more() -> None:
    vectors = {1: [1.0, 0.0, 0.0], 2: [0.0, 1.0, 0.0], 3: [1.0, 0.0, 0.0]}
    shelf = Nearest(dict.fromkeys(vectors, "red"), vectors, most=2, route=Route.RECENT)
    assert (await search(shelf, "red", Fixed([1, 0, 0]))).exhausted is Limit.ITEMS


async def test_a_feature_hash_proposes_nothing_that_holds_no_word_of_the_question() -> None:
    exact = replace(RECALL.selection, chance=replace(RECALL.selection.chance, local=0.0))
    shelf = Shelf({1: "red", 2: "blue"}, {1: [1, 0, 0], 2: [1, 0, 0]})
    found = await search(shelf, "red", Fixed([1, 0, 0]), selection=exact)
    assert names(found, Lane.LOCAL) == ["f001"]
    assert found.rejected == {Reason.WEAK: 1}


@pytest.mark.parametrize("embedder", [Broken([1, 0, 0]), Fixed([float("nan"), 0, 0]), Fixed([1, 0])])
async def test_a_failing_embedder_costs_its_lane_and_never_the_words(embedder: Embedder) -> None:
    shelf = Shelf({1: "red"}, {1: [1, 0, 0]})
    found = await search(shelf, "red", embedder)
    assert names(found) == ["f001"]
    assert found.degraded == (Degradation.EMBEDDING_FAILED,)
    assert shelf.asked[0].probes == ()


@pytest.mark.parametrize("question, first", [("red", 1.0), ("crimson", -1.0)])
async def test_an_embedder_is_waited_for_only_where_it_has_no_vector_at_once(question: str, first: float) -> None:
    shelf = Shelf({1: "red"}, {1: [1, 0, 0]})
    found = await search(shelf, question, Instant([1, 0, 0]))
    assert ([probe.vector.tolist() for probe in shelf.asked[0].probes], found.degraded) == ([[first, 0, 0]], ())


class Refusing(Instant):
    def at_once(self, text: str) -> NDArray[np.float32] | None:
        raise MemoryError


@pytest.mark.parametrize("vector", [[float("nan"), 0, 0], [1, 0], [[1, 0, 0]]])
async def test_what_an_embedder_has_at_once_and_is_no_vector_costs_its_lane_and_nothing_more(vector: list[float]) -> None:
    shelf = Shelf({1: "red"}, {1: [1, 0, 0]})
    embedder = Instant([1, 0, 0])
    embedder.vector = vector
    found = await search(shelf, "red", embedder)
    assert (shelf.asked[0].probes, found.degraded, names(found)) == ((), (Degradation.EMBEDDING_FAILED,), ["f001"])


async def test_an_embedder_that_cannot_at_once_is_asked_as_any_other() -> None:
    shelf = Shelf({1: "red"}, {1: [1, 0, 0]})
    found = await search(shelf, "red", Refusing([1, 0, 0]))
    assert ([probe.vector.tolist() for probe in shelf.asked[0].probes], found.degraded) == ([[-1.0, 0, 0]], ())


async def test_a_zero_vector_is_never_searched() -> None:
    shelf = Shelf({1: "red"}, {1: [1, 0, 0]})
    found = await search(shelf, "red", Fixed([0, 0, 0]))
    assert (shelf.asked[0].probes, found.degraded) == ((), ())


async def test_what_vanished_in_between_is_counted_as_gone() -> None:
    found = await search(Shelf({1: "red", 2: "red"}, vanished=[2]), "red")
    assert (names(found), found.rejected) == (["f001"], {Reason.GONE: 1})


async def test_what_no_longer_stands_is_counted_and_proposed_by_nobody() -> None:
    found = await search(Shelf({1: "red"}, found=Found(dead={Reason.EXPIRED: 2, Reason.SUPERSEDED: 1})), "red")
    assert (found.received, len(found.kept), found.rejected) == (4, 1, {Reason.EXPIRED: 2, Reason.SUPERSEDED: 1})


async def test_filters_leave_out_and_count_what_does_not_pass() -> None:
    shelf = Shelf({1: "red", 2: "red"}, found=Found(eligible=np.array([2])))
    found = await search(shelf, "red", filters=Filters(phrases=("red",)))
    assert (names(found), found.rejected) == (["f002"], {Reason.FILTERED: 1})


async def test_a_later_round_goes_on_with_the_places_after_those_given_away() -> None:
    shelf = Shelf({1: "red", 2: "red"}, found=Found(eligible=np.array([2])))
    seen = frozenset({MemoryId(Source.FACT, "f001")})
    found = await search(shelf, "red", seen=seen, taken={(Lane.LEXICAL, Source.FACT): 7})
    assert [(hit.outline.memory.id, hit.place) for hit in found.kept] == [("f002", 7)]
    assert (shelf.asked[0].without, found.received) == (seen, 1)


@dataclass
class Counting(Shelf):
    """A shelf that hands out what is near enough and counts the rest, as a store may."""

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found = await super().find(wanted, access)
        (probe,), (all_of_them,) = wanted.probes, found.neighbours
        near = similarities(probe.vector, all_of_them.vectors) >= probe.least
        some = replace(all_of_them, keys=all_of_them.keys[near], vectors=all_of_them.vectors[near], weaker=int(np.count_nonzero(~near)))
        return replace(found, neighbours=(some,))


async def test_what_a_store_only_counted_is_told_as_if_it_had_been_handed_out() -> None:
    texts = dict.fromkeys(range(40), "red")
    vectors = {key: [1.0, key / 8, 0.0] for key in range(40)}

    handed_out, counted = [await search(kind(texts, vectors), "red", Fixed([1.0, 0.0, 0.0])) for kind in (Shelf, Counting)]

    assert handed_out.rejected[Reason.WEAK] > 0
    assert (counted.received, counted.rejected, counted.kept) == (handed_out.received, handed_out.rejected, handed_out.kept)


@dataclass
class Foreseeing(Shelf):
    """A shelf that brings the outlines of what is likely with what it finds; `apart` are those it was asked for by themselves."""

    apart: list[Collection[int]] = field(default_factory=list)

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found = await super().find(wanted, access)
        if wanted.likely is None:
            return found
        return replace(found, outlines=await super().outlines(wanted.likely(found), access))

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        self.apart.append(keys)
        return await super().outlines(keys, access)


async def test_what_was_foreseen_is_neither_asked_for_again_nor_asked_for_when_it_is_gone() -> None:
    shelf = Foreseeing({1: "red boat", 2: "red boat", 3: "red"}, vanished=[2])
    found = await search(shelf, "red boat")
    assert (names(found), found.rejected) == (["f001"], {Reason.WEAK: 1, Reason.GONE: 1})
    assert shelf.apart == []


async def test_what_only_a_near_word_finds_is_asked_for_and_nothing_that_is_known() -> None:
    shelf = Foreseeing({1: "kubernetes cluster", 2: "cluster of lights"})
    found = await search(shelf, "kubernets cluster")
    assert (names(found), shelf.apart) == (["f001"], [])
    shelf = Foreseeing({1: "kubernetes", 2: "cluster of lights"})
    assert (sorted(names(await search(shelf, "kubernets cluster"))), shelf.apart) == (["f001", "f002"], [[1]])


@pytest.mark.parametrize("passages, apart", [(MANY_POSTINGS, []), (MANY_POSTINGS + 1, [MANY_POSTINGS + 1])])
async def test_in_a_large_scope_nothing_is_foreseen_that_would_hold_others_up(passages: int, apart: list[int]) -> None:
    shelf = Foreseeing(dict.fromkeys(range(passages), "red"))
    found = await search(shelf, "red", ceiling=Ceiling(items=2, seconds=60))
    assert (names(found), [len(keys) for keys in shelf.apart]) == (["f000", "f001"], apart)


async def test_what_fails_in_foreseeing_is_no_fault_of_the_store() -> None:
    broken = replace(RECALL.selection, chance=None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        await search(Foreseeing({1: "red"}, {1: [1, 0, 0]}), "red", Fixed([1, 0, 0]), selection=broken)


@dataclass
class Talk(Shelf):
    """A shelf of turns, each key said right after the one before it."""

    async def find(self, wanted: Wanted, access: Access) -> Found:
        found = await super().find(wanted, access)
        turns = {word: replace(each, sources=np.full(each.keys.size, 1)) for word, each in found.postings.items()}
        return replace(found, postings=turns)

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        return {key: [each for each in range(key - reach, key + reach + 1) if each != key and each in self.texts] for key in keys}


class ForeseeingTalk(Foreseeing, Talk):
    """The same, foreseeing."""


VOCABULARY = ("crane", "winch", "harbour", "oil", "craen", "=winch", "lighthouse")

talks = st.dictionaries(
    st.integers(0, 12), st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=5).map(" ".join), min_size=1, max_size=12
)


@given(
    texts=talks,
    question=st.lists(st.sampled_from([*VOCABULARY, "harbuor", "lihgthouse"]), min_size=1, max_size=4, unique=True).map(" ".join),
    pointing=st.lists(st.sampled_from([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 1.0, 0.0]]), max_size=5),
    vanished=st.frozensets(st.integers(0, 12), max_size=3),
    items=st.sampled_from([1, 2, 5, 500]),
    talk=st.booleans(),
    filtered=st.booleans(),
)
@settings(max_examples=100, deadline=None)
async def test_the_same_is_found_whether_a_store_foresees_it_or_not(
    texts: dict[int, str], question: str, pointing: list[list[float]], vanished: frozenset[int], items: int, talk: bool, filtered: bool
) -> None:
    of = Found(eligible=np.array(sorted(texts)[::2])) if filtered else Found()
    vectors = dict(zip(sorted(texts), pointing, strict=False))
    plain, foreseeing = [
        await search(
            kind(texts, vectors, found=of, vanished=vanished), question, Fixed([1, 0, 0]), ceiling=Ceiling(items=items, seconds=60)
        )
        for kind in ((Talk, ForeseeingTalk) if talk else (Shelf, Foreseeing))
    ]
    assert repr(foreseeing) == repr(plain)
