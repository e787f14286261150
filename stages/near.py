"""Near words: what a word that stands nowhere in the caller's scope was probably meant to be."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz import process
from rapidfuzz.distance import OSA

from remit.stages.bm25 import Words


def edits_allowed(word: str, rules: Words) -> int:
    """How many typing errors a word of this length may hold: none in a short one or one with digits, then one, then two."""
    if len(word) < rules.near_shortest or not word.isalpha():
        return 0
    return 2 if len(word) >= rules.near_two_edits else 1


def near_words(word: str, vocabulary: Sequence[str], rules: Words) -> tuple[str, ...]:
    """The closest words of the vocabulary within the allowed edits, at most `near_most`, closest first, then by code point.

    An edit inserts, deletes, replaces one character or swaps two neighbours. A word of which the unknown one is merely the
    beginning is another word, not a typing error, and so is one that begins otherwise, unless its first two characters are swapped.
    Only words of the smallest distance found are returned.
    """
    allowed = edits_allowed(word, rules)
    if not allowed or not rules.near_most:
        return ()
    close = [
        (distance, other)
        for other, distance, _ in process.extract(word, vocabulary, scorer=OSA.distance, score_cutoff=allowed, limit=None)
        if other.isalpha() and len(other) >= rules.near_shortest and not other.startswith(word) and _begin_alike(word, other)
    ]
    closest = min(close, default=(0, ""))[0]
    return tuple(sorted(other for distance, other in close if distance == closest))[: rules.near_most]


def _begin_alike(word: str, other: str) -> bool:
    return word[0] == other[0] or word[:2] == other[1::-1]


def is_sure(word: str, guess: str, rules: Words) -> bool:
    """Whether a guess can be trusted by itself: one typing error in a word that is long enough for two. Shorter words have neighbours."""
    return len(word) >= rules.near_two_edits and OSA.distance(word, guess, score_cutoff=1) <= 1
