"""The start-up brief: what an agent should know before its first question, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        self._groups: dict[str, list[str]] = {}
        self._left_out: list[tuple[MemoryId, Reason]] = []
        self._size = 0
        self._known: dict[str, int] = {}

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
        written = _written(line)
        group = [*self._groups.get(line.group, ()), written]
        size = await self._tokens({**self._groups, line.group: group})
        if size <= self._budget:
            self._kept.append(line)
            self._groups[line.group], self._size = group, size
            return None
        alone = await self._tokens({line.group: [written]}) if self._kept else size
        self._known.pop(written, None)
        return Reason.OVERSIZED if alone > self._budget else Reason.NO_ROOM

    async def _tokens(self, groups: Mapping[str, Sequence[str]]) -> int:
        """How many these have as one brief. Its parts begin at a line's start, so where tokens add up, only a new one is counted."""
        parts = _parts(groups)
        if not self._counter.adds_up:
            return await self._counter.count("".join(parts))
        for part in parts:
            if part not in self._known:
                self._known[part] = await self._counter.count(part)
        return sum([self._known[part] for part in parts])

    def told(self) -> Brief:
        unfinished = [(memory.id, Reason.UNFINISHED) for memory in self.waiting or ()]
        return Brief(
            text="".join(_parts(self._groups)),
            tokens=self._size,
            budget=self._budget,
            lines=tuple(self._kept),
            left_out=(*self._left_out, *unfinished),
        )


def _written(line: Line) -> str:
    """A memory as a line of Markdown, with where it came from."""
    return f"- {line.text} [{shown(f'{line.id}, {line.scope}')}]\n"


def _parts(groups: Mapping[str, Sequence[str]]) -> list[str]:
    """A heading for each group and its lines, which make the brief one after the other, with an empty line between groups."""
    parts: list[str] = []
    for group, heading in HEADINGS.items():
        if group in groups:
            if parts:
                parts[-1] += "\n"
            parts += [f"## {heading}\n", *groups[group]]
    return parts
