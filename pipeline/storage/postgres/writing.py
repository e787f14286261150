"""Writing: what becomes of entries is decided from what stands there, then all of it is written at once, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import Entry, Event, Receipt, Record, Refusal, Whole, Written, lowest, refused, tombstone
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.batch import Batch, Stored, counted
from remit.pipeline.storage.postgres.desk import Desk, Transaction
from remit.pipeline.storage.postgres.identity import NOBODY, Identity
from remit.pipeline.storage.postgres.rows import dumped, micros, name_text, place_of, shelf_of, spelled, unspelled
from remit.pipeline.storage.postgres.statements import Command, plain
from remit.pipeline.storage.postgres.wire import maybe_int8s, numbers_of
from remit.stages.access import Access, Approval, Shelf
from remit.stages.evidence import MemoryId, Trust
from remit.stages.request import Source

COMMIT = plain("COMMIT")
OF_ORG = plain("SET LOCAL app.scopes = '*'")
"""From here on a transaction sees all of its org: for what must reach memories that the writer does not see, and tells nothing of them."""

NEVER = datetime.min.replace(tzinfo=UTC)
"""When a memory was written whose row is left as it is."""

TRIES = 3
"""How often a write is begun anew because a memory that it may not see, or somebody else's locks, were in its way."""


@dataclass(slots=True)
class Known:
    """A memory as the write finds it, and what the write has decided: `entry` is what it will be, `superseded` whether it still stands.

    `was` is the number of the shelf it stands on in the database, None when it is not there; `passages` what stands there of it at every
    time, `marked` what would if it were not superseded. `past` are events to be added to its history.
    """

    key: int
    shelf: Shelf
    version: int
    digest: str
    superseded: bool
    approved: bool
    rejected: bool
    trust: Trust
    was: int | None = None
    entry: Entry | None = None
    written_at: datetime | None = None
    newly_superseded: bool = False
    passages: tuple[tuple[int, list[str]], ...] = ()
    marked: tuple[tuple[int, list[str]], ...] = ()
    past: list[Event] = field(default_factory=list)


async def put(desk: Desk, entries: Sequence[Entry], access: Access) -> list[Receipt]:
    """Writes what `access` may write. A value that the database cannot take costs its own entry alone."""
    hidden, sqlstate = set[MemoryId](), failures.TAKEN
    for _ in range(TRIES):
        write = Write(desk, access.org, Identity.of(access))
        async with desk.writing(Identity.of(access)) as transaction:
            await write.look(transaction, [entry.record for entry in entries], sum(len(entry.passages) for entry in entries))
            receipts = [write.put(entry, access, hidden) for entry in entries]
            failure = (await transaction.tried([*write.commands(), COMMIT])).failure
        if failure is None:
            return receipts
        sqlstate = failure.sqlstate
        if sqlstate[:2] in failures.UNFIT:
            return await _one_by_one(desk, entries, access, sqlstate)
        if sqlstate == failures.TAKEN:
            hidden |= await _hidden(desk, entries, access)
        elif sqlstate[:2] != failures.IN_THE_WAY:
            break
    raise failures.unwritten(sqlstate)


async def _one_by_one(desk: Desk, entries: Sequence[Entry], access: Access, sqlstate: str) -> list[Receipt]:
    if len(entries) == 1:
        return [refused(entries[0].record.id, Refusal.TOO_LARGE if sqlstate.startswith("54") else Refusal.INVALID)]
    return [receipt for entry in entries for receipt in await put(desk, [entry], access)]


