"""Loans: passages without a vector lent to who embeds them, what comes back of that kept, and vectors of other spaces dropped."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import LOOK, Dropped, Lacking, Lent
from remit.pipeline.storage.sqlite.gathering import Standing, sound
from remit.pipeline.storage.sqlite.rows import dumped, micros
from remit.pipeline.storage.sqlite.shelves import reach, shelves_reached, still
from remit.pipeline.storage.sqlite.writing import Writing
from remit.stages.access import Access
from remit.stages.evidence import MemoryId
from remit.stages.request import Source


class Loans(Writing):
    """Loans of one org inside a transaction that the caller opens and ends."""

    def lend(self, space: str, after: int, most: int, until: datetime, access: Access) -> Lent:
        scope = self._scope(access)
        self._one("end_loans", now=scope["now"])
        looked = scope | {"space": space, "after": after, "look": LOOK}
        lacking = json.loads(self._one("lacking", **looked)[0][0])
        free = [key for key, lent in lacking if not lent]
        chosen = free[: max(0, most)]
        self._many("add_loan", [(self._org, key, space, micros(until)) for key in chosen])
        return Lent(
            passages=self._texts(chosen, scope),
            after=chosen[-1] if chosen and len(chosen) < len(free) else self._end(looked),
            elsewhere=len(lacking) - len(free),
        )

    def keep(self, space: str, vectors: Mapping[int, NDArray[np.float32] | None], access: Access) -> int:
        given = {key: vector for key, vector in vectors.items() if vector is not None}
        packed = {key: vector for key in given for vector in sound({space: given[key]}).values()}
        kept = 0
        for key, standing, spaces in self._held(self._one("held_of", **self._scope(access), keys=dumped(list(packed)))):
            if space not in spaces:
                self._gathered.add_vector(space, key, standing, packed[key])
                self._note(key, standing, [*spaces, space], {space: 1})
                kept += 1
        self.finish()
        self._many("end_loan", [(self._org, key, space) for key in vectors])
        return kept

    def drop(self, keep: Collection[str], after: int, access: Access) -> Dropped:
        looked = self._scope(access) | {"after": after, "look": LOOK}
        dropped = 0
        for key, standing, held in self._held(self._one("held_behind", **looked)):
            gone = [space for space in held if space not in keep]
            if gone:
                self._many("drop_vector", [(self._org, space, standing.shelf, key) for space in gone])
                self._note(key, standing, [space for space in held if space in keep], dict.fromkeys(gone, -1))
                dropped += len(gone)
        self.finish()
        return Dropped(vectors=dropped, after=self._end(looked))

    def _scope(self, access: Access) -> dict[str, Any]:
        scope = reach(still(self._db, self._sql, access))
        return scope | {"shelves": shelves_reached(self._db, self._sql, scope).all}

    def _end(self, looked: Mapping[str, Any]) -> int | None:
        """The key at which a look ended; None when there is nothing behind it."""
        last, number = self._one("end_of_look", **looked)[0]
        return last if number == LOOK else None

    def _texts(self, keys: Sequence[int], scope: Mapping[str, Any]) -> tuple[Lacking, ...]:
        return tuple(
            Lacking(key=key, memory=MemoryId(Source(source), name), ordinal=ordinal, title=title, text=text)
            for key, source, name, ordinal, title, text in self._one("texts_of", **{**scope, "keys": dumped(keys)})
        )

    def _held(self, found: Sequence[tuple[Any, ...]]) -> Iterable[tuple[int, Standing, list[str]]]:
        for key, shelf, superseded, valid_from, valid_until, spaces in found:
            yield key, Standing(shelf, True, bool(superseded), valid_from, valid_until), json.loads(spaces)

    def _note(self, key: int, standing: Standing, spaces: Sequence[str], changes: Mapping[str, int]) -> None:
        """What the indexes hold for a passage from now on."""
        self._many("set_spaces", [(self._org, key, dumped(spaces))])
        for space, number in changes.items() if standing.always else ():
            self._gathered.count_vectors(space, standing.shelf, number)
