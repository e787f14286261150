"""Everything that puts the five stages to work; the names below are the library's front door."""

from remit.pipeline.authority import Authority, Principal
from remit.pipeline.engine import Engine, open_engine
from remit.pipeline.envelope import Answer
from remit.pipeline.items import Doc, Fact, Session
from remit.pipeline.outcome import Outcome
from remit.pipeline.storage.entry import Receipt
from remit.stages.evidence import Claim, Memory, Origin, Verdict
from remit.stages.request import ContextWanted, Request, Source, TagFilter

__all__ = [
    "Answer",
    "Authority",
    "Claim",
    "ContextWanted",
    "Doc",
    "Engine",
    "Fact",
    "Memory",
    "Origin",
    "Outcome",
    "Principal",
    "Receipt",
    "Request",
    "Session",
    "Source",
    "TagFilter",
    "Verdict",
    "open_engine",
]
