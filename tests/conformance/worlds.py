"""Small worlds for the stores: plain records and passages, and the accesses that look at them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import ALIAS, Entry, Passage, Record
from remit.stages.access import Access, Approval, Label, Shelf
from remit.stages.evidence import Lane, MemoryId
from remit.stages.ports import Probe, Wanted
from remit.stages.request import Filters, Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SPACE = "plane:2"
SIGNATURE = "by spaces"
WHOLE = 10_000


def seen_from(org: str = "acme", granted: Sequence[str] | None = (), **narrowed: Any) -> Access:
    """What someone of `org` may see who was granted these scopes; None: all of them."""
    return Access(actor="ada", org=org, granted=None if granted is None else frozenset(granted), as_of=NOW, **narrowed)


EVERYTHING = seen_from(granted=None)


def direction(degrees: float) -> NDArray[np.float32]:
    """A unit vector of the plane."""
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], dtype=np.float32)


def memory(
    name: str,
    text: str = "",
    *,
    source: Source = Source.FACT,
    org: str = "acme",
    scope: str = "global",
    project: str | None = None,
    conversation: str | None = None,
    parts: Sequence[str] = (),
    degrees: float | Sequence[float] | None = None,
    approval: Approval = Approval.APPROVED,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    expires_at: datetime | None = None,
    aliases: Sequence[str] = (),
    **stated: Any,
) -> Entry:
    """A memory of one passage, or of `parts`; words are what stands between spaces, `degrees` gives each passage a vector."""
    shelf = Shelf(org=org, source=source, scope=scope, project=project, conversation=conversation)
    label = Label(shelf=shelf, approval=approval, valid_from=valid_from, valid_until=valid_until, expires_at=expires_at)
    parts = list(parts) or [text]
    text = "\n".join(parts)
    stated.setdefault("created_at", NOW)
    digest = sha256(repr((text, label, degrees, aliases, sorted(stated.items()))).encode("utf-8", "surrogatepass")).hexdigest()
    record = Record(
        id=MemoryId(source, name), label=label, title=name, text=text, digest=digest, actor="ada", aliases=tuple(aliases), **stated
    )
    turns = list(degrees) if isinstance(degrees, Sequence) else [degrees] * len(parts)
    return Entry(
        record=record, passages=tuple(_passage(at, part, turn, aliases) for at, (part, turn) in enumerate(zip(parts, turns, strict=True)))
    )


def _passage(ordinal: int, text: str, degrees: float | None, aliases: Sequence[str]) -> Passage:
    words = [word for word in text.split(" ") if word]
    counts = {word: words.count(word) for word in words} | {ALIAS + alias: 1 for alias in aliases}
    vectors = {} if degrees is None else {SPACE: direction(degrees)}
    return Passage(
        ordinal=ordinal,
        start=ordinal,
        end=ordinal + len(text),
        text=text,
        words=counts,
        length=len(words),
        plain=" ".join(words),
        vectors=vectors,
    )


def wanting(
    *words: str,
    near: float | None = None,
    filters: Filters | None = None,
    rows: int = WHOLE,
    postings: int = WHOLE,
    seconds: float = 60.0,
    without: frozenset[MemoryId] = frozenset(),
) -> Wanted:
    """A search for words, for what points into nearly the same direction, or both."""
    probes = () if near is None else (Probe(lane=Lane.LOCAL, space=SPACE, vector=direction(near)),)
    return Wanted(words=words, probes=probes, filters=filters or Filters(), rows=rows, postings=postings, seconds=seconds, without=without)
