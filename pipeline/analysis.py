"""Analysis: how text becomes the words that are indexed and looked up, the same for every store."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import apsw.unicode
import Stemmer

from remit.pipeline.errors import ConfigError
from remit.pipeline.stopwords import ENGLISH
from remit.pipeline.storage.entry import ALIAS

VERSION = 1
"""Raised whenever the same text would give other words; part of the signature that a store is bound to."""

LONGEST_WORD = 64
LONGEST_JOINED = 256
MOST_HUMPS = 8
MOST_MARKS = 30
BLOCK = 65_536
CACHED_TOKENS = 65_536

_CJK = "\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u303b\u3040-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
_CJK += "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00016fe0-\U00018cff\U0001aff0-\U0001b16f\U00020000-\U000323af"
_SPACELESS = "\u0e01-\u0e4e\u0e80-\u0ece\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u1950-\u19df\u1a20-\u1a7f\uaa60-\uaadf"
_UNSPACED = re.compile(f"[{_CJK}]+|[{_SPACELESS}]+")

_SEPARATES = re.compile("[\x00\u200b\ud800-\udfff]")
_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{MOST_MARKS + 1},}}")
_SPACE = re.compile(r"\s")
_ALIKE = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u2010": "-"})

_CONNECTOR = re.compile(r"[-_./\\:@&=+~#%?]|::|\+\+|:/{1,3}|:\\\\?|/[._~#?-]")
_SUFFIX = re.compile(r"\+\+|#")
_POSSESSIVE = re.compile(r"'s$", re.IGNORECASE)
_CONTRACTION = re.compile(r"(?:n't|'(?:ll|re|ve|[dmst]))$", re.IGNORECASE)
_INNER = re.compile(r"[^\w']+|_+")
_CODE = re.compile(r"[\d_!-/:-@\[-^`{-~]")
_NUMBERED = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,})")


class Form(NamedTuple):
    """One word as it is indexed, and as it was before stemming."""

    text: str
    plain: str


class _Word(NamedTuple):
    """A word as a whole with its parts. `characters` are its plain words: one, or a run's characters where no spaces are written."""

    whole: Form
    parts: tuple[Form, ...] = ()


class _Token(NamedTuple):
    """All that stands between two spaces: its words for asking, and the same added up for indexing."""

    words: tuple[_Word, ...]
    plain: tuple[str, ...]
    indexed: tuple[str, ...]
    length: int


@dataclass(frozen=True, slots=True)
class AskedWord:
    """A word of a query as it is looked up. `weight` is 1 for a whole word, a part's share for a part; `stop` marks a word without subject.

    `plain` is the word before stemming, for finding near words.
    """

    text: str
    weight: float
    stop: bool
    plain: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query asks for. `words` are distinct, in order of first appearance; `cut` says that there were more than are looked up.

    `aliases` are the index keys of every other name that may stand in the query; `plain` its words in order.
    """

    words: tuple[AskedWord, ...]
    aliases: tuple[str, ...]
    plain: tuple[str, ...]
    cut: bool = False


class Analyser:
    """Turns text into words: NFKC, case folded, cut by UAX 29, stemmed by the Snowball algorithm of `language`.

    Identifiers, hyphenated words, addresses and paths are one word and their parts besides. Scripts written without spaces give
    overlapping pairs, and the single characters as their parts. No text raises. Safe to share between threads.
    Raises `ConfigError` when there is no stemmer for `language`; "none" stems nothing.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._stem = _stemmer(language)
        self.stops = ENGLISH if language == "english" else frozenset[str]()
        self.stop_keys = frozenset(self._stem(word) for word in self.stops)
        self._token = lru_cache(CACHED_TOKENS)(self._read)

    @property
    def signature(self) -> str:
        """Names everything that decides which words a text has. A store holds it, and another one's words are not looked up in it."""
        stemmer = "none" if self.language == "none" else f"snowball-{Stemmer.version()}"
        return f"analysis-{VERSION}/{self.language}/{stemmer}/unicode-{apsw.unicode.unicode_version}"

    def plain(self, text: str) -> list[str]:
        """The folded, unstemmed words in order, without parts; a run of a script without spaces gives its characters.

        A phrase stands in a text when its plain words are a contiguous part of the text's.
        """
        return [word for token in _tokens(text) for word in self._of(token).plain]

    def indexed(self, text: str) -> tuple[dict[str, int], int]:
        """Word → how often it stands in the text, and the length: whole words and pairs, their parts not counted."""
        words: dict[str, int] = {}
        length = 0
        for token, times in Counter(_tokens(text)).items():
            read = self._of(token)
            length += read.length * times
            for word in read.indexed:
                words[word] = words.get(word, 0) + times
        return words, length

    def alias(self, name: str) -> str | None:
        """The index key of another name: matched whole, so unstemmed. None when no word is in it."""
        words = self.plain(name)
        return ALIAS + " ".join(words) if words else None

    def asked(self, query: str, *, alias_longest: int, most_words: int, part_weight: float) -> Asked:
        """What to look up for a query, which is words and never syntax.

        The first `most_words` distinct words are kept. The parts of a word share `part_weight`; a word that is also whole counts as whole.
        A query of nothing but stop words is its words: none is marked. Names of up to `alias_longest` words are looked for; in scripts
        without spaces a character counts as half a word.
        """
        read = [self._of(token) for token in _tokens(query)]
        weights: dict[str, float] = {}
        forms: dict[str, Form] = {}
        subject: set[str] = set()
        for form, weight in _weighed(read, part_weight):
            weights[form.text] = max(weight, weights.get(form.text, 0.0))
            forms.setdefault(form.text, form)
            if form.plain not in self.stops:
                subject.add(form.text)
        plain = [word for token in read for word in token.plain]
        return Asked(
            words=tuple(
                AskedWord(text, weights[text], bool(subject) and text not in subject, forms[text].plain)
                for text in list(forms)[:most_words]
            ),
            aliases=tuple(_names(plain[:most_words], alias_longest)),
            plain=tuple(plain),
            cut=len(forms) > most_words,
        )

    def _of(self, token: str) -> _Token:
        return self._token(token) if len(token) <= LONGEST_WORD else self._read(token)

    def _read(self, token: str) -> _Token:
        words = tuple(self._words(token))
        plain: list[str] = []
        indexed: list[str] = []
        for whole, parts in words:
            indexed.append(whole.text)
            indexed.extend(part.text for part in parts)
        return _Token(words, tuple(plain), tuple(indexed), len(words))
