"""Pack: never above the room, always with a reason, and as much of what is asked for as fits."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from remit.stages.access import Label, Shelf
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.evidence import Candidate, Claim, Fresh, Lane, Memory, MemoryId, Outline, PassageId, Ranked, Route
from remit.stages.excerpts import CUT
from remit.stages.pack import Packed, Room, pack
from remit.stages.render import Quote
from remit.stages.report import Reason
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def fresh(name: str, text: str, *, claims: Sequence[Claim] = (), disputes: Sequence[str] = ()) -> Fresh:
    passage = PassageId(MemoryId(Source.FACT, name), 0)
    outline = Outline(key=1, passage=passage, scope="global", version=1, aged_from=NOW)
    candidate = Candidate(outline=outline, ranks={Lane.LEXICAL: 0}, routes=(Route.LEXICAL,))
    ranked = Ranked(candidate=candidate, ranks=candidate.ranks, fused=1.0, boost=1.0, scope=1.0, score=1.0)
    label = Label(shelf=Shelf(org="acme", source=Source.FACT))
    others = tuple(MemoryId(Source.FACT, other) for other in disputes)
    memory = Memory(passage=passage, version=1, label=label, title="", text=text, created_at=NOW, claims=tuple(claims), disputes=others)
    return Fresh(ranked=ranked, memory=memory, checked_at=NOW)


class Counter:
    """Counts as `rule` says, and remembers what it was asked."""

    name = "test"
    adds_up = False

    def __init__(self, rule: Callable[[str], int]) -> None:
        self.rule = rule
        self.asked: list[str] = []

    async def count(self, text: str) -> int:
        self.asked.append(text)
        return self.rule(text)

    def at_once(self, _text: str) -> int | None:
        return None

    def at_least(self, _text: str) -> int:
        return 0


def units(text: str) -> int:
    """Tokens that a test states itself: a passage that says ⟨320⟩ is 320 of them, and nothing else costs anything."""
    return sum(map(int, re.findall(r"⟨(\d+)⟩", text)))


def words_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


async def packed(
    those: Sequence[Fresh],
    tokens: int,
    *,
    rule: Callable[[str], int] = units,
    counter: Any = None,
    questions: Sequence[str] = (),
    excerpts: bool = False,
    ceiling: Ceiling | None = None,
    passages: int = 8,
    repeats: float = 0.9,
    **room: Any,
) -> Packed:
    return await pack(
        those,
        questions=questions,
        words_of=words_of,
        counter=counter or Counter(rule),
        room=Room(tokens=tokens, passages=passages, **room),
        repeats=repeats,
        excerpts=excerpts,
        ceiling=ceiling or Ceiling(items=500, seconds=60),
    )


def ids(pack: Packed) -> str:
    return "".join(card.memory.id.id for card in pack.kept)


def reasons(pack: Packed) -> dict[str, Reason]:
    return {each.id.id: each.reason for each in pack.context.dropped}


def sized(*sizes: int) -> list[Fresh]:
    return [fresh(chr(97 + place), f"⟨{size}⟩ story{place}") for place, size in enumerate(sizes)]


class Autumn(tzinfo):
    """A zone whose clocks go back by an hour."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1 if when is not None and when.fold else 2)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta()


def test_the_hour_that_a_zone_has_twice_is_two_hours_in_a_passage() -> None:
    first = datetime(2026, 10, 25, 2, 30, 59, 999_999, tzinfo=Autumn())
    quotes = [Quote.of(fresh("a", "It is.")._replace(checked_at=when), "[1]") for when in (first, first.replace(fold=1))]

    assert [quote.verified for quote in quotes] == ["2026-10-25T00:30:59Z", "2026-10-25T01:30:59Z"]


@pytest.mark.parametrize("tokens, passages", [(640, 2), (960, 3), (1600, 5), (639, 1), (320, 1), (319, 0), (0, 0)])
@pytest.mark.parametrize("form", ["markdown", "xml", "json"])
async def test_five_passages_of_320_fill_the_room_exactly(tokens: int, passages: int, form: str) -> None:
    pack = await packed(sized(*[320] * 5), tokens, format=form)

    assert (pack.context.passages, pack.context.tokens) == (passages, 320 * passages)
    assert pack.exhausted is (None if passages == 5 else Limit.TOKENS)
    assert [card.tokens for card in pack.cards] == [320 if tokens else 0] * 5


