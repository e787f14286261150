"""Reading: what is asked of Postgres about passages and memories that are known by name, each in one round trip."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import timedelta

import numpy as np

from remit.pipeline.storage.entry import Entry, Whole
from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.postgres.identity import NOBODY, Identity
from remit.pipeline.storage.postgres.line import Answers
from remit.pipeline.storage.postgres.rows import memories_of, outlines_of, reach, record_of, spelled, unspelled, whole_of
from remit.pipeline.storage.postgres.shelves import Shelves, Standing
from remit.pipeline.storage.postgres.statements import Command
from remit.pipeline.storage.postgres.wire import numbers_of
from remit.stages.access import Access
from remit.stages.evidence import Memory, MemoryId, Outline, PassageId


async def outlines(desk: Desk, keys: Collection[int], access: Access) -> dict[int, Outline]:
    if not keys:
        return {}
    wanted = np.fromiter(keys, dtype=np.int64, count=len(keys))
    answers = await _asked(desk, access, desk.command("outlines", **reach(access), keys=wanted))
    return outlines_of(answers.value(0))


async def around(desk: Desk, keys: Collection[int], turns: int, within: timedelta, access: Access) -> dict[int, list[int]]:
    if not keys:
        return {}
    wanted = np.fromiter(keys, dtype=np.int64, count=len(keys))
    beside = {"keys": wanted, "reach": turns, "within": within // timedelta(microseconds=1)}
    answers = await _asked(desk, access, desk.command("around", **reach(access), **beside))
    return {key: before + after for key, before, after in json.loads(answers.value(0) or b"[]")}


async def vocabulary(desk: Desk, shortest: int, longest: int, access: Access) -> list[str]:
    answers = await _asked(desk, access, desk.command("vocabulary", **reach(access), shortest=shortest, longest=longest))
    return sorted(map(unspelled, json.loads(answers.value(0) or b"[]")))


async def read(desk: Desk, passages: Sequence[PassageId], access: Access) -> dict[PassageId, Memory]:
    if not passages:
        return {}
    wanted = {
        "wanted_sources": [str(passage.memory.source) for passage in passages],
        "wanted_ids": [spelled(passage.memory.id) for passage in passages],
        "ordinals": np.array([passage.ordinal for passage in passages], dtype=np.int64),
    }
    answers = await _asked(desk, access, desk.command("read", **reach(access), **wanted))
    return memories_of(access.org, answers.value(0))


async def passages_of(desk: Desk, memory: MemoryId, access: Access) -> list[PassageId]:
    named = {"source": str(memory.source), "id": spelled(memory.id)}
    answers = await _asked(desk, access, desk.command("passages_of", **reach(access), **named))
    return [PassageId(memory, ordinal) for ordinal in numbers_of(answers.value(0)).tolist()]


async def brief(desk: Desk, access: Access, pinned: int, important: int, recent: int) -> list[Memory]:
    scope = reach(access)
    answers = await _asked(
        desk,
        access,
        desk.command("brief_facts", **scope, pinned=True, most=max(0, pinned)),
        desk.command("brief_facts", **scope, pinned=False, most=max(0, important)),
        desk.command("brief_sessions", **scope, most=max(0, recent)),
    )
    return [memory for group in range(3) for memory in memories_of(access.org, answers.value(group)).values()]


async def coverage(desk: Desk, space: str, access: Access) -> tuple[int, int]:
    scope = reach(access)
    reached = "reached_of_all" if access.granted is None else "reached_of_granted"
    async with desk.reading(Identity.of(access)) as transaction:
        shelves = Shelves.of((await transaction.ask([desk.command(reached, **scope)])).value(0))
        timed = await transaction.ask([desk.command("in_their_time", **scope, shelves=shelves.all)])
        standing = Standing.of(shelves, timed.value(0))
    return sum(number for (_, of_space), number in standing.vectors.items() if of_space == space), standing.passages


async def spaces(desk: Desk, access: Access) -> dict[str, int]:
    return dict(json.loads((await _asked(desk, access, desk.command("spaces", **reach(access)))).value(0) or b"{}"))


async def wholes(desk: Desk, names: Sequence[MemoryId], access: Access) -> dict[MemoryId, Whole]:
    if not names:
        return {}
    wanted = {"wanted_sources": [str(name.source) for name in names], "wanted_ids": [spelled(name.id) for name in names]}
    answers = await _asked(desk, access, desk.command("wholes", **reach(access), **wanted))
    return {whole.entry.record.id: whole for whole in map(whole_of, json.loads(answers.value(0) or b"[]"))}


async def exported(desk: Desk, after: MemoryId | None, most: int, access: Access) -> list[Whole]:
    behind = {"source": "", "id": ""} if after is None else {"source": str(after.source), "id": spelled(after.id)}
    answers = await _asked(desk, access, desk.command("wholes_behind", **reach(access), **behind, most=max(0, most)))
    return list(map(whole_of, json.loads(answers.value(0) or b"[]")))


async def records(desk: Desk, after: tuple[str, MemoryId] | None, most: int) -> list[tuple[str, Entry]]:
    """Goes through the orgs one by one, each on its own behalf; which there are only the owner may know."""
    org, memory = after if after is not None else ("", None)
    found: list[tuple[str, Entry]] = []
    for each in await orgs(desk, org):
        if len(found) >= most:
            break
        behind = {"source": str(memory.source), "id": spelled(memory.id)} if memory and each == org else {"source": "", "id": ""}
        async with desk.reading(Identity.of_org(each)) as transaction:
            answers = await transaction.ask([desk.command("records", org=spelled(each), **behind, most=most - len(found))])
        found += [(each, Entry(record=record_of(row), passages=())) for row in json.loads(answers.value(0) or b"[]")]
    return found


async def orgs(desk: Desk, first: str) -> list[str]:
    """All orgs from one on. Raises `StorageUnavailable` unless who logged in owns the store."""
    async with desk.reading(NOBODY, host=True) as transaction:
        await transaction.owned()
        answers = await transaction.ask([desk.command("tenants", org=spelled(first))])
    return sorted(map(unspelled, json.loads(answers.value(0) or b"[]")))


async def roots(desk: Desk, org: str) -> list[str]:
    answers = await desk.asked(Identity.of_org(org), [desk.command("roots", org=spelled(org))])
    return sorted(map(unspelled, json.loads(answers.value(0) or b"[]")))


async def _asked(desk: Desk, access: Access, *commands: Command) -> Answers:
    return await desk.asked(Identity.of(access), commands)


async def setting(desk: Desk, name: str) -> str:
    answers = await desk.asked(NOBODY, [desk.command("setting", setting=name)])
    return (answers.value(0) or b"").decode()


async def granted(desk: Desk, actor: str, org: str) -> list[str]:
    answers = await desk.asked(Identity.of_org(org), [desk.command("granted", org=spelled(org), actor=spelled(actor))])
    return sorted(map(unspelled, json.loads(answers.value(0) or b"[]")))
