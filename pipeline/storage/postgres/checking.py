"""Checking: what is wrong with a Postgres store as it stands, and what it can do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio

from remit.pipeline.errors import StorageUnavailable, UnsafeStorage
from remit.pipeline.storage.postgres import condition, reading
from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.postgres.identity import NOBODY, Identity
from remit.pipeline.storage.postgres.making import SIGNATURE
from remit.pipeline.storage.postgres.nearest import NO_EXTENSION
from remit.pipeline.storage.postgres.rows import spelled
from remit.pipeline.storage.store import Capabilities, Fault

_REINDEX = "run `remit init`: it makes the indexes again"
_CARRY = "export, and import into a new store"
_LOOK = "ask again when it is less busy, or look at the server"

_DISAGREEMENTS = {
    "missing_postings": "passages whose words are not all in the index",
    "orphan_postings": "places of words that belong to no passage as it stands",
    "missing_phrases": "passages that the phrase index does not know",
    "orphan_phrases": "rows of the phrase index that belong to no passage",
    "missing_words": "words that the vocabulary does not know",
    "orphan_words": "words of the vocabulary that stand nowhere",
    "orphan_past": "rows of histories, tags and descents that lie on another shelf than their memory",
    "miscounted_shelves": "shelves whose counters are wrong",
    "miscounted_vectors": "shelves whose counters of vectors are wrong",
}
_OF_VECTORS = {
    "missing_vectors": "vectors that are gone",
    "orphan_local": "vectors that belong to no passage as it stands",
    "orphan_semantic": "longer vectors that belong to no passage as it stands",
}


async def capabilities(desk: Desk) -> Capabilities:
    async with desk.reading(NOBODY) as transaction:
        facts = json.loads((await transaction.ask([desk.command("facts")])).value(0) or b"{}")
    means, settings = desk.means, desk.settings
    indexes = {f"{name} vectors": _told(place.dimensions, place.indexed) for name, place in means.places.items()}
    scan = f"{settings.iterative_scan}, up to {settings.max_scan_tuples} rows" if condition.number(means.version) >= (0, 8) else "not there"
    vectors = {"pgvector": means.version or "not there", **indexes, "iterative scan": scan}
    return Capabilities(
        vectors=None if means.places else NO_EXTENSION,
        fix="let a DBA run CREATE EXTENSION vector, then run `remit init`; or set embedding.provider to none",
        dimensions=max((place.dimensions for place in means.places.values()), default=0),
        facts={"store": "postgres", "profile": settings.profile, **facts, **vectors, "connections": f"{desk.pool.idle} idle"},
    )


async def faults(desk: Desk, signature: str) -> list[Fault]:
    """All that is wrong. The owner's login looks at every row of every org, so it takes a while on a large store; another at none."""
    try:
        async with desk.reading(NOBODY) as transaction:
            asked = [desk.command("setting", setting=SIGNATURE), desk.command("condition", most_dead=condition.MOST_DEAD)]
            answers = await transaction.ask(asked)
    except UnsafeStorage as unsafe:
        return [Fault(code="unsafe_storage", detail=unsafe.fact, fix=f"take that power from the role, or {condition.INIT}")]
    found = list(condition.faults(answers.value(1), desk.means))
    if answers.value(0) != signature.encode():
        detail = "the words were made by another analyser than the configured one"
        found.append(Fault(code="other_analyser", detail=detail, fix=_REINDEX))
    return found + [fault async for fault in _disagreements(desk)]


async def _disagreements(desk: Desk) -> AsyncIterator[Fault]:
    """What rows and indexes do not agree on, summed up over all orgs."""
    try:
        orgs = await reading.orgs(desk, "")
    except StorageUnavailable:
        return
    told = _DISAGREEMENTS | (_OF_VECTORS if desk.means.places else {})
    sums, late = dict.fromkeys(told, 0), set[str]()
    for org in orgs:
        until = anyio.current_time() + desk.settings.write_seconds
        async with desk.reading(Identity.of_org(org), until=until) as transaction:
            answers = await transaction.tried([desk.command(name, org=spelled(org)) for name in told])
        for place, name in enumerate(told):
            if place < len(answers.results):
                sums[name] += int.from_bytes(answers.value(place) or b"")
            else:
                late.add(name)
    for name, number in sums.items():
        if number:
            yield Fault(code=name, detail=f"{number} {told[name]}", fix=_CARRY if name == "orphan_past" else _REINDEX)
        elif name in late:
            yield Fault(code=name, detail=f"not all could be counted: {told[name]}", fix=_LOOK)


def _told(dimensions: int, indexed: bool) -> str:
    return f"{dimensions} dimensions, {'with an index' if indexed else 'without an index'}"
