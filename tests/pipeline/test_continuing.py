"""Going on from an exhausted answer: all parts together find what one large budget finds, and nobody else can use the token."""

from __future__ import annotations

import base64
import string
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from faults.broken import Broken, over
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from stories.world import ADA, NOW, Item, NewStore, balanced, bytes_of, codes, engine_at, entry, ids, laid, taken_in

from remit.pipeline import Answer, ContextWanted, Doc, Engine, Fact, Memory, Origin, Principal, Request, Session, TagFilter, Verdict
from remit.pipeline.continuing import REFUSED
from remit.pipeline.errors import ConfigError, InvalidRequest, StorageUnavailable

TEXT = "the deploy key rotates"
WORDS_ONLY: dict[str, Any] = {"embedding": {"provider": "none"}}
LONG: dict[str, Any] = {"recall": {"profiles": {"memory": {"verify": {"continuations": 100, "rounds": 3}}}}}
KEYED = "a secret of thirty-two bytes, or more"

ASKED = Request(query="deploy key", sources=("fact",), ceilings={"verify": {"items": 2}})


async def crm(memory: Memory, _access: object) -> Verdict:
    return Verdict.CHANGED if "stale" in memory.id.id else Verdict.FRESH


def facts(*names: str, **stated: Any) -> list[Item]:
    return [Fact(id=name, text=TEXT, origin=Origin(uri="crm:1"), **stated) for name in names]


async def parts(engine: Engine, request: Request, principal: Principal = ADA, **further: Any) -> AsyncIterator[Answer]:
    """An answer and all that goes on from it."""
    answer = await engine.recall(request, principal)
    yield answer
    while answer.meta.continuation is not None:
        answer = await engine.recall(replace(request, continuation=answer.meta.continuation, **further), principal)
        yield answer


async def refused(engine: Engine, request: Request, principal: Principal = ADA) -> str:
    with pytest.raises(InvalidRequest) as told:
        await engine.recall(request, principal)
    assert told.value.field == "continuation"
    return told.value.fact.removeprefix("continuation: ")


# What it finds


async def test_an_exhausted_answer_is_gone_on_from_where_it_stopped(new_store: NewStore) -> None:
    async with engine_at(new_store(), *facts("a", "b-stale", "c", "d", "e"), config=WORDS_ONLY, checkers={"crm": crm}) as engine:
        first, second, third = [answer async for answer in parts(engine, ASKED)]

    assert [ids(first), ids(second), ids(third)] == [["a"], ["c", "d"], ["e"]]
    assert [first.outcome, second.outcome, third.outcome] == ["exhausted", "exhausted", "enough"]
    assert third.meta.continuation is None
    assert "meta.continuation" in first.meta.because[0].next
    assert [entry(each, "generate").rejected for each in (first, second, third)] == [{}, {"seen": 2}, {"seen": 4}]
    for answer in (first, second, third):
        balanced(answer)


async def test_no_source_is_looked_at_again(new_store: NewStore) -> None:
    looked_at: list[str] = []

    async def counted(memory: Memory, access: object) -> Verdict:
        looked_at.append(memory.id.id)
        return await crm(memory, access)

    async with engine_at(new_store(), *facts("a", "b-stale", "c", "d", "e"), checkers={"crm": counted}) as engine:
        async for _ in parts(engine, ASKED):
            pass

    assert sorted(looked_at) == ["a", "b-stale", "c", "d", "e"]


async def test_each_part_may_spend_another_budget() -> None:
    async with engine_at("memory:", *facts(*"abcdefgh"), config=LONG, checkers={"crm": crm}) as engine:
        answers = [answer async for answer in parts(engine, replace(ASKED, limit=8), ceilings={}, deadline_seconds=9.0)]

    assert [ids(answer) for answer in answers] == [["a", "b"], ["c", "d", "e", "f", "g", "h"]]


