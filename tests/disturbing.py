"""Work that is disturbed at the moment when it waits for the n-th time."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any


@types.coroutine
def disturbed(work: Awaitable[Any], place: int, disturb: Callable[[], object]) -> Generator[Any, Any, tuple[bool, Any]]:
    """Runs `work` and calls `disturb` when it waits for the `place`-th time. Gives whether it came to that, and what the work gave."""
    inside, waited, sent = work.__await__(), 0, None
    while True:
        try:
            awaited = inside.send(sent) if not isinstance(sent, BaseException) else inside.throw(sent)
        except StopIteration as done:
            return waited >= place, done.value
        waited += 1
        if waited == place:
            disturb()
        try:
            sent = yield awaited
        except BaseException as thrown:  # noqa: BLE001 - what the event loop throws is for the work
            sent = thrown
