"""Progress: a bar on stderr while something long goes on, and nothing at all where nobody sits in front of it."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """Shows how much of `total` is done; without a total only how much. Gone from the screen when it is over."""

    def __init__(self, doing: str, total: int | None) -> None:
        columns = [TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn() if total else MofNCompleteColumn()]
        self._bar = Bar(
            *columns,
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
            redirect_stdout=sys.stdout.isatty(),  # lines printed meanwhile stand above the bar, when both are on one screen
        )
        self._task = self._bar.add_task(doing, total=total)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def advance(self, done: int) -> None:
        self._bar.advance(self._task, done)

    def at(self, done: int, total: int | None = None) -> None:
        self._bar.update(self._task, completed=done, total=total)