async def _hidden(desk: Desk, entries: Sequence[Entry], access: Access) -> set[MemoryId]:
    """The memories that stand on shelves which this access does not reach, found out by trying, in a transaction that is rolled back."""
    write = Write(desk, access.org, Identity.of(access))
    async with desk.writing(Identity.of(access)) as transaction:
        await write.look(transaction, [entry.record for entry in entries], 0)
        new = {entry.record.id: entry.record for entry in entries if entry.record.id not in write.memories}
        reached = [record for record in new.values() if access.reaches(record.label.shelf)]
        shelves = [write.number_of(record.label.shelf) for record in reached]
        asked = names_of([record.id for record in reached]) | {"on_shelf": np.array(shelves, dtype=np.int64)}
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
        self._tombstones: set[str] = set()
        self._lowered: list[Record] = []
        self._told: list[tuple[Record, Receipt]] = []
        self._shelves: dict[str, int] = {}
        self._vectors: dict[int, dict[str, int]] = {}
        self._new_shelves: dict[str, tuple[int, tuple[str, str, str, str]]] = {}
        self._indexed_again: set[MemoryId] = set()

    async def look(
        self,
        transaction: Transaction,
        records: Sequence[Record],
        passages: int,
        *,
        names: Sequence[MemoryId] = (),
        keys: Sequence[str] = (),
    ) -> None:
        """Waits for its turn among the writers of the org, then reads all that records, names and keys have to do with."""
        of_records = (name for record in records for name in (record.id, *record.supersedes, *record.derived_from))
        wanted = list(dict.fromkeys([*names, *of_records]))
        used = [*keys, *(record.key for record in records if record.key is not None)]
        places = list(dict.fromkeys(_place(record.label.shelf) for record in records))
        answers = await transaction.ask(
            [
                self._command("lock", number=int.from_bytes(sha256(self._org.encode()).digest()[:8], signed=True)),
                self._command("numbers", memories=len(records), passages=passages, shelves=len(places)),
                self._command("shelves_at", places=places),
                self._command("memories_of", **names_of(wanted)),
                self._command("passages_kept", **names_of(wanted)),
                self._command("receipts_of", keys=list(map(spelled, used))),
                self._command("tombstones_of", marks=[tombstone(self._of, key) for key in used]),
            ]
        )
        numbers = [iter(numbers_of(each).tolist()) for each in answers.row(1)]
        self._memory_numbers, self._passage_numbers, self._shelf_numbers = numbers
        self._take(*(json.loads(answers.value(place) or b"[]") for place in range(2, 6)))
        self._tombstones.update(json.loads(answers.value(6) or b"[]"))

    def _take(self, shelves: list[Any], memories: list[Any], passages: list[Any], receipts: list[Any]) -> None:
        for place, number, vectors in shelves:
            self._shelves[place], self._vectors[number] = number, vectors
        standing: dict[tuple[int, bool], list[tuple[int, list[str]]]] = {}
        for memory, approved, superseded, timed, length, spaces in passages:
            if approved and not timed:
                standing.setdefault((memory, superseded), []).append((length, spaces))
        for source, name, *row, place, vectors in memories:
            known = self._known(source, row, standing)
            self.memories[MemoryId(Source(source), unspelled(name))] = known
            if known.was is not None:
                self._shelves[place], self._vectors[known.was] = known.was, vectors
        for key, source, name, digest, written, version in receipts:
            memory = MemoryId(Source(source), unspelled(name))
            self._first[unspelled(key)] = memory, digest, Receipt(id=str(memory), written=Written(written), version=version)

    def _known(self, source: str, row: Sequence[Any], standing: Mapping[tuple[int, bool], Sequence[tuple[int, list[str]]]]) -> Known:
        key, version, digest, superseded, approval, trust, shelf, scope, project, conversation = row
        return Known(
            key=key,
            shelf=shelf_of(self._of, scope, source, project, conversation),
            version=version,
            digest=digest,
            superseded=superseded,
            approved=approval == Approval.APPROVED,
            rejected=approval == Approval.REJECTED,
            trust=Trust(trust),
            was=shelf,
            passages=tuple(standing.get((key, False), ())),
            marked=tuple(standing.get((key, True), ())),
        )

    def put(self, entry: Entry, access: Access, hidden: set[MemoryId]) -> Receipt:
        """What becomes of an entry, after those before it."""
        record = entry.record
        if not access.reaches(record.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if record.key is not None and (first := self._first.get(record.key)) is not None:
            return first[2] if first[:2] == (record.id, record.digest) else refused(record.id, Refusal.KEY_CONFLICT)
        if record.key is not None and tombstone(self._of, record.key) in self._tombstones:
            return refused(record.id, Refusal.KEY_FORGOTTEN)
        before = self.memories.get(record.id)
        if record.id in hidden or (before is not None and not access.reaches(before.shelf)):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if before is not None and before.digest == record.digest:
            return self._tell(record, Written.UNCHANGED, before.version)
        named = (*record.supersedes, *record.derived_from)
        if any(name == record.id or self._reached(name, access) is None for name in named):
            return refused(record.id, Refusal.UNKNOWN_REFERENCE)
        parents = [self.memories[name] for name in record.derived_from]
        trust = lowest(record.trust, [parent.trust for parent in parents])
        return self._store(replace(entry, record=replace(record, trust=trust)) if parents else entry, before, access)

    def reindex(self, entry: Entry) -> None:
        before = self.memories.get(entry.record.id)
        if before is not None and before.digest == entry.record.digest:
            label = replace(entry.record.label, shelf=before.shelf)
            before.entry = replace(entry, record=replace(entry.record, label=label))
            self._indexed_again.add(entry.record.id)

    def _reached(self, name: MemoryId, access: Access) -> Known | None:
        known = self.memories.get(name)
        return known if known is not None and access.reaches(known.shelf) else None

    def _store(self, entry: Entry, before: Known | None, access: Access) -> Receipt:
        known = self._new(entry.record) if before is None else before
        if known.entry is not None and known.written_at is not None:
            known.past.append(Whole(entry=known.entry, version=known.version, written_at=known.written_at).standing)
        self._become(known, entry, known.version + 1, access.as_of)
        for name in entry.record.supersedes if known.approved else ():
            self._supersede(self.memories[name], entry.record.id, access)
        return self._tell(entry.record, Written.STORED if before is None else Written.REPLACED, known.version)

    def _new(self, record: Record) -> Known:
        known = Known(next(self._memory_numbers), record.label.shelf, 0, "", False, False, False, record.trust)
        self.memories[record.id] = known
        return known

    def _become(self, known: Known, entry: Entry, version: int, written_at: datetime) -> None:
        record, label = entry.record, entry.record.label
        known.entry, known.shelf, known.digest, known.version, known.written_at = entry, label.shelf, record.digest, version, written_at
        known.superseded = known.superseded or label.superseded
        known.approved, known.rejected = label.approval is Approval.APPROVED, label.approval is Approval.REJECTED
        known.trust = record.trust
        if record.trust is not Trust.VERIFIED:
            self._lowered.append(record)

    def _supersede(self, older: Known, by: MemoryId, access: Access) -> None:
        if not older.superseded:
            older.newly_superseded = older.superseded = True
            self._happened(older, Written.SUPERSEDED, access, by)

    def _happened(self, known: Known, what: Written, access: Access, by: MemoryId | None = None) -> None:
        known.past.append(Event(what=what, version=known.version, actor=access.actor, at=access.as_of, by=by))

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
            *batch.derived(again),
            *batch.indexes(),
            *self._marked([known.key for known in marked], superseded=True),
            *self._counts(batch, [known for _, known, _ in changed] + marked),
            *self._past([each.key for each in replaced]),
            *self._receipts(),
            *self._lower(),
        ]

    def _stored(self, known: Known, entry: Entry) -> Stored:
        numbers = tuple(next(self._passage_numbers) for _ in entry.passages)
        written_at = known.written_at or NEVER
        return Stored(entry, known.key, known.version, self.number_of(known.shelf), known.superseded, written_at, numbers)

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
        """Everything that the indexes hold for memories whose passages are replaced, and more of those that are replaced themselves, the
        versions of which go into the history."""
        if not memories:
            return []
        commands = [self._command(name, memories=keys_of(memories)) for name in (*self._indexes(), "drop_passages")]
        of_replaced = ("keep_versions", "drop_tags", "drop_derived") if replaced else ()
        return commands + [self._command(name, memories=keys_of(replaced)) for name in of_replaced]

    def _indexes(self) -> list[str]:
        """The statements that take memories out of the indexes."""
        return ["drop_postings", "drop_words", "drop_phrases", *(f"drop_{table}" for table in self._desk.means.places)]

    def _marked(self, memories: Sequence[int], *, superseded: bool) -> list[Command]:
        if not memories:
            return []
        tables = [f"supersede_{table}" for table in self._desk.means.places]
        names = ["supersede_postings", *tables, "supersede_passages", "supersede_memories"]
        return [self._command(name, memories=keys_of(memories), superseded=superseded) for name in names]

    def _past(self, replaced: Sequence[int]) -> list[Command]:
        """Events for the histories, and histories to the shelves on which their memories lie now."""
        commands = [self._command("move_past", memories=keys_of(replaced))] if replaced else []
        events = [(known.key, event) for known in self.memories.values() for event in known.past]
        if events:
            told = [event for _, event in events]
            commands.append(
                self._command(
                    "add_past",
                    memories=keys_of([key for key, _ in events]),
                    whats=[str(event.what) for event in told],
                    versions=keys_of([event.version for event in told]),
                    actors=[spelled(event.actor) for event in told],
                    at=maybe_int8s([micros(event.at) for event in told]),
                    digests=[event.digest for event in told],
                    titles=[spelled(event.title) for event in told],
                    texts=[spelled(event.text) for event in told],
                    others=[None if event.by is None else name_text(event.by) for event in told],
                )
            )
        return commands

    def _lower(self) -> list[Command]:
        """What is derived from memories that came is trusted no more than they, also where the writer does not see it: the last that a
        transaction does, on behalf of the org as a whole."""
        if not self._lowered:
            return []
        sources, ids = [str(each.id.source) for each in self._lowered], [spelled(each.id.id) for each in self._lowered]
        levels = keys_of([tuple(Trust).index(each.trust) + 1 for each in self._lowered])
        return [OF_ORG, self._command("lower", sources_of=sources, ids=ids, levels=levels)]

    def _counts(self, batch: Batch, gone: Iterable[Known], back: Iterable[Known] = ()) -> list[Command]:
        """What stands on the shelves, after what was there is gone and what is new, or restored, has come."""
        left = [(known.was, -1, length, spaces) for known in gone if known.was is not None for length, spaces in known.passages]
        come = [(known.was, 1, length, spaces) for known in back if known.was is not None for length, spaces in known.marked]
        sums = counted([*left, *come, *((shelf, 1, length, spaces) for shelf, length, spaces in batch.standing())])
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


def names_of(names: Sequence[MemoryId]) -> dict[str, Any]:
    return {"wanted_sources": [str(name.source) for name in names], "wanted_ids": [spelled(name.id) for name in names]}


def _place(shelf: Shelf) -> str:
    return sha256(dumped(place_of(shelf)).encode()).hexdigest()


def keys_of(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


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
