"""The words of a question, as an analyser hands them to the lexical lane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Term(NamedTuple):
    """One distinct word of a question. `text` is how it is indexed, `plain` how it was written, folded.

    `weight` is 1 for a whole word and a part of `partWeight` for a part of an identifier. A stop word is not looked up; a `common` one
    is, and tells little, being used in talk about anything.
    """

    text: str
    weight: float = 1.0
    stop: bool = False
    plain: str = ""
    common: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """All words of a question in order, and every run of them as an alias key. `cut` says that more words stood there, `idle` that
    there was nothing but stop words, which then are looked up all the same."""

    words: tuple[Term, ...] = ()
    aliases: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    cut: bool = False
    idle: bool = False


def words_of(alias: str) -> list[str]:
    """The words of an alias key, which is a mark and then they."""
    return alias[1:].split()
