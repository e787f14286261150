"""Taking in: files and folders of a command line become memories of the store, with a receipt for each and a list of what was wrong."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from remit.pipeline.authority import Principal, scope_at
from remit.pipeline.config import Limits
from remit.pipeline.engine import Engine
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.faces.wire import item_from, receipt_to
from remit.pipeline.fields import member_at, name_at
from remit.pipeline.intake import STDIN, Intake, Problem, Read, Skip, Skipped, size_of
from remit.pipeline.items import Doc, Fact, Item, Session
from remit.pipeline.remember import Receipt, Refusal, Written
from remit.stages.render import shown
from remit.stages.request import Source

KINDS: dict[Source, type[Item]] = {kind.source: kind for kind in (Fact, Session, Doc)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of one item, and where it stood; `receipt` is None when it could not be read, and then `problem` says why.

    `named` is what the command named, a folder or the file itself.
    """

    named: Path
    file: str
    line: int | None
    receipt: Receipt | None = None
    problem: Problem | None = None

    @property
    def place(self) -> str:
        file = shown(self.file).replace("\n", "\ufffd")
        return file if self.line is None else f"{file}:{self.line}"

    @property
    def wrong(self) -> str:
        """What is wrong with it, with where it stands."""
        return f"{self.place} {self.code} {self.detail}".rstrip()

    @property
    def refused(self) -> bool:
        return self.receipt is None or self.receipt.written is Written.REFUSED

    @property
    def code(self) -> str:
        if self.problem is not None:
            return self.problem.code.value
        return str(self.receipt.code or "") if self.receipt else ""

    @property
    def detail(self) -> str:
        return self.problem.detail if self.problem is not None else self.receipt.detail if self.receipt else ""

    def line_for_people(self) -> str:
        """One receipt line: `stored doc:guide.md v1`, `refused fact:f1 notes.jsonl:3 invalid …`."""
        if self.refused:
            name = f"{self.receipt.id} " if self.receipt and self.receipt.id else ""
            return f"refused {name}{self.wrong}"
        assert self.receipt is not None  # noqa: S101 - what is not refused has one
        note = f" ({self.receipt.detail})" if self.receipt.detail else ""
        return f"{self.receipt.written.value} {self.receipt.id} v{self.receipt.version}{note}"

    def wire(self) -> dict[str, Any]:
        """The same as JSON; what is wrong says where it stands."""
        told = receipt_to(self.receipt) if self.receipt else {"written": Written.REFUSED.value, "code": self.code, "detail": self.detail}
        where = {"file": self.file, "line": self.line} if self.refused else {}
        return {name: value for name, value in {**told, **where}.items() if value is not None}


@dataclass(slots=True, kw_only=True)
class Intaking:
    """The files of one command on their way in. `told` hears how many bytes were gone through."""

    paths: Sequence[Path]
    intake: Intake
    source: Source = Source.DOC
    told: Callable[[int], None] = lambda _: None
    written: Counter[Written] = field(default_factory=Counter)
    skipped: Counter[Skip] = field(default_factory=Counter)
    unread: int = 0
    _ahead: deque[tuple[Path, Read | Problem]] = field(default_factory=deque)
    _docs: dict[str, str] = field(default_factory=dict)

    async def into(self, engine: Engine, principal: Principal) -> AsyncIterator[Taken]:
        """Takes everything in and tells of each item as soon as it is durable, or known to be wrong.

        What is named, and holds a memory that was not refused, becomes an allowed root of the principal's org for good.
        """
        roots = {path: str(path.resolve()) for path in self.paths if path != STDIN and (path.is_dir() or path.is_file())}
        with engine.roots.lent(principal.org, list(roots.values())):
            async for taken in self._taken(engine.remember_stream(self._items(), principal)):
                if not taken.refused and (root := roots.pop(taken.named, None)) is not None:
                    await engine.allow_root(root, principal)
                yield taken

    async def _taken(self, receipts: AsyncIterator[Receipt]) -> AsyncIterator[Taken]:
        """What became of all that was read, in order, as its receipts come."""
        async for receipt in receipts:
            self.written[receipt.written] += 1
            for taken in self._up_to(receipt):
                yield taken
        for named, problem in self._ahead:
            assert isinstance(problem, Problem)  # noqa: S101 - every item that was read has had its receipt
            yield Taken(named=named, file=problem.file, line=problem.line, problem=problem)

    def _up_to(self, receipt: Receipt) -> Iterator[Taken]:
        """The item of a receipt, and before it what could not be read in front of it."""
        named, found = self._ahead.popleft()
        while isinstance(found, Problem):
            yield Taken(named=named, file=found.file, line=found.line, problem=found)
            named, found = self._ahead.popleft()
        yield Taken(named=named, file=found.file, line=found.line, receipt=receipt)

    def summary(self) -> str:
        """What came of it all, in a line."""
        parts = [f"{self.written[each]} {each.value}" for each in Written if self.written[each]]
        if self.unread:
            parts.append(f"{self.unread} not readable")
        if self.skipped:
            kinds = ", ".join(f"{count} {why.value.replace('_', ' ')}" for why, count in sorted(self.skipped.items()))
            parts.append(f"{self.skipped.total()} passed by ({kinds})")
        return ", ".join(parts) or "nothing to take in"

    def _items(self) -> Iterator[Item]:
        for path in self.paths:
            for each in self.intake.items_from(path):
                self.told(each.size)
                if isinstance(each, Skipped):
                    self.skipped[each.why] += 1
                    continue
                found = self._unless_another_has_its_id(each)
                self._ahead.append((path, found))
                self.unread += isinstance(found, Problem)
                if isinstance(found, Read):
                    yield found.item if found.line is not None else as_source(found.item, self.source)

    def _unless_another_has_its_id(self, found: Read | Problem) -> Read | Problem:
        """Of files in several named folders, one of an id that another one of this command has would take its place without a word."""
        if isinstance(found, Problem) or found.line is not None or len(self.paths) == 1:
            return found
        first = self._docs.setdefault(found.item.id, found.file)
        if first == found.file or Path(first).resolve() == Path(found.file).resolve():
            return found
        detail = f"id: {shown(found.item.id)} is also {shown(first)}: name the folder above both"
        return Problem(code=Refusal.INVALID, detail=detail, file=found.file, size=found.size)


def sizes_of(files: Sequence[str]) -> int:
    """How many bytes taking these in will go through."""
    return sum(size_of(Path(each)) for each in files)


def as_source(item: Item, source: Source) -> Item:
    """A text file's memory as another kind of memory."""
    if item.source is source:
        return item
    return KINDS[source](**{each.name: getattr(item, each.name) for each in fields(Item)})


def intaking(
    files: Sequence[str],
    limits: Limits,
    *,
    scope: str | None = None,
    org: str | None = None,
    source: str | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> Intaking:
    """What `files` name, ready to be taken in. Raises `InvalidRequest` for an option or a name that is wrong."""
    if not all(name.strip() for name in files):
        raise InvalidRequest("FILE", "is blank: name a file or a folder")  # an unset variable must not mean this whole folder
    intake = Intake(
        item_from=item_from,
        limits=limits,
        scope=None if scope is None else scope_at("scope", scope, limits),
        org=None if org is None else name_at("org", org, limits.name_characters),
    )
    kind = Source.DOC if source is None else member_at("source", source, Source)
    return Intaking(paths=[Path(each) for each in files], intake=intake, source=kind, told=told)
