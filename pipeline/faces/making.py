"""Making a store, or bringing one that is there to what this Remit and this config want of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from remit.pipeline.doctor import Examination
from remit.pipeline.faces.host import Host
from remit.pipeline.faces.show import show_faults, terminal
from remit.pipeline.faces.wire import examination_to
from remit.pipeline.opening import Made as SchemaMade
from remit.pipeline.opening import made_for as schema_made
from remit.pipeline.reindex import reindex

OF_INDEXES = frozenset(
    {
        *("other_analyser", "damaged_phrases", "miscounted_shelves", "miscounted_vectors", "miscounted_words"),
        *("missing_postings", "missing_vectors", "missing_phrases", "missing_words"),
        *("orphan_postings", "orphan_vectors", "orphan_phrases", "orphan_words", "orphan_local", "orphan_semantic"),
    }
)
"""Faults that making the indexes again mends. It costs every vector of a model, so it is not done for anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was done: whether the store is new, what was done to its schema, how many memories were indexed again (None: that was not
    needed), and how it is now."""

    store: str
    new: bool
    schema: SchemaMade
    reindexed: int | None
    examination: Examination

    @property
    def healthy(self) -> bool:
        return self.examination.healthy

    def wire(self) -> dict[str, Any]:
        return {
            "store": self.store,
            "new": self.new,
            "migrations": list(self.schema.migrations),
            "forDba": self.schema.for_dba,
            "reindexed": self.reindexed,
            **examination_to(self.examination),
        }


async def made(host: Host, told: Callable[[int], None]) -> Made:
    """Opens the store, which makes or upgrades it, and makes its indexes again when they are of another language or out of step."""
    new = host.path is None or not host.path.exists()
    schema = await schema_made(host.store, host.config)
    async with host.engine(make=True, rebuild=True) as engine:
        examination, done = await engine.doctor(), None
        if any(fault.code in OF_INDEXES for fault in examination.faults):
            done = await reindex(engine.store, engine.indexer, batch=host.config.remember.batch_items, told=told)
            examination = await engine.doctor()
    return Made(store=host.store, new=new, schema=schema, reindexed=done, examination=examination)


def show_made(made: Made) -> None:
    console = terminal()
    for migration in made.schema.migrations:
        console.print(Text(f"carried out {migration}"))
    if made.schema.for_dba:
        console.print(Text("What a DBA must run, because this login may not:\n" + made.schema.for_dba))
    if made.reindexed is not None:
        console.print(Text(f"{made.store}: indexed {made.reindexed:,} memories again, as {made.examination.facts['words']}"))
    else:
        console.print(Text(f"made {made.store}" if made.new else f"{made.store} is as it should be" if made.healthy else made.store))
    show_faults(console, made.examination)