async def test_a_search_that_was_cut_goes_deeper_and_places_go_on(new_store: NewStore) -> None:
    request = Request(query="deploy key", sources=("fact",), ceilings={"generate": {"items": 2}})
    async with engine_at(new_store(), *facts(*"abcde"), config=WORDS_ONLY, checkers={"crm": crm}) as engine:
        answers = [answer async for answer in parts(engine, request)]

    assert [ids(answer) for answer in answers] == [["a", "b"], ["c", "d"], ["e"]]
    assert [card.ranks["lexical"] for answer in answers for card in answer.data] == [0, 1, 2, 3, 4]


async def test_the_page_goes_on_too_so_that_all_parts_together_are_one_answer(new_store: NewStore) -> None:
    items = [*facts(*"abcdef"), *(Session(id=name, text=TEXT, origin=Origin(uri="crm:1")) for name in "uvwxyz")]
    request = Request(query="deploy key", limit=8, ceilings={"verify": {"items": 3}})
    async with engine_at(new_store(), *items, config=LONG, checkers={"crm": crm}) as engine:
        together = [card.id async for answer in parts(engine, request) for card in answer.data]
        whole = ids(await engine.recall(replace(request, ceilings={}), ADA))

    assert together == whole
    assert len(whole) == 6


async def test_what_the_context_had_no_room_for_comes_again_and_is_packed(new_store: NewStore) -> None:
    request = Request(query="deploy key", sources=("fact",), context=ContextWanted(tokens=5))
    async with engine_at(new_store(), *facts("a", "b"), checkers={"crm": crm}) as engine:
        first = await engine.recall(request, ADA)
        token = first.meta.continuation
        second = await engine.recall(replace(request, continuation=token, context=ContextWanted(tokens=500)), ADA)

    assert (first.outcome, codes(first), ids(first)) == ("exhausted", ["ceiling_tokens"], ["a", "b"])
    assert (second.outcome, ids(second), second.meta.context.passages) == ("enough", ["a", "b"], 1)


async def test_words_too_common_are_looked_up_with_a_further_budget(new_store: NewStore) -> None:
    request = Request(query="deploy key", sources=("fact",), ceilings={"generate": {"postings": 1}})
    async with engine_at(new_store(), *facts("a", "b"), config=WORDS_ONLY, checkers={"crm": crm}) as engine:
        first, second = [answer async for answer in parts(engine, request)]

    assert (codes(first), ids(first)) == (["ceiling_postings"], [])
    assert (second.outcome, ids(second)) == ("enough", ["a", "b"])


async def test_a_part_that_finds_only_what_was_decided_searches_on_at_once(new_store: NewStore) -> None:
    # A document of many passages that all match, and is stale: its own passages fill the search, not only once.
    book = Doc(id="stale-book", text="\n\n".join(f"# {n}\n\n{TEXT} {TEXT}" for n in range(12)), origin=Origin(uri="crm:1"))
    note = Doc(id="note", text=f"{TEXT} and much else that makes a longer text of it", origin=Origin(uri="crm:1"))
    request = Request(query="deploy key", sources=("doc",), ceilings={"generate": {"items": 3}, "verify": {"rounds": 1}})
    config = {**WORDS_ONLY, "chunking": {"tokens": 16}}
    async with engine_at(new_store(), book, note, config=config, checkers={"crm": crm}) as engine:
        first = await engine.recall(request, ADA)
        going_on = replace(request, continuation=first.meta.continuation, ceilings={"generate": {"items": 3}})
        second = await engine.recall(going_on, ADA)

    assert (first.outcome, ids(first)) == ("exhausted", [])
    assert (second.outcome, ids(second)) == ("enough", ["note"])


async def test_as_of_is_that_of_the_first_part() -> None:
    clock = Clock()
    request = replace(ASKED, ceilings={"verify": {"items": 1}})
    items = facts("a", "b", expires_at=NOW + timedelta(seconds=30))
    async with engine_at("memory:", *items, clock=clock, checkers={"crm": crm}) as engine:
        first = await engine.recall(request, ADA)
        clock.now += timedelta(seconds=60)
        second = await engine.recall(replace(request, continuation=first.meta.continuation), ADA)

    assert (ids(second), second.meta.as_of) == (["b"], first.meta.as_of)


