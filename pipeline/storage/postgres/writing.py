"""Writing: what becomes of entries is decided from what stands there, then all of it is written at once, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from remit.pipeline.storage.entry import Entry, Receipt, Record, Refusal, Written
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.batch import Batch, Stored, counted
from remit.pipeline.storage.postgres.desk import Desk, Transaction
from remit.pipeline.storage.postgres.identity import NOBODY, Identity
from remit.pipeline.storage.postgres.rows import dumped, place_of, shelf_of, spelled, unspelled
from remit.pipeline.storage.postgres.statements import Command, plain
from remit.pipeline.storage.postgres.wire import numbers_of
from remit.stages.access import Access, Approval, Shelf
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

COMMIT = plain("COMMIT")
TRIES = 3
"""How often a write is begun anew because a memory that it may not see was in its way."""


@dataclass(slots=True)
class Known:
    """A memory as the write finds it, and what the write has decided: `entry` is what it will be, `superseded` whether it still stands.

    `was` is the number of the shelf it stands on in the database, None when it is not there; `passages` what stands there of it.
    """

    key: int
    shelf: Shelf
    version: int
    digest: str
    superseded: bool
    was: int | None = None
    entry: Entry | None = None
    newly_superseded: bool = False
    passages: tuple[tuple[int, list[str]], ...] = ()


async def put(desk: Desk, entries: Sequence[Entry], access: Access) -> list[Receipt]:
    """Writes what `access` may write. A value that the database cannot take costs its own entry alone."""
    hidden: set[MemoryId] = set()
    for _ in range(TRIES):
        write = Write(desk, access.org, Identity.of(access))
        async with desk.writing(Identity.of(access)) as transaction:
            await write.look(transaction, [entry.record for entry in entries], sum(len(entry.passages) for entry in entries))
            receipts = [write.put(entry, access, hidden) for entry in entries]
            failure = (await transaction.tried([*write.commands(), COMMIT])).failure
        if failure is None:
            return receipts
        if failure.sqlstate[:2] in failures.UNFIT:
            return await _one_by_one(desk, entries, access, failure.sqlstate)
        if failure.sqlstate != failures.TAKEN:
            raise failures.unwritten(failure.sqlstate)
        hidden |= await _hidden(desk, entries, access)
    raise failures.told(failures.TAKEN)


async def _one_by_one(desk: Desk, entries: Sequence[Entry], access: Access, sqlstate: str) -> list[Receipt]:
    if len(entries) == 1:
        return [_refused(entries[0].record, Refusal.TOO_LARGE if sqlstate.startswith("54") else Refusal.INVALID)]
    return [receipt for entry in entries for receipt in await put(desk, [entry], access)]


async def _hidden(desk: Desk, entries: Sequence[Entry], access: Access) -> set[MemoryId]:
    """The memories that stand on shelves which this access does not reach, found out by trying, in a transaction that is rolled back."""
    write = Write(desk, access.org, Identity.of(access))
    async with desk.writing(Identity.of(access)) as transaction:
        await write.look(transaction, [entry.record for entry in entries], 0)
        new = {entry.record.id: entry.record for entry in entries if entry.record.id not in write.memories}
        reached = [record for record in new.values() if access.reaches(record.label.shelf)]
        shelves = [write.number_of(record.label.shelf) for record in reached]
        asked = _names([record.id for record in reached]) | {"on_shelf": np.array(shelves, dtype=np.int64)}
        answers = await transaction.ask([*write.new_shelves(), desk.command("hidden", org=spelled(access.org), **asked)])
    return {MemoryId(Source(source), unspelled(name)) for source, name in json.loads(answers.value(-1) or b"[]")}


async def reindexed(desk: Desk, entries: Sequence[Entry]) -> None:
    """Gives memories that stand there, with this content, the passages of these entries."""
    for org in sorted({entry.record.label.shelf.org for entry in entries}):
        here = [entry for entry in entries if entry.record.label.shelf.org == org]
        write = Write(desk, org, Identity.of_org(org))
        async with desk.writing(Identity.of_org(org)) as transaction:
            await write.look(transaction, [entry.record for entry in here], sum(len(entry.passages) for entry in here))
            for entry in here:
                write.reindex(entry)
            await transaction.ask([*write.commands(), COMMIT])


class Write:
    """One write of an org inside its transaction: look, decide entry by entry, then send the commands."""

    def __init__(self, desk: Desk, org: str, identity: Identity) -> None:
        self._desk = desk
        self._org = identity.org
        self._of = org
        self.memories: dict[MemoryId, Known] = {}
        self._first: dict[str, tuple[MemoryId, str, Receipt]] = {}
        self._told: list[tuple[Record, Receipt]] = []
        self._shelves: dict[str, int] = {}
        self._vectors: dict[int, dict[str, int]] = {}
        self._new_shelves: dict[str, tuple[int, tuple[str, str, str, str]]] = {}
        self._indexed_again: set[MemoryId] = set()

    async def look(self, transaction: Transaction, records: Sequence[Record], passages: int) -> None:
        """Waits for its turn among the writers of the org, then reads all that the entries have to do with."""
        names = list(dict.fromkeys(name for record in records for name in (record.id, *record.supersedes)))
        keys = [spelled(record.key) for record in records if record.key is not None]
        places = list(dict.fromkeys(_place(record.label.shelf) for record in records))
        answers = await transaction.ask(
            [
                self._command("lock", number=int.from_bytes(sha256(self._org.encode()).digest()[:8], signed=True)),
                self._command("numbers", memories=len(records), passages=passages, shelves=len(places)),
                self._command("shelves_at", places=places),
                self._command("memories_of", **_names(names)),
                self._command("passages_kept", **_names(names)),
                self._command("receipts_of", keys=keys),
            ]
        )
        numbers = [iter(numbers_of(each).tolist()) for each in answers.row(1)]
        self._memory_numbers, self._passage_numbers, self._shelf_numbers = numbers
        self._take(*(json.loads(answers.value(place) or b"[]") for place in range(2, 6)))

    def _take(self, shelves: list[Any], memories: list[Any], passages: list[Any], receipts: list[Any]) -> None:
        for place, number, vectors in shelves:
            self._shelves[place], self._vectors[number] = number, vectors
        standing: dict[int, list[tuple[int, list[str]]]] = {}
        for memory, approved, superseded, timed, length, spaces in passages:
            if approved and not superseded and not timed:
                standing.setdefault(memory, []).append((length, spaces))
        for source, name, key, version, digest, superseded, shelf, scope, project, conversation, place, vectors in memories:
            self._shelves[place], self._vectors[shelf] = shelf, vectors
            self.memories[MemoryId(Source(source), unspelled(name))] = Known(
                key=key,
                shelf=shelf_of(self._of, scope, source, project, conversation),
                version=version,
                digest=digest,
                superseded=superseded,
                was=shelf,
                passages=tuple(standing.get(key, ())),
            )
        for key, source, name, digest, written, version in receipts:
            memory = MemoryId(Source(source), unspelled(name))
            self._first[unspelled(key)] = memory, digest, Receipt(id=str(memory), written=Written(written), version=version)

    def put(self, entry: Entry, access: Access, hidden: set[MemoryId]) -> Receipt:
        """What becomes of an entry, after those before it."""
        record = entry.record
        if not access.reaches(record.label.shelf):
            return _refused(record, Refusal.NOT_AUTHORISED)
        if record.key is not None and (first := self._first.get(record.key)) is not None:
            return first[2] if first[:2] == (record.id, record.digest) else _refused(record, Refusal.KEY_CONFLICT)
        before = self.memories.get(record.id)
        if record.id in hidden or (before is not None and not access.reaches(before.shelf)):
            return _refused(record, Refusal.NOT_AUTHORISED)
        if before is not None and before.digest == record.digest:
            return self._tell(record, Written.UNCHANGED, before.version)
        if any(name == record.id or not self._reached(name, access) for name in record.supersedes):
            return _refused(record, Refusal.UNKNOWN_REFERENCE)
        return self._store(entry, before)

    def reindex(self, entry: Entry) -> None:
        before = self.memories.get(entry.record.id)
        if before is not None and before.digest == entry.record.digest:
            label = replace(entry.record.label, shelf=before.shelf)
            before.entry = replace(entry, record=replace(entry.record, label=label))
            self._indexed_again.add(entry.record.id)

    def _reached(self, name: MemoryId, access: Access) -> bool:
        known = self.memories.get(name)
        return known is not None and access.reaches(known.shelf)

    def _store(self, entry: Entry, before: Known | None) -> Receipt:
        record, label = entry.record, entry.record.label
        known = before
        if known is None:
            known = Known(next(self._memory_numbers), label.shelf, 0, "", False)
            self.memories[record.id] = known
        known.entry, known.shelf, known.digest = entry, label.shelf, record.digest
        known.version += 1
        known.superseded = known.superseded or label.superseded
        for name in record.supersedes if label.approval is Approval.APPROVED else ():
            older = self.memories[name]
            older.newly_superseded = older.newly_superseded or not older.superseded
            older.superseded = True
        return self._tell(record, Written.STORED if before is None else Written.REPLACED, known.version)

    def _tell(self, record: Record, written: Written, version: int) -> Receipt:
        receipt = Receipt(id=str(record.id), written=written, version=version)
        if record.key is not None:
            self._first[record.key] = record.id, record.digest, receipt
            self._told.append((record, receipt))
        return receipt

    def number_of(self, shelf: Shelf) -> int:
        """The number of a shelf, new if need be."""
        place = _place(shelf)
        if place not in self._shelves:
            number = next(self._shelf_numbers)
            self._shelves[place], self._vectors[number] = number, {}
            self._new_shelves[place] = number, place_of(shelf)
        return self._shelves[place]

    def commands(self) -> list[Command]:
        """All that has been decided, in the order in which tables depend on each other."""
        changed = [(name, known, known.entry) for name, known in self.memories.items() if known.entry is not None]
        stored = {name: self._stored(known, entry) for name, known, entry in changed}
        gone = [known.key for _, known, _ in changed if known.was is not None]
        marked = [known for known in self.memories.values() if known.entry is None and known.newly_superseded]
        batch = Batch(self._desk, self._org, list(stored.values()))
        again = [each for name, each in stored.items() if name not in self._indexed_again]
        new = [each for each in again if self.memories[each.record.id].was is None]
        replaced = [each for each in again if self.memories[each.record.id].was is not None]
        return [
            *self._dropped(gone, [each.key for each in replaced]),
            *([self._command("add_tenant")] if again else []),
            *self.new_shelves(),
            *batch.memories("add_memories", new),
            *batch.memories("replace_memories", replaced),
            *batch.tags(again),
            *batch.indexes(),
            *self._superseded([known.key for known in marked]),
            *self._counts(batch, [known for _, known, _ in changed] + marked),
            *self._receipts(),
        ]

    def _stored(self, known: Known, entry: Entry) -> Stored:
        numbers = tuple(next(self._passage_numbers) for _ in entry.passages)
        return Stored(entry, known.key, known.version, self.number_of(known.shelf), known.superseded, numbers)

    def new_shelves(self) -> list[Command]:
        if not self._new_shelves:
            return []
        numbers, columns = zip(*self._new_shelves.values(), strict=True)
        scopes, sources, projects, conversations = zip(*columns, strict=True)
        return [
            self._command(
                "add_shelves",
                on_shelf=np.array(numbers, dtype=np.int64),
                scopes_of=list(scopes),
                sources_of=list(sources),
                projects=list(projects),
                conversations=list(conversations),
                places=list(self._new_shelves),
            )
        ]

    def _dropped(self, memories: Sequence[int], replaced: Sequence[int]) -> list[Command]:
        """Everything that the indexes hold for memories whose passages are replaced, and the tags of those replaced themselves."""
        if not memories:
            return []
        keys = np.array(memories, dtype=np.int64)
        names = ["drop_postings", "drop_words", "drop_phrases", *(f"drop_{table}" for table in self._desk.means.places), "drop_passages"]
        tags = [self._command("drop_tags", memories=np.array(replaced, dtype=np.int64))] if replaced else []
        return [self._command(name, memories=keys) for name in names] + tags

    def _superseded(self, memories: Sequence[int]) -> list[Command]:
        if not memories:
            return []
        keys = np.array(memories, dtype=np.int64)
        tables = [f"supersede_{table}" for table in self._desk.means.places]
        names = ["supersede_postings", *tables, "supersede_passages", "supersede_memories"]
        return [self._command(name, memories=keys) for name in names]

    def _counts(self, batch: Batch, gone: Iterable[Known]) -> list[Command]:
        """What stands on the shelves, after what was there is gone and what is new has come."""
        left = [(known.was, -1, length, spaces) for known in gone if known.was is not None for length, spaces in known.passages]
        sums = counted([*left, *((shelf, 1, length, spaces) for shelf, length, spaces in batch.standing())])
        if not sums:
            return []
        for shelf, (_, _, spaces) in sums.items():
            for space, number in spaces.items():
                self._vectors[shelf][space] = self._vectors[shelf].get(space, 0) + number
        return [
            self._command(
                "count_on_shelves",
                on_shelf=np.array(list(sums), dtype=np.int64),
                passages=np.array([passages for passages, _, _ in sums.values()], dtype=np.int64),
                lengths=np.array([words for _, words, _ in sums.values()], dtype=np.int64),
                vectors=[dumped({space: number for space, number in sorted(self._vectors[shelf].items()) if number}) for shelf in sums],
            )
        ]

    def _receipts(self) -> list[Command]:
        if not self._told:
            return []
        return [
            self._command(
                "add_receipts",
                keys=[spelled(record.key or "") for record, _ in self._told],
                sources_of=[str(record.id.source) for record, _ in self._told],
                ids=[spelled(record.id.id) for record, _ in self._told],
                digests=[record.digest for record, _ in self._told],
                written=[str(receipt.written) for _, receipt in self._told],
                versions=np.array([receipt.version for _, receipt in self._told], dtype=np.int64),
            )
        ]

    def _command(self, name: str, **values: Any) -> Command:
        return self._desk.command(name, org=self._org, **values)


def _names(names: Sequence[MemoryId]) -> dict[str, Any]:
    return {"wanted_sources": [str(name.source) for name in names], "wanted_ids": [spelled(name.id) for name in names]}


def _place(shelf: Shelf) -> str:
    return sha256(dumped(place_of(shelf)).encode()).hexdigest()


def _refused(record: Record, code: Refusal) -> Receipt:
    return Receipt(id=str(record.id), written=Written.REFUSED, code=code)


async def add_root(desk: Desk, path: str) -> None:
    digest = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
    async with desk.writing(NOBODY) as transaction:
        await transaction.ask([desk.command("add_root", path=spelled(path), digest=digest), COMMIT])


async def signed(desk: Desk, name: str, signature: str) -> None:
    async with desk.writing(NOBODY, host=True) as transaction:
        await transaction.owned()
        await transaction.ask([desk.command("set", setting=name, value=signature), COMMIT])


async def grant(desk: Desk, actor: str, org: str, scope: str) -> None:
    async with desk.writing(Identity.of_org(org)) as transaction:
        await transaction.ask([desk.command("grant", org=spelled(org), actor=spelled(actor), scope=spelled(scope)), COMMIT])


async def revoke(desk: Desk, actor: str, org: str, scope: str) -> bool:
    async with desk.writing(Identity.of_org(org)) as transaction:
        answers = await transaction.ask([desk.command("revoke", org=spelled(org), actor=spelled(actor), scope=spelled(scope)), COMMIT])
    return answers.value(0) != bytes(8)
