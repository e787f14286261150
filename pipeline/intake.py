"""Intake: what a person names on a command line, read piece by piece as items, each with the place it came from."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from remit.pipeline.config import Limits
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import blank, shown
from remit.pipeline.items import Doc
from remit.pipeline.storage.entry import Refusal
from remit.stages.access import GLOBAL
from remit.stages.evidence import Origin

MARKDOWN = frozenset({".md", ".markdown"})
TEXTS = MARKDOWN | {".txt", ".rst"}
LINES = frozenset({".jsonl", ".ndjson", ".json"})
STDIN = Path("-")
"""Names what is piped in; a file of that name is `./-`, and a folder too."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*")
_UNDERLINE = re.compile(r"([=\-~^\"'*+#.:_`])\1{2,}[ \t]*")
_STATED_TITLE = re.compile(r"title:\s+(['\"]?)(\S.*?)\1\s*")
_FENCE = re.compile(r" {0,3}(```|~~~)")


class Skip(StrEnum):
    """Why something in a folder was passed by. The list is closed; `ops/runbook.md` explains each."""

    HIDDEN = "hidden"
    LINK = "link"
    BINARY = "binary"
    BLANK = "blank"
    OTHER_KIND = "other_kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read, as `Intake.item_from` made it.

    `line` counts from 1, None when it is a file of its own; `size` is how many bytes it took.
    """

    item: Any
    file: str
    line: int | None = None
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A line or a file that could not be read as an item."""

    code: Refusal
    detail: str
    file: str
    line: int | None = None
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something in a folder that is no memory and was not meant to be one."""

    why: Skip
    file: str
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """How files are read: `item_from` makes an item of a JSON object; `scope` and `org` are for items that state none."""

    item_from: Callable[[Mapping[str, Any]], Any]
    limits: Limits
    scope: str | None = None
    org: str | None = None

    def items_from(self, path: Path) -> Iterator[Read | Problem | Skipped]:
        """Every item of a file or a folder, in an order that depends on names alone; what cannot be read is told in its place.

        A text file becomes a doc, and so does each one in a folder; any other file that is named is read as JSON Lines. Nothing that
        stands in a file raises, and no more than one line or one text file is held at once.
        """
        if path == STDIN or not path.is_dir():
            yield from [self._doc(path, path.name, named=True)] if path.suffix.lower() in TEXTS else self.lines_from(path)
            return
        for found in _walked(path):
            yield self._doc(found, found.relative_to(path).as_posix(), named=False) if isinstance(found, Path) else found

    def _doc(self, path: Path, name: str, *, named: bool) -> Read | Problem | Skipped:
        file, most = _told(path), self.limits.line_bytes
        try:
            found = path.stat()
            content = path.read_bytes() if found.st_size <= most else b""
        except OSError as error:
            return Problem(code=Refusal.UNREADABLE, detail=_why(error), file=file)
        if found.st_size > most:
            return Problem(code=Refusal.TOO_LARGE, detail=f"{found.st_size} bytes, {most} are allowed", file=file, size=found.st_size)
        if b"\0" in content and not named:
            return Skipped(why=Skip.BINARY, file=file, size=len(content))
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return Problem(code=Refusal.NOT_UTF8, detail=f"byte {error.start + 1}", file=file, size=len(content))
        if blank(text) and not named:
            return Skipped(why=Skip.BLANK, file=file, size=len(content))
        item = Doc(
            id=name,
            text=text,
            title=title_of(text, path.suffix.lower()) or path.name,
            org=self.org,
            scope=self.scope or GLOBAL,
            created_at=_modified(found),
            origin=Origin(uri=path.resolve().as_uri(), sha256=sha256(content).hexdigest()),
        )
        return Read(item=item, file=file, size=len(content))

    def lines_from(self, path: Path) -> Iterator[Read | Problem]:
        """What stands in a file of JSON Lines, whatever its name, or is piped in; what cannot be read is told in its place."""
        file = _told(path)
        try:
            with _opened(path) as opened:
                for number, line, size in _bounded(opened, self.limits.line_bytes):
                    found = self._line(line, first=number == 1, known=path.suffix.lower() in LINES)
                    if not isinstance(found, tuple):
                        yield from () if found is None else [Read(item=found, file=file, line=number, size=size)]
                    else:
                        code, detail = found
                        yield Problem(code=code, detail=detail, file=file, line=number, size=size)
                        if code in (Refusal.UNKNOWN_KIND, Refusal.NOT_UTF8) and number == 1:
                            return
        except OSError as error:
            yield Problem(code=Refusal.UNREADABLE, detail=_why(error), file=file)

    def _line(self, line: bytes | None, *, first: bool, known: bool) -> Any | tuple[Refusal, str] | None:
        """The item of a line; or what is wrong with it; or None when the line is empty."""
        if line is None:
            return Refusal.TOO_LARGE, f"more than {self.limits.line_bytes} bytes"
        try:
            text = line.decode("utf-8-sig" if first else "utf-8").strip()
        except UnicodeDecodeError as error:
            return Refusal.NOT_UTF8, "UTF-16" if first and line.startswith(_UTF16) else f"byte {error.start + 1}"
        if not text:
            return None
        if first and not known and not text.startswith("{"):
            return Refusal.UNKNOWN_KIND, f"neither JSON Lines nor one of {', '.join(sorted(TEXTS))}"
        try:
            return self._item(json.loads(text, object_pairs_hook=_each_once))
        except InvalidRequest as error:
            return Refusal.INVALID, error.fact
        except json.JSONDecodeError as error:
            return Refusal.NOT_JSON, f"{error.msg}, column {error.colno}"
        except (ValueError, RecursionError):
            return Refusal.NOT_JSON, "a number too long or objects nested too deeply"

    def _item(self, value: object) -> Any:
        if not isinstance(value, dict):
            raise InvalidRequest("item", "must be an object")
        unstated = {name: given for name, given in (("scope", self.scope), ("org", self.org)) if value.get(name) is None}
        return self.item_from({**value, **unstated})


def _opened(path: Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb")


def size_of(path: Path) -> int:
    """How many bytes reading this file or folder will go through; 0 for what cannot be told."""
    try:
        return sum(each.stat().st_size if isinstance(each, Path) else 0 for each in (_walked(path) if path.is_dir() else [path]))
    except OSError:
        return 0


def title_of(text: str, suffix: str) -> str:
    """The title a Markdown or reStructuredText document states in its front matter, or its first heading; `""` when it has neither."""
    if suffix in MARKDOWN:
        return _markdown_title(text.splitlines())
    return _underlined(text.splitlines()) if suffix == ".rst" else ""


def _markdown_title(lines: list[str]) -> str:
    if lines[:1] == ["---"] and "---" in lines[1:]:
        end = lines.index("---", 1)
        for stated in filter(None, map(_STATED_TITLE.fullmatch, lines[1:end])):
            return stated[2]
        lines = lines[end + 1 :]
    fenced = False
    for line, following in pairwise([*lines, ""]):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            heading = _HEADING.fullmatch(line)
            if heading and heading[1]:
                return heading[1]
            if following[:1] in ("=", "-") and (title := _underlined((line, following))):
                return title
    return ""


def _underlined(lines: Iterable[str]) -> str:
    for line, following in pairwise(lines):
        if line.strip() and _UNDERLINE.fullmatch(following) and not _UNDERLINE.fullmatch(line):
            return line.strip()
    return ""


def _walked(root: Path) -> Iterator[Path | Problem | Skipped]:
    """The text files of a folder, what was passed by and what could not be read, depth first in the order of names."""
    inside, ahead = Path(os.path.realpath(root)), [root]
    while ahead:
        path = ahead.pop()
        if path != root and path.name.startswith("."):
            yield Skipped(why=Skip.HIDDEN, file=_told(path))
        elif path != root and path.is_symlink() and (path.is_dir() or not Path(os.path.realpath(path)).is_relative_to(inside)):
            yield Skipped(why=Skip.LINK, file=_told(path))
        elif path.is_dir():
            try:
                ahead.extend(path / name for name in sorted(os.listdir(path), reverse=True))
            except OSError as error:
                yield Problem(code=Refusal.UNREADABLE, detail=_why(error), file=_told(path))
        elif path.suffix.lower() in TEXTS and path.is_file():
            yield path
        else:
            yield Skipped(why=Skip.OTHER_KIND, file=_told(path))


def _bounded(opened: BinaryIO, most: int) -> Iterator[tuple[int, bytes | None, int]]:
    """Number, content and size of each line; None in place of a content longer than `most` bytes, which is not held."""
    number = 0
    while line := opened.readline(most + 1):
        number, size = number + 1, len(line)
        if size <= most or line.endswith(b"\n"):
            yield number, line, size
            continue
        while not line.endswith(b"\n") and (line := opened.readline(most)):
            size += len(line)
        yield number, None, size


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name, value in pairs:
        if name in known:
            raise InvalidRequest(shown(name), "stands there twice")
        known[name] = value
    return known


def _modified(found: os.stat_result) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=found.st_mtime)
    except OverflowError:  # a clock that was never set
        return None


def _told(path: Path) -> str:
    """A path as it can be printed, also when its bytes are no text."""
    return os.fsencode(path).decode("utf-8", "replace")


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__
