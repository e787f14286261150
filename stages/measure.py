"""Measuring: how many tokens passages have, alone and as one context, and whether there is time to count more of them."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio.lowlevel import checkpoint

from remit.stages.ports import TokenCounter
from remit.stages.render import Format, closing, whole

LOOK = 20_000
"""Characters that are counted at once, in 0.2 ms of prose, between two looks at the clock, each of which takes as long as 100 of them."""


class Measure:
    """Counts as `counter` does, until `deadline` by anyio's clock. `frame` is what a context has besides its passages."""

    def __init__(self, counter: TokenCounter, form: Format, deadline: float) -> None:
        self.frame = 0
        self._counter, self._form, self._deadline = counter, form, deadline
        self._unwatched = LOOK
        self._closing: dict[str, int] = {}

    def late(self) -> bool:
        """Whether the time was over at the last look at the clock."""
        if self._unwatched < LOOK:
            return False
        late = anyio.current_time() >= self._deadline
        self._unwatched = LOOK if late else 0
        return late

    async def give_way(self) -> None:
        """Others have their turn. How long that took, only the clock can say."""
        await checkpoint()
        self._unwatched = LOOK

    def at_least(self, text: str) -> int:
        return self._counter.at_least(text)

    async def tokens(self, text: str) -> int:
        tokens = self._counter.at_once(text)
        if tokens is None:
            self._unwatched = LOOK
            return await self._counter.count(text)
        self._unwatched += len(text)
        return tokens

    async def of_frame(self) -> int:
        """Learns `frame`, and gives about what a second passage has besides itself."""
        self.frame = await self.tokens(whole([""], self._form))
        return max(0, await self.tokens(whole(["", ""], self._form)) - self.frame)

    async def together(self, text: str, passages: Sequence[tuple[str, int]]) -> int:
        """The tokens of `text`, which is the whole of these passages, each with its own. Where parts add up, it is not counted."""
        if not self._counter.adds_up or self._form is not Format.MARKDOWN:
            return await self.tokens(text)
        # A passage of Markdown begins and its last line begins after a line feed: there the whole is parted.
        tokens = self.frame + sum([size for _, size in passages])
        for passage, _ in passages[:-1]:
            alone, followed = closing(passage)
            if alone not in self._closing:
                self._closing[alone] = await self.tokens(followed) - await self.tokens(alone)
            tokens += self._closing[alone]
        return tokens
