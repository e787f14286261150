"""The remote embedder: any OpenAI-compatible `/v1/embeddings`, asked in bounded batches and believed only when an answer is sound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from hashlib import blake2b
from typing import Any

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.calling import OF_THE_TEXT, Caller, CallFault, Reply
from remit.pipeline.config import OpenAI
from remit.pipeline.embedding.batch import Embedded, Expected, Unsound, judged, opened
from remit.pipeline.errors import ProviderFailed, UnsoundBatch
from remit.pipeline.fields import without_surrogates
from remit.stages.evidence import Lane

QUESTIONS, PASSAGES = "questions", "passages"
"""The two kinds of calls. Each has places of its own, so that a question never waits behind what is being taken in."""

BYTES_A_NUMBER = 64
BYTES_BESIDE = 65_536
"""How long an answer may be: numbers take up to 25 bytes and some blanks, and whatever else stands in it is short."""

INLINE_BYTES = 65_536
"""About 2 ms of parsing; a longer answer is judged in a thread."""

SINGLE = frozenset({*OF_THE_TEXT, Unsound.NOT_FINITE, Unsound.OUT_OF_RANGE, Unsound.ALL_ZERO})
"""What one text may bring about for a whole batch: the batch is split until that text stands alone."""

UNASKED = frozenset({CallFault.COOLING, CallFault.OUT_OF_TIME})
"""Here nothing was asked, so nothing was learnt of the provider."""

OTHER_SPACE = frozenset({Unsound.MODEL, Unsound.DIMENSIONS})
"""The provider works, but its vectors are of another space than the one configured."""


def space_of(settings: OpenAI) -> str:
    """What vectors are named after: model, revision, dimensions and prefixes. A question and a passage of one stream share it."""
    prefixes = "plain"
    if settings.question_prefix or settings.passage_prefix:
        both = f"{settings.question_prefix}\0{settings.passage_prefix}".encode()
        prefixes = f"prefixed-{blake2b(both, digest_size=4).hexdigest()}"
    named = f"{settings.model}@{settings.revision}" if settings.revision else settings.model
    return f"{named}/{settings.dimensions}/{prefixes}"


class Trouble:
    """What is wrong with a provider since its last sound answer, if anything is; shared by the two embedders of a stream."""

    def __init__(self) -> None:
        self.code: str | None = None

    @property
    def other_space(self) -> bool:
        return self.code in OTHER_SPACE


class Remote:
    """Embeds texts of one kind by asking a provider. Whether an org allows that is decided before it is asked.

    A text is cut to the configured characters and gets its kind's prefix. A blank one is not sent.
    """

    lane = Lane.SEMANTIC

    def __init__(self, caller: Caller, settings: OpenAI, *, kind: str, trouble: Trouble) -> None:
        self.space, self.dimensions = space_of(settings), settings.dimensions
        self._caller, self._settings, self._kind, self._trouble = caller, settings, kind, trouble
        questions = kind == QUESTIONS
        self._prefix = settings.question_prefix if questions else settings.passage_prefix
        self._seconds = settings.question_seconds if questions else settings.passage_seconds

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 of shape (len(texts), dimensions); a zero row for a blank text, and for one that alone could not be embedded.

        Raises `ProviderFailed` or `UnsoundBatch` when no text could be.
        """
        embedded = await self.embed_each(texts)
        if embedded.failed and not embedded.vectors.any():
            code = next(iter(embedded.failed.values()))
            raise UnsoundBatch(code, "") if code in list(Unsound) else ProviderFailed(code, code.replace("_", " "))
        return embedded.vectors

    async def embed_each(self, texts: Sequence[str]) -> Embedded:
        """The vectors that can be had within one call for each batch and `extraCalls` more, and why the others cannot. Never raises.

        A batch that one of its texts may have spoilt is asked again in halves. Anything else ends the work at once.
        """
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        failed: dict[int, str] = {}
        sent = {place: self._prefix + cut for place, text in enumerate(texts) if (cut := self._cut(text))}
        waiting = deque(self._batches(sent))
        calls = len(waiting) + self._settings.extra_calls
        over: str | None = None
        told: set[str] = set()
        while waiting:
            batch = waiting.popleft()
            code = over or (CallFault.OUT_OF_CALLS if not calls else None)
            if code is None:
                calls -= 1
                code = await self._ask([sent[place] for place in batch], vectors, batch)
                told.update([code] if code else [])
            if code in SINGLE and len(batch) > 1:
                waiting.extendleft((batch[len(batch) // 2 :], batch[: len(batch) // 2]))
            elif code is not None:
                failed.update(dict.fromkeys(batch, str(code)))
                over = over or (None if code in SINGLE else str(code))
        self._settle(told - UNASKED, alone=len(sent) == 1, any_embedded=len(failed) < len(sent))
        return Embedded(vectors=vectors, failed=failed)

    def _cut(self, text: str) -> str:
        return without_surrogates(text[: self._settings.text_characters]).strip()

    def _batches(self, sent: Mapping[int, str]) -> Iterator[list[int]]:
        batch: list[int] = []
        characters = 0
        for place, text in sent.items():
            if batch and (len(batch) == self._settings.batch_texts or characters + len(text) > self._settings.batch_characters):
                yield batch
                batch, characters = [], 0
            batch.append(place)
            characters += len(text)
        if batch:
            yield batch

    async def _ask(self, texts: Sequence[str], vectors: NDArray[np.float32], places: Sequence[int]) -> str | None:
        """One call: fills in the rows of these places, or says what kept it from that."""
        payload: dict[str, Any] = {"model": self._settings.model, "input": list(texts), "encoding_format": "float"}
        if self._settings.shortened:
            payload["dimensions"] = self.dimensions
        expected = Expected(model=self._settings.model, count=len(texts), dimensions=self.dimensions)
        most_bytes = BYTES_BESIDE + len(texts) * self.dimensions * BYTES_A_NUMBER
        try:
            reply = await self._caller.post("/embeddings", payload, kind=self._kind, most_bytes=most_bytes, seconds=self._seconds)
            vectors[places] = await _sound(reply, expected, most_bytes)
        except (ProviderFailed, UnsoundBatch) as error:
            return error.code
        self._caller.cooling.succeeded()
        self._trouble.code = None
        return None

    def _settle(self, codes: Set[str], *, alone: bool, any_embedded: bool) -> None:
        """What a request means for the provider. A text that fails among others or alone says nothing of it, unless it broke over that."""
        if not codes or (codes <= SINGLE and (any_embedded or (alone and CallFault.SERVER_ERROR not in codes))):
            return
        self._trouble.code = min(codes & OTHER_SPACE, default=min(codes))
        if codes <= SINGLE or codes & set(Unsound) - SINGLE:  # what a call itself failed with was counted where it was made
            self._caller.cooling.failed()


async def _sound(reply: Reply, expected: Expected, most_bytes: int) -> NDArray[np.float32]:
    if len(reply.body) <= INLINE_BYTES:
        return _judged(reply, expected, most_bytes)
    return await anyio.to_thread.run_sync(_judged, reply, expected, most_bytes)


def _judged(reply: Reply, expected: Expected, most_bytes: int) -> NDArray[np.float32]:
    return judged(opened(reply.body, reply.content_type, most_bytes=most_bytes), expected)