@pytest.mark.parametrize("outcome", ["enough", "nothing_found"])
async def test_only_an_exhausted_answer_is_gone_on_from(outcome: str) -> None:
    async with engine_at("memory:", *facts("a")) as engine:
        answer = await engine.recall(Request(query="deploy key" if outcome == "enough" else "wholly unrelated"), ADA)

    assert (answer.outcome, answer.meta.continuation) == (outcome, None)


async def test_a_recall_that_was_stopped_by_a_fault_is_not_gone_on_from() -> None:
    async with engine_at("memory:", *facts("a"), checkers={"crm": crm}) as engine:
        broken = over(engine, lambda store: Broken(store, {"read": StorageUnavailable("gone")}))
        answer = await broken.recall(replace(ASKED, ceilings={"generate": {"items": 1}}), ADA)

    assert (answer.outcome, answer.meta.continuation) == ("unavailable", None)


several = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

texts = st.lists(st.sampled_from(["deploy", "deploy", "key", "key", "queue", "the", "gateway"]), min_size=1, max_size=6).map(" ".join)
long_texts = st.lists(texts, min_size=1, max_size=3).map(lambda told: "\n\n".join(f"# {each}\n\n{each} {each}." for each in told))
names = st.builds(lambda stale, n: f"{'stale' if stale else 'fresh'}-{n}", st.booleans(), st.integers(0, 11))
common: dict[str, Any] = {"id": names, "origin": st.just(Origin(uri="crm:1"))}
items = st.one_of(
    st.builds(Fact, text=texts, importance=st.sampled_from([0.0, 0.5, 1.0]), **common),
    st.builds(Session, text=texts, ended_at=st.sampled_from([NOW, NOW - timedelta(days=30)]), **common),
    st.builds(Doc, text=long_texts, **common),
)
corpora = st.lists(items, max_size=24, unique_by=lambda item: (item.source, item.id))

NO_CHANCE: dict[str, Any] = {"chunking": {"tokens": 16}, "recall": {**LONG["recall"], "selection": {"chance": {"local": 0.0}}}}
UNSHARED: dict[str, Any] = laid(NO_CHANCE, {"recall": {"laneShare": {"fact": 1.0, "session": 1.0, "doc": 1.0}}})
NOT_PACKED = ContextWanted(passages=0)


@several
@given(corpus=corpora, searched=st.integers(1, 4), checked=st.integers(1, 5), rounds=st.integers(1, 3))
async def test_while_the_page_has_places_all_parts_find_exactly_what_one_large_budget_finds(
    corpus: list[Item], searched: int, checked: int, rounds: int
) -> None:
    small = {"generate": {"items": searched}, "verify": {"items": checked, "rounds": rounds}}
    request = Request(query="deploy key gateway", limit=100, context=NOT_PACKED, ceilings=small)
    async with engine_at("memory:", *corpus, config=UNSHARED, checkers={"crm": crm}) as engine:
        together = [(card.source, card.id, card.version) async for answer in parts(engine, request) for card in answer.data]
        whole = await engine.recall(replace(request, ceilings={}), ADA)

    assert sorted(together) == sorted((card.source, card.id, card.version) for card in whole.data)
    assert whole.outcome != "exhausted"


def scored(answer: Answer) -> list[tuple[Any, ...]]:
    return [(card.source, card.id, card.score, card.ranks) for card in answer.data]


@several
@given(corpus=corpora, checked=st.integers(1, 5), limit=st.integers(1, 12), shared=st.booleans())
async def test_when_only_looks_were_short_all_parts_are_the_one_answer_with_its_scores(
    new_store: NewStore, corpus: list[Item], checked: int, limit: int, shared: bool
) -> None:
    request = Request(query="deploy key gateway", limit=limit, context=NOT_PACKED, ceilings={"verify": {"items": checked}})
    config = NO_CHANCE if shared else UNSHARED
    async with engine_at(new_store(), *corpus, config=config, checkers={"crm": crm}) as engine:
        together = [card async for answer in parts(engine, request) for card in scored(answer)]
        whole = scored(await engine.recall(replace(request, ceilings={}), ADA))

    if not shared:
        assert together == whole
    else:  # a share that opens again, for one of it was stale, is filled in a later part; the page is as full
        assert len(together) == len(whole)
        told = {card[:2]: card for card in whole}
        assert [card for card in together if told.get(card[:2], card) != card] == []


