"""Threads for looks that may hang: at most so many at once, and none that a recall has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from anyio.to_thread import run_sync

T = TypeVar("T")

POLL = 0.05
"""Seconds a thread waits for something before asking whether anybody still waits for the thread."""


class Threads:
    """Runs blocking looks in at most `most` threads at once. When hanging ones hold them all, the others wait out their own seconds."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    async def run(self, look: Callable[[threading.Event], T]) -> T | None:
        """What `look` gives; its event is set when nobody waits for it any more. None when that was so before its turn came.

        Abandoned when it is cancelled, so that a hanging look holds a thread and never a recall; the thread ends by itself.
        """
        unwanted = threading.Event()
        try:
            return await run_sync(self._in_turn, look, unwanted, abandon_on_cancel=True)
        finally:
            unwanted.set()

    def _in_turn(self, look: Callable[[threading.Event], T], unwanted: threading.Event) -> T | None:
        while not self._free.acquire(timeout=POLL):
            if unwanted.is_set():
                return None
        try:
            return look(unwanted)
        finally:
            self._free.release()
