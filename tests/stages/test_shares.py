"""Shares: exact places for each source, and which memory still gets one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remit.stages.report import Reason
from remit.stages.request import Source
from remit.stages.shares import Filling, Page, share_of

ALL = tuple(Source)
SHARES = {Source.FACT: 0.25, Source.SESSION: 0.5, Source.DOC: 1.0}


@pytest.mark.parametrize("limit, facts, sessions", [(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 2), (5, 1, 2), (10, 2, 5), (20, 5, 10)])
def test_a_share_is_rounded_down_and_never_to_nothing(limit: int, facts: int, sessions: int) -> None:
    assert share_of(Source.FACT, limit, ALL, SHARES) == facts
    assert share_of(Source.SESSION, limit, ALL, SHARES) == sessions
    assert share_of(Source.DOC, limit, ALL, SHARES) == limit


@pytest.mark.parametrize("source", Source)
def test_a_recall_of_one_source_is_not_capped(source: Source) -> None:
    assert share_of(source, 20, (source,), SHARES) == 20


def test_a_share_of_one_switches_it_off() -> None:
    assert share_of(Source.FACT, 7, ALL, {**SHARES, Source.FACT: 1.0}) == 7


@given(hundredths=st.integers(1, 100), limit=st.integers(1, 500))
def test_a_share_is_exact_where_its_float_is_not(hundredths: int, limit: int) -> None:
    assert share_of(Source.FACT, limit, ALL, {**SHARES, Source.FACT: hundredths / 100}) == max(1, limit * hundredths // 100)


def filled(page: Page, *sources: Source) -> Page:
    filling = Filling(page)
    for source in sources:
        filling.take(source)
    return filling.page


def test_a_source_closes_at_its_share_and_the_page_at_its_limit() -> None:
    page = Page.of(4, ALL, SHARES)
    assert page.closed_to(Source.FACT) is None

    page = filled(page, Source.FACT)
    assert (page.closed_to(Source.FACT), page.closed_to(Source.DOC), page.full) == (Reason.SHARE, None, False)

    page = filled(page, *[Source.DOC] * 3)
    assert (page.full, page.closed_to(Source.DOC), page.closed_to(Source.SESSION)) == (True, Reason.LIMIT, Reason.LIMIT)
    assert page.closed_to(Source.FACT) is Reason.SHARE


def test_a_page_is_full_when_every_source_asked_used_its_share() -> None:
    page = filled(Page.of(4, (Source.FACT, Source.SESSION), SHARES), Source.FACT, Source.SESSION, Source.SESSION)

    assert page.full
    assert Filling(page).places == 1


def test_a_recall_of_no_source_has_no_place() -> None:
    page = Page.of(4, (), SHARES)

    assert page.full
    assert page.closed_to(Source.DOC) is Reason.SHARE


def test_walking_best_first_fills_exactly_the_shares() -> None:
    filling, kept = Filling(Page.of(20, ALL, SHARES)), []
    for source in [Source.FACT] * 30 + [Source.SESSION] * 30 + [Source.DOC] * 30:
        if filling.closed_to(source) is None:
            filling.take(source)
            kept.append(source)

    assert [kept.count(source) for source in ALL] == [5, 10, 5]


@given(
    limit=st.integers(1, 4),
    caps=st.dictionaries(st.sampled_from(Source), st.integers(1, 4)),
    asked=st.lists(st.sampled_from(Source), max_size=12),
    more=st.dictionaries(st.sampled_from(Source), st.integers(1, 2)),
)
@example(limit=2, caps={Source.FACT: 2}, asked=[Source.FACT] * 3, more={})  # a source that may fill the whole page
def test_a_page_that_is_being_filled_says_at_every_step_what_its_places_say(
    limit: int, caps: dict[Source, int], asked: list[Source], more: dict[Source, int]
) -> None:
    wider = {source: cap + more.get(source, 0) for source, cap in caps.items()}
    filling, most, taken = Filling(Page(limit=limit, caps=caps), more), limit + sum(more.values()), Counter[Source]()
    for source in asked:
        closed = {each: taken[each] >= wider.get(each, 0) for each in ALL if wider.get(each, 0) < most}
        here = Reason.SHARE if closed.get(source) else Reason.LIMIT if taken.total() >= most else None
        assert filling.closed_to(source) is here
        assert filling.full == (taken.total() >= most or all(closed.get(each, False) for each in wider))
        if here is None:
            filling.take(source)
            taken[source] += 1
    assert filling.page == Page(limit=limit, caps=caps, taken=dict(taken))
