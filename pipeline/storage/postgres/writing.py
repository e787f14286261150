"""Writing: entries, and what else is put into the store, each time in one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from remit.pipeline.storage.entry import Entry, Receipt, Refusal, refused
from remit.pipeline.storage.postgres import failures
from remit.pipeline.storage.postgres.deciding import names_of
from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.postgres.identity import NOBODY, Identity
from remit.pipeline.storage.postgres.recording import Write
from remit.pipeline.storage.postgres.rows import spelled, unspelled
from remit.pipeline.storage.postgres.statements import plain
from remit.stages.access import Access
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

COMMIT = plain("COMMIT")

TRIES = 3
"""How often a write is begun anew because a memory that it may not see, or somebody else's locks, were in its way."""


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