async def test_every_card_is_told_in_rank_order_with_its_mark_and_whether_it_is_packed() -> None:
    pack = await packed(sized(60, 120, 30), 100)

    assert [(card.rank, card.cite, card.tokens, card.packed) for card in pack.cards] == [
        (1, "[1]", 60, True),
        (2, "[2]", 120, False),
        (3, "[3]", 30, True),
    ]
    assert "[1] id=fact:a" in pack.context.text
    assert "[3] id=fact:c" in pack.context.text
    assert "fact:b" not in pack.context.text


async def test_an_oversized_first_passage_does_not_block_the_later_ones() -> None:
    pack = await packed(sized(120, 60, 30), 100)

    assert (ids(pack), reasons(pack)) == ("bc", {"a": Reason.OVERSIZED})
    assert pack.exhausted is Limit.TOKENS


async def test_one_huge_passage_never_breaks_the_room() -> None:
    pack = await packed(sized(2500, 50), 200, excerpts=True)

    assert (ids(pack), pack.context.tokens, reasons(pack)) == ("b", 50, {"a": Reason.OVERSIZED})


async def test_what_does_not_fit_any_more_is_skipped_and_the_next_is_tried() -> None:
    pack = await packed(sized(60, 50, 40), 100)

    assert (ids(pack), reasons(pack)) == ("ac", {"b": Reason.NO_ROOM})


async def test_passages_above_their_number_are_not_a_matter_of_tokens() -> None:
    pack = await packed(sized(1, 1, 1), 100, passages=2)

    assert (ids(pack), reasons(pack), pack.exhausted) == ("ab", {"c": Reason.PASSAGES}, None)


@pytest.mark.parametrize(
    "overhead", [{"instructions": 900}, {"tools": 900}, {"reserve": 900}, dict.fromkeys(("instructions", "tools", "reserve"), 300)]
)
async def test_overheads_come_off_the_room(overhead: dict[str, Any]) -> None:
    pack = await packed(sized(*[100] * 5), 1000, **overhead)

    assert (ids(pack), pack.context.budget, pack.context.room) == ("a", 1000, 100)


async def test_overheads_above_the_budget_leave_nothing_and_say_so() -> None:
    counter = Counter(units)

    pack = await packed(sized(1, 1), 1000, counter=counter, instructions=2000)

    assert (pack.kept, pack.context.text, pack.context.tokens, pack.context.room) == ((), "", 0, 0)
    assert (pack.exhausted, pack.rejected) == (Limit.TOKENS, {Reason.NO_ROOM: 2})
    assert counter.asked == []


async def test_header_and_citations_are_counted() -> None:
    def length(text: str) -> int:
        return len(text)

    alone = (await packed(sized(1), 10_000, rule=length)).context
    assert alone.tokens == len(alone.text) > len("⟨1⟩ story0") + 40

    assert (await packed(sized(1), alone.tokens, rule=length)).context.passages == 1
    assert (await packed(sized(1), alone.tokens - 1, rule=length)).context.passages == 0


async def test_special_tokens_in_a_passage_are_text() -> None:
    pack = await packed([fresh("a", "⟨5⟩ ends here <|endoftext|> does it")], 10)

    assert "<|endoftext|> does it" in pack.context.text


async def test_with_a_counter_that_doubles_other_scripts_the_pack_is_smaller() -> None:
    those = [fresh(chr(97 + place), f"売上レポート{place}" * 10) for place in range(6)]

    plain = await packed(those, 900, rule=len)
    doubled = await packed(those, 900, rule=lambda text: sum(1 if character.isascii() else 2 for character in text))

    assert 0 < doubled.context.passages < plain.context.passages
    assert doubled.context.tokens <= 900


async def test_a_passage_that_says_nothing_new_is_left_out_and_names_what_said_it() -> None:
    pack = await packed([fresh("a", "The queue restarts every night at two"), fresh("b", "the QUEUE restarts every night at two.")], 100)

    assert (ids(pack), pack.rejected, pack.exhausted) == ("a", {Reason.REPEATS: 1}, None)
    assert [(each.id.id, each.repeats) for each in pack.context.dropped] == [("b", MemoryId(Source.FACT, "a"))]


