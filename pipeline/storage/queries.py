"""Named SQL: the statements of a store, read from the file beside it and never put together from pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_NAME = re.compile(r"^-- ([a-z][a-z0-9_]*)$")


class Malformed(ValueError):
    """A file of queries is not written as blocks of a name, a sentence and a statement."""


def load(path: Path) -> Mapping[str, str]:
    """Name → statement. Raises `Malformed` for a name given twice, a block without a sentence or without a statement."""
    return MappingProxyType(parsed(path.read_text(encoding="utf-8")))


def parsed(text: str) -> dict[str, str]:
    """The blocks of `text`: a line `-- name`, a comment that says what it is for, and one statement; comments are left out."""
    statements: dict[str, str] = {}
    for name, lines in _blocks(text):
        sentence = bool(lines) and lines[0].startswith("-- ")
        statement = "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")
        if name in statements or not sentence or not statement:
            raise Malformed(f"{name}: needs a name of its own, a sentence and a statement")
        statements[name] = statement
    return statements


def _blocks(text: str) -> list[tuple[str, list[str]]]:
    """A name is a comment of one word; what stands above the first name is the file's own heading."""
    blocks: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if named := _NAME.match(line):
            blocks.append((named.group(1), []))
        elif blocks:
            blocks[-1][1].append(line)
    return blocks
