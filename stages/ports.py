"""What the stages need from outside. Each port is a promise; stores, embedders, checkers and tokenizers keep it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from remit.stages.access import Access
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, Memory, MemoryId, Outline, PassageId, Reused, Route, Verdict
from remit.stages.report import Degradation, Reason
from remit.stages.request import Filters, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A query vector of one stream: `vector` is float32 of shape (dimensions,), `space` names model, revision and dimensions.

    What has a similarity below `least` will not be proposed, so a store may count it instead of handing it out.
    """

    lane: Lane
    space: str
    vector: NDArray[np.float32]
    least: float = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What generate asks of a store in one go. `rows` bounds what a vector route returns per source,
    `postings` how many (word, passage) pairs may be read; `without` are memories already seen in an earlier round.

    `likely` names, of what was found, the passages whose outlines will be asked for next: the store calls it once, at the end of the
    search and inside the same moment, perhaps on another thread, so that asking again is spared. What it raises is raised.
    """

    words: tuple[str, ...]
    probes: tuple[Probe, ...]
    filters: Filters
    rows: int
    postings: int
    seconds: float
    without: frozenset[MemoryId] = frozenset()
    likely: Callable[[Found], Collection[int]] | None = None


@dataclass(frozen=True, slots=True)
class Postings:
    """Where one word stands: parallel int64 arrays, one place per in-scope passage, in ascending order of `keys`.

    `keys` are passages, `counts` how often the word stands in each, `lengths` how many words each has, `sources` the
    index of its source in `tuple(Source)`.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sources: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest in-scope passages of one vector route and source: `keys` int64 (n,), `vectors` float32 (n, dimensions).

    `weaker` more were among the nearest and are not handed out, because their similarity is below the probe's `least`.
    """

    route: Route
    lane: Lane
    source: Source
    keys: NDArray[np.int64]
    vectors: NDArray[np.float32]
    more: bool = False
    weaker: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All a store found for one `Wanted`, a function of the rows this access may read and of nothing else.

    `passages` and `words` are how many passages the access reaches and how many words they hold together, filters aside.
    `postings` has an entry for every word that was looked up, empty arrays when it stands nowhere; a word that would have passed
    the postings ceiling is in `left_out` instead. `eligible` holds the passages that pass the filters (None: all do).
    `dead` counts passages that hold a word but no longer stand, by reason. `routes` says for each route `ran` or why not.
    `compared` is how many vectors each lane may reach in scope. `exhausted` names a limit that cut the work. Without `turns` nothing in
    reach was said in a conversation. `outlines` are those of the passages that `likely` named; None when it was not asked, or not in time.
    """

    passages: int = 0
    words: int = 0
    postings: Mapping[str, Postings] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    neighbours: tuple[Neighbours, ...] = ()
    compared: Mapping[Lane, int] = field(default_factory=dict)
    eligible: NDArray[np.int64] | None = None
    turns: bool = True
    dead: Mapping[Reason, int] = field(default_factory=dict)
    routes: Mapping[Route, str] = field(default_factory=dict)
    degraded: tuple[Degradation, ...] = ()
    exhausted: Limit | None = None
    outlines: Mapping[int, Outline] | None = None


class Finder(Protocol):
    """Finds passages inside an access. Every method returns in-scope rows only, whatever else is in the store.

    Raises `StorageUnavailable` when the store cannot be asked.
    """

    async def find(self, wanted: Wanted, access: Access) -> Found: ...

    async def outlines(self, keys: Collection[int], access: Access) -> Mapping[int, Outline]:
        """The outlines of these passages; one that may not be read (any more) is absent."""
        ...

    async def around(self, keys: Collection[int], reach: int, within: timedelta, access: Access) -> Mapping[int, Sequence[int]]:
        """What was said just before and after: for each of these passages that is a session of a conversation, the `reach` sessions of
        the same shelf that were made last before it and the `reach` made first after it, none made at the same time or longer than
        `within` from it. Only what stands counts, and is told; of equally old ones the last before, and the first after, by id."""
        ...

    async def vocabulary(self, shortest: int, longest: int, access: Access) -> Sequence[str]:
        """The distinct plain words of `shortest`…`longest` characters that stand on shelves the access reaches, sorted."""
        ...


class Reader(Protocol):
    """Reads passages again, at this moment, for this access."""

    async def read(self, passages: Sequence[PassageId], access: Access) -> Mapping[PassageId, Memory]:
        """The passages that exist on a shelf the access reaches, with the label they have now; the rest is absent."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors of one space. `space` is stable text; two spaces are never compared.

    One that need not wait may have `at_once(text)` besides: a sound vector of the text, or None, and then `embed` is asked.
    """

    lane: Lane
    space: str
    dimensions: int

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 of shape (len(texts), dimensions); a zero row for a text with nothing to embed."""
        ...


class Reranker(Protocol):
    """Says how well passages answer a question. Is given only text that the access may read, as it stands in the store at this moment."""

    name: str

    async def scores(self, question: str, passages: Sequence[str]) -> Sequence[float]:
        """One finite score a passage, in order; higher is better. They come in the order they have so far, best first.

        Raises whatever it likes when it cannot: the fused order then stands.
        """
        ...


class Checker(Protocol):
    """Says which of these memories still match their source, for this access. One it says nothing of is unverified.

    What it answers from an earlier look is `Reused`, so that using it again makes nothing fresher.
    """

    async def still_true(self, memories: Sequence[Memory], access: Access) -> Mapping[MemoryId, Verdict | Reused]: ...


class TokenCounter(Protocol):
    """Counts tokens of a whole text as the caller's model would. Special-token text counts as plain text."""

    name: str

    @property
    def adds_up(self) -> bool:
        """Whether a text has as many tokens as its two parts together, wherever it is parted between a line feed and an ASCII character
        that is no space, no control character and no slash."""
        ...

    async def count(self, text: str) -> int: ...

    def at_once(self, text: str) -> int | None:
        """What `count` gives, of a text short enough to be counted where the caller stands; None of any other."""
        ...

    def at_least(self, text: str) -> int:
        """The fewest tokens that so long a text can have, known without counting it; 0 when nothing is known."""
        ...