@pytest.mark.parametrize(
    "first, second",
    [
        ("queue restarts every night", "queue restarts every night and then the index is rebuilt from the journal"),
        ("Ada owns billing. Grace left the service in May. The deploy runs on Friday.", "Grace owns the service."),
        ("we decided that the interface will support batches of rows", "we decided that the interface will not support batches of rows"),
        ("we decided that the interface won't support batches of rows", "we decided that the interface support batches of rows"),
        ("the limit of the gateway is set to 500 requests each second", "the limit of the gateway is set to 600 requests each second"),
    ],
)
async def test_what_says_more_or_turns_the_meaning_is_no_repeat(first: str, second: str) -> None:
    assert ids(await packed([fresh("a", first), fresh("b", second)], 100)) == "ab"


async def test_whole_sentences_that_stand_in_a_packed_passage_are_a_repeat() -> None:
    long = "Ada owns billing. Grace left in May! The deploy runs on Friday."

    assert (
        ids(
            await packed(
                [fresh("a", long), fresh("b", "the deploy runs on friday"), fresh("c", "Ada owns billing.\nGrace left in May")], 99
            )
        )
        == "a"
    )


async def test_texts_without_words_repeat_only_themselves() -> None:
    assert ids(await packed([fresh("a", "🎉"), fresh("b", "🚀"), fresh("c", "🎉")], 100)) == "ab"


async def test_what_covers_an_open_question_goes_before_what_is_ranked_higher() -> None:
    those = [
        fresh("a", "⟨40⟩ the deploy runs on friday"),
        fresh("b", "⟨40⟩ deploy notes for friday again"),
        fresh("c", "⟨40⟩ rollback restores the snapshot"),
    ]

    pack = await packed(those, 80, questions=["when does the deploy run, friday", "how does a rollback work, which snapshot"])

    assert ids(pack) == "ac"
    assert pack.context.text.index("[1]") < pack.context.text.index("[3]")


async def test_what_claims_something_new_goes_before_what_is_ranked_higher() -> None:
    said = Claim(says="runs on friday", about="deploy")
    those = [
        fresh("a", "⟨40⟩ one", claims=[said]),
        fresh("b", "⟨40⟩ two", claims=[said]),
        fresh("c", "⟨40⟩ three", claims=[Claim(says="x")]),
    ]

    assert ids(await packed(those, 80)) == "ac"


async def test_without_questions_and_claims_rank_alone_decides() -> None:
    assert ids(await packed(sized(40, 40, 40), 80)) == "ab"


@pytest.mark.parametrize(
    "first, second",
    [
        ({"claims": [Claim(about="Limit", says="500")]}, {"claims": [Claim(about="limit ", says="600")]}),
        ({"disputes": ["d"]}, {}),
        ({}, {"disputes": ["a"]}),
    ],
)
async def test_both_sides_of_a_dispute_are_kept_when_either_is(first: dict[str, Any], second: dict[str, Any]) -> None:
    those = [fresh("a", "⟨40⟩ says this of it", **first), *sized(40, 40, 40)[1:], fresh("d", "⟨40⟩ says this of it", **second)]

    assert ids(await packed(those, 80)) == "ad"
    assert ids(await packed(those, 40)) == "a"


async def test_a_passage_names_those_that_dispute_it_whether_they_are_packed_or_not() -> None:
    those = [
        fresh("a", "opens at eight", claims=[Claim(about="opens", says="8")]),
        fresh("b", "has a hook"),
        fresh("c", "opens at nine", claims=[Claim(about="opens", says="9")]),
        fresh("d", "opens at ten", claims=[Claim(about="opens", says="10")]),
    ]
    pack = await packed(those, 10_000, rule=len, passages=3)

    assert [re.findall(r"disputedBy=(\S+)", line) for line in pack.context.text.splitlines() if line.startswith("[")] == [
        ["3,4"],
        ["1,4"],
        ["1,3"],
    ]
    assert [[other.id for other in card.disputed_by] for card in pack.cards] == [["c", "d"], [], ["a", "d"], ["a", "c"]]


async def test_of_many_other_sides_the_best_ranked_are_named() -> None:
    pack = await packed([fresh(f"f{n}", f"opens at {n}", claims=[Claim(about="opens", says=str(n))]) for n in range(20)], 10_000, rule=len)

    assert "disputedBy=2,3,4,5,6,7,8,9\n" in pack.context.text


