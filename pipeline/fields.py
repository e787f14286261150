"""Fields: one given value after another, checked, and named as on the wire when it is wrong."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import StrEnum
from reprlib import Repr
from typing import Any, TypeVar

from remit.pipeline.errors import InvalidRequest

E = TypeVar("E", bound=StrEnum)

WHOLE = 2**53 - 1
"""The largest whole number that every reader of JSON takes for itself."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_UNNAMEABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
# Fillers and selectors that show nothing, though Unicode counts them among letters, marks and symbols.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(map(chr, range(0xFE00, 0xFE10)))

_short = Repr()
_short.maxstring = _short.maxother = 60


class TooLarge(InvalidRequest):
    """What was given is larger than is allowed."""


def shown(value: object) -> str:
    """A value as an error may tell it: short, on one line, and printable whatever it holds."""
    return value if isinstance(value, str) and value.isprintable() and len(value) <= _short.maxstring else _short.repr(value)


def unknown(field: str, key: object) -> InvalidRequest:
    """The error for a key that means nothing where it stands; `field` is what holds it, `""` the whole."""
    return InvalidRequest(f"{field}.{shown(key)}" if field else shown(key), "unknown field")


def blank(text: str) -> bool:
    """Whether nothing of the text can be seen."""
    if "!" <= text[:1] <= "~":  # as most texts begin
        return False
    return not any(unicodedata.category(each) not in _UNSEEN and each not in _FILLERS for each in text)


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for every half of a character, which no encoding can carry."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def mended(text: str) -> str:
    """The text as both stores can hold it: without NUL, and with U+FFFD for halves of characters."""
    return without_surrogates(text).replace("\0", "")


def text_at(field: str, value: object, most: int) -> str:
    """A text in which something can be seen, of at most `most` characters."""
    if not isinstance(value, str):
        raise InvalidRequest(field, "must be a text")
    if len(value) > most:
        raise TooLarge(field, f"{len(value)} characters, {most} are allowed")
    if blank(value):
        raise InvalidRequest(field, "is blank")
    return value


def name_at(field: str, value: object, most: int) -> str:
    """A name, whole: something can be seen in it, and it has no control character and no blank at either end."""
    name = text_at(field, value, most)
    if not name.isprintable() and _UNNAMEABLE.search(name):
        raise InvalidRequest(field, "holds a control character or half a character")
    if name != name.strip():
        raise InvalidRequest(field, "begins or ends with a blank")
    return name


def whole_at(field: str, value: object, low: int, high: int) -> int:
    """A whole number from `low` to `high`, both inclusive; `2.0`, `"2"` and `true` are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(field, "must be a whole number")
    if not low <= value <= high:
        raise InvalidRequest(field, f"must be from {low} to {high}")
    return int(value)


def number_at(field: str, value: object, low: float, high: float) -> float:
    """A finite number from `low` to `high`, both inclusive; `"2"`, `true` and NaN are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidRequest(field, "must be a number")
    if not low <= value <= high:
        raise InvalidRequest(field, f"must be from {low:g} to {high:g}")
    return float(value) + 0.0  # -0.0 becomes 0.0


def flag_at(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(field, "must be true or false")
    return value


def list_at(field: str, value: object, most: int) -> Sequence[Any]:
    """A list of at most `most` items; a text is none."""
    if not isinstance(value, list | tuple):
        raise InvalidRequest(field, "must be a list")
    if len(value) > most:
        raise TooLarge(field, f"{len(value)} items, {most} are allowed")
    return value


def names_at(field: str, value: object, *, most: int, characters: int) -> tuple[str, ...]:
    """A list of names, blanks around them taken off, each kept once."""
    given = list_at(field, value, most)
    if not given:
        return ()
    names = [name_at(f"{field}[{place}]", each.strip() if isinstance(each, str) else each, characters) for place, each in enumerate(given)]
    return tuple(dict.fromkeys(names))


def mapping_at(field: str, value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidRequest(field, "must be an object")
    return value


def one_of(field: str, value: object, known: Sequence[str]) -> str:
    """One of the known words, exactly."""
    if not isinstance(value, str) or value not in known:
        raise InvalidRequest(field, f"{shown(value)} is not one of {', '.join(known)}")
    return value


def member_at(field: str, value: object, kind: type[E]) -> E:
    """The member of an enumeration that this word stands for."""
    return value if isinstance(value, kind) else kind(one_of(field, value, list(kind)))
