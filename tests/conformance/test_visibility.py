"""What a store shows is what `Access` admits, whatever stands there; and what may not be seen changes nothing that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from conformance.answers import JUST_BEFORE, accesses, everything_told, filled, found, names_of, plain_words, populations, searches
from conformance.conftest import Open
from conformance.worlds import EVERYTHING, NOW, SPACE, memory, seen_from, wanting
from hypothesis import HealthCheck, given, settings

from remit.pipeline.storage.entry import Entry
from remit.pipeline.storage.store import Store
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId, PassageId
from remit.stages.ports import Wanted
from remit.stages.request import Filters, Source, TagFilter

pytestmark = pytest.mark.anyio
several = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@several
@given(entries=populations, access=accesses)
async def test_a_store_shows_exactly_what_the_access_admits(open_store: Open, entries: list[Entry], access: Access) -> None:
    reached = [entry for entry in entries if access.reaches(entry.record.label.shelf)]
    admitted = [entry for entry in entries if access.admits(entry.record.label)]
    async with open_store() as store:
        await filled(store, entries)
        told = await everything_told(store, access, names_of(entries), wanting("red", "=fox", near=0))

    holding = [(entry, passage) for entry in admitted for passage in entry.passages]
    assert told["found"]["passages"] == (len(holding), sum(passage.length for _, passage in holding))
    for word in ("red", "=fox"):
        assert [row[0] for row in told["found"]["postings"][word]] == sorted(
            f"{entry.record.id}#{passage.ordinal}" for entry, passage in holding if word in passage.words
        )
    assert {name for *_, rows in told["found"]["neighbours"] for name, _ in rows} == {
        f"{entry.record.id}#{passage.ordinal}" for entry, passage in holding if SPACE in passage.vectors
    }
    assert sorted(told["read"]) == sorted(names_of(_of_own_org(reached, access)))
    assert {memory.id for memory in told["brief"]} <= {entry.record.id for entry in admitted}
    assert told["vocabulary"] == plain_words([e for e in reached if e.record.label.approval is Approval.APPROVED], 1, 9)
    assert told["coverage"] == (sum(SPACE in passage.vectors for _, passage in holding), len(holding))
    for entry in entries:
        mine = any(each.record.id == entry.record.id and each.record.label.approval is Approval.APPROVED for each in reached)
        assert bool(told["passages"][str(entry.record.id)]) == mine


@several
@given(entries=populations, access=accesses, wanted=searches)
async def test_what_may_not_be_read_changes_nothing_that_is_told(
    open_store: Open, entries: list[Entry], access: Access, wanted: Wanted
) -> None:
    own = [entry for entry in entries if access.reaches(entry.record.label.shelf)]
    names = names_of(entries)
    async with open_store() as alone, open_store() as among:
        await filled(alone, own)
        await filled(among, entries)

        assert await everything_told(among, access, names, wanted) == await everything_told(alone, access, names, wanted)


@several
@given(entries=populations, access=accesses, wanted=searches)
async def test_every_store_tells_what_the_plainest_one_tells(
    open_other: Open, open_oracle: Open, entries: list[Entry], access: Access, wanted: Wanted
) -> None:
    names = names_of(entries)
    async with open_other() as store, open_oracle() as oracle:
        await filled(store, entries)
        await filled(oracle, entries)

        assert await everything_told(store, access, names, wanted) == await everything_told(oracle, access, names, wanted)
        assert await store.records(None, 100) == await oracle.records(None, 100)
        assert await store.faults() == []


def crowd() -> list[Entry]:
    """Of each source, what stands in reach, far from the question; and nearer to it, everything that does not, or may not be seen."""
    entries = []
    for source in Source:
        standing = {"global": {}, "alpha": {"scope": "project:alpha"}, "tagged": {"tags": ("x",), "valid_from": NOW}}
        for at, (name, stated) in enumerate(standing.items()):
            entries.append(memory(name, "red fox", source=source, degrees=40 + at, pinned=at == 0, **stated))
        hidden = {
            "beta": {"scope": "project:beta"},
            "origin": {"project": "beta"},
            "talk": {"conversation": "42"},
            "theirs": {"org": "other"},
            "over": {"valid_until": NOW},
            "expired": {"expires_at": NOW},
            "early": {"valid_from": NOW + timedelta(microseconds=1)},
            "proposed": {"approval": Approval.PROPOSED},
            "old": {},
        }
        for at, (name, stated) in enumerate(hidden.items()):
            text = f"red fox {name}s" if at % 2 else "red fox"
            entries.append(memory(name, text, source=source, degrees=at, pinned=True, tags=("x",), created_at=NOW, **stated))
        entries.append(memory("new", "red", source=source, degrees=60, supersedes=(MemoryId(source, "old"),), created_at=JUST_BEFORE))
    return entries


LOOKS = [
    seen_from(granted=["project:alpha"]),
    seen_from(),
    seen_from(granted=["project:alpha"], sources=frozenset({Source.DOC, Source.FACT})),
    seen_from(granted=["project:alpha"], scopes=frozenset({"project:alpha"})),
    seen_from(granted=["project:alpha"], fact_scopes=frozenset({"project:alpha"})),
    seen_from(granted=None, scopes=frozenset({"global", "project:alpha"}), sources=frozenset({Source.SESSION})),
    seen_from(granted=None, fact_scopes=frozenset()),
    seen_from("other"),
]
FILTERS = [
    Filters(),
    Filters(phrases=("red fox",)),
    Filters(phrases=("red",), created_from=NOW),
    Filters(tags=TagFilter(all=("x",))),
    Filters(tags=TagFilter(any=("x", "y"))),
    Filters(created_until=NOW),
    Filters(phrases=("red",), created_until=NOW, tags=TagFilter(none=("y",))),
]


async def test_in_a_crowd_of_what_may_not_be_found_every_way_to_search_finds_the_same(open_other: Open, open_oracle: Open) -> None:
    names = names_of(crowd())
    async with open_other() as store, open_oracle() as oracle:
        await filled(store, crowd())
        await filled(oracle, crowd())
        for access, filters in product(LOOKS, FILTERS):
            for rows, postings in ((1, 4), (2, 12), (100, 100)):
                wanted = wanting("red", "fox", near=0, filters=filters, rows=rows, postings=postings)
                assert await found(store, wanted, access) == await found(oracle, wanted, access)
        for access in LOOKS:
            outlined = [{each.passage for each in (await each.outlines(range(200), access)).values()} for each in (store, oracle)]
            assert (
                outlined[0]
                == outlined[1]
                == {name for name, each in (await oracle.read(names, access)).items() if access.admits(each.label)}
            )
            assert await everything_told(store, access, names, wanting()) == await everything_told(oracle, access, names, wanting())


SCOPES = ["project:alpha", "project:alpha2", "project:alpha-b", "project:Alpha", "project:alph_", "project:alph%", "project:alpha\x00b"]


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_scope_is_matched_whole_and_to_the_letter(store: Store, scope: str) -> None:
    await filled(store, [memory(each, "red", scope=each) for each in SCOPES])

    answer = await found(store, wanting("red"), seen_from(granted=[scope]))

    assert [row[0] for row in answer["postings"]["red"]] == [f"fact:{scope}#0"]


@pytest.mark.parametrize("nothing", [{"sources": frozenset()}, {"scopes": frozenset()}, {"fact_scopes": frozenset()}])
async def test_an_empty_list_means_none_of_them(store: Store, nothing: dict[str, frozenset[str]]) -> None:
    await filled(store, [memory("one", "red", degrees=0)])

    answer = await found(store, wanting("red", near=0), seen_from(granted=None, **nothing))

    assert answer["passages"] == (0, 0)
    assert answer["postings"] == {"red": []}
    assert answer["neighbours"] == []


async def test_two_orgs_may_each_have_a_memory_of_the_same_name(store: Store) -> None:
    await filled(store, [memory("pref-1", "theirs", org="other", degrees=0), memory("pref-1", "ours", degrees=0)])

    (ours,) = (await store.read([PassageId(MemoryId(Source.FACT, "pref-1"), 0)], EVERYTHING)).values()
    (theirs,) = (await store.read([PassageId(MemoryId(Source.FACT, "pref-1"), 0)], seen_from("other"))).values()

    assert (ours.text, theirs.text) == ("ours", "theirs")
    for access in (EVERYTHING, seen_from()):
        told = await everything_told(store, access, [ours.passage], wanting("ours", "theirs", near=0))
        assert told["found"]["passages"] == (1, 1)
        assert {word: len(rows) for word, rows in told["found"]["postings"].items()} == {"ours": 1, "theirs": 0}
        assert told["vocabulary"] == ["ours"]
        assert told["coverage"] == (1, 1)


def _edges(offset: int) -> Access:
    return replace(EVERYTHING, as_of=NOW.replace(microsecond=500 + offset))


@pytest.mark.parametrize("bound, standing", [("valid_from", [0, 1]), ("valid_until", [-1]), ("expires_at", [-1])])
async def test_the_first_moment_counts_and_the_last_does_not(store: Store, bound: str, standing: list[int]) -> None:
    edge = NOW.replace(microsecond=500)
    await filled(store, [memory("one", "red", degrees=0, pinned=True, **{bound: edge})])

    for offset in (-1, 0, 1):
        answer = await found(store, wanting("red", near=0), _edges(offset))
        seen = offset in standing
        assert [len(answer["postings"]["red"]), len(answer["neighbours"]), answer["passages"][0]] == [seen, seen, seen]
        assert len(await store.brief(_edges(offset), pinned=1, important=0, recent=0)) == seen


def _of_own_org(entries: Sequence[Entry], access: Access) -> list[Entry]:
    return [entry for entry in entries if entry.record.label.shelf.org == access.org]
