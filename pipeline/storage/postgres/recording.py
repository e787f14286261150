"""Recording: the statements that put what a write decided into the tables, all of it at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from remit.pipeline.storage.entry import Entry
from remit.pipeline.storage.postgres.batch import Batch, Stored, counted
from remit.pipeline.storage.postgres.deciding import Decisions, Known, keys_of, used_by
from remit.pipeline.storage.postgres.identity import OF_ORG
from remit.pipeline.storage.postgres.rows import dumped, micros, name_text, spelled
from remit.pipeline.storage.postgres.statements import Command
from remit.pipeline.storage.postgres.wire import maybe_int8s
from remit.stages.evidence import Trust

NEVER = datetime.min.replace(tzinfo=UTC)
"""When a memory was written whose row is left as it is."""


class Write(Decisions):
    """The decisions of a write, and the commands that make them stand."""

    def commands(self) -> list[Command]:
        """All that has been decided, in the order in which tables depend on each other."""
        changed = [(name, known, known.entry) for name, known in self.memories.items() if known.entry is not None]
        stored = {name: self._stored(known, entry) for name, known, entry in changed}
        gone = [known.key for _, known, _ in changed if known.was is not None]
        marked = [known for known in self.memories.values() if known.entry is None and known.newly_superseded]
        batch = Batch(self._desk, self._org, list(stored.values()))
        again = [each for name, each in stored.items() if name not in self._indexed_again]
        new = [each for each in again if self.memories[each.record.id].was is None]
        replaced = [each for each in again if self.memories[each.record.id].was is not None]
        return [
            *self._dropped(gone, [each.key for each in replaced]),
            *([self._command("add_tenant")] if again else []),
            *self.new_shelves(),
            *batch.memories("add_memories", new),
            *batch.memories("replace_memories", replaced),
            *batch.tags(again),
            *batch.derived(again),
            *batch.indexes(),
            *self._marked([known.key for known in marked], superseded=True),
            *self._counts(batch, [known for _, known, _ in changed] + marked),
            *self._past([each.key for each in replaced]),
            *self._receipts(),
            *self._lower(),
        ]

    def _stored(self, known: Known, entry: Entry) -> Stored:
        numbers = tuple(next(self._passage_numbers) for _ in entry.passages)
        written_at = known.written_at or NEVER
        return Stored(entry, known.key, known.version, self.number_of(known.shelf), known.superseded, written_at, numbers)

    def new_shelves(self) -> list[Command]:
        if not self._new_shelves:
            return []
        numbers, columns = zip(*self._new_shelves.values(), strict=True)
        scopes, sources, projects, conversations = zip(*columns, strict=True)
        return [
            self._command(
                "add_shelves",
                on_shelf=np.array(numbers, dtype=np.int64),
                scopes_of=list(scopes),
                sources_of=list(sources),
                projects=list(projects),
                conversations=list(conversations),
                places=list(self._new_shelves),
            )
        ]

    def _dropped(self, memories: Sequence[int], replaced: Sequence[int]) -> list[Command]:
        """Everything that the indexes hold for memories whose passages are replaced, and more of those that are replaced themselves, the
        versions of which go into the history."""
        if not memories:
            return []
        commands = [self._command(name, memories=keys_of(memories)) for name in (*self._indexes(), "drop_passages")]
        of_replaced = ("keep_versions", "drop_tags", "drop_derived") if replaced else ()
        return commands + [self._command(name, memories=keys_of(replaced)) for name in of_replaced]

    def _indexes(self) -> list[str]:
        """The statements that take memories out of the indexes."""
        return ["drop_postings", "drop_words", "drop_phrases", *(f"drop_{table}" for table in self._desk.means.places)]

    def _marked(self, memories: Sequence[int], *, superseded: bool) -> list[Command]:
        if not memories:
            return []
        tables = [f"supersede_{table}" for table in self._desk.means.places]
        names = ["supersede_postings", *tables, "supersede_passages", "supersede_memories"]
        return [self._command(name, memories=keys_of(memories), superseded=superseded) for name in names]

    def _past(self, replaced: Sequence[int]) -> list[Command]:
        """Events for the histories, and histories to the shelves on which their memories lie now."""
        commands = [self._command("move_past", memories=keys_of(replaced))] if replaced else []
        events = [(known.key, event) for known in self.memories.values() for event in known.past]
        if events:
            told = [event for _, event in events]
            commands.append(
                self._command(
                    "add_past",
                    memories=keys_of([key for key, _ in events]),
                    whats=[str(event.what) for event in told],
                    versions=keys_of([event.version for event in told]),
                    actors=[spelled(event.actor) for event in told],
                    at=maybe_int8s([micros(event.at) for event in told]),
                    digests=[event.digest for event in told],
                    titles=[spelled(event.title) for event in told],
                    texts=[spelled(event.text) for event in told],
                    others=[None if event.by is None else name_text(event.by) for event in told],
                )
            )
        return commands

    def _lower(self) -> list[Command]:
        """What is derived from memories that came is trusted no more than they, also where the writer does not see it: the last that a
        transaction does, on behalf of the org as a whole."""
        if not self._lowered:
            return []
        sources, ids = [str(each.id.source) for each in self._lowered], [spelled(each.id.id) for each in self._lowered]
        levels = keys_of([tuple(Trust).index(each.trust) + 1 for each in self._lowered])
        return [OF_ORG, self._command("lower", sources_of=sources, ids=ids, levels=levels)]

    def _counts(self, batch: Batch, gone: Iterable[Known], back: Iterable[Known] = ()) -> list[Command]:
        """What stands on the shelves, after what was there is gone and what is new, or restored, has come."""
        left = [(known.was, -1, length, spaces) for known in gone if known.was is not None for length, spaces in known.passages]
        come = [(known.was, 1, length, spaces) for known in back if known.was is not None for length, spaces in known.marked]
        sums = counted([*left, *come, *((shelf, 1, length, spaces) for shelf, length, spaces in batch.standing())])
        if not sums:
            return []
        for shelf, (_, _, spaces) in sums.items():
            for space, number in spaces.items():
                self._vectors[shelf][space] = self._vectors[shelf].get(space, 0) + number
        return [
            self._command(
                "count_on_shelves",
                on_shelf=np.array(list(sums), dtype=np.int64),
                passages=np.array([passages for passages, _, _ in sums.values()], dtype=np.int64),
                lengths=np.array([words for _, words, _ in sums.values()], dtype=np.int64),
                vectors=[dumped({space: number for space, number in sorted(self._vectors[shelf].items()) if number}) for shelf in sums],
            )
        ]

    def _receipts(self) -> list[Command]:
        if not self._told:
            return []
        return [
            self._command(
                "add_receipts",
                **used_by([(record.actor, record.key or "") for record, _ in self._told]),
                sources_of=[str(record.id.source) for record, _ in self._told],
                ids=[spelled(record.id.id) for record, _ in self._told],
                digests=[record.digest for record, _ in self._told],
                written=[str(receipt.written) for _, receipt in self._told],
                versions=np.array([receipt.version for _, receipt in self._told], dtype=np.int64),
            )
        ]
