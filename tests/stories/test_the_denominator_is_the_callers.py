"""Five authorised memories among five hundred foreign ones that match better: scope comes before ranking, and costs the caller nothing."""

import pytest
from stories.world import ADA, NewStore, balanced, engine_at, entry, ids, laid

from remit.pipeline import Doc, Origin, Request

QUERY = "why do queue workers crash after a deploy"
OWN = [Doc(id=f"own-{n}", text=f"Workers of the queue crash whenever release {n} restarts them.") for n in range(5)]
BETTER = "Why do queue workers crash after a deploy? Queue workers crash after a deploy because of a deploy. "


def foreign(n: int) -> Doc:
    """A better match than any of ours, hidden for one of four reasons."""
    hidden = [
        {"org": "rival"},
        {"scope": "project:beta"},
        {"origin": Origin(uri="crm:7", project="beta")},
        {"origin": Origin(uri="crm:7", conversation="43")},
    ]
    return Doc(id=f"foreign-{n}", text=BETTER + str(n), **hidden[n % 4])  # type: ignore[arg-type]  # one of four plain mappings


async def test_five_authorised_among_five_hundred_better_foreign_documents_are_found_and_no_foreign_one_is(new_store: NewStore) -> None:
    async with engine_at(new_store(), *OWN, *(foreign(n) for n in range(500))) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=10), ADA)

    assert answer.outcome == "enough"
    assert sorted(ids(answer)) == [f"own-{n}" for n in range(5)]
    assert (answer.meta.available, answer.meta.bySource["doc"]) == (5, {"returned": 5, "matched": 5})
    assert entry(answer, "generate").received <= 2 * 5
    balanced(answer)


async def test_the_same_five_hundred_all_own_are_all_returned(new_store: NewStore) -> None:
    own = [Doc(id=f"own-{n}", text=BETTER + str(n)) for n in range(500)]
    roomy = {"recall": {"selection": {"chance": {"local": 0.0}}}}
    async with engine_at(new_store(), *own, config=roomy) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=500, sources=("doc",)), ADA)

    assert answer.outcome == "enough"
    assert sorted(ids(answer)) == sorted(doc.id for doc in own)
    assert not answer.meta.truncated
    balanced(answer)


@pytest.mark.parametrize("limit", [5, 3])
async def test_a_ceiling_is_spent_on_own_documents_only(new_store: NewStore, limit: int) -> None:
    small = {"recall": {"profiles": {"memory": {"generate": {"items": limit, "postings": 40}, "verify": {"items": limit}}}}}
    async with engine_at(new_store(), *OWN, *(foreign(n) for n in range(100)), config=laid(small)) as engine:
        answer = await engine.recall(Request(query=QUERY, limit=limit), ADA)

    assert answer.outcome == "enough"
    assert len(ids(answer)) == limit
    assert all(name.startswith("own-") for name in ids(answer))
