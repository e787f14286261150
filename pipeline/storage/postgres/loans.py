"""Loans: passages without a vector lent to who embeds them, what comes back of that kept, and vectors of other spaces dropped."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import LOOK, Dropped, Lacking, Lent, worth_keeping
from remit.pipeline.storage.operations import Operation
from remit.pipeline.storage.postgres.deciding import keys_of, turn
from remit.pipeline.storage.postgres.desk import Desk, Transaction
from remit.pipeline.storage.postgres.identity import Identity
from remit.pipeline.storage.postgres.rows import dumped, micros, reach, unspelled
from remit.pipeline.storage.postgres.statements import Command
from remit.pipeline.storage.postgres.wire import KIND, byteas, vectors
from remit.pipeline.storage.postgres.writing import COMMIT
from remit.stages.access import Access
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

Vectors = Mapping[int, NDArray[np.float32] | None]


@dataclass(frozen=True, slots=True)
class Held:
    """An approved passage in reach: its key, source and shelf, whether it stands at every time, and the spaces of its vectors."""

    key: int
    source: str
    shelf: int
    always: bool
    spaces: Sequence[str]


async def lend(desk: Desk, space: str, after: int, most: int, until: datetime, access: Access) -> Lent:
    scope = reach(access)
    looked = scope | {"space": space, "after": after, "look": LOOK}
    async with desk.writing(Identity.of(access), Operation.EMBED) as transaction:
        asked = [turn(desk, scope["org"]), desk.command("end_loans", **scope), desk.command("lacking", **looked)]
        answers = await transaction.ask([*asked, desk.command("end_of_look", **looked)])
        lacking = json.loads(answers.value(2) or b"[]")
        free = [key for key, lent in lacking if not lent]
        chosen = free[: max(0, most)]
        given = {"org": scope["org"], "space": space, "passages": keys_of(chosen), "until": micros(until)}
        answers_of_texts = await transaction.ask([desk.command("add_loans", **given), desk.command("texts_of", **given), COMMIT])
    return Lent(
        passages=tuple(
            Lacking(key=key, memory=MemoryId(Source(source), unspelled(name)), ordinal=at, title=unspelled(title), text=unspelled(text))
            for key, source, name, at, title, text in json.loads(answers_of_texts.value(1) or b"[]")
        ),
        after=chosen[-1] if chosen and len(chosen) < len(free) else json.loads(answers.value(3) or b"null"),
        elsewhere=len(lacking) - len(free),
    )


async def keep(desk: Desk, space: str, given: Vectors, access: Access) -> int:
    scope = reach(access)
    table = {key: desk.means.table_for(vector.size) for key, vector in given.items() if vector is not None}
    sound = {key: vector for key, vector in given.items() if table.get(key) is not None and vector is not None and worth_keeping(vector)}
    loans = {"org": scope["org"], "space": space, "passages": keys_of(list(given))}
    async with desk.writing(Identity.of(access), Operation.EMBED) as transaction:
        asked = [turn(desk, scope["org"]), desk.command("held_of", **scope, passages=keys_of(list(sound)))]
        held = _held((await transaction.ask(asked)).value(1))
        lacking = [each for each in held if space not in each.spaces]
        commands = [command for name in desk.means.places for command in _added(desk, scope["org"], space, name, lacking, sound, table)]
        commands += await _noted(desk, transaction, scope["org"], [(each, sorted([*each.spaces, space])) for each in lacking])
        await transaction.ask([*commands, desk.command("drop_loans", **loans), COMMIT])
    return len(lacking)


async def drop(desk: Desk, keep: Collection[str], after: int, access: Access) -> Dropped:
    scope = reach(access)
    looked = scope | {"after": after, "look": LOOK}
    async with desk.writing(Identity.of(access), Operation.PRUNE) as transaction:
        asked = [turn(desk, scope["org"]), desk.command("held_behind", **looked), desk.command("end_of_look", **looked)]
        answers = await transaction.ask(asked)
        held = [each for each in _held(answers.value(1)) if not set(each.spaces) <= set(keep)]
        gone = [(each, space) for each in held for space in each.spaces if space not in keep]
        commands = [
            desk.command(
                f"drop_spaces_{table}",
                org=scope["org"],
                spaces=[space for _, space in gone],
                sources_of=[each.source for each, _ in gone],
                on_shelf=keys_of([each.shelf for each, _ in gone]),
                passages=keys_of([each.key for each, _ in gone]),
            )
            for table in desk.means.places
        ]
        left = [(each, [space for space in each.spaces if space in keep]) for each in held]
        commands += await _noted(desk, transaction, scope["org"], left)
        await transaction.ask([*commands, COMMIT])
    return Dropped(vectors=len(gone), after=json.loads(answers.value(2) or b"null"))


def _added(
    desk: Desk,
    org: str,
    space: str,
    name: str,
    lacking: Iterable[Held],
    given: Mapping[int, NDArray[np.float32]],
    table: Mapping[int, str | None],
) -> list[Command]:
    """The statement that puts the vectors which belong into one table there."""
    here, place = [each for each in lacking if table[each.key] == name], desk.means.places[name]
    if not here:
        return []
    held = [given[each.key] for each in here]
    return [
        desk.command(
            f"add_{name}",
            org=org,
            spaces=[space] * len(here),
            sources_of=[each.source for each in here],
            passages=keys_of([each.key for each in here]),
            lengths=keys_of([vector.size for vector in held]),
            embeddings=vectors(held, place.dimensions, place.oid, KIND[name]),
            exacts=byteas([vector.astype("<f4").tobytes() for vector in held]),
        )
    ]


async def _noted(desk: Desk, transaction: Transaction, org: str, changes: Sequence[tuple[Held, Sequence[str]]]) -> list[Command]:
    """What the indexes hold for passages from now on, and how much stands on their shelves then."""
    if not changes:
        return []
    noted = desk.command(
        "set_spaces", org=org, passages=keys_of([each.key for each, _ in changes]), spaces=[dumped(spaces) for _, spaces in changes]
    )
    shelves = sorted({each.shelf for each, _ in changes if each.always})
    answers = await transaction.ask([desk.command("vectors_on", org=org, on_shelf=keys_of(shelves))])
    counts = {shelf: Counter(vectors) for shelf, vectors in json.loads(answers.value(0) or b"[]")}
    for each, spaces in changes:
        if each.always:
            counts[each.shelf].update(spaces)
            counts[each.shelf].subtract(each.spaces)
    nothing = np.zeros(len(shelves), dtype=np.int64)
    told = [dumped({space: number for space, number in sorted(counts[shelf].items()) if number}) for shelf in shelves]
    counted = desk.command("count_on_shelves", org=org, on_shelf=keys_of(shelves), passages=nothing, lengths=nothing, vectors=told)
    return [noted, counted] if shelves else [noted]


def _held(told: bytes | None) -> list[Held]:
    return [Held(*row) for row in json.loads(told or b"[]")]
