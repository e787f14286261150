"""A search on its way: what it works with, what its routes have found so far, and how it asks its statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.sqlite.line import rows
from remit.pipeline.storage.sqlite.shelves import Shelves
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, Outline, Route
from remit.stages.ports import Found, Neighbours, Postings, Wanted
from remit.stages.report import Degradation, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a search works with: the statements, up to how many shelves it seeks words on each, up to how many vectors it compares
    them itself, how many more than asked it has the database fetch, and why vectors cannot be compared, if they cannot."""

    sql: Mapping[str, str]
    seek_shelves: int
    whole_vectors: int
    vector_slack: int
    no_vectors: str | None


@dataclass(slots=True)
class Progress:
    """What routes had finished, for the moment when time is up."""

    passages: int = 0
    words: int = 0
    postings: dict[str, Postings] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    neighbours: list[Neighbours] = field(default_factory=list)
    compared: dict[Lane, int] = field(default_factory=dict)
    eligible: NDArray[np.int64] | None = None
    turns: bool = True
    dead: dict[Reason, int] = field(default_factory=dict)
    routes: dict[Route, str] = field(default_factory=dict)
    degraded: list[Degradation] = field(default_factory=list)
    exhausted: Limit | None = None
    outlines: Mapping[int, Outline] | None = None

    def found(self) -> Found:
        return Found(
            passages=self.passages,
            words=self.words,
            postings=self.postings,
            left_out=self.left_out,
            neighbours=tuple(self.neighbours),
            compared=self.compared,
            eligible=self.eligible,
            turns=self.turns,
            dead=self.dead,
            routes=self.routes,
            degraded=tuple(self.degraded),
            exhausted=self.exhausted,
            outlines=self.outlines,
        )


@dataclass(frozen=True, slots=True)
class Search:
    """One search in its transaction; each step adds what it found to `progress`. `scope` are the parameters that say what is in reach."""

    db: apsw.Connection
    wanted: Wanted
    means: Means
    progress: Progress
    shelves: Shelves
    scope: Mapping[str, Any]

    def row(self, name: str, **parameters: Any) -> tuple[Any, ...]:
        """What a statement answers that answers with exactly one row."""
        return rows(self.db, self.means.sql[name], {**self.scope, **parameters})[0]