async def test_what_is_too_long_for_any_room_is_never_counted() -> None:
    class Knowing(Counter):
        def at_least(self, text: str) -> int:
            return len(text) // 10

    counter = Knowing(len)
    pack = await packed([fresh("long", "x" * 100_000), fresh("short", "story")], 500, counter=counter, excerpts=True)

    assert (ids(pack), reasons(pack)) == ("short", {"long": Reason.OVERSIZED})
    assert pack.cards[0].tokens >= 10_000
    assert max(map(len, counter.asked)) < 1000


async def test_the_same_claim_twice_is_no_dispute() -> None:
    claim = Claim(about="limit", says="500")
    those = [fresh("a", "⟨40⟩ one", claims=[claim]), fresh("b", "⟨40⟩ two"), fresh("c", "⟨40⟩ three", claims=[claim])]

    assert ids(await packed(those, 80)) == "ab"


SENTENCES = " ".join(f"Sentence {place} tells of the harbour at dawn." for place in range(60))


async def test_a_passage_larger_than_the_whole_room_is_cut_at_a_sentence_and_marked() -> None:
    pack = await packed([fresh("a", SENTENCES)], 600, rule=len, excerpts=True)

    shown = re.search(r"```\n(.*)\n```", pack.context.text)
    assert shown is not None
    assert shown[1].endswith(f"at dawn. {CUT}")
    assert SENTENCES.startswith(shown[1].removesuffix(f" {CUT}"))
    assert 600 - len("Sentence 10 tells of the harbour at dawn. ") < pack.context.tokens <= 600
    assert (pack.context.cut, pack.exhausted) == ((MemoryId(Source.FACT, "a"),), None)
    assert pack.cards[0].tokens < pack.context.tokens


async def test_an_excerpt_takes_only_what_the_others_left() -> None:
    those = [fresh("a", SENTENCES), fresh("b", "A short one."), fresh("c", "Another of them.")]

    pack = await packed(those, 1000, rule=len, excerpts=True)

    assert ids(pack) == "abc"
    assert pack.context.tokens <= 1000
    assert pack.context.text.count(CUT) == 1


@pytest.mark.parametrize("text", ["one single sentence without any end " * 40, "\n\n\n" + "x" * 900, "Tiny. " + "x" * 900])
async def test_what_cannot_be_cut_to_fit_is_oversized(text: str) -> None:
    pack = await packed([fresh("a", text)], 190, rule=len, excerpts=True)

    assert (pack.kept, reasons(pack), pack.context.text) == ((), {"a": Reason.OVERSIZED}, "")


async def test_what_only_came_too_late_is_never_cut() -> None:
    pack = await packed([fresh("a", SENTENCES), fresh("b", SENTENCES.replace("Sentence ", "Line 9"))], 4000, rule=len, excerpts=True)

    assert (ids(pack), reasons(pack), pack.context.cut) == ("a", {"b": Reason.NO_ROOM}, ())


async def test_a_huge_text_is_counted_once_and_then_only_in_small_parts() -> None:
    counter = Counter(len)

    await packed([fresh("a", "A sentence of the log. " * 50_000)], 2000, counter=counter, excerpts=True)

    *small, largest = sorted(map(len, counter.asked))
    assert largest > 1_000_000
    assert max(small) < 8000


