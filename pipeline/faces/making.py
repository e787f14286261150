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


AFTER_DBA = "have that run, then `remit init` again"
AS_ROLE = "the role `postgres.role` logs in itself, so give Remit a DSN of that role"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was done: whether the store is new, what was done to its schema, how many memories were indexed again (None: that was not
    needed), and how it is now: None where this login cannot open it."""

    new: bool
    schema: SchemaMade
    reindexed: int | None = None
    examination: Examination | None = None

    @property
    def store(self) -> str:
        return self.schema.store

    @property
    def healthy(self) -> bool:
        return not self.schema.for_dba if self.examination is None else self.examination.healthy

    def wire(self) -> dict[str, Any]:
        return {
            "store": self.store,
            "new": self.new,
            "migrations": list(self.schema.migrations),
            "forDba": self.schema.for_dba,
            "reindexed": self.reindexed,
            **(examination_to(self.examination) if self.examination is not None else {"healthy": None}),
        }


async def made(host: Host, told: Callable[[int], None]) -> Made:
    """Opens the store, which makes or upgrades it, and makes its indexes again when they are of another language or out of step."""
    there = host.path is not None and host.path.exists()
    schema = await schema_made(host.store, host.config)
    new = schema.new and not there
    if not schema.usable:
        return Made(new=new, schema=schema)
    async with host.engine(make=True, rebuild=True) as engine:
        examination, done = await engine.doctor(), None
        if any(fault.code in OF_INDEXES for fault in examination.faults):
            done = await reindex(engine.store, engine.indexer, batch=host.config.remember.batch_items, told=told)
            examination = await engine.doctor()
    return Made(new=new, schema=schema, reindexed=done, examination=examination)


def show_made(made: Made) -> None:
    console = terminal()
    for migration in made.schema.migrations:
        console.print(Text(f"carried out {migration}"))
    if made.schema.for_dba:
        console.print(Text("What a DBA must run, because this login may not:\n" + made.schema.for_dba), soft_wrap=True)
    if made.examination is None:
        console.print(Text(f"{made.store} cannot be opened by this login: {AFTER_DBA if made.schema.for_dba else AS_ROLE}"))
        return
    if made.reindexed is not None:
        console.print(Text(f"{made.store}: indexed {made.reindexed:,} memories again, as {made.examination.facts['words']}"))
    else:
        console.print(Text(f"made {made.store}" if made.new else f"{made.store} is as it should be" if made.healthy else made.store))
    show_faults(console, made.examination)
