"""The start-up brief: what an agent should know before its first question, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from anyio.lowlevel import checkpoint

from remit.pipeline.authority import Grants, Narrowing, access_for
from remit.pipeline.config import Config
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
    A memory too large for the room that is left is passed over and listed, so that one large pin never costs the small ones.
    """
    budget = config.brief.tokens if tokens is None else whole_at("tokens", tokens, 0, config.brief.most_tokens)
    declared = None if project is None else name_at("project", project, config.limits.name_characters)
    access = access_for(grants, Narrowing(sources=frozenset({Source.FACT, Source.SESSION}), project=declared), now)
    settings = config.brief
    memories = await store.brief(access, pinned=settings.pinned, important=settings.important, recent=settings.recent)
    return await _filled(memories, counter, budget)


def _line(memory: Memory) -> Line:
    if memory.id.source is Source.SESSION:
        group = "recent"
    else:
        group = "pinned" if memory.pinned else "important"
    title = f"{memory.title}: " if memory.title else ""
    return Line(id=memory.id, scope=memory.scope, group=group, text=" ".join(shown(title + memory.text).split()))


async def _filled(memories: Sequence[Memory], counter: TokenCounter, budget: int) -> Brief:
    kept: list[Line] = []
    left_out: list[tuple[MemoryId, Reason]] = []
    text, size = "", 0
    for memory in memories:
        await checkpoint()  # a line of megabytes takes longer to write than others should wait, and there may be hundreds
        line = _line(memory)
        tried = _rendered([*kept, line])
        tried_size = await counter.count(tried)
        if tried_size <= budget:
            kept, text, size = [*kept, line], tried, tried_size
        else:
            alone = await counter.count(_rendered([line])) if kept else tried_size
            left_out.append((line.id, Reason.OVERSIZED if alone > budget else Reason.NO_ROOM))
    return Brief(text=text, tokens=size, budget=budget, lines=tuple(kept), left_out=tuple(left_out))


def _rendered(lines: Sequence[Line]) -> str:
    """Markdown: a heading for each group that has lines, one line a memory with where it came from. Nothing for no lines."""
    parts: list[str] = []
    for group, heading in HEADINGS.items():
        of_group = [f"- {line.text} [{shown(f'{line.id}, {line.scope}')}]" for line in lines if line.group == group]
        if of_group:
            parts.append(f"## {heading}\n" + "\n".join(of_group) + "\n")
    return "\n".join(parts)
