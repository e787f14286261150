"""Chunking: a document as passages small enough to be found and packed, cut where its author paused."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import apsw.unicode

Count = Callable[[str], int]
Cut = Callable[[str], Iterable[int]]

CHARACTERS_A_TOKEN = 4
"""Of common prose; where the first count is tried."""

MOST_CHARACTERS_A_TOKEN = 16
"""A block longer than this many characters for each token it may have is not counted: it is cut up in any case."""

MOST_GRAPHEME = 64
"""Code points beyond which one character with its marks is no character a reader would miss."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-+)[ \t]*$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
_TABLE = re.compile(r"\s*\|")
_MATTER = re.compile(r"[ \t#]|-[ \t]|$|([A-Za-z_][\w .-]*):(?:\s|$)")
"""How a line of front matter begins."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document. `start` and `end` are byte offsets into its UTF-8; `heading` are the headings above, outermost first.

    A heading that the passage itself begins with is the last of them.
    """

    start: int
    end: int
    text: str
    heading: tuple[str, ...] = ()


class _Kind(Enum):
    TEXT = "text"
    TABLE = "table"
    FENCE = "fence"
    HEADING = "heading"


class _Block(NamedTuple):
    """Lines that belong together, as a range of characters, with the headings above."""

    start: int
    end: int
    kind: _Kind
    heading: tuple[str, ...]


class _Piece(NamedTuple):
    """A range that is not cut any further, and its tokens. `fresh` begins a new chunk."""

    start: int
    end: int
    tokens: int
    heading: tuple[str, ...]
    fresh: bool


def chunks(text: str, *, most_tokens: int, count: Count, overlap: int = 0) -> list[Chunk]:
    """Cuts a text (Markdown or plain) into chunks of at most about `most_tokens`, as `count` counts its pieces one by one.

    Headings begin chunks; paragraphs, list items, fenced code and tables stay whole where they fit; what does not fit is cut at
    lines, sentences, words, and in the end between characters, never inside one. Everything but white space is in exactly one chunk;
    with `overlap` a chunk begins with up to so many tokens of whole pieces of the one before, if of the same section. Front matter is
    about the text and no part of it.
    """
    pieces = (piece for block in _blocks(text, front_matter(text)) for piece in _fitted(text, block, most_tokens, count))
    return list(_placed(text, _grouped(pieces, most_tokens, overlap)))


def front_matter(text: str) -> int:
    """How many characters of a document are YAML front matter, with the lines of `---` around it; 0 when nothing stands behind it."""
    if not text.startswith("---"):
        return 0
    end, keys = 0, 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        end += len(line)
        bare = line.rstrip()
        if number and bare in ("---", "..."):
            return end if keys and text[end:].strip() else 0
        matter = _MATTER.match(bare)
        if (number == 0 and bare != "---") or (number and matter is None):
            return 0
        keys += bool(number and matter and matter[1])
    return 0


def stated_in(text: str) -> str:
    """The values in a document's front matter but for its title, which is known: what it may be looked for by."""
    lines = text[: front_matter(text)].splitlines()[1:-1]
    keyed = ((matter[1] if (matter := _MATTER.match(line)) else None, line) for line in lines)
    return "\n".join(line if key is None else line[len(key) + 1 :] for key, line in keyed if key != "title")


def _blocks(text: str, start: int = 0) -> Iterator[_Block]:
    """The text from there on as blocks without gaps: a block holds the blank lines after it."""
    reader = _Reader(start)
    for line in text[start:].splitlines(keepends=True):
        yield from reader.read(line, start)
        start += len(line)
    yield from reader.rest(start)


class _Reader:
    """Reads lines and says where blocks end; knows of Markdown what decides where to cut, and no more."""

    def __init__(self, start: int) -> None:
        self.headings: list[tuple[int, str]] = []
        self.start, self.kind, self.first = start, _Kind.TEXT, ""
        self.lines, self.fence, self.blank = 0, "", False

    def read(self, line: str, start: int) -> Iterator[_Block]:
        bare = line.rstrip()
        if self.fence:
            if _closes(bare, self.fence):
                self.fence = ""
            self.lines += 1
            return
        if not bare:
            self.blank = True
            return
        underlined = _UNDERLINE.match(bare) if self.lines == 1 and not self.blank and self.kind is _Kind.TEXT else None
        if underlined and not _ITEM.match(self.first):
            self._enter(1 if underlined[1] else 2, self.first.strip())
            self.kind = _Kind.HEADING
            return
        kind = _kind(bare)
        if self.lines and (self.blank or kind is not self.kind or kind is _Kind.HEADING or kind is _Kind.FENCE or _ITEM.match(bare)):
            yield self._block(start)
        if not self.lines:
            self.kind, self.first = kind, bare
            self._open(bare)
        self.lines += 1
        self.blank = False

    def rest(self, end: int) -> Iterator[_Block]:
        if end > self.start:
            yield self._block(end)

    def _open(self, bare: str) -> None:
        if self.kind is _Kind.FENCE and (fence := _FENCE.match(bare)):
            self.fence = fence[1]
        if self.kind is _Kind.HEADING and (heading := _HEADING.match(bare)):
            self._enter(len(heading[1]), (heading[2] or "").strip())

    def _enter(self, level: int, title: str) -> None:
        self.headings = [(above, name) for above, name in self.headings if above < level] + [(level, title)]

    def _block(self, end: int) -> _Block:
        block = _Block(self.start, end, self.kind, tuple(name for _, name in self.headings if name))
        self.start, self.lines, self.blank, self.kind = end, 0, False, _Kind.TEXT
        return block


