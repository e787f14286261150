"""Living: what a person sees of the life of memories, and the lines of an export on their way out and in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from remit.pipeline.authority import Principal
from remit.pipeline.carrying import Carried
from remit.pipeline.config import Limits
from remit.pipeline.engine import Engine
from remit.pipeline.faces.taking import Intaking, Taken
from remit.pipeline.faces.wire import carried_from, time_to, whole_to
from remit.pipeline.intake import Intake, Problem, Read
from remit.pipeline.life import Event, Forgotten
from remit.pipeline.remember import Receipt
from remit.stages.render import shown

EXCERPT = 200
"""Characters of an earlier version that a person is shown; `--json` has it whole."""


class Importing(Intaking):
    """Exports on their way in. Unlike what is added, they name no root: their files lie where they were made."""

    async def into(self, engine: Engine, principal: Principal) -> AsyncIterator[Taken]:
        async for taken in self._taken(engine.import_stream(self._carried(), principal)):
            yield taken

    def _carried(self) -> Iterator[Carried]:
        for path in self.paths:
            for found in self.intake.lines_from(path):
                self.told(found.size)
                self._ahead.append((path, found))
                self.unread += isinstance(found, Problem)
                if isinstance(found, Read):
                    yield found.item


def importing(files: Sequence[str], limits: Limits, told: Callable[[int], None]) -> Importing:
    """Exports in `files`, ready to be taken in."""
    return Importing(paths=[Path(each) for each in files], intake=Intake(item_from=carried_from, limits=limits), told=told)


async def exported_lines(engine: Engine, principal: Principal) -> AsyncIterator[str]:
    """Everything the principal may read, one JSON object a line."""
    async for whole in engine.export(principal):
        yield json.dumps(whole_to(whole), ensure_ascii=False)


def receipt_line(receipt: Receipt) -> str:
    """`approved fact:f1 v2`, `refused fact:f1 unknown_memory`."""
    told = f"{receipt.code} {receipt.detail}".rstrip() if receipt.code else f"v{receipt.version}"
    return f"{receipt.written.value} {receipt.id} {told}"


def show_forgotten(console: Console, forgotten: Forgotten) -> None:
    for receipt in forgotten.receipts:
        line = receipt_line(receipt)
        console.print(Text(f"would be {line}" if forgotten.dry_run and not receipt.code else line), soft_wrap=True)
    told = ", ".join(f"{name} {number:,}" for name, number in forgotten.counts.items() if number) or "nothing"
    console.print(Text(f"would be forgotten: {told}" if forgotten.dry_run else f"forgotten: {told}"))


def show_history(console: Console, memory: str, events: Sequence[Event]) -> None:
    """One line an event, with the beginning of the text of a version."""
    if not events:
        console.print(Text(f"{memory} is not among what this principal may read here, or does not exist"))
    for event in events:
        by = f" by {event.by}" if event.by is not None else ""
        console.print(Text.assemble((f"v{event.version} {event.what.value}{by}", "bold"), f"  {time_to(event.at)}  {shown(event.actor)}"))
        if event.text:
            text = shown(event.text[:EXCERPT]).replace("\n", " ") + ("…" if len(event.text) > EXCERPT else "")
            console.print(Text(f"  {text}", style="dim"), soft_wrap=True)
