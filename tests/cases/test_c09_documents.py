"""C9: a document is one answer, whatever it is cut into; sessions are not documents. Rule 8."""

from __future__ import annotations

from stories.world import ADA, NewStore, balanced, engine_at, entry, ids, taken_in

from remit.pipeline import Doc, Request, Session

PART = "the harbour crane lifts containers"
CUT = {"chunking": {"tokens": 16}}


def long_doc(name: str, parts: int) -> Doc:
    return Doc(id=name, text="\n\n".join(f"# Part {n}\n\n{PART} in part {n}." for n in range(parts)))


async def test_c9_1_one_document_of_many_chunks_takes_one_place(new_store: NewStore) -> None:
    others = [Doc(id=name, text=f"{PART} of dock {name}") for name in "BCDEF"]
    async with engine_at(new_store(), long_doc("A", 40), *others, config=CUT) as engine:
        answer = await engine.recall(Request(query="harbour crane", limit=5, sources=("doc",)), ADA)
        whole = await engine.recall(Request(query="harbour crane", limit=6, sources=("doc",)), ADA)

    assert len(set(ids(answer))) == 5
    (of_a,) = [card for card in whole.data if card.id == "A"]
    assert of_a.chunks == 40
    assert PART in of_a.text
    assert len(of_a.text) < len(long_doc("A", 40).text)
    assert entry(whole, "rank").rejected["collapsed"] == 39
    balanced(whole)


async def test_c9_1_the_chunk_that_is_shown_is_the_best_one(new_store: NewStore) -> None:
    oiled = "The winch of the harbour crane is oiled on Mondays."
    text = f"# First\n\nGeneral remarks on cranes and on docks.\n\n# Second\n\n{oiled}\n\n# Third\n\nMore."
    async with engine_at(new_store(), Doc(id="A", text=text), config=CUT) as engine:
        answer = await engine.recall(Request(query="when is the winch of the harbour crane oiled"), ADA)

    assert "oiled on Mondays" in answer.data[0].text


async def test_c9_3_two_sessions_are_two_results_however_alike(new_store: NewStore) -> None:
    sessions = [Session(id=f"s{n}", text=PART, scope="project:alpha") for n in range(2)]
    async with engine_at(new_store(), *sessions) as engine:
        answer = await engine.recall(Request(query="harbour crane"), ADA)

    assert [(card.id, card.chunks) for card in answer.data] == [("s0", 1), ("s1", 1)]


async def test_an_archived_document_comes_last_whatever_it_scores(new_store: NewStore) -> None:
    docs = [
        Doc(id="a", text=PART, status="archived"),
        Doc(id="z", text=f"{PART} and much else in it besides"),
        Doc(id="m", text=PART, status="missing"),
    ]
    async with engine_at(new_store(), *docs) as engine:
        answer = await engine.recall(Request(query="harbour crane lifts containers"), ADA)

    assert ids(answer)[-1] == "a"
    assert {card.id: card.parts["boost"] for card in answer.data} == {"z": 1.25, "m": 1.0, "a": 1.0}


async def test_c11_5_a_shorter_version_leaves_nothing_of_the_longer_one(new_store: NewStore) -> None:
    old = Doc(id="A", text="\n\n".join(f"# Part {n}\n\nThe walrus of part {n} hums." for n in range(5)))
    async with engine_at(new_store(), old, config=CUT) as engine:
        before = await engine.recall(Request(query="walrus hums"), ADA)
        await taken_in(engine, [long_doc("A", 2)])
        after = await engine.recall(Request(query="harbour crane"), ADA)
        gone = await engine.recall(Request(query="walrus hums"), ADA)

    assert (before.data[0].chunks, before.data[0].version) == (5, 1)
    assert (after.data[0].chunks, after.data[0].version) == (2, 2)
    assert (gone.outcome, gone.data) == ("nothing_found", [])
