"""A made-up corpus of many tenants: texts of words drawn as in natural language, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from remit.pipeline import Doc, Fact, Session

WORDS = 20_000
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u", "ai", "or", "en")]


def word(number: int) -> str:
    """The name of a word: two to four syllables, no two words alike."""
    name = ""
    number += len(SYLLABLES)
    while number:
        number, syllable = divmod(number, len(SYLLABLES))
        name += SYLLABLES[syllable]
    return name


VOCABULARY = [word(number) for number in range(WORDS)]


def texts(rows: int, seed: int, length: int = 60) -> Iterator[str]:
    """`rows` texts of `length` words each, common words far more often than rare ones."""
    random = np.random.default_rng(seed)
    chances = 1.0 / np.arange(3, WORDS + 3)
    chances /= chances.sum()
    for _ in range(rows):
        yield " ".join(VOCABULARY[number] for number in random.choice(WORDS, size=length, p=chances))


def memories(org: str, rows: int, seed: int, length: int = 60) -> Iterator[Fact | Session | Doc]:
    """One tenant's memory: facts, sessions and docs in turn."""
    for number, text in enumerate(texts(rows, seed, length)):
        kind = (Fact, Session, Doc)[number % 3]
        yield kind(id=f"m{number:06}", org=org, text=text)


def questions(count: int, seed: int, rows: int, corpus_seed: int, length: int = 60) -> list[str]:
    """Questions of five words that stand together in one text of the tenant, so that each has an answer."""
    random = np.random.default_rng(seed)
    own = list(texts(rows, corpus_seed, length))
    return [" ".join(random.choice(own[random.integers(rows)].split(), size=5, replace=False)) for _ in range(count)]
