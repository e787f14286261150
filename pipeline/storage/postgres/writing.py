"""Writing: entries, and what else is put into the store, each time in one transaction."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import TypeVar

import numpy as np

from remit.pipeline.storage.entry import Entry, Receipt, Refusal, refused
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.deciding import names_of
from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.postgres.identity import NOBODY, Identity, as_granted, lock_of_grants
from remit.pipeline.storage.postgres.recording import Write
from remit.pipeline.storage.postgres.rows import spelled, unspelled
from remit.pipeline.storage.postgres.statements import plain
from remit.stages.access import Access
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

T = TypeVar("T")

COMMIT = plain("COMMIT")

TRIES = 3
"""How often a write is begun anew because a memory that it may not see, or somebody else's locks, were in its way."""


async def anew(write: Callable[[], Awaitable[T]]) -> T:
    """What a write gives; begun anew, up to `TRIES` times in all, when the database took its transaction back for somebody else's locks."""
    for _ in range(TRIES - 1):
        try:
            return await write()
        except failures.InTheWay:
            continue
    return await write()


async def put(desk: Desk, entries: Sequence[Entry], access: Access) -> list[Receipt]:
    """Writes what `access` may write. A value that the database cannot take costs its own entry alone."""
    hidden = set[MemoryId]()
    for _ in range(TRIES):
        written = await anew(partial(_put, desk, entries, access, hidden))
        if not isinstance(written, str):
            return written
        if written != failures.TAKEN:
            return await _one_by_one(desk, entries, access, written)
        hidden |= await _hidden(desk, entries, access)
    raise failures.unwritten(failures.TAKEN)


async def _put(desk: Desk, entries: Sequence[Entry], access: Access, hidden: set[MemoryId]) -> list[Receipt] | str:
    """The receipts, or the SQLSTATE of what lies in one of the entries."""
    write = Write(desk, access.org, Identity.of(access))
    async with desk.writing(Identity.of(access), Operation.PUT) as transaction:
        await write.look(transaction, [entry.record for entry in entries], sum(len(entry.passages) for entry in entries))
        receipts = [write.put(entry, access, hidden) for entry in entries]
        failure = (await transaction.tried([*write.commands(), COMMIT])).failure
    if failure is None:
        return receipts
    if failure.sqlstate[:2] not in failures.UNFIT and failure.sqlstate != failures.TAKEN:
        raise failures.unwritten(failure.sqlstate)
    return failure.sqlstate


async def _one_by_one(desk: Desk, entries: Sequence[Entry], access: Access, sqlstate: str) -> list[Receipt]:
    if len(entries) == 1:
        return [refused(entries[0].record.id, Refusal.TOO_LARGE if sqlstate.startswith("54") else Refusal.INVALID)]
    return [receipt for entry in entries for receipt in await as_granted(access, partial(put, desk, [entry]))]


async def _hidden(desk: Desk, entries: Sequence[Entry], access: Access) -> set[MemoryId]:
    """The memories that stand on shelves which this access does not reach, found out by trying, in a transaction that is rolled back."""
    write = Write(desk, access.org, Identity.of(access))
    async with desk.writing(Identity.of(access), Operation.PUT) as transaction:
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
        await anew(partial(_reindexed, desk, org, [entry for entry in entries if entry.record.label.shelf.org == org]))


async def _reindexed(desk: Desk, org: str, entries: Sequence[Entry]) -> None:
    write = Write(desk, org, Identity.of_org(org))
    async with desk.writing(Identity.of_org(org), Operation.REINDEX) as transaction:
        await write.look(transaction, [entry.record for entry in entries], sum(len(entry.passages) for entry in entries))
        for entry in entries:
            write.reindex(entry)
        await transaction.ask([*write.commands(), COMMIT])


async def add_root(desk: Desk, org: str, path: str) -> None:
    async with desk.writing(Identity.of_org(org), Operation.ROOTS) as transaction:
        await transaction.ask([desk.command("add_root", org=spelled(org), path=spelled(path), digest=_digest(path)), COMMIT])


async def drop_root(desk: Desk, org: str, path: str) -> bool:
    async with desk.writing(Identity.of_org(org), Operation.ROOTS) as transaction:
        answers = await transaction.ask([desk.command("drop_root", org=spelled(org), digest=_digest(path)), COMMIT])
    return answers.value(0) != bytes(8)


def _digest(path: str) -> str:
    return sha256(path.encode("utf-8", "surrogatepass")).hexdigest()


async def signed(desk: Desk, name: str, signature: str) -> None:
    async with desk.writing(NOBODY, Operation.REINDEX, host=True) as transaction:
        await transaction.owned()
        await transaction.ask([desk.command("set", setting=name, value=signature), COMMIT])


async def grant(desk: Desk, actor: str, org: str, scope: str) -> None:
    async with desk.writing(Identity.of_org(org), Operation.GRANT) as transaction:
        await transaction.ask([desk.command("grant", org=spelled(org), actor=spelled(actor), scope=spelled(scope)), COMMIT])


async def revoke(desk: Desk, actor: str, org: str, scope: str) -> bool:
    async with desk.writing(Identity.of_org(org), Operation.REVOKE) as transaction:
        given = {"org": spelled(org), "actor": spelled(actor), "scope": spelled(scope)}
        lock = desk.command("lock", number=lock_of_grants(given["org"], given["actor"]))
        answers = await transaction.ask([lock, desk.command("revoke", **given), COMMIT])
    return answers.value(1) != bytes(8)