async def test_what_a_later_round_lets_in_is_no_weaker_than_what_the_first_one_would_have(new_store: NewStore) -> None:
    # What holds the commonplace half of the question is too little beside the stale best, and would be much beside the next best alone.
    stale = [Fact(id=f"stale-{n}", text="quay crane berth tide pilot lock", origin=Origin(uri="crm:1")) for n in range(3)]
    good = Fact(id="good", text="quay crane berth tide", origin=Origin(uri="crm:1"))
    weak = [Fact(id=f"weak-{n}", text="quay crane berth", origin=Origin(uri="crm:1")) for n in range(40)]
    request = Request(query="quay crane berth tide pilot lock", sources=("fact",), ceilings={"generate": {"items": 3}})
    async with engine_at(new_store(), *stale, good, *weak, config=WORDS_ONLY, checkers={"crm": crm}) as engine:
        whole = await engine.recall(replace(request, ceilings={}), ADA)
        rounds = await engine.recall(request, ADA)

    assert (ids(whole), ids(rounds)) == (["good"], ["good"])


# Whom it serves


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


async def token_of(engine: Engine, request: Request = ASKED, principal: Principal = ADA) -> str:
    answer = await engine.recall(request, principal)
    assert answer.outcome == "exhausted"
    return str(answer.meta.continuation)


OTHERS: dict[str, Callable[[Request], Request]] = {
    "query": lambda request: replace(request, query="deploy key rotates"),
    "limit": lambda request: replace(request, limit=19),
    "sources": lambda request: replace(request, sources=("fact", "doc")),
    "every source": lambda request: replace(request, sources=None),
    "project": lambda request: replace(request, project="alpha"),
    "scopes": lambda request: replace(request, scopes=("global", "project:alpha")),
    "factScopes": lambda request: replace(request, fact_scopes=("global",)),
    "asOf": lambda request: replace(request, as_of=NOW + timedelta(days=1)),
    "phrases": lambda request: replace(request, phrases=("deploy",)),
    "tags": lambda request: replace(request, tags=TagFilter(none=("x",))),
    "createdFrom": lambda request: replace(request, created_from=NOW),
    "profile": lambda request: replace(request, profile="answer"),
    "questions": lambda request: replace(request, questions=("when?",)),
    "selection": lambda request: replace(request, selection={"lexical": 0.3}),
}


async def test_it_is_of_no_use_for_another_request() -> None:
    async with engine_at("memory:", *facts(*"abcd"), checkers={"crm": crm}) as engine:
        token = await token_of(engine)
        told = {field: await refused(engine, other(replace(ASKED, continuation=token))) for field, other in OTHERS.items()}

    assert told == dict.fromkeys(OTHERS, REFUSED)


async def test_the_same_request_in_another_spelling_is_the_same_request() -> None:
    request = replace(ASKED, sources=("fact", "doc"), as_of=NOW, scopes=("global", "project:alpha"))
    async with engine_at("memory:", *facts(*"abcd"), checkers={"crm": crm}) as engine:
        token = await token_of(engine, request)
        spelled = replace(request, sources=("doc", "fact", "doc"), as_of=NOW.isoformat(), scopes=("project:alpha", "global"))
        answer = await engine.recall(replace(spelled, continuation=token), ADA)

    assert ids(answer) == ["c", "d"]


async def test_another_principal_has_no_use_for_it() -> None:
    others = [replace(ADA, actor="bob"), replace(ADA, org="rival"), replace(ADA, actor="adaa", org="cme"), replace(ADA, actor="Ada")]
    async with engine_at("memory:", *facts(*"abcd"), checkers={"crm": crm}) as engine:
        request = replace(ASKED, continuation=await token_of(engine))

        assert [await refused(engine, request, other) for other in others] == [REFUSED] * 4


async def test_it_lives_for_the_configured_time_and_no_longer() -> None:
    clock = Clock()
    async with engine_at("memory:", *facts(*"abcd"), clock=clock, checkers={"crm": crm}) as engine:
        request = replace(ASKED, continuation=await token_of(engine))
        clock.now += timedelta(seconds=engine.config.continuing.seconds - 1)
        in_time = await engine.recall(request, ADA)
        clock.now += timedelta(seconds=1)
        late = await refused(engine, request)

    assert (ids(in_time), late) == (["c", "d"], REFUSED)