def _kind(line: str) -> _Kind:
    if _FENCE.match(line):
        return _Kind.FENCE
    if _HEADING.match(line):
        return _Kind.HEADING
    return _Kind.TABLE if _TABLE.match(line) else _Kind.TEXT


def _closes(line: str, fence: str) -> bool:
    closing = _FENCE.match(line)
    return closing is not None and closing[1].startswith(fence) and closing.end() == len(line)


def _fitted(text: str, block: _Block, most: int, count: Count) -> Iterator[_Piece]:
    """The block itself when it fits, else its parts, cut at the gentlest border that helps."""
    fresh = block.kind is _Kind.HEADING
    cuts: list[Cut] = [_lines, _sentences, _spaces, _words, partial(_characters, most=max(1, most // 4))]
    for start, end, tokens in _parts(text[block.start : block.end], most, count, cuts):
        yield _Piece(block.start + start, block.start + end, tokens, block.heading, fresh)
        fresh = False


def _parts(text: str, most: int, count: Count, cuts: list[Cut]) -> Iterator[tuple[int, int, int]]:
    """(start, end, tokens) of parts that fit, without gaps, each as long as may be. What cannot be cut any more is left too long."""
    if not cuts or len(text) <= most * MOST_CHARACTERS_A_TOKEN:
        tokens = count(text)
        if not cuts or tokens <= most:
            yield 0, len(text), tokens
            return
    ends = list(cuts[0](text))
    start = first = 0
    while first < len(ends):
        last, tokens = _reach(text, start, ends, first, most, count)
        if tokens <= most:
            yield start, ends[last], tokens
        else:
            for begin, end, tokens in _parts(text[start : ends[first]], most, count, cuts[1:]):
                yield start + begin, start + end, tokens
        start, first = ends[last], last + 1


def _reach(text: str, start: int, ends: list[int], first: int, most: int, count: Count) -> tuple[int, int]:
    """Which end the tokens reach to from `start`, nearly, and how many they are: more than `most` when not even `first` is in reach.

    Tried first where prose would reach to, then where the tokens counted last point to, or by halves: a few counts for each part,
    however many ends there are.
    """
    low, high = first, max(first, bisect_right(ends, start + most * MOST_CHARACTERS_A_TOKEN) - 1)
    reached, filled, tried = first, most + 1, max(first, bisect_right(ends, start + most * CHARACTERS_A_TOKEN) - 1)
    while low <= high and not most - most // 10 <= filled <= most:
        tokens = count(text[start : ends[tried]])
        if tokens <= most:
            reached, filled, low = tried, tokens, tried + 1
        else:
            high = tried - 1
        pointed = bisect_right(ends, start + (ends[tried] - start) * most // max(tokens, 1)) - 1
        tried = min(pointed, high) if low <= pointed else (low + high) // 2
    return reached, filled


def _lines(text: str) -> Iterator[int]:
    end = 0
    for line in text.splitlines(keepends=True):
        end += len(line)
        yield end


def _sentences(text: str) -> Iterator[int]:
    return _breaks(text, apsw.unicode.sentence_next_break)


def _spaces(text: str) -> Iterator[int]:
    return (match.end() for match in re.finditer(r"\s*\S+\s*", text)) if not text.isspace() else iter((len(text),))


def _words(text: str) -> Iterator[int]:
    return _breaks(text, apsw.unicode.word_next_break)


def _breaks(text: str, next_break: Callable[[str, int], int]) -> Iterator[int]:
    end = 0
    while end < len(text):
        end = next_break(text, end)
        yield end


def _characters(text: str, most: int) -> Iterator[int]:
    """Ends of runs of about `most` code points, between characters as a reader sees them (UAX 29 grapheme clusters)."""
    if text.isascii():
        yield from range(most, len(text), most)
        yield len(text)
        return
    start = 0
    for begin, end in pairwise([0, *_breaks(text, apsw.unicode.grapheme_next_break)]):
        if end - begin > MOST_GRAPHEME:
            yield from range(begin + most, end, most)
            start = end
            yield end
        elif end - start >= most:
            start = end
            yield end
    if start < len(text):
        yield len(text)


def _grouped(pieces: Iterable[_Piece], most: int, overlap: int) -> Iterator[list[_Piece]]:
    """Neighbouring pieces of one section as long as they fit together. A heading without text of its own stays with the next."""
    group: list[_Piece] = []
    tokens = 0
    for piece in pieces:
        new_section = piece.fresh and not all(each.fresh for each in group)
        if group and (new_section or tokens + piece.tokens > most):
            yield group
            group = [] if new_section else _tail(group, min(overlap, most - piece.tokens))
            tokens = sum(each.tokens for each in group)
        group.append(piece)
        tokens += piece.tokens
    if group:
        yield group


def _tail(group: list[_Piece], room: int) -> list[_Piece]:
    kept = len(group)
    while kept and group[kept - 1].tokens <= room:
        kept -= 1
        room -= group[kept].tokens
    return group[kept:]


def _placed(text: str, groups: Iterable[list[_Piece]]) -> Iterator[Chunk]:
    """Chunks without the white space around them, but with the indentation of their first line."""
    passed, offset = 0, 0
    for group in groups:
        start, end = group[0].start, group[-1].end
        body = text[start:end].rstrip()
        if not body:
            continue
        end = start + len(body)
        start = max(start, 1 + text.rfind("\n", start, end - len(body.lstrip())))
        offset, passed = offset + _bytes(text[passed:start]), start
        body = text[start:end]
        yield Chunk(offset, offset + _bytes(body), body, group[-1].heading)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
