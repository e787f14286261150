"""Any corpus, any foreign population and any request, small enough that everything in them meets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from stories.world import NOW, Item

from remit.pipeline import Claim, ContextWanted, Doc, Fact, Memory, Origin, Request, Session, TagFilter, Verdict

# Close enough to be taken for each other, in one script and in another; one of them is only ever a name.
COMMON = ("deploy", "queue", "worker", "timeout")
WORDS = (*COMMON, *COMMON, "deploys", "deplyo", "quene", "the", "of", "alpha", "POL-358", "売上レポート", "gateway")
GRANTED = ("global", "global", "project:alpha", "person:ada")
NOT_GRANTED = ("project:alpha2", "project:alph", "project:beta", "person:bob", "conversation:42", "machine:laptop", "agent:reviewer")
MOMENTS = (None,) * 12 + (NOW - timedelta(days=1), NOW, NOW + timedelta(days=1))
FRESH, CHANGED, BROKEN = "crm:fresh/7", "crm:changed/7", "crm:broken/7"

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
long_texts = st.lists(texts, min_size=1, max_size=4).map(lambda parts: "\n\n".join(f"# {part}\n\n{part} {part}." for part in parts))


async def crm(memory: Memory, _access: object) -> Verdict:
    """A host's own look at a record."""
    uri = memory.origin.uri if memory.origin else ""
    if uri == BROKEN:
        raise ConnectionError(uri)
    return Verdict.CHANGED if uri == CHANGED else Verdict.FRESH


def items(names: st.SearchStrategy[str], scopes: tuple[str, ...]) -> st.SearchStrategy[Item]:
    """Facts, sessions and docs of these names and scopes, in and out of their time, with and without an origin."""
    common: dict[str, Any] = {
        "id": names,
        "title": st.sampled_from(["", "", "gateway", "the queue"]),
        "scope": st.sampled_from(scopes),
        "created_at": st.sampled_from([NOW - timedelta(days=40), NOW - timedelta(days=1), NOW, NOW + timedelta(days=400)]),
        "valid_from": st.sampled_from(MOMENTS),
        "expires_at": st.sampled_from(MOMENTS),
        "origin": st.sampled_from([None, None, FRESH, CHANGED, CHANGED, BROKEN, "other:7"]).map(lambda uri: uri and Origin(uri=uri)),
        "aliases": st.sampled_from([(), (), ("queue worker",), ("gateway",)]),
        "tags": st.sampled_from([(), (), ("x",), ("x", "y")]),
        "claims": st.sampled_from([(), (Claim(about="port", says="80"),), (Claim(about="port", says="81"),)]),
    }
    facts = st.builds(Fact, text=texts, importance=st.sampled_from([0.0, 0.5, 1.0]), pinned=st.booleans(), **common)
    sessions = st.builds(Session, text=texts, ended_at=st.sampled_from([None, NOW, NOW - timedelta(days=30)]), **common)
    docs = st.builds(Doc, text=long_texts, status=st.sampled_from(["active", "archived", "missing"]), **common)
    return st.one_of(facts, sessions, docs)


def hidden(item: Item, how: int) -> Item:
    """The same item, as the caller may not read it."""
    origin = item.origin or Origin(uri="other:7")
    match how % 6:
        case 0:
            return replace(item, org="rival")
        case 1:
            return replace(item, org="acme2")
        case 2:
            return replace(item, origin=replace(origin, project="beta"))
        case 3:
            return replace(item, origin=replace(origin, conversation="42"))
        case 4:
            return replace(item, approval="proposed")
        case _:
            return replace(item, approval="rejected")


def _of_name(item: Item) -> tuple[str | None, object, str]:
    return item.org, type(item), item.id


own = st.lists(
    items(st.sampled_from(["one", "two", "three", "four", "five", "six", "Ω", "a'b\"%_"]), GRANTED),
    min_size=3,
    max_size=9,
    unique_by=_of_name,
)

foreign = st.lists(
    st.one_of(
        st.builds(hidden, items(st.sampled_from(["f-one", "f-two", "f-three", "f-four"]), GRANTED), st.integers(0, 5)),
        items(st.sampled_from(["f-one", "f-two", "f-three", "f-four"]), NOT_GRANTED),
        st.builds(hidden, items(st.sampled_from(["one", "two", "three"]), GRANTED), st.integers(0, 1)),
    ),
    min_size=1,
    max_size=9,
    unique_by=_of_name,
)

small = st.sampled_from([0, 1, 2, 3, 3, 500])

# Few places in generate and none spent elsewhere: what is stale in front leads to a second round.
tight = st.builds(
    lambda items, postings: {"generate": {"items": items, "postings": postings}}, st.integers(1, 3), st.sampled_from([6, 12, 20000])
)

ceilings = (
    st.just({})
    | tight
    | st.fixed_dictionaries(
        {},
        optional={
            "generate": st.fixed_dictionaries({}, optional={"items": small, "postings": st.sampled_from([0, 1, 2, 4, 8, 16])}),
            "dedupe": st.fixed_dictionaries({}, optional={"items": small, "seconds": st.sampled_from([0, 60, 60, 60])}),
            "rank": st.fixed_dictionaries({}, optional={"items": small, "seconds": st.sampled_from([0, 60, 60, 60])}),
            "verify": st.fixed_dictionaries({}, optional={"items": small, "rounds": st.sampled_from([1, 2])}),
            "pack": st.fixed_dictionaries({}, optional={"items": small, "tokens": st.sampled_from([0, 60, 200, 6000])}),
        },
    )
)

requests = st.builds(
    Request,
    query=texts,
    limit=st.sampled_from([None, 1, 2, 20]),
    sources=st.sampled_from([None, None, None, None, ("fact",), ("doc", "session"), ()]),
    project=st.sampled_from([None, None, "alpha", "beta"]),
    fact_scopes=st.sampled_from([None, None, None, (), ("global",), ("project:alpha", "project:beta")]),
    scopes=st.sampled_from([None, None, None, None, None, (), ("project:alpha",), ("global", "project:alpha2"), ("project:beta",)]),
    phrases=st.sampled_from([(), (), (), (), ("deploy",), ("queue worker",)]),
    tags=st.sampled_from(
        [TagFilter(), TagFilter(), TagFilter(), TagFilter(any=("x", "z")), TagFilter(none=("y",)), TagFilter(all=("x", "y"))]
    ),
    created_from=st.sampled_from([None, None, NOW - timedelta(days=2)]),
    as_of=st.sampled_from([None, None, NOW + timedelta(days=1)]),
    questions=st.sampled_from([(), (), ("which queue", "the timeout of a gateway")]),
    selection=st.sampled_from([{}, {"lexical": 0.05}, {"lexical": 0.05}, {"lexical": 1.0}, {"local": 0.9}]),
    context=st.sampled_from([ContextWanted(), ContextWanted(tokens=150), ContextWanted(passages=1), ContextWanted(format="json")]),
    ceilings=ceilings,
)


@dataclass(frozen=True)
class Populated:
    """Two populations in one order of arrival: `both`, and `own` alone in the same order."""

    own: list[Item]
    both: list[Item]


@st.composite
def populated(draw: st.DrawFn) -> Populated:
    ours, theirs = draw(own), draw(foreign)
    order = draw(st.permutations(range(len(ours) + len(theirs))))
    everything = [*ours, *theirs]
    return Populated([everything[n] for n in order if n < len(ours)], [everything[n] for n in order])
