"""Writing: each item on its own account, in order, in batches, and nothing that the principal may not write."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from remit.pipeline.authority import Grants
from remit.pipeline.config import Config, load
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.items import Doc, Fact, Item, Session
from remit.pipeline.remember import remember_stream
from remit.pipeline.storage.entry import Entry, Receipt, Record, Refusal, Written
from remit.stages.access import Access
from remit.stages.evidence import Origin

CONFIG = load()
BATCHES = load({"remember": {"batchItems": 3}})
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ADA = Grants(actor="ada", org="acme", scopes=frozenset({"project:alpha"}))


class Indexes:
    async def entries(self, records: Sequence[Record]) -> list[Entry]:
        return [Entry(record=record, passages=()) for record in records]


class Shelves:
    """Keeps what it is given, batch by batch; an id that begins with `clash` has a key that is taken."""

    def __init__(self) -> None:
        self.batches: list[list[Record]] = []

    async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
        assert all(access.reaches(entry.record.label.shelf) for entry in entries)
        self.batches.append([entry.record for entry in entries])
        return [self.receipt(entry.record) for entry in entries]

    def receipt(self, record: Record) -> Receipt:
        if record.id.id.startswith("clash"):
            return Receipt(id=str(record.id), written=Written.REFUSED, code=Refusal.KEY_CONFLICT)
        return Receipt(id=str(record.id), written=Written.STORED, version=1)

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch]


def fact(name: str = "m1", **stated: Any) -> Fact:
    return Fact(**{"id": name, "text": "Deploys restart the workers.", **stated})


async def written(*items: Any, store: Shelves | None = None, config: Config = CONFIG, **options: Any) -> list[Receipt]:
    receipts = remember_stream(items, ADA, store=store or Shelves(), indexer=Indexes(), config=config, now=NOW, **options)
    return [each async for each in receipts]


async def test_each_item_has_its_receipt_in_order_and_a_wrong_one_costs_the_others_nothing() -> None:
    store = Shelves()
    receipts = await written(
        fact("a"),
        fact("b", importance=7),
        Session(id="c", text="We met."),
        fact("d", text=""),
        fact("clash"),
        None,
        {"id": "e"},
        fact("f", scope="project:beta"),
        Doc(id="g", text="# Deploys"),
        store=store,
    )

    assert [(receipt.id, receipt.written, receipt.code) for receipt in receipts] == [
        ("fact:a", Written.STORED, None),
        ("fact:b", Written.REFUSED, Refusal.INVALID),
        ("session:c", Written.STORED, None),
        ("fact:d", Written.REFUSED, Refusal.INVALID),
        ("fact:clash", Written.REFUSED, Refusal.KEY_CONFLICT),
        ("", Written.REFUSED, Refusal.INVALID),
        ("", Written.REFUSED, Refusal.INVALID),
        ("fact:f", Written.REFUSED, Refusal.NOT_AUTHORISED),
        ("doc:g", Written.STORED, None),
    ]
    assert [str(record.id) for record in store.records] == ["fact:a", "session:c", "fact:clash", "doc:g"]


@pytest.mark.parametrize(
    "stated, field",
    [
        ({"org": "other"}, "org"),
        ({"scope": "project:beta"}, "scope"),
        ({"scope": "project:alpha2"}, "scope"),
        ({"scope": "person:ada"}, "scope"),
        ({"origin": Origin(uri="https://example.org", project="beta")}, "origin.project"),
        ({"origin": Origin(uri="https://example.org", conversation="42")}, "origin.conversation"),
    ],
)
async def test_what_lies_outside_the_grants_is_not_written(stated: dict[str, Any], field: str) -> None:
    store = Shelves()
    (receipt,) = await written(fact(**stated), store=store)

    assert (receipt.code, receipt.detail) == (Refusal.NOT_AUTHORISED, f"{field}: not granted")
    assert store.batches == []


@pytest.mark.parametrize(
    "stated", [{}, {"org": "acme"}, {"scope": "project:alpha"}, {"origin": Origin(uri="https://example.org", project="alpha")}]
)
async def test_what_lies_inside_the_grants_is_written_to_the_own_org(stated: dict[str, Any]) -> None:
    store = Shelves()
    (receipt,) = await written(fact(**stated), store=store)

    assert receipt.written is Written.STORED
    assert (store.records[0].label.shelf.org, store.records[0].actor) == ("acme", "ada")


async def test_a_refusal_names_the_field() -> None:
    receipts = await written(fact(valid_until="soon"), fact(text="x" * 2_000_001), fact("x" * 500), fact("\ud83d"))

    assert [(receipt.code, receipt.detail.split(":")[0]) for receipt in receipts] == [
        (Refusal.INVALID, "validUntil"),
        (Refusal.TOO_LARGE, "text"),
        (Refusal.TOO_LARGE, "id"),
        (Refusal.INVALID, "id"),
    ]
    assert all(len(receipt.id) < 100 and receipt.id.isprintable() for receipt in receipts)


async def test_characters_that_no_store_holds_do_not_lose_the_batch_and_are_told() -> None:
    store = Shelves()
    receipts = await written(fact("a"), fact("b", text="b\0c"), fact("c", text="ok \ud83d"), store=store)

    assert [record.text for record in store.records] == ["Deploys restart the workers.", "bc", "ok \ufffd"]
    assert [bool(receipt.detail) for receipt in receipts] == [False, True, True]


async def test_items_are_written_in_batches_and_told_when_theirs_is_durable_the_next_batch_prepared_meanwhile() -> None:
    store = Shelves()
    taken = 0

    def items() -> Iterator[Item]:
        nonlocal taken
        for number in range(7):
            taken += 1
            yield fact(str(number))

    receipts = remember_stream(items(), ADA, store=store, indexer=Indexes(), config=BATCHES, now=NOW)
    ahead = [(taken, len(store.batches)) async for _ in receipts]

    assert ahead == [(6, 1)] * 3 + [(7, 2)] * 3 + [(7, 3)]


async def test_what_must_be_awaited_is_not_waited_for_before_what_came_is_told() -> None:
    store = Shelves()
    taken = 0

    async def items() -> AsyncIterator[Item]:
        nonlocal taken
        for number in range(7):
            taken += 1
            yield fact(str(number))

    receipts = remember_stream(items(), ADA, store=store, indexer=Indexes(), config=BATCHES, now=NOW)

    assert [(taken, len(store.batches)) async for _ in receipts] == [(3, 1)] * 3 + [(6, 2)] * 3 + [(7, 3)]


async def test_a_source_that_breaks_off_costs_no_receipt_of_what_was_written() -> None:
    def items() -> Iterator[Item]:
        for number in range(4):
            yield fact(str(number))
        raise OSError("torn")

    receipts = remember_stream(items(), ADA, store=Shelves(), indexer=Indexes(), config=BATCHES, now=NOW)

    assert [(await anext(receipts)).id for _ in range(3)] == ["fact:0", "fact:1", "fact:2"]
    with pytest.raises(OSError, match="torn"):
        await anext(receipts)


async def test_a_batch_of_long_texts_ends_early() -> None:
    store = Shelves()
    config = load({"remember": {"batchCharacters": 100}})
    receipts = await written(*[fact(str(number), text="x" * 60) for number in range(5)], store=store, config=config)

    assert len(receipts) == 5
    assert [len(batch) for batch in store.batches] == [2, 2, 1]


async def test_items_may_come_one_by_one_from_an_asynchronous_source() -> None:
    async def items() -> AsyncIterator[Item]:
        yield fact("a")
        yield fact("b")

    receipts = [each async for each in remember_stream(items(), ADA, store=Shelves(), indexer=Indexes(), config=CONFIG, now=NOW)]

    assert [receipt.id for receipt in receipts] == ["fact:a", "fact:b"]


async def test_nothing_to_write_asks_no_store() -> None:
    store = Shelves()

    assert await written(store=store) == []
    assert store.batches == []


async def test_a_file_without_a_hash_is_looked_at_when_it_is_written_and_its_version_told_apart() -> None:
    asked = []
    content = "0" * 64

    async def resolve(origin: Origin) -> Origin:
        asked.append(origin.uri)
        return replace(origin, sha256=content)

    store = Shelves()
    items = [
        fact("a", origin=Origin(uri="file:///a.md")),
        fact("b", origin=Origin(uri="file:///b.md", sha256="1" * 64)),
        fact("c", origin=Origin(uri="https://example.org")),
        fact("d"),
        fact("e", scope="project:beta", origin=Origin(uri="file:///e.md")),
    ]
    await written(*items, store=store, resolve=resolve)
    content = "f" * 64
    await written(items[0], store=store, resolve=resolve)
    first, second = store.batches[0][0], store.batches[1][0]

    assert asked == [*["file:///a.md", "file:///b.md", "file:///a.md"], *["file:///a.md"] * 2], "a again, right before it is written"
    assert [record.origin and record.origin.sha256 for record in (first, second)] == ["0" * 64, "f" * 64]
    assert first.digest != second.digest


@pytest.mark.parametrize("stated", [None, "0" * 64], ids=["hashed here", "hash stated"])
async def test_a_file_that_changes_while_it_is_taken_in_is_refused_and_costs_the_others_nothing(stated: str | None) -> None:
    looks = iter(["0" * 64, "a" * 64, "f" * 64, "a" * 64])

    async def resolve(origin: Origin) -> Origin:
        return replace(origin, sha256=next(looks))

    changed, same = Origin(uri="file:///a.md", sha256=stated), Origin(uri="file:///b.md")
    receipts = await written(fact("a", origin=changed), fact("b", origin=same), resolve=resolve)

    assert [(receipt.written, receipt.code) for receipt in receipts] == [(Written.REFUSED, "origin_changed"), (Written.STORED, None)]


async def test_what_was_revoked_while_items_came_in_is_not_written() -> None:
    left = iter([ADA, Grants(actor="ada", org="acme", scopes=frozenset())])

    async def granted() -> Grants:
        return next(left)

    class Asked(Shelves):
        async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
            self.batches.append([entry.record for entry in entries if access.reaches(entry.record.label.shelf)])
            return [self.receipt(entry.record) for entry in entries]

    store = Asked()
    items = [fact(str(number), scope="project:alpha") for number in range(6)]
    await written(*items, store=store, config=BATCHES, granted=granted)

    assert [len(batch) for batch in store.batches] == [3, 0]


async def test_a_store_that_cannot_be_asked_is_told_and_what_was_acknowledged_stays() -> None:
    class Full(Shelves):
        async def put(self, entries: Sequence[Entry], access: Access) -> list[Receipt]:
            if self.batches:
                raise StorageUnavailable("full")
            return await super().put(entries, access)

    store, told = Full(), 0
    receipts = remember_stream([fact(str(number)) for number in range(9)], ADA, store=store, indexer=Indexes(), config=BATCHES, now=NOW)
    for _ in range(3):
        told += (await anext(receipts)).written is Written.STORED
    with pytest.raises(StorageUnavailable):
        await anext(receipts)

    assert told == len(store.records) == 3
