"""Phrases: words spelled for FTS5 in such a way that it sees exactly our words, and nothing in them is syntax."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

_UNPLAIN = re.compile(r"[\x00-\x1f!-/:-`{-\x7f]")
_ENDLESS = 1000
_ENDLESS_WORD = re.compile(rf"[^ ]{{{_ENDLESS},}}")
_HALF = re.compile(r"[\ud800-\udfff]")


def phrased(plain: str) -> str:
    """Words in such a spelling that the tokenizer finds exactly these words, whatever stands in them.

    What is not a small letter, a digit or beyond ASCII becomes `_` and its number; a word too long for the index becomes its hash.
    """
    spelled = _UNPLAIN.sub(lambda odd: f"_{ord(odd[0]):02x}", plain)
    if len(spelled) < _ENDLESS:
        return spelled
    return _ENDLESS_WORD.sub(lambda word: "_" + sha256(word[0].encode("utf-8", "surrogatepass")).hexdigest(), spelled)


def phrased_org(org: str) -> str:
    """An org as one word of the phrase index."""
    return "o" + phrased(org.replace(" ", "_20"))


def phrase_match(org: str, phrases: Iterable[str]) -> str | None:
    """All phrases, contiguous and in this org; None when one has no words, or half a character, and so can stand nowhere."""
    spelled = [phrased(phrase).strip() for phrase in phrases]
    if not all(spelled) or _HALF.search("".join(spelled)):
        return None
    return " AND ".join([f'org : "{phrased_org(org)}"', *[f'words : "{words}"' for words in spelled]])
