"""The tour: takes in the memory of two ferry lines, changes a file behind its back, and asks three questions."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from remit.pipeline.authority import Principal
from remit.pipeline.engine import Engine
from remit.pipeline.envelope import Answer
from remit.pipeline.faces.host import Host
from remit.pipeline.faces.options import Common
from remit.pipeline.faces.show import show_answer, show_why
from remit.pipeline.faces.taking import intaking
from remit.pipeline.faces.wire import explanation_to
from remit.pipeline.why import Explanation
from remit.stages.request import ContextWanted, Request

MIRA = Principal(actor="mira", org="tern", scopes=("project:winter-timetable", "person:mira", "machine:quay-laptop", "agent:dispatcher"))
TERN = Principal(actor="harbour-office", org="tern", scopes="*")
HERON = Principal(actor="harbour-office", org="heron", scopes="*")

NOTICE = "quay-notice.md"
CHANGED = "# Notice at the quay\n\nTravellers to Skerry Isle: from today ask the skipper.\n"
FILE_AGE = timedelta(days=60)

CONTEXT = ContextWanted(tokens=600, passages=5)
WIND = Request(query="When is the wind too strong for the Aurelia to cross to Skerry Isle?", context=CONTEXT)
PUMP = Request(query="Who looks after the bilge pmup of the Grey Lady?", context=CONTEXT)
DOUGH = Request(query="Which yeast is for sourdough?", context=CONTEXT)

REMARKS = (
    "● is in the packed context, ○ is not. Follow the funnel down: each stage says what it let go and why.",
    "“Grey Lady” is another name of the Aurelia, and “pmup” is a typing error.",
    "Nobody ever told the Tern Line anything about that, so nothing is what it gets.",
)

LOST = (f"doc:{NOTICE}", "fact:wind-limit-before", "fact:fares-in-a-gale", "fact:there-is-no-such-fact")
"""What is looked for in the first answer and not there: changed, superseded, the rival's, and not in the world at all."""

_HERE = Path(__file__).parent
_AGE = re.compile(r'"now-(\d+)d"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """What the demo came to: how many memories each org took in, the answers in order, and why some memories are in none."""

    taken: dict[str, int]
    answers: tuple[tuple[Request, Answer], ...]
    lost: tuple[Explanation, ...]


async def toured(common: Common, now: datetime) -> Tour:
    """The tour in the store that `--store` names, else in one of its own that is gone afterwards."""
    with TemporaryDirectory(prefix="remit-demo-") as name:
        folder = Path(name)
        host = Host.of(replace(common, store=common.store or f"sqlite:{folder / 'demo.db'}", principal=None))
        async with host.engine(make=True, clock=lambda: now) as engine:
            taken = {
                "tern": await _taken_in(engine, TERN, _papers(folder / "tern", now), _resolved(folder, "tern", now)),
                "heron": await _taken_in(engine, HERON, _resolved(folder, "heron", now)),
            }
            (folder / "tern" / NOTICE).write_text(CHANGED, encoding="utf-8")
            answers = [(request, await engine.recall(request, MIRA)) for request in (WIND, PUMP, DOUGH)]
            lost = [await engine.why(WIND, each, MIRA) for each in LOST]
    return Tour(taken=taken, answers=tuple(answers), lost=tuple(lost))


def _papers(folder: Path, now: datetime) -> Path:
    """The documents as files of this machine, so that they can change while nobody looks."""
    folder.mkdir()
    for shipped in sorted(_HERE.glob("*.md")):
        file = folder / shipped.name
        file.write_bytes(shipped.read_bytes())
        os.utime(file, times=2 * ((now - FILE_AGE).timestamp(),))
    return folder


def _resolved(folder: Path, org: str, now: datetime) -> Path:
    """The shipped lines of an org with times that were written as ages made times."""
    file = folder / f"{org}.jsonl"
    lines = (_HERE / f"{org}.jsonl").read_text(encoding="utf-8")
    file.write_text(_AGE.sub(lambda age: f'"{(now - timedelta(days=int(age[1]))).isoformat()}"', lines), encoding="utf-8")
    return file


async def _taken_in(engine: Engine, principal: Principal, *paths: Path) -> int:
    taking = intaking([str(path) for path in paths], engine.config.limits)
    return len([taken async for taken in taking.into(engine, principal) if not taken.refused])


def tour_to(tour: Tour) -> dict[str, Any]:
    answers = [{"query": request.query, **answer.wire()} for request, answer in tour.answers]
    return {"taken": tour.taken, "answers": answers, "why": [explanation_to(each) for each in tour.lost]}


def show_tour(console: Console, tour: Tour) -> None:
    """The tour for a person: what is in the store, the three answers, and what became of what is missing."""
    _say(
        console,
        f"The Tern Line sails the Aurelia to Skerry Isle, and its agents remember things: {tour.taken['tern']} facts, sessions and "
        f"documents. In the same store lie {tour.taken['heron']} memories of the Heron Line, its rival, which are about the very same "
        f"questions. Mira of the Tern Line asks; a paper at the quay was changed a moment ago.",
    )
    for (request, answer), remark in zip(tour.answers, REMARKS, strict=True):
        console.print(Rule(Text(request.query, style="bold"), align="left", style="cyan"))
        _say(console, remark)
        show_answer(console, answer.wire(), context=request is WIND)
        console.print()
    console.print(Rule(Text("Why is it not in the first answer?", style="bold"), align="left", style="cyan"))
    for explanation in tour.lost:
        show_why(console, explanation)
    console.print()
    _say(console, "What is the rival's and what is nowhere are told alike. Now yours: remit add FOLDER, then remit recall QUESTION.")


def _say(console: Console, text: str) -> None:
    console.print(Text(text, style="italic"))
    console.print()
