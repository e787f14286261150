"""A batch: memories that were decided on, as the arrays that the statements of a write take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.storage.entry import ALIAS, Entry, Passage, Record, worth_keeping
from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.postgres.rows import INDEX_OF, dumped, micros, outline, spelled, stated, until, word_key
from remit.pipeline.storage.postgres.statements import Command
from remit.pipeline.storage.postgres.wire import KIND, byteas, maybe_int8s, vectors
from remit.stages.access import Approval

Vectors = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory as it will stand: under which key, in which version, on the shelf of which number, with which numbers for its passages."""

    entry: Entry
    key: int
    version: int
    shelf: int
    superseded: bool
    written_at: datetime
    passages: tuple[int, ...]

    @property
    def record(self) -> Record:
        return self.entry.record

    @property
    def approved(self) -> bool:
        return self.record.label.approval is Approval.APPROVED

    @property
    def always(self) -> bool:
        """Whether its passages stand at every time."""
        label = self.record.label
        return self.approved and not self.superseded and label.valid_from is None and until(label) is None


class Batch:
    """Makes the commands of a write in one org. Only vectors that have a direction and a place are kept; see `sound`."""

    def __init__(self, desk: Desk, org: str, stored: Sequence[Stored]) -> None:
        self._desk = desk
        self._org = org
        self._passages = [
            (each, key, passage, self.sound(passage.vectors))
            for each in stored
            for key, passage in zip(each.passages, each.entry.passages, strict=True)
        ]

    def sound(self, given: Vectors) -> dict[str, NDArray[np.float32]]:
        """The vectors that are kept: those that a table has room for."""
        fitting = {space: vector for space, vector in given.items() if self._desk.means.table_for(vector.size) is not None}
        return {space: vector for space, vector in fitting.items() if worth_keeping(vector)}

    def standing(self) -> Iterator[tuple[int, int, Iterable[str]]]:
        """Of each passage that stands at every time: its shelf, its length and the spaces of its vectors."""
        for each, _, passage, kept in self._passages:
            if each.always:
                yield each.shelf, passage.length, kept

    def memories(self, name: str, stored: Sequence[Stored]) -> list[Command]:
        """`add_memories` or `replace_memories`."""
        if not stored:
            return []
        records = [each.record for each in stored]
        return [
            self._command(
                name,
                memories=_numbers(each.key for each in stored),
                sources_of=[str(record.id.source) for record in records],
                ids=[spelled(record.id.id) for record in records],
                on_shelf=_numbers(each.shelf for each in stored),
                versions=_numbers(each.version for each in stored),
                digests=[record.digest for record in records],
                approvals=[str(record.label.approval) for record in records],
                superseded=_flags(each.superseded for each in stored),
                valid_from=maybe_int8s([micros(record.label.valid_from) for record in records]),
                valid_until=maybe_int8s([micros(record.label.valid_until) for record in records]),
                expires_at=maybe_int8s([micros(record.label.expires_at) for record in records]),
                created_at=maybe_int8s([micros(record.created_at) for record in records]),
                aged_from=maybe_int8s([micros(record.ended_at or record.created_at) for record in records]),
                importance=np.array([record.importance for record in records], dtype=np.float64),
                pins=_flags(record.pinned for record in records),
                actors=[spelled(record.actor) for record in records],
                written_at=maybe_int8s([micros(each.written_at) for each in stored]),
                trusts=[str(record.trust) for record in records],
                titles=[spelled(record.title) for record in records],
                texts=[spelled(record.text) for record in records],
                stated=[stated(record) for record in records],
            )
        ]

    def tags(self, stored: Sequence[Stored]) -> list[Command]:
        tags = [(each.key, spelled(tag), each.shelf) for each in stored for tag in each.record.tags]
        if not tags:
            return []
        keys, names, shelves = zip(*tags, strict=True)
        return [self._command("add_tags", memories=_numbers(keys), tags=list(names), on_shelf=_numbers(shelves))]

    def derived(self, stored: Sequence[Stored]) -> list[Command]:
        """What memories are derived from."""
        rows = [(str(name.source), spelled(name.id), each.key, each.shelf) for each in stored for name in each.record.derived_from]
        if not rows:
            return []
        sources, ids, keys, shelves = zip(*rows, strict=True)
        return [self._command("add_derived", sources_of=list(sources), ids=list(ids), memories=_numbers(keys), on_shelf=_numbers(shelves))]

    def indexes(self) -> list[Command]:
        """Passages, and what the indexes hold for those that are approved."""
        approved = [each for each in self._passages if each[0].approved]
        return [*self._rows(), *self._postings(approved), *self._phrases(approved), *self._vectors(approved)]

    def _rows(self) -> list[Command]:
        if not self._passages:
            return []
        rows = self._passages
        return [
            self._command(
                "add_passages",
                passages=_numbers(key for _, key, _, _ in rows),
                memories=_numbers(each.key for each, _, _, _ in rows),
                ordinals=_numbers(passage.ordinal for _, _, passage, _ in rows),
                on_shelf=_numbers(each.shelf for each, _, _, _ in rows),
                approved=_flags(each.approved for each, _, _, _ in rows),
                superseded=_flags(each.superseded for each, _, _, _ in rows),
                valid_from=maybe_int8s([micros(each.record.label.valid_from) for each, _, _, _ in rows]),
                valid_until=maybe_int8s([until(each.record.label) for each, _, _, _ in rows]),
                lengths=_numbers(passage.length for _, _, passage, _ in rows),
                starts=_numbers(passage.start for _, _, passage, _ in rows),
                ends=_numbers(passage.end for _, _, passage, _ in rows),
                outlines=[outline(each.record, key, passage.ordinal, each.version) for each, key, passage, _ in rows],
                spaces=[dumped(sorted(kept)) for _, _, _, kept in rows],
                words=[dumped(list(map(word_key, passage.words))) for _, _, passage, _ in rows],
                texts=[None if passage.text == each.record.text else spelled(passage.text) for each, _, passage, _ in rows],
            )
        ]

    def _postings(self, approved: Sequence[tuple[Stored, int, Passage, Vectors]]) -> list[Command]:
        # Sorted, because neighbours in an index are cheap to write after one another.
        postings = sorted(
            (word_key(word), each.shelf, key, count << 32 | passage.length << 2 | INDEX_OF[each.record.id.source])
            for each, key, passage, _ in approved
            for word, count in passage.words.items()
        )
        if not postings:
            return []
        words, _, keys, entries = zip(*postings, strict=True)
        return [
            self._command("add_postings", words=list(words), passages=_numbers(keys), entries=_numbers(entries)),
            *self._vocabulary(approved),
        ]

    def _vocabulary(self, approved: Sequence[tuple[Stored, int, Passage, Vectors]]) -> list[Command]:
        used = {(each.shelf, word) for each, _, passage, _ in approved for word in passage.words if not word.startswith(ALIAS)}
        if not used:
            return []
        shelves, words = zip(*sorted(used), strict=True)
        keys = [word_key(word) for word in words]
        return [
            self._command(
                "add_vocabulary",
                on_shelf=_numbers(shelves),
                words=keys,
                letters=_numbers(map(len, words)),
                wholes=[None if key == (whole := spelled(word)) else whole for key, word in zip(keys, words, strict=True)],
            )
        ]

    def _phrases(self, approved: Sequence[tuple[Stored, int, Passage, Vectors]]) -> list[Command]:
        if not approved:
            return []
        return [
            self._command(
                "add_phrases",
                on_shelf=_numbers(each.shelf for each, _, _, _ in approved),
                passages=_numbers(key for _, key, _, _ in approved),
                plain=[f" {spelled(passage.plain)} " for _, _, passage, _ in approved],
            )
        ]

    def _vectors(self, approved: Sequence[tuple[Stored, int, Passage, Vectors]]) -> list[Command]:
        commands = []
        for table, place in self._desk.means.places.items():
            here = [
                (space, str(each.record.id.source), key, vector)
                for each, key, _, kept in approved
                for space, vector in kept.items()
                if self._desk.means.table_for(vector.size) == table
            ]
            if here:
                spaces, sources, keys, held = zip(*here, strict=True)
                commands.append(
                    self._command(
                        f"add_{table}",
                        spaces=list(spaces),
                        sources_of=list(sources),
                        passages=_numbers(keys),
                        lengths=_numbers(vector.size for vector in held),
                        embeddings=vectors(held, place.dimensions, place.oid, KIND[table]),
                        exacts=byteas([vector.astype("<f4").tobytes() for vector in held]),
                    )
                )
        return commands

    def _command(self, name: str, **values: Any) -> Command:
        return self._desk.command(name, org=self._org, **values)


def counted(changes: Iterable[tuple[int, int, int, Iterable[str]]]) -> dict[int, tuple[int, int, Counter[str]]]:
    """Shelf → passages, words and vectors by space, summed up over (shelf, sign, length, spaces) of passages that come and go."""
    sums: dict[int, tuple[int, int, Counter[str]]] = {}
    for shelf, sign, length, spaces in changes:
        passages, words, vectors_of = sums.get(shelf, (0, 0, Counter()))
        for space in spaces:
            vectors_of[space] += sign
        sums[shelf] = passages + sign, words + sign * length, vectors_of
    return sums


def _numbers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


def _flags(values: Iterable[bool]) -> NDArray[np.bool_]:
    return np.fromiter(values, dtype=np.bool_)
