"""What stores answer, told without the numbers that mean something inside one store only; and what they should, from plain lists."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from conformance.worlds import NOW, SPACE, memory, seen_from, wanting
from hypothesis import strategies as st

from remit.pipeline.storage.entry import ALIAS, Entry, Written
from remit.pipeline.storage.store import Store
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId, PassageId
from remit.stages.ports import Wanted
from remit.stages.request import Filters, Source, TagFilter

WORDS = ("red", "blue", "fox", "the", "=fox", "nowhere")
SCOPES = ("global", "project:alpha", "project:alpha2", "project:alpha-b", "project:Alpha", "project:alph_", "project:alph%", "person:ada")
ORIGINS = (None, None, "alpha", "alpha2", "")
SOON = NOW.replace(microsecond=1)
JUST_BEFORE = NOW.replace(hour=11, minute=59, second=59, microsecond=999_999)
BRIEFLY = timedelta(microseconds=1)
MOMENTS = (None, None, None, JUST_BEFORE, NOW, SOON)

scopes = st.sampled_from(SCOPES)
grants = st.lists(st.sampled_from([*SCOPES, "conversation:alpha", "project:"]), max_size=4)

populations = st.lists(
    st.builds(
        memory,
        st.sampled_from(["one", "two", "three", "four", "five", "six", "Ω", "a'b\"%_"]),
        source=st.sampled_from(Source),
        org=st.sampled_from(["acme", "acme", "acme", "acme2", "Acme"]),
        scope=scopes,
        project=st.sampled_from(ORIGINS),
        conversation=st.sampled_from(ORIGINS),
        parts=st.lists(st.lists(st.sampled_from(["red", "blue", "fox", "the"]), max_size=4).map(" ".join), min_size=1, max_size=3),
        degrees=st.sampled_from([None, 0.0, 10.0, 10.0, 45.0, 170.0]),
        approval=st.sampled_from([Approval.APPROVED] * 5 + [Approval.PROPOSED, Approval.REJECTED]),
        valid_from=st.sampled_from(MOMENTS),
        valid_until=st.sampled_from(MOMENTS),
        expires_at=st.sampled_from(MOMENTS),
        aliases=st.sampled_from([(), (), ("fox",)]),
        tags=st.sampled_from([(), ("x",), ("x", "y"), ("y", "x%")]),
        created_at=st.sampled_from([JUST_BEFORE, NOW, SOON]),
        importance=st.sampled_from([0.0, 0.1, 1.0]),
        pinned=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda entry: (entry.record.label.shelf.org, entry.record.id),
)

accesses = st.builds(
    seen_from,
    granted=st.none() | grants,
    sources=st.frozensets(st.sampled_from(Source)) | st.just(frozenset(Source)),
    scopes=st.none() | st.none() | st.frozensets(scopes, max_size=5),
    fact_scopes=st.none() | st.none() | st.frozensets(scopes, max_size=3),
)

filterings = st.builds(
    Filters,
    phrases=st.sampled_from([(), (), ("red",), ("red blue",), ("the fox", "red"), ("",)]),
    tags=st.sampled_from([TagFilter(), TagFilter(), TagFilter(all=("x",)), TagFilter(any=("x", "y")), TagFilter(none=("y",))]),
    created_from=st.sampled_from([None, None, NOW]),
    created_until=st.sampled_from([None, None, NOW, SOON]),
)

searches = st.builds(
    lambda words, **rest: wanting(*words, **rest),
    st.lists(st.sampled_from(WORDS), max_size=6),
    near=st.none() | st.sampled_from([0.0, 10.0, 90.0]),
    filters=filterings,
    rows=st.sampled_from([0, 1, 2, 5, 100]),
    postings=st.sampled_from([0, 1, 3, 5, 100]),
    without=st.frozensets(st.builds(MemoryId, st.sampled_from(Source), st.sampled_from(["one", "two"])), max_size=2),
)


async def filled(store: Store, entries: Iterable[Entry]) -> None:
    """Writes each entry on behalf of someone who may write everywhere in its org."""
    for entry in entries:
        (receipt,) = await store.put([entry], seen_from(entry.record.label.shelf.org, None))
        assert receipt.written in (Written.STORED, Written.REPLACED), receipt


async def found(store: Store, wanted: Wanted, access: Access) -> dict[str, Any]:
    """All of a `Found`, with the names of passages for their keys."""
    answer = await store.find(wanted, access)
    keys = {int(key) for each in (*answer.postings.values(), *answer.neighbours) for key in each.keys}
    keys |= set() if answer.eligible is None else set(answer.eligible.tolist())
    outlines = await store.outlines(sorted(keys), access)
    for each in (*answer.postings.values(), *answer.neighbours):
        assert (each.keys[1:] > each.keys[:-1]).all(), "keys ascend"
    assert outlines.keys() == keys, "what is found stands in reach"
    name = {key: str(outline.passage.memory) + f"#{outline.passage.ordinal}" for key, outline in outlines.items()}
    return {
        "passages": (answer.passages, answer.words),
        "postings": {
            word: sorted(
                (name[key], *rest)
                for key, *rest in zip(each.keys.tolist(), each.counts.tolist(), each.lengths.tolist(), each.sources.tolist(), strict=True)
            )
            for word, each in answer.postings.items()
        },
        "left_out": answer.left_out,
        "neighbours": [
            (
                each.route,
                each.lane,
                each.source,
                each.more,
                sorted((name[key], row) for key, row in zip(each.keys.tolist(), rows, strict=True)),
            )
            for each in answer.neighbours
            for rows in [each.vectors.tolist()]
        ],
        "compared": dict(answer.compared),
        "eligible": None if answer.eligible is None else sorted(name[key] for key in answer.eligible.tolist()),
        "dead": dict(answer.dead),
        "routes": dict(answer.routes),
        "degraded": answer.degraded,
        "exhausted": answer.exhausted,
    }


async def around(store: Store, wanted: Wanted, access: Access, reach: int = 2, within: timedelta = BRIEFLY) -> dict[str, list[str]]:
    """What was said before and after each passage that holds one of the words, by name, in order."""
    answer = await store.find(wanted, access)
    keys = {int(key) for each in answer.postings.values() for key in each.keys}
    told = await store.around(sorted(keys), reach, within, access)
    outlines = await store.outlines(sorted({*told, *(key for beside in told.values() for key in beside)}), access)
    name = {key: f"{outline.passage.memory}#{outline.passage.ordinal}" for key, outline in outlines.items()}
    return {name[key]: [name[each] for each in beside] for key, beside in sorted(told.items(), key=lambda each: name[each[0]])}


async def everything_told(store: Store, access: Access, names: Iterable[PassageId], wanted: Wanted) -> dict[str, Any]:
    """All that a store tells this access, by all of its questions."""
    names = list(names)
    return {
        "found": await found(store, wanted, access),
        "read": await store.read(names, access),
        "passages": {str(name): await store.passages_of(name, access) for name in {each.memory for each in names}},
        "vocabulary": await store.vocabulary(1, 9, access),
        "around": await around(store, wanted, access),
        "brief": await store.brief(access, pinned=2, important=2, recent=2),
        "coverage": await store.coverage(SPACE, access),
    }


def names_of(entries: Iterable[Entry]) -> list[PassageId]:
    return [PassageId(entry.record.id, passage.ordinal) for entry in entries for passage in entry.passages]


def plain_words(entries: Iterable[Entry], shortest: int, longest: int) -> list[str]:
    words = {word for entry in entries for passage in entry.passages for word in passage.words}
    return sorted(word for word in words if not word.startswith(ALIAS) and shortest <= len(word) <= longest)
