"""Living: memories that stand here approved, rejected, superseded, restored, disputed, forgotten, or carried over from another store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from remit.pipeline.storage.entry import (
    PARTS,
    Change,
    Forgetting,
    Forgotten,
    Receipt,
    Refusal,
    Whole,
    Written,
    alike,
    lowest,
    refused,
    tombstone,
)
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.batch import Batch
from remit.pipeline.storage.postgres.deciding import Known, keys_of, names_of, used_by
from remit.pipeline.storage.postgres.desk import Desk, Transaction
from remit.pipeline.storage.postgres.identity import OF_ORG, Identity, as_granted
from remit.pipeline.storage.postgres.recording import Write
from remit.pipeline.storage.postgres.rows import (
    DISPUTES,
    SUPERSEDES,
    name_text,
    reach,
    references_of,
    spelled,
    unspelled,
    whole_of,
    with_references,
)
from remit.pipeline.storage.postgres.statements import Command
from remit.pipeline.storage.postgres.writing import COMMIT, anew
from remit.stages.access import Access, Approval
from remit.stages.evidence import MemoryId
from remit.stages.request import Source


async def change(desk: Desk, changes: Sequence[Change], access: Access) -> list[Receipt]:
    """One after the other, for one may be about what another changed; all in one transaction."""
    return await anew(partial(_change, desk, changes, access))


async def _change(desk: Desk, changes: Sequence[Change], access: Access) -> list[Receipt]:
    async with desk.writing(Identity.of(access), Operation.CHANGE) as transaction:
        receipts = [await Living(desk, access).change(transaction, each) for each in changes]
        await transaction.ask([COMMIT])
    return receipts


async def forget(desk: Desk, what: Forgetting, access: Access, *, dry_run: bool) -> Forgotten:
    return await anew(partial(_forget, desk, what, access, dry_run=dry_run))


async def _forget(desk: Desk, what: Forgetting, access: Access, *, dry_run: bool) -> Forgotten:
    async with desk.writing(Identity.of(access), Operation.FORGET) as transaction:
        done = await Living(desk, access).forget(transaction, what, dry_run=dry_run)
        if not dry_run:
            await transaction.ask([COMMIT])
    return done


async def imported(desk: Desk, wholes: Sequence[Whole], access: Access) -> list[Receipt]:
    """A value that the database cannot take costs its own memory alone, and so does a name that one stands under out of reach."""
    written = await anew(partial(_imported, desk, wholes, access))
    if not isinstance(written, str):
        return written
    if len(wholes) > 1:
        return [receipt for each in wholes for receipt in await as_granted(access, partial(imported, desk, [each]))]
    codes = {failures.TAKEN: Refusal.NOT_AUTHORISED, "54": Refusal.TOO_LARGE}
    return [refused(wholes[0].entry.record.id, codes.get(written) or codes.get(written[:2], Refusal.INVALID))]


async def _imported(desk: Desk, wholes: Sequence[Whole], access: Access) -> list[Receipt] | str:
    """The receipts, or the SQLSTATE of what lies in one of the memories."""
    async with desk.writing(Identity.of(access), Operation.IMPORT) as transaction:
        life = Living(desk, access)
        receipts = await life.imported(transaction, wholes)
        failure = (await transaction.tried([*life.commands(), COMMIT])).failure
    if failure is None:
        return receipts
    if failure.sqlstate[:2] not in failures.UNFIT and failure.sqlstate != failures.TAKEN:
        raise failures.unwritten(failure.sqlstate)
    return failure.sqlstate


class Living(Write):
    """Changes to memories of one org inside a transaction that the caller begins and ends."""

    def __init__(self, desk: Desk, access: Access) -> None:
        super().__init__(desk, access.org, Identity.of(access))
        self._access = access

    async def change(self, transaction: Transaction, change: Change) -> Receipt:
        passages = 0 if change.entry is None else len(change.entry.passages)
        await self.look(transaction, [], passages, names=[change.id, *([change.by] if change.by is not None else [])])
        memory = self._reached(change.id, self._access)
        if memory is None:
            return refused(change.id, Refusal.UNKNOWN_MEMORY)
        match change.what:
            case Written.APPROVED:
                done = await self._approve(transaction, memory, change)
            case Written.REJECTED:
                done = self._reject(memory)
            case Written.SUPERSEDED:
                done = await self._take_place(transaction, memory, change)
            case Written.RESTORED:
                done = self._restore(memory)
            case Written.DISPUTED:
                done = await self._dispute(transaction, memory, change)
            case _:
                raise ValueError(f"{change.what} is no change")
        if isinstance(done, Refusal):
            return refused(change.id, done)
        told, commands = done
        await transaction.ask([*commands, *self._past([])])
        return Receipt(id=str(change.id), written=told, version=memory.version)

    async def forget(self, transaction: Transaction, what: Forgetting, *, dry_run: bool) -> Forgotten:
        names = await self._meant(transaction, what) if what.names is None else list(what.names)
        await self.look(transaction, [], 0, names=names)
        chosen = {name: memory for name in names if (memory := self._reached(name, self._access)) is not None}
        keys = keys_of([memory.key for memory in chosen.values()])
        parts = json.loads((await transaction.ask([self._command("parts_of", memories=keys)])).value(0) or b"[]")
        counts = dict(zip(PARTS, (len(chosen), *parts), strict=True))
        counts["versions"] += await self._forget_earlier(transaction, what, chosen, dry_run=dry_run)
        if not dry_run and chosen:
            await self._take_out(transaction, chosen)
        receipts = tuple(
            Receipt(id=str(name), written=Written.FORGOTTEN, version=chosen[name].version)
            if name in chosen
            else refused(name, Refusal.UNKNOWN_MEMORY)
            for name in what.names or ()
        )
        return Forgotten(counts=counts, receipts=receipts, dry_run=dry_run)

    async def imported(self, transaction: Transaction, wholes: Sequence[Whole]) -> list[Receipt]:
        records = [whole.entry.record for whole in wholes]
        keys = [(each.actor, each.key) for whole in wholes for each in whole.keys]
        await self.look(transaction, records, sum(len(whole.entry.passages) for whole in wholes), keys=keys)
        here = await self._wholes(transaction, [record.id for record in records if record.id in self.memories])
        return [self._import(whole, here) for whole in wholes]

    def _import(self, whole: Whole, here: dict[MemoryId, Whole]) -> Receipt:
        record, access = whole.entry.record, self._access
        if not access.reaches(record.label.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        before = self.memories.get(record.id)
        if before is not None and not access.reaches(before.shelf):
            return refused(record.id, Refusal.NOT_AUTHORISED)
        if before is not None:
            told = Receipt(id=str(record.id), written=Written.UNCHANGED, version=before.version)
            return told if alike(here[record.id], whole) else refused(record.id, Refusal.OTHER_CONTENT)
        for each in whole.keys:
            if (each.actor, each.key) in self._first:
                return refused(record.id, Refusal.KEY_CONFLICT)
            if tombstone(self._of, each.actor, each.key) in self._tombstones:
                return refused(record.id, Refusal.KEY_FORGOTTEN)
        parents = [parent.trust for name in record.derived_from if (parent := self._reached(name, access)) is not None]
        entry = replace(whole.entry, record=replace(record, trust=lowest(record.trust, parents)))
        known = self._new(record)
        self._become(known, entry, whole.version, whole.written_at)
        known.past += whole.past
        here[record.id] = replace(whole, entry=replace(entry, passages=()))
        for each in whole.keys:
            receipt = Receipt(id=str(record.id), written=each.written, version=each.version)
            self._first[each.actor, each.key] = record.id, each.digest, receipt
            self._told.append((replace(record, actor=each.actor, key=each.key, digest=each.digest), receipt))
        return Receipt(id=str(record.id), written=Written.STORED, version=whole.version)

    async def _approve(self, transaction: Transaction, memory: Known, change: Change) -> tuple[Written, list[Command]] | Refusal:
        if memory.approved:
            return Written.UNCHANGED, []
        if change.entry is None or (change.seen, change.entry.record.digest) != (memory.version, memory.digest):
            return Refusal.REVISED
        older = references_of((await self._stated(transaction, memory))[memory.key], SUPERSEDES)
        await self._also(transaction, [name for name in older if name not in self.memories])
        if any(self._reached(name, self._access) is None for name in older):
            return Refusal.UNKNOWN_REFERENCE
        if self._out_of_its_own_place(memory, older):
            return Refusal.NOT_STANDING
        label = replace(change.entry.record.label, approval=Approval.APPROVED, shelf=memory.shelf)
        memory.entry = replace(change.entry, record=replace(change.entry.record, label=label))
        self._indexed_again.add(change.id)
        self._happened(memory, Written.APPROVED, self._access)
        for name in older:
            self._supersede(self.memories[name], change.id, self._access)
        approved = self._command("set_approvals", memories=keys_of([memory.key]), approval=str(Approval.APPROVED))
        commands = [approved, *self.commands()]
        for known in self.memories.values():
            known.past = []
        return Written.APPROVED, commands

    def _reject(self, memory: Known) -> tuple[Written, list[Command]]:
        if memory.rejected:
            return Written.UNCHANGED, []
        self._happened(memory, Written.REJECTED, self._access)
        keys = keys_of([memory.key])
        indexes = [self._command(name, memories=keys) for name in (*self._indexes(), "withdraw_passages")]
        counts = self._counts(Batch(self._desk, self._org, []), [memory])
        return Written.REJECTED, [*indexes, *counts, self._command("set_approvals", memories=keys, approval=str(Approval.REJECTED))]

    async def _take_place(self, transaction: Transaction, memory: Known, change: Change) -> tuple[Written, list[Command]] | Refusal:
        newer = None if change.by is None else self._reached(change.by, self._access)
        if newer is None or change.by is None or newer is memory:
            return Refusal.UNKNOWN_REFERENCE
        if newer.superseded or not newer.approved:
            return Refusal.NOT_STANDING
        stated = (await self._stated(transaction, newer))[newer.key]
        said = references_of(stated, SUPERSEDES)
        if change.id in said and memory.superseded:
            return Written.UNCHANGED, []
        commands = []
        if change.id not in said:
            told = with_references(stated, SUPERSEDES, (*said, change.id))
            commands.append(self._command("set_stated", memory=newer.key, stated=told))
        if not memory.superseded:
            commands += [
                *self._marked([memory.key], superseded=True),
                *self._counts(Batch(self._desk, self._org, []), [memory]),
            ]
        self._happened(memory, Written.SUPERSEDED, self._access, change.by)
        return Written.SUPERSEDED, commands

    def _restore(self, memory: Known) -> tuple[Written, list[Command]]:
        if not memory.superseded:
            return Written.UNCHANGED, []
        self._happened(memory, Written.RESTORED, self._access)
        counts = self._counts(Batch(self._desk, self._org, []), [], [memory])
        return Written.RESTORED, [*self._marked([memory.key], superseded=False), *counts]

    async def _dispute(self, transaction: Transaction, memory: Known, change: Change) -> tuple[Written, list[Command]] | Refusal:
        other = None if change.by is None else self._reached(change.by, self._access)
        if other is None or change.by is None or other is memory:
            return Refusal.UNKNOWN_REFERENCE
        stated = (await self._stated(transaction, memory))[memory.key]
        said = references_of(stated, DISPUTES)
        if change.by in said:
            return Written.UNCHANGED, []
        self._happened(memory, Written.DISPUTED, self._access, change.by)
        return Written.DISPUTED, [
            self._command("set_stated", memory=memory.key, stated=with_references(stated, DISPUTES, (*said, change.by)))
        ]

    async def _stated(self, transaction: Transaction, memory: Known) -> Mapping[int, Sequence[Any]]:
        """What the owner of a memory said of it, by its key."""
        answers = await transaction.ask([self._command("stated_of", memories=keys_of([memory.key]))])
        return dict(json.loads(answers.value(0) or b"[]"))

    async def _meant(self, transaction: Transaction, what: Forgetting) -> list[MemoryId]:
        """The names of the memories in reach for which all holds that is stated."""
        stated = {"origin": what.origin, "scope": what.scope, "actor": what.actor}
        spelling = {name: None if value is None else spelled(value) for name, value in stated.items()}
        answers = await transaction.ask([self._desk.command("meant", **reach(self._access), **spelling, expired=what.expired)])
        return [MemoryId(Source(source), unspelled(name)) for source, name in json.loads(answers.value(0) or b"[]")]

    async def _forget_earlier(self, transaction: Transaction, what: Forgetting, chosen: Mapping[MemoryId, Known], *, dry_run: bool) -> int:
        """How many versions an actor wrote that others replaced; all of an actor is forgotten with them."""
        if what.actor is None or what.names is not None:
            return 0
        others = [name for name in await self._meant(transaction, replace(what, actor=None)) if name not in chosen]
        await self._also(transaction, others)
        given = {"memories": keys_of([self.memories[name].key for name in others]), "actor": spelled(what.actor)}
        number = int.from_bytes((await transaction.ask([self._command("count_earlier", **given)])).value(0) or b"")
        if number and not dry_run:
            await transaction.ask([self._command("drop_earlier", **given)])
        return number

    async def _take_out(self, transaction: Transaction, chosen: Mapping[MemoryId, Known]) -> None:
        keys = keys_of([memory.key for memory in chosen.values()])
        told = json.loads((await transaction.ask([self._command("keys_of", memories=keys)])).value(0) or b"[]")
        used = [(unspelled(actor), unspelled(key)) for actor, key in told]
        marks = [tombstone(self._of, actor, key) for actor, key in used]
        gone = (*self._indexes(), "drop_passages", "drop_tags", "drop_past", "drop_derived", "drop_memories")
        shelves = keys_of(sorted({memory.was for memory in chosen.values() if memory.was is not None}))
        await transaction.ask(
            [
                self._command("add_tombstones", marks=marks),
                self._command("drop_receipts", **used_by(used)),
                *(self._command(name, memories=keys) for name in gone),
                *self._counts(Batch(self._desk, self._org, []), chosen.values()),
                self._command("drop_shelves", on_shelf=shelves),
                OF_ORG,
                self._command("forget_names", names=[name_text(name) for name in chosen]),
            ]
        )

    async def _wholes(self, transaction: Transaction, names: Sequence[MemoryId]) -> dict[MemoryId, Whole]:
        if not names:
            return {}
        answers = await transaction.ask([self._desk.command("wholes", **reach(self._access), **names_of(names))])
        return {whole.entry.record.id: whole for whole in map(whole_of, json.loads(answers.value(0) or b"[]"))}

    async def _also(self, transaction: Transaction, names: Sequence[MemoryId]) -> None:
        """Reads more memories, after the first look."""
        asked = [self._command(name, **names_of(names)) for name in ("memories_of", "passages_kept")]
        answers = await transaction.ask(asked)
        memories, passages = (json.loads(answers.value(place) or b"[]") for place in range(2))
        self._take([], memories, passages, [])
