"""The start-up brief: what an agent should know before its first question, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio
from anyio.lowlevel import checkpoint

from remit.pipeline.authority import Grants, Narrowing, access_for
from remit.pipeline.config import Config
from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.fields import name_at, whole_at
from remit.pipeline.storage.store import Store
from remit.stages.evidence import Memory, MemoryId
from remit.stages.ports import TokenCounter
from remit.stages.render import shown
from remit.stages.report import Reason
from remit.stages.request import Source

HEADINGS = {"pinned": "Pinned", "important": "Important", "recent": "Recent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One memory of a brief, the group it stands in, and its text on one line."""

    id: MemoryId
    scope: str
    group: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """The brief as it is given to a model, its lines, its size in tokens, and what did not fit and why."""

    text: str
    tokens: int
    budget: int
    lines: tuple[Line, ...]
    left_out: tuple[tuple[MemoryId, Reason], ...]


async def brief(
    grants: Grants, *, store: Store, counter: TokenCounter, config: Config, now: datetime, tokens: int | None, project: str | None
) -> Brief:
    """Pinned facts first, then facts by importance, then the latest sessions; the whole, counted as a whole, within `tokens`.

    With nothing declared the facts of machines and agents are in it; a declared project leaves the global facts and its own.
    A memory too large for the room that is left is passed over and listed, so that one large pin never costs the small ones. When
    `brief.seconds` end, it holds what was counted as a whole by then, and the rest is listed as unfinished; a store that has not answered
    until then raises `StorageUnavailable`.
    """
    budget = config.brief.tokens if tokens is None else whole_at("tokens", tokens, 0, config.brief.most_tokens)
    declared = None if project is None else name_at("project", project, config.limits.name_characters)
    access = access_for(grants, Narrowing(sources=frozenset({Source.FACT, Source.SESSION}), project=declared), now)
    settings = config.brief
    filling = _Filling(counter, budget)
    with anyio.move_on_after(settings.seconds) as time:
        memories = await store.brief(access, pinned=settings.pinned, important=settings.important, recent=settings.recent)
        filling.waiting = list(memories)
        await filling.fill(time.deadline)
    if filling.waiting is None:
        raise StorageUnavailable("It did not answer within the seconds of a brief.")
    return filling.told()


def _line(memory: Memory) -> Line:
    if memory.id.source is Source.SESSION:
        group = "recent"
    else:
        group = "pinned" if memory.pinned else "important"
    title = f"{memory.title}: " if memory.title else ""
    return Line(id=memory.id, scope=memory.scope, group=group, text=" ".join(shown(title + memory.text).split()))


class _Filling:
    """A brief being filled; whenever it is stopped, `told` is true of all that it was given."""

    def __init__(self, counter: TokenCounter, budget: int) -> None:
        self.waiting: list[Memory] | None = None
        self._counter, self._budget = counter, budget
        self._kept: list[Line] = []
        self._left_out: list[tuple[MemoryId, Reason]] = []
        self._text, self._size = "", 0

    async def fill(self, deadline: float) -> None:
        while self.waiting and anyio.current_time() < deadline:
            await checkpoint()  # a line of megabytes takes longer to write than others should wait, and there may be hundreds
            reason = await self._tried(self.waiting[0])
            memory = self.waiting.pop(0)
            if reason is not None:
                self._left_out.append((memory.id, reason))

    async def _tried(self, memory: Memory) -> Reason | None:
        """Why a memory does not fit; None when it is in the brief now."""
        line = _line(memory)
        if self._counter.at_least(line.text) > self._budget:
            return Reason.OVERSIZED
        text = _rendered([*self._kept, line])
        size = await self._counter.count(text)
        if size <= self._budget:
            self._kept, self._text, self._size = [*self._kept, line], text, size
            return None
        alone = await self._counter.count(_rendered([line])) if self._kept else size
        return Reason.OVERSIZED if alone > self._budget else Reason.NO_ROOM

    def told(self) -> Brief:
        unfinished = [(memory.id, Reason.UNFINISHED) for memory in self.waiting or ()]
        return Brief(
            text=self._text,
            tokens=self._size,
            budget=self._budget,
            lines=tuple(self._kept),
            left_out=(*self._left_out, *unfinished),
        )


def _rendered(lines: Sequence[Line]) -> str:
    """Markdown: a heading for each group that has lines, one line a memory with where it came from. Nothing for no lines."""
    parts: list[str] = []
    for group, heading in HEADINGS.items():
        of_group = [f"- {line.text} [{shown(f'{line.id}, {line.scope}')}]" for line in lines if line.group == group]
        if of_group:
            parts.append(f"## {heading}\n" + "\n".join(of_group) + "\n")
    return "\n".join(parts)
