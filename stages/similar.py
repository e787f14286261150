"""Saying the same or the opposite: which passages repeat what was said, and which dispute each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

from remit.stages.evidence import Memory

NEGATIONS = frozenset({"not", "no", "never", "none", "nothing", "nor", "without", "cannot", "nicht", "nie", "ne", "pas", "sin", "non"})

WORD = re.compile(r"[\w'’]+")

SENTENCE_END = re.compile("(?<=[.!?…])[\"'”’»)\\]]*\\s+|(?<=[。\uff01\uff1f])[」』”\uff09]*|\n+")


_WORDS_AND_GAPS = "".join(chr(place) if WORD.match(chr(place)) else " " for place in range(128))


def words_in(text: str) -> list[str]:
    """What `WORD` finds. All that is no word in ASCII is made space first, which takes a quarter of the time."""
    return text.translate(_WORDS_AND_GAPS).split() if text.isascii() else WORD.findall(text)


class Said:
    """What a text says: its distinct words, letter case aside, and its sentences as runs of words."""

    def __init__(self, text: str) -> None:
        self.text = text.casefold()
        self.words = frozenset(words_in(self.text))

    @cached_property
    def sentences(self) -> frozenset[str]:
        sentences = {" ".join(WORD.findall(sentence)) for sentence in SENTENCE_END.split(self.text)}
        return frozenset(sentences - {""})

    def repeats(self, other: Said, part: float) -> bool:
        """Whether the other says the same: every sentence of this one stands there, or they share the part `part` of all their words.

        Words alone never make a short passage a repeat of a long one. A number or a negation that only one of the two has makes it
        none either: "the limit is 500" and "the limit is not 600" share nearly all of their words.
        """
        if self.text == other.text:
            return True
        if self.words <= other.words and self.sentences <= other.sentences:
            return bool(self.words)
        shared = len(self.words & other.words)
        if shared == 0 or shared < part * (len(self.words) + len(other.words) - shared):
            return False
        return not any(map(_turns, self.words ^ other.words))


class Heard:
    """Who said what so far, by place, to find who says the same as another. `part` is what `Said.repeats` is asked with."""

    def __init__(self, part: float) -> None:
        self._part = part
        self._said: dict[int, Said] = {}
        self._words: set[str] = set()

    def add(self, place: int, said: Said) -> None:
        self._said[place] = said
        self._words |= said.words

    def repeated_by(self, said: Said) -> Iterator[int]:
        """The places of those that it repeats, the first said first."""
        # Of what repeats another, all words or that part of them are words of the other, and so of all.
        if len(said.words & self._words) < self._part * len(said.words):
            return iter(())
        return (place for place, each in self._said.items() if said.repeats(each, self._part))


def _turns(word: str) -> bool:
    return word in NEGATIONS or word.endswith(("n't", "n’t")) or any(map(str.isdigit, word))


class Wants:
    """What a context still lacks: words of the questions, claims, and the other sides of what it says.

    Memories go by their place in the ranking. When there are questions, `in_words` is true and `words` must hold the distinct words of
    every place that is asked about, analysed like the questions. `disputes` is what `opponents` says of them.
    """

    def __init__(self, memories: Sequence[Memory], questions: Sequence[frozenset[str]], disputes: Mapping[int, frozenset[int]]) -> None:
        self._uncovered = [(set(words), len(words)) for words in questions if words]
        self._claims = {place: _claims(memory) for place, memory in enumerate(memories) if memory.claims}
        self._opponents = disputes
        self._said: set[str] = set()
        self._called: set[int] = set()
        self._vary = bool(self._uncovered or self._opponents or self._claims)
        self.words: dict[int, frozenset[str]] = {}
        self.in_words = bool(self._uncovered)

    def in_turn(self, places: list[int]) -> list[int]:
        """The places by what each would add: the other side of what is said first, words of questions, claims, and the ranking."""
        return sorted(places, key=self._turn) if self._vary else places

    def met_by(self, place: int) -> None:
        for uncovered, _ in self._uncovered:
            uncovered.difference_update(self.words[place])
        self._said |= self._claims.get(place, frozenset())
        self._called |= self._opponents.get(place, frozenset())

    def disputed(self, one: int, other: int) -> bool:
        return other in self._opponents.get(one, ())

    def _turn(self, place: int) -> tuple[bool, float, int, int]:
        covers = sum(len(self.words[place] & uncovered) / asked for uncovered, asked in self._uncovered)
        return place not in self._called, -covers, -len(self._claims.get(place, frozenset()) - self._said), place


def _claims(memory: Memory) -> frozenset[str]:
    return frozenset(folded(f"{claim.about or ''} {claim.says}") for claim in memory.claims)


def opponents(memories: Sequence[Memory]) -> Mapping[int, frozenset[int]]:
    """Which of these dispute each other, by place: one names the other, or both claim different things about the same. Both ways."""
    if not any(memory.disputes or memory.claims for memory in memories):
        return {}
    pairs = {(place, other) for place, memory in enumerate(memories) for other in _named(memory, memories)}
    pairs |= {pair for claims in _by_subject(memories).values() for pair in _apart(claims)}
    disputed: defaultdict[int, set[int]] = defaultdict(set)
    for one, other in pairs:
        disputed[one].add(other)
        disputed[other].add(one)
    return {place: frozenset(others) for place, others in disputed.items()}


def folded(claim: str) -> str:
    """A claim as it is compared: letter case and spacing aside."""
    return " ".join(claim.casefold().split())


def _named(memory: Memory, memories: Sequence[Memory]) -> Iterator[int]:
    if memory.disputes:
        yield from (place for place, other in enumerate(memories) if other.id in memory.disputes and other.id != memory.id)


def _by_subject(memories: Sequence[Memory]) -> Mapping[str, list[tuple[int, str]]]:
    subjects: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for place, memory in enumerate(memories):
        for claim in memory.claims:
            if claim.about is not None:
                subjects[folded(claim.about)].append((place, folded(claim.says)))
    return subjects


def _apart(claims: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    return ((one, other) for (one, says), (other, answers) in combinations(claims, 2) if one != other and says != answers)