async def test_another_store_and_another_config_have_no_use_for_it(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_SECRET", KEYED)
    url = "memory:"
    async with engine_at(url, *facts(*"abcd"), checkers={"crm": crm}) as engine:
        request = replace(ASKED, continuation=await token_of(engine))
        async with engine_at(url, *facts(*"abcd"), checkers={"crm": crm}) as other:
            assert await refused(other, request) == REFUSED
    url = new_store()
    if url != "memory:":
        async with engine_at(url, *facts(*"abcd"), checkers={"crm": crm}) as engine:
            request = replace(ASKED, continuation=await token_of(engine))
        for config in ({"recall": {"limit": 19}}, WORDS_ONLY, {"recall": {"boosts": {"docActive": 1.0}}}):
            async with engine_at(url, config=config, checkers={"crm": crm}) as other:
                assert await refused(other, request) == REFUSED


async def test_with_a_secret_it_outlives_its_engine_and_without_one_it_does_not(
    new_other_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_other_store()
    for secret, goes_on in ((KEYED, True), ("", False)):
        monkeypatch.setenv("REMIT_SECRET", secret)
        async with engine_at(url, *facts(*"abcd"), checkers={"crm": crm}) as engine:
            request = replace(ASKED, continuation=await token_of(engine))
        async with engine_at(url, checkers={"crm": crm}) as later:
            if goes_on:
                assert ids(await later.recall(request, ADA)) == ["c", "d"]
            else:
                assert await refused(later, request) == REFUSED


async def test_a_secret_that_could_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_SECRET", "x" * 31)
    with pytest.raises(ConfigError, match="REMIT_SECRET: has 31 bytes") as told:
        async with engine_at("memory:"):
            pass

    assert "xxx" not in str(told.value)


async def test_a_token_with_any_bit_of_it_changed_is_refused() -> None:
    engine, token = await the_engine_and_its_token()
    for at in range(len(token)):
        for bit in range(7):
            changed = bytearray(token.encode())
            changed[at] ^= 1 << bit
            assert await refused(engine, replace(ASKED, continuation=changed.decode())) == REFUSED


async def test_content_with_any_bit_of_it_changed_is_refused_however_well_it_is_spelled() -> None:
    engine, token = await the_engine_and_its_token()
    for at in range(len(decoded(token))):
        for bit in range(8):
            raw = bytearray(decoded(token))
            raw[at] ^= 1 << bit
            assert await refused(engine, replace(ASKED, continuation=encoded(bytes(raw)))) == REFUSED


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_content_that_is_longer_shorter_or_altered_in_many_places_is_refused(data: st.DataObject) -> None:
    engine, token = await the_engine_and_its_token()
    raw = decoded(token)
    start, end = data.draw(st.integers(0, len(raw))), data.draw(st.integers(0, len(raw)))
    other = raw[:start] + data.draw(st.binary(max_size=80)) + raw[end:]
    assume(other != raw)

    assert await refused(engine, replace(ASKED, continuation=encoded(other))) == REFUSED


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    token=st.one_of(st.text(), st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()), st.integers(), st.just("A" * 200_000))
)
async def test_what_is_no_token_is_refused_alike(token: Any) -> None:
    engine, _ = await the_engine_and_its_token()

    assert await refused(engine, replace(ASKED, continuation=token)) == REFUSED


