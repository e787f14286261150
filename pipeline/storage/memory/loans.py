"""Loans in dictionaries: passages without a vector lent to who embeds them, what they bring back kept, vectors dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import LOOK, Dropped, Lacking, Lent
from remit.pipeline.storage.memory.finding import Indexed, Kept
from remit.pipeline.storage.memory.life import sound
from remit.stages.access import Access
from remit.stages.evidence import MemoryId

Vectors = Mapping[str, NDArray[np.float32]]


class Loans:
    """Lends out of what a store keeps, and changes its vectors."""

    def __init__(self, kept: MutableMapping[tuple[str, MemoryId], Kept]) -> None:
        self._kept = kept
        self._until: dict[tuple[str, int, str], datetime] = {}

    def lend(self, space: str, after: int, most: int, until: datetime, access: Access) -> Lent:
        self._until = {loan: end for loan, end in self._until.items() if loan[0] != access.org or end > access.as_of}
        looked, last = self._look(after, access)
        lacking = [(kept, each) for kept, each in looked if not kept.label.superseded and space not in each.passage.vectors]
        free = [(kept, each) for kept, each in lacking if (access.org, each.key, space) not in self._until]
        chosen = free[: max(0, most)]
        self._until |= {(access.org, each.key, space): until for _, each in chosen}
        return Lent(
            passages=tuple(_lacking(kept, each) for kept, each in chosen),
            after=chosen[-1][1].key if chosen and len(chosen) < len(free) else last,
            elsewhere=len(lacking) - len(free),
        )

    def keep(self, space: str, vectors: Mapping[int, NDArray[np.float32] | None], access: Access) -> int:
        given = {key: kept for key, vector in vectors.items() if vector is not None and (kept := sound({space: vector}))}
        changed = self._changed(lambda each: {**given.get(each.key, {}), **each.passage.vectors}, access)
        for key in vectors:
            self._until.pop((access.org, key, space), None)
        return changed

    def spaces(self, access: Access) -> Mapping[str, int]:
        return Counter(
            space
            for kept, each in self._reached(access)
            if not kept.label.superseded and not (kept.label.valid_from or kept.label.valid_until or kept.label.expires_at)
            for space in each.passage.vectors
        )

    def drop(self, keep: Collection[str], after: int, access: Access) -> Dropped:
        looked, last = self._look(after, access)
        keys = {each.key for _, each in looked}

        def left(each: Indexed) -> Vectors:
            vectors = each.passage.vectors
            return vectors if each.key not in keys else {space: vectors[space] for space in vectors if space in keep}

        return Dropped(vectors=self._changed(left, access), after=last)

    def _changed(self, vectors: Callable[[Indexed], Vectors], access: Access) -> int:
        """Gives each passage in reach other vectors; how many came or went."""
        number = 0
        for place, kept in list(self._kept.items()):
            if place[0] == access.org and kept.findable and access.reaches(kept.label.shelf):
                passages = [replace(each, passage=replace(each.passage, vectors=vectors(each))) for each in kept.passages]
                number += sum(
                    len(now.passage.vectors.keys() ^ was.passage.vectors.keys()) for now, was in zip(passages, kept.passages, strict=True)
                )
                self._kept[place] = replace(kept, passages=tuple(passages))
        return number

    def _look(self, after: int, access: Access) -> tuple[list[tuple[Kept, Indexed]], int | None]:
        """The approved passages in reach among the next of the org behind a key, and where that look ends, None at the end of all."""
        org = [(kept, each) for (org, _), kept in self._kept.items() if org == access.org for each in kept.passages if each.key > after]
        looked = sorted(org, key=lambda pair: pair[1].key)[:LOOK]
        reached = [(kept, each) for kept, each in looked if kept.findable and access.reaches(kept.label.shelf)]
        return reached, looked[-1][1].key if len(looked) == LOOK else None

    def _reached(self, access: Access) -> Iterator[tuple[Kept, Indexed]]:
        for (org, _), kept in self._kept.items():
            if org == access.org and kept.findable and access.reaches(kept.label.shelf):
                yield from ((kept, each) for each in kept.passages)


def _lacking(kept: Kept, each: Indexed) -> Lacking:
    return Lacking(key=each.key, memory=kept.record.id, ordinal=each.passage.ordinal, title=kept.record.title, text=each.passage.text)