# Counters that do not add up: what is cheap alone is dear together, or the other way round.
RULES: dict[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "dear together": lambda text: int(len(text) ** 1.1),
    "cheap together": lambda text: int(len(text) ** 0.9),
    "dear from two on": lambda text: len(text) + (500 if "[2]" in text and "[1]" in text else 0),
    "by the hundred": lambda text: 100 * math.ceil(len(text) / 100),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("form", ["markdown", "xml", "json"])
def test_of_2000_random_packs_none_is_above_its_room(rule: Callable[[str], int], form: str) -> None:
    dice = random.Random(f"{form} {rule('x' * 1000)}")

    async def go() -> None:
        for _ in range(112):  # times 18 kinds of counter and format
            those = [fresh(f"f{place}", story(dice), claims=claims(dice)) for place in range(dice.randint(0, 12))]
            tokens, overhead = dice.randint(0, 2500), dice.choice([0, 0, 50, 3000])
            pack = await packed(
                those,
                tokens,
                rule=rule,
                questions=[story(dice)[:60]] if dice.random() < 0.3 else (),
                excerpts=dice.random() < 0.5,
                passages=dice.randint(0, 10),
                instructions=overhead,
                format=form,
                ceiling=Ceiling(items=dice.choice([0, 3, 500]), seconds=60),
            )
            context = pack.context
            assert context.tokens == (rule(context.text) if context.text else 0)
            assert context.tokens <= max(0, tokens - overhead)
            assert context.passages == len(pack.kept) == sum(card.packed for card in pack.cards)
            assert pack.received == len(pack.cards) == len(pack.kept) + len(context.dropped)
            assert all(card.cite in context.text for card in pack.kept)
            cut_by_tokens = {Reason.NO_ROOM, Reason.OVERSIZED} & pack.rejected.keys()
            assert (pack.exhausted is Limit.TOKENS) == bool(cut_by_tokens)

    anyio.run(go)


def story(dice: random.Random) -> str:
    words = ["deploy", "queue", "harbour.", "lock", "売上", "```", "</passage>", "\u202e", '"', "night.\n", "restart", "!"]
    return " ".join(dice.choice(words) for _ in range(dice.choice([1, 5, 30, 30, 200])))


def claims(dice: random.Random) -> list[Claim]:
    return [Claim(about=dice.choice(["limit", "owner", None]), says=dice.choice(["one", "two"]))] if dice.random() < 0.3 else []


async def test_no_more_is_left_unused_than_the_next_passage_needs() -> None:
    those = [fresh(f"f{place}", f"Passage {place} " + "tells of things " * 20) for place in range(12)]

    pack = await packed(those, 3600, rule=len, passages=20)

    assert 3600 - max(card.tokens for card in pack.cards) - 2 <= pack.context.tokens <= 3600


async def test_near_the_limit_the_whole_is_counted_again_and_what_it_saved_is_used() -> None:
    def shared(text: str) -> int:
        """A hundred for each passage, thirty less for each one that stands beside another."""
        return 100 * text.count("id=fact") - 30 * max(0, text.count("id=fact") - 1)

    assert (await packed(sized(*[1] * 6), 410, rule=shared)).context.passages == 5


async def test_what_stands_between_passages_is_counted_before_it_is_too_late() -> None:
    those = [fresh("a", "A first passage."), fresh("b", "A second."), fresh("c", "A longer one. " * 9), fresh("d", "A fourth.")]
    three = (await packed(those[:3], 9999, rule=len)).context.tokens

    pack = await packed(those, three - 1, rule=len)

    assert (ids(pack), reasons(pack)) == ("abd", {"c": Reason.NO_ROOM})


async def test_far_from_the_limit_the_whole_is_counted_once() -> None:
    counter = Counter(len)

    await packed(sized(*range(1, 9)), 100_000, counter=counter)

    assert sum("[8] id=" in text for text in counter.asked) == 2  # alone, and in the whole


@pytest.mark.parametrize("items, kept, exhausted", [(3, "abc", None), (2, "ab", Limit.ITEMS), (0, "", Limit.ITEMS)])
async def test_a_ceiling_of_items_is_kept_and_told(items: int, kept: str, exhausted: Limit | None) -> None:
    pack = await packed(sized(1, 1, 1), 100, ceiling=Ceiling(items=items, seconds=60))

    assert (ids(pack), pack.exhausted) == (kept, exhausted)
    assert pack.rejected == ({Reason.OVER_CEILING: 3 - items} if items < 3 else {})
    assert [card.tokens for card in pack.cards] == [1] * items + [0] * (3 - items)


@pytest.mark.parametrize("tokens, kept, exhausted", [(3, "abc", None), (2, "ab", Limit.TOKENS), (0, "", Limit.TOKENS)])
async def test_a_ceiling_of_tokens_lowers_the_room(tokens: int, kept: str, exhausted: Limit | None) -> None:
    pack = await packed(sized(1, 1, 1), 100, ceiling=Ceiling(items=500, seconds=60, tokens=tokens))

    assert (ids(pack), pack.exhausted, pack.context.budget) == (kept, exhausted, tokens)


async def test_a_ceiling_of_no_seconds_does_no_work() -> None:
    counter = Counter(units)

    pack = await packed(sized(1, 1), 100, counter=counter, ceiling=Ceiling(items=500, seconds=0))

    assert (counter.asked, pack.exhausted, pack.rejected) == ([], Limit.SECONDS, {Reason.OVER_CEILING: 2})


@pytest.mark.parametrize("tokens", [0, 100])
async def test_nothing_to_pack_is_not_exhausted(tokens: int) -> None:
    pack = await packed([], tokens)

    assert (pack.received, pack.exhausted, pack.context.text, pack.context.tokens) == (0, None, "", 0)


CLOCK = MockClock()


class AtOnce(Counter):
    """Counts where the caller stands. Parts add up, and every count takes a second."""

    adds_up = True

    def at_once(self, text: str) -> int:
        self.asked.append(text)
        CLOCK.jump(1)
        return self.rule(text)


AT_VIRTUAL_SECONDS = pytest.mark.parametrize("anyio_backend", [("trio", {"clock": CLOCK})], ids=["virtual time"])


@AT_VIRTUAL_SECONDS
@pytest.mark.parametrize("seconds, kept, counted", [(1, "", 2), (2.5, "ab", 6), (60, "abcd", 8)])
async def test_time_that_ends_while_texts_are_counted_at_once_is_noticed_after_so_many_characters(
    seconds: float, kept: str, counted: int
) -> None:
    counter = AtOnce(units)

    pack = await packed(
        [fresh(name, f"⟨1⟩ {name * 11_000}") for name in "abcd"], 100, counter=counter, ceiling=Ceiling(items=500, seconds=seconds)
    )

    assert (ids(pack), len(counter.asked)) == (kept, counted)
    assert pack.exhausted is (None if kept == "abcd" else Limit.SECONDS)


@AT_VIRTUAL_SECONDS
async def test_where_parts_add_up_the_whole_is_not_counted() -> None:
    counter = AtOnce(units)

    pack = await packed(sized(1, 2, 3), 100, counter=counter)

    assert (pack.context.tokens, pack.context.passages) == (6, 3)
    assert not any("[1]" in text and "[2]" in text for text in counter.asked)


class Hanging(Counter):
    """A counter that stops answering, and notices when it is told to stop."""

    def __init__(self, answers: int) -> None:
        super().__init__(units)
        self.answers, self.running, self.started = answers, 0, anyio.Event()

    async def count(self, text: str) -> int:
        if len(self.asked) < self.answers:
            return await super().count(text)
        self.running += 1
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.running -= 1
        return 0


@pytest.mark.parametrize(
    "answers, kept, rejected",
    [
        (0, "", {Reason.OVER_CEILING: 3}),
        (4, "", {Reason.UNFINISHED: 2, Reason.OVER_CEILING: 1}),
        (5, "", {Reason.UNFINISHED: 3}),
        (6, "abc", {}),
    ],
)
async def test_when_the_seconds_end_only_what_was_counted_is_packed(answers: int, kept: str, rejected: dict[Reason, int]) -> None:
    counter = Hanging(answers)

    pack = await packed(sized(1, 1, 1), 100, counter=counter, ceiling=Ceiling(items=500, seconds=0.05 if kept == "" else 60))

    assert (ids(pack), pack.rejected, counter.running) == (kept, rejected, 0)
    assert pack.exhausted is (None if kept else Limit.SECONDS)


async def test_cancelled_it_leaves_nothing_running_and_the_cancellation_arrives() -> None:
    counter, returned = Hanging(answers=3), False

    async def run() -> None:
        nonlocal returned
        await packed(sized(1, 1, 1), 100, counter=counter, ceiling=Ceiling(items=500, seconds=math.inf))
        returned = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await counter.started.wait()
        tasks.cancel_scope.cancel()

    assert not returned
    assert counter.running == 0


async def test_the_same_input_gives_the_same_pack() -> None:
    those = [
        fresh(f"f{place}", f"{place} " + "words of all kinds " * (place % 4), claims=claims(random.Random(place))) for place in range(20)
    ]

    assert await packed(those, 1500, rule=len, questions=["all kinds"]) == await packed(those, 1500, rule=len, questions=["all kinds"])