def decoded(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


async def the_engine_and_its_token() -> tuple[Engine, str]:
    """An engine over a store that must not be asked again, and a token of its own."""
    opened = engine_at("memory:", *facts(*"abcd"), checkers={"crm": crm})
    engine = await opened.__aenter__()
    token = await token_of(engine)
    await opened.__aexit__(None, None, None)
    asked = {name: AssertionError("the store was asked") for name in ("find", "outlines", "vocabulary", "read", "granted")}
    return over(engine, lambda store: Broken(store, asked)), token


async def test_what_it_says_of_memories_and_scopes_cannot_be_read() -> None:
    items = [Fact(id=name, text=TEXT, origin=Origin(uri="crm:1"), scope="project:alpha") for name in ("harbour", "lantern", "meadow")]
    async with engine_at("memory:", *items, checkers={"crm": crm}) as engine:
        raw = base64.urlsafe_b64decode(await token_of(engine) + "==")

    assert [word for word in (b"harbour", b"lantern", b"alpha", b"ada", b"acme", b"deploy") if word in raw] == []
    assert len(raw) < 150


async def test_a_token_has_one_spelling() -> None:
    letters = string.ascii_letters + string.digits + "-_"
    async with engine_at("memory:", *facts(*"abcdef"), checkers={"crm": crm}) as engine:
        for looks in (1, 2, 3):  # with eight bytes more each, so that the last letter has none, two or four bits to spare
            request = replace(ASKED, ceilings={"verify": {"items": looks}})
            token = (await engine.recall(request, ADA)).meta.continuation
            others = [token[:-1] + letter for letter in letters if letter != token[-1]]
            for other in (*others, f"{token}=", f"{token}==", f" {token}", f"{token}\n", token.replace("-", "+").replace("_", "/") + "+"):
                assert await refused(engine, replace(request, continuation=other)) == REFUSED


async def test_two_orgs_that_hold_the_same_share_nothing_that_their_tokens_say_of_it() -> None:
    eve = replace(ADA, org="rival")
    async with engine_at("memory:", *facts(*"abcd"), *facts(*"abcd", org="rival"), checkers={"crm": crm}) as engine:
        ours, theirs = [decoded((await engine.recall(ASKED, who)).meta.continuation) for who in (ADA, eve)]

    def names(raw: bytes) -> set[bytes]:
        """Of the two memories that were looked at, eight bytes each, before the seal."""
        return {raw[-48:-40], raw[-40:-32]}

    assert len(names(ours)) == len(names(theirs)) == 2
    assert not names(ours) & names(theirs)


async def test_what_has_to_be_there_is_counted_over_all_parts() -> None:
    request = replace(ASKED, evidence_minimum=3)
    async with engine_at("memory:", *facts("a", "b", "stale"), Fact(id="z", text=TEXT), checkers={"crm": crm}) as engine:
        told = [(ids(part), part.outcome, codes(part)) async for part in parts(engine, request)]
        more = [(ids(part), part.outcome, codes(part)) async for part in parts(engine, replace(request, evidence_minimum=4))]

    assert told == [(["a", "b"], "exhausted", ["ceiling_items"]), (["z"], "enough", [])]
    assert more == [told[0], (["z"], "exhausted", ["too_few"])]


# Authority


SCOPED = [
    Fact(id=f"{scope}-{n}", text=TEXT, scope=f"project:{scope}", origin=Origin(uri="crm:1")) for n in (1, 2) for scope in ("alpha", "beta")
]
GRANTED: dict[str, Any] = {"authority": {"grants": "store"}}
BOTH = Principal(actor="ada", org="acme", scopes=("project:alpha", "project:beta"))


async def test_a_grant_that_was_taken_back_is_gone_in_the_next_part(new_store: NewStore) -> None:
    async with engine_at(new_store(), config=GRANTED, checkers={"crm": crm}) as engine:
        await engine.grant("writer", ["*"], BOTH)
        await taken_in(engine, SCOPED)
        await engine.grant("ada", ["project:alpha", "project:beta"], BOTH)
        request = replace(ASKED, continuation=await token_of(engine, principal=BOTH))
        whole = await engine.recall(request, BOTH)
        await engine.revoke("ada", ["project:beta"], BOTH)
        left = await engine.recall(request, BOTH)

    assert (ids(whole), ids(left)) == (["beta-1", "beta-2"], [])
    assert left.meta.scope_filter.scopes == ["global", "project:alpha"]


async def test_what_was_granted_since_is_not_searched(new_store: NewStore) -> None:
    narrow = replace(BOTH, scopes=("project:alpha",))
    async with engine_at(new_store(), config=GRANTED, checkers={"crm": crm}) as engine:
        await engine.grant("writer", ["*"], BOTH)
        await taken_in(engine, [*SCOPED, *facts("y", "z")])
        await engine.grant("ada", ["project:alpha"], BOTH)
        request = replace(ASKED, continuation=await token_of(engine, principal=narrow))
        await engine.grant("ada", ["project:beta"], BOTH)
        wider = await engine.recall(request, BOTH)

    assert (ids(wider), wider.meta.scope_filter.scopes) == (["y", "z"], ["global", "project:alpha"])


async def test_a_narrower_principal_goes_on_in_what_both_were_granted_and_all_of_an_org_is_refused() -> None:
    async with engine_at("memory:", *SCOPED, checkers={"crm": crm}) as engine:
        request = replace(ASKED, continuation=await token_of(engine, principal=BOTH))
        narrower = await engine.recall(request, replace(BOTH, scopes=("project:beta", "person:ada")))
        wider = await refused(engine, request, replace(BOTH, scopes="*"))

    assert narrower.meta.scope_filter.scopes == ["global", "project:beta"]
    assert wider == REFUSED


async def test_foreign_memories_change_nothing_of_any_part(new_store: NewStore) -> None:
    hidden: list[Item] = [Fact(id=f"hidden-{n}", text=TEXT, scope="project:beta", origin=Origin(uri="crm:1")) for n in range(7)]
    told = []
    for corpus in ([*facts(*"abcdef")], [*hidden, *facts(*"abcdef"), *(replace(each, org="rival") for each in facts(*"abcdef"))]):
        async with engine_at(new_store(), *corpus, checkers={"crm": crm}) as engine:
            told.append([bytes_of(answer) async for answer in parts(engine, ASKED)])

    assert told[0] == told[1]


# Ceilings


async def test_continuing_ends_where_the_allowance_does_and_says_who_may_raise_it() -> None:
    allowed: dict[str, Any] = {"recall": {"profiles": {"memory": {"verify": {"continuations": 2}}}}}
    request = replace(ASKED, ceilings={"verify": {"items": 1}})
    async with engine_at("memory:", *facts(*"abcdef"), config=allowed, checkers={"crm": crm}) as engine:
        answers = [answer async for answer in parts(engine, request)]

    assert [ids(answer) for answer in answers] == [["a"], ["b"], ["c"]]
    assert codes(answers[-1]) == ["ceiling_items", "ceiling_continuations"]
    last = answers[-1].meta.because[-1]
    assert (last.owner, last.retryable, last.detail) == ("operator", False, "all 2 continued searches are spent")


async def test_a_request_may_lower_its_continuations_and_never_raise_them() -> None:
    none = {"verify": {"items": 1, "continuations": 0}}
    async with engine_at("memory:", *facts(*"abcdef"), checkers={"crm": crm}) as engine:
        answer = await engine.recall(replace(ASKED, ceilings=none), ADA)
        token = await token_of(engine)
        lowered = await refused(engine, replace(ASKED, ceilings=none, continuation=token))
        with pytest.raises(InvalidRequest) as raised:
            await engine.recall(replace(ASKED, ceilings={"verify": {"continuations": 5}}), ADA)

    assert (answer.outcome, answer.meta.continuation, codes(answer)) == ("exhausted", None, ["ceiling_items"])
    assert (lowered, raised.value.field) == (REFUSED, "ceilings.verify.continuations")


async def test_no_token_is_given_when_it_would_have_to_name_too_much() -> None:
    async with engine_at("memory:", *facts(*"abcdef"), config={"continuing": {"seen": 3}}, checkers={"crm": crm}) as engine:
        first, second = [answer async for answer in parts(engine, ASKED)]

    assert [ids(first), ids(second)] == [["a", "b"], ["c", "d"]]
    assert (codes(second), second.meta.because[-1].owner) == (["ceiling_items", "ceiling_continuations"], "caller")


async def test_why_is_asked_of_whole_requests_only() -> None:
    async with engine_at("memory:", *facts(*"abcd"), checkers={"crm": crm}) as engine:
        request = replace(ASKED, continuation=await token_of(engine))
        with pytest.raises(InvalidRequest, match="continuation"):
            await engine.why(request, "fact:a", ADA)
