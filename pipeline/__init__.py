"""Everything that puts the five stages to work; the names below are the library's front door.

They are imported when they are first used, so that `remit --version` does not wait for an engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.pipeline.authority import Authority, Principal
    from remit.pipeline.carrying import Whole
    from remit.pipeline.engine import Engine
    from remit.pipeline.envelope import Answer
    from remit.pipeline.freshness import SqliteQuery
    from remit.pipeline.items import Doc, Fact, Session
    from remit.pipeline.life import Event, Forgotten
    from remit.pipeline.outcome import Outcome
    from remit.pipeline.replaying import Replayed
    from remit.pipeline.starting import open_engine
    from remit.pipeline.storage.entry import Receipt
    from remit.stages.evidence import Claim, Memory, Origin, Verdict
    from remit.stages.request import ContextWanted, Request, Source, TagFilter

_HOMES = {
    "remit.pipeline.authority": ("Authority", "Principal"),
    "remit.pipeline.carrying": ("Whole",),
    "remit.pipeline.engine": ("Engine",),
    "remit.pipeline.envelope": ("Answer",),
    "remit.pipeline.freshness": ("SqliteQuery",),
    "remit.pipeline.items": ("Doc", "Fact", "Session"),
    "remit.pipeline.life": ("Event", "Forgotten"),
    "remit.pipeline.outcome": ("Outcome",),
    "remit.pipeline.replaying": ("Replayed",),
    "remit.pipeline.starting": ("open_engine",),
    "remit.pipeline.storage.entry": ("Receipt",),
    "remit.stages.evidence": ("Claim", "Memory", "Origin", "Verdict"),
    "remit.stages.request": ("ContextWanted", "Request", "Source", "TagFilter"),
}

__all__ = [
    "Answer",
    "Authority",
    "Claim",
    "ContextWanted",
    "Doc",
    "Engine",
    "Event",
    "Fact",
    "Forgotten",
    "Memory",
    "Origin",
    "Outcome",
    "Principal",
    "Receipt",
    "Replayed",
    "Request",
    "Session",
    "Source",
    "SqliteQuery",
    "TagFilter",
    "Verdict",
    "Whole",
    "open_engine",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
