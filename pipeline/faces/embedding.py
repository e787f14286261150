"""Embedding: how a person and a program are told of a backfill, while it goes on and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from remit.pipeline.backfill import Embedding, Step
from remit.pipeline.faces.host import Host

SENTENCES = {
    Step.COMPLETE: "everything has a vector",
    Step.INCOMPLETE: "some passages could not be embedded: they are found by their words, and tried again the next time",
    Step.UNAVAILABLE: "the provider is unavailable: begin again later, what is done stays done",
    Step.DISABLED: "this org does not let its text go there, so nothing was sent: see outbound.embeddingOrgs",
    Step.NO_ROOM: "the store has no room for vectors of this length: see embedding.semanticDimensions and `remit init`",
    Step.COOLING: "the provider is left alone for a while",
    Step.WAITING: "somebody else is embedding what is left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What came of a backfill: the last step of each stream, vectors of other spaces that are still there, and how many were dropped."""

    streams: tuple[Embedding, ...]
    others: Mapping[str, int]
    dropped: int = 0

    @property
    def done(self) -> bool:
        """Whether everything that may be embedded is."""
        return all(each.step in (Step.COMPLETE, Step.DISABLED) for each in self.streams)

    def wire(self) -> dict[str, Any]:
        return {"streams": [embedding_to(each) for each in self.streams], "otherSpaces": dict(self.others), "dropped": self.dropped}


async def embedded(host: Host, stream: str | None, rate: float | None, told: Callable[[Embedding], None], *, prune: bool) -> Embedded:
    """Embeds what lacks a vector, and then, with `prune`, drops what other models left; not before what takes its place is complete."""
    async with host.engine() as engine:
        steps: dict[str, Embedding] = {}
        async with aclosing(engine.embed(host.principal, stream=stream, rate=rate)) as coming:
            async for step in coming:
                steps[step.stream] = step
                told(step)
        done = Embedded(streams=tuple(steps.values()), others={})
        dropped = await engine.prune(host.principal) if prune and done.done else 0
        return Embedded(streams=done.streams, others=await engine.other_spaces(host.principal), dropped=dropped)


def embedding_to(embedding: Embedding) -> dict[str, Any]:
    return {
        "stream": embedding.stream.value,
        "space": embedding.space,
        "step": embedding.step.value,
        "coverage": _coverage(embedding),
        "having": embedding.having,
        "passages": embedding.passages,
        "embedded": embedding.embedded,
        "changed": embedding.changed,
        "empty": embedding.empty,
        "failed": dict(embedding.failed),
        "seconds": embedding.seconds,
    }


def show_embedded(console: Console, embedded: Embedded) -> None:
    if not embedded.streams:
        console.print(Text("no stream is configured: see embedding.provider"))
    for each in embedded.streams:
        console.print(Text(line_of(each)), soft_wrap=True)
    if embedded.dropped:
        console.print(Text(f"dropped {embedded.dropped:,} vectors of other spaces"))
    for space, number in embedded.others.items():
        told = f"{number:,} vectors of {space} are compared with nothing: `remit embed --prune` drops them"
        console.print(Text(told), soft_wrap=True)


def line_of(embedding: Embedding) -> str:
    """`semantic toy/4/plain: 9 of 10 passages have a vector (7 embedded now), 1 failed timeout: …`."""
    counted = {"changed meanwhile": embedding.changed, "with nothing to embed": embedding.empty}
    parts = [f"{number:,} {name}" for name, number in counted.items() if number]
    parts += [f"{number:,} failed {code}" for code, number in embedding.failed.items()]
    had = f"{embedding.having:,} of {embedding.passages:,} passages have a vector ({embedding.embedded:,} embedded now)"
    counts = [] if embedding.step in (Step.DISABLED, Step.NO_ROOM) else [had, *parts]
    return f"{embedding.stream} {embedding.space}: {', '.join([*counts, SENTENCES.get(embedding.step, '')])}".rstrip(", ")


def _coverage(embedding: Embedding) -> float | None:
    return embedding.having / embedding.passages if embedding.passages else None
