"""Analysis: the words that a text is indexed by and a query is looked up by, the same for every store."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain

import apsw.unicode
import Stemmer

from remit.pipeline.errors import ConfigError
from remit.pipeline.segmentation import Spelled, spelled, tokens, unspaced
from remit.pipeline.stopwords import COMMONPLACE, ENGLISH
from remit.pipeline.storage.entry import ALIAS
from remit.stages.terms import Term, Terms

VERSION = 1
"""Raised whenever the same text would give other words; part of the signature that a store is bound to."""

CACHED_TOKENS = 65_536
CACHED_FORMS = 8_192
LONGEST_CACHED = 64

_CODE = re.compile(r"[\d!-/:-@\[-`{-~]")


_Form = tuple[str, str, int]
"""A word as it is indexed, as it was before stemming, and how many parts share its weight (0: it is whole)."""

_Read = tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]
"""Of a token: the index keys of each of its words, and its plain words. Plain tuples, which the garbage collector lets be."""


class Analyser:
    """Turns text into words: NFKC, case folded, cut by UAX 29, stemmed by the Snowball algorithm of `language`.

    Identifiers, hyphenated words, addresses and paths are one word and their parts besides; they are not stemmed, nor is anything with
    a digit. Scripts written without spaces give overlapping pairs, and the single characters besides. No text raises.
    Safe to share between threads. Raises `ConfigError` when there is no stemmer for `language`; "none" stems nothing.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._stem = _stemmer(language)
        self._stops = ENGLISH if language == "english" else frozenset[str]()
        self._stop_keys = frozenset(map(self._stem, self._stops))
        self._common_keys = frozenset(map(self._stem, COMMONPLACE)) if language == "english" else frozenset[str]()
        self._cached = lru_cache(CACHED_TOKENS)(self._read)
        self._cached_forms = lru_cache(CACHED_FORMS)(self._forms)

    @property
    def signature(self) -> str:
        """Names everything that decides which words a text has. A store is bound to it."""
        stemmer = "none" if self.language == "none" else f"snowball-{Stemmer.version()}"
        return f"analysis-{VERSION}/{self.language}/{stemmer}/unicode-{apsw.unicode.unicode_version}"

    def plain(self, text: str) -> list[str]:
        """The folded, unstemmed words in order, without parts; a run of a script without spaces gives its characters.

        A phrase stands in a text when its plain words are a contiguous part of the text's. No word holds a space.
        """
        plain: list[str] = []
        for token in tokens(text):
            plain.extend(self._cached(token)[1] if len(token) <= LONGEST_CACHED else _plain(spelled(token)))
        return plain

    def indexed(self, text: str) -> tuple[dict[str, int], int]:
        """Word → how often it stands in the text, and the length: whole words and pairs, with no part or single character counted."""
        words: dict[str, int] = {}
        length = 0
        for token, times in Counter(tokens(text)).items():
            for keys in self._cached(token)[0] if len(token) <= LONGEST_CACHED else map(self._keys, spelled(token)):
                length += times
                for key in keys:
                    words[key] = words.get(key, 0) + times
        return words, length

    def content(self, text: str) -> frozenset[str]:
        """The distinct indexed words of a text without the stop words; all of them when there is nothing else."""
        return frozenset(self.subject(self.indexed(text)[0]))

    def subject(self, words: Mapping[str, int]) -> Mapping[str, int]:
        """The same of words that were counted already."""
        return {word: times for word, times in words.items() if word not in self._stop_keys} or words

    def alias(self, name: str) -> str | None:
        """The index key of another name, which is matched whole and so unstemmed. None when no word is in it."""
        words = self.plain(name)
        return ALIAS + " ".join(words) if words else None

    def asked(self, query: str, *, alias_longest: int, most_words: int, part_weight: float) -> Terms:
        """What to look up for a query, which is words and never syntax.

        The first `most_words` distinct words are kept. The parts of a word share `part_weight`; one that stands there whole as well
        counts as whole. A query of nothing but stop words is its words: none is marked, all are common. Names of up to `alias_longest`
        words are looked for among the first `most_words`; in scripts without spaces a character counts as half a word.
        """
        forms = (self._cached_forms(each) if len(each) <= LONGEST_CACHED else self._forms(each) for each in tokens(query))
        distinct = _distinct(chain.from_iterable(forms), part_weight, self._stops, self._common_keys)
        words = distinct[:most_words]
        idle = all(word.stop for word in words)
        if idle:
            words = [word._replace(stop=False, common=True) for word in words]
        plain = tuple(self.plain(query))
        names = dict.fromkeys(_names(plain[:most_words], alias_longest))
        return Terms(words=tuple(words), aliases=tuple(names), plain=plain, cut=len(distinct) > most_words, idle=idle)

    def _forms(self, token: str) -> tuple[_Form, ...]:
        forms: list[_Form] = []
        for word in spelled(token):
            forms.append((self._keys(word)[0], word.whole, 0))
            forms += [(self._stem(part), part, len(word.parts)) for part in word.parts]
        return tuple(forms)

    def _read(self, token: str) -> _Read:
        words = list(spelled(token))
        return tuple(map(self._keys, words)), tuple(_plain(words))

    def _keys(self, word: Spelled) -> tuple[str, ...]:
        if word.characters:
            return (word.whole, *word.characters)
        return tuple(dict.fromkeys(map(self._stem, (word.whole, *word.parts))))


def _plain(words: Iterable[Spelled]) -> Iterator[str]:
    for word in words:
        yield from word.characters or (word.whole,)


def _stemmer(language: str) -> Callable[[str], str]:
    """Stems words of letters only. Raises `ConfigError` naming the languages there are."""
    if language == "none":
        return lambda word: word
    if language not in Stemmer.algorithms():
        raise ConfigError(f"analysis.language: {language!r} is not one of none, {', '.join(Stemmer.algorithms())}")
    stemmer, alone = Stemmer.Stemmer(language, 0), threading.Lock()

    def stem(word: str) -> str:
        if _CODE.search(word):
            return word
        with alone:  # a stemmer has state of its own
            return str(stemmer.stemWord(word)) or word

    return stem


def _distinct(forms: Iterable[_Form], part_weight: float, stops: frozenset[str], commons: frozenset[str]) -> list[Term]:
    """Each word once: at its largest weight, and a stop word only where no form of it is anything else."""
    words: dict[str, Term] = {}
    for text, plain, sharing in forms:
        weight, stop = part_weight / sharing if sharing else 1.0, plain in stops
        known = words.get(text)
        if known is None:
            words[text] = Term(text, weight, stop, plain, text in commons)
        elif weight > known.weight or stop < known.stop:
            words[text] = known._replace(weight=max(weight, known.weight), stop=stop and known.stop)
    return list(words.values())


def _names(words: tuple[str, ...], longest: int) -> Iterator[str]:
    """Every run of words that may be another name."""
    sizes = [0.5 if unspaced(word) else 1.0 for word in words]
    for start in range(len(words)):
        room = float(longest)
        for end in range(start, len(words)):
            room -= sizes[end]
            if room < 0:
                break
            yield ALIAS + " ".join(words[start : end + 1])
