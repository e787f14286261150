"""Words: where the words of a question stand in reach, under the ceiling on postings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from remit.pipeline.errors import StorageUnavailable
from remit.pipeline.storage.entry import ALIAS
from remit.pipeline.storage.sqlite.line import rows
from remit.pipeline.storage.sqlite.rows import ENTRY, dumped, numbers
from remit.pipeline.storage.sqlite.searching import Search
from remit.pipeline.storage.store import NOTHING_ALLOWED, NOTHING_ASKED, RAN
from remit.stages.ceiling import Limit
from remit.stages.evidence import Route
from remit.stages.ports import Postings
from remit.stages.report import Degradation, Reason

LOST = "Its index of words is lost, or a part of it: run `remit init`, which makes it again."

_BEHIND_ALIASES = chr(ord(ALIAS) + 1)
_NO_KEYS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
_NOWHERE = Postings(_NO_KEYS, _NO_KEYS, _NO_KEYS, _NO_KEYS)


def look_words_up(search: Search) -> None:
    """Looks the words up, rarest first; what would pass the ceiling on postings is left out."""
    progress, most = search.progress, search.wanted.postings
    words = list(dict.fromkeys(search.wanted.words))
    if not words:
        progress.routes[Route.LEXICAL] = NOTHING_ASKED
    elif most <= 0:
        progress.routes[Route.LEXICAL] = NOTHING_ALLOWED
        _leave_out(search, words)
    elif not search.shelves.count:
        progress.routes[Route.LEXICAL] = RAN
        progress.postings = dict.fromkeys(words, _NOWHERE)
    else:
        _read_postings(search, words, most)


def _read_postings(search: Search, asked: list[str], most: int) -> None:
    words, nowhere = _sought(search, asked)
    fitting = words
    places, entries = _places(search, words, most)
    if not entries.size and search.progress.words and search.row("words_lost") == (1,):
        raise StorageUnavailable(LOST)
    if entries.size > most:
        rare = _fitting(search, words, most)
        fitting = [word for word in words if word in rare]
        places, entries = _places(search, fitting, most)
    _look_whether_whole(search, fitting, places, most)
    postings, dead = _parted(fitting, places, entries), _dead(search, fitting, most)
    # All at once, so that a route that ran out of time tells nothing by halves.
    search.progress.postings, search.progress.dead = postings | nowhere, dead
    search.progress.routes[Route.LEXICAL] = RAN
    if len(fitting) < len(words):
        _leave_out(search, [word for word in words if word not in fitting])


def _sought(search: Search, words: list[str]) -> tuple[list[str], dict[str, Postings]]:
    """The words to be looked up, and those that are known to stand nowhere: aliases, where nothing in the org is called by another name."""
    plain = [word for word in words if not word.startswith(ALIAS)]
    aliases = [word for word in words if word.startswith(ALIAS)]
    if not aliases or search.row("aliased", alias=ALIAS, behind=_BEHIND_ALIASES) == (1,):
        return words, {}
    return plain, dict.fromkeys(aliases, _NOWHERE)


def _places(search: Search, words: Sequence[str], most: int) -> tuple[list[int], NDArray[np.void]]:
    """In how many places each word stands, and the entries of those, word by word; of all together one more than `most` at the most.

    A word stands once in a passage: where that already is no more, nothing needs to be counted while it is read.
    """
    if len(words) * search.progress.passages <= most:
        counts, packed = search.row(_on(search, "find_all_words"), words=dumped(words))
        return [int(count) for count in (counts or "").split()], np.frombuffer(packed or b"", dtype=ENTRY)
    joined, packed = search.row(_on(search, "find_words"), words=dumped(words), most=most + 1)
    return np.bincount(numbers(joined), minlength=len(words)).tolist(), np.frombuffer(packed or b"", dtype=ENTRY)


def _fitting(search: Search, words: Sequence[str], most: int) -> frozenset[str]:
    standing = _counted(search, _on(search, "count_words"), words, most=most + 1)
    room, fitting = most, []
    for places, word in sorted(zip(standing, words, strict=True)):
        room -= places
        if room < 0:
            break
        fitting.append(word)
    return frozenset(fitting)


def _look_whether_whole(search: Search, words: Sequence[str], places: Sequence[int], most: int) -> None:
    """Raises when a word stands in more passages than places: then a part of the index is lost, and what it held cannot be found.

    Of the words with the fewest places as many as cost no more looks than one word on `seek_shelves`; of aliases nothing is counted.
    """
    places_of = {word: standing for word, standing in zip(words, places, strict=True) if not word.startswith(ALIAS)}
    rarest = sorted(places_of, key=places_of.__getitem__)[: search.means.seek_shelves // search.shelves.count]
    used = dict(zip(rarest, _counted(search, "words_used", rarest), strict=True))
    short = [word for word in rarest if places_of[word] < used[word] <= most]
    held = _counted(search, "words_held", short)
    if any(standing < used[word] for word, standing in zip(short, held, strict=True)):
        raise StorageUnavailable(LOST)


def _counted(search: Search, name: str, words: Sequence[str], **parameters: int) -> list[int]:
    """What a statement counts of each word."""
    if not words:
        return []
    (counts,) = search.row(name, words=dumped(words), **parameters)
    return [int(count) for count in counts.split()]


def _leave_out(search: Search, words: Sequence[str]) -> None:
    search.progress.left_out = tuple(words)
    search.progress.degraded.append(Degradation.COMMON_WORDS_LEFT_OUT)
    search.progress.exhausted = Limit.POSTINGS


def _dead(search: Search, words: Sequence[str], most: int) -> dict[Reason, int]:
    told = rows(search.db, search.means.sql["dead"], {**search.scope, "words": dumped(words), "most": most})
    return {reason: count for row in told for reason, count in zip((Reason.SUPERSEDED, Reason.EXPIRED), row, strict=True) if count}


def _on(search: Search, name: str) -> str:
    return name if search.shelves.count <= search.means.seek_shelves else f"{name}_on_many"


def _parted(words: Sequence[str], places: Sequence[int], entries: NDArray[np.void]) -> dict[str, Postings]:
    """Postings of each word, by key; `places` says how many of the entries, which come word by word, are its own."""
    keys, counts, lengths, sources = (entries[name].astype(np.int64) for name in ("passage", "count", "length", "source"))
    order = np.lexsort((keys, np.repeat(np.arange(len(words)), places)))
    keys, counts, lengths, sources = keys[order], counts[order], lengths[order], sources[order]
    postings, end = dict.fromkeys(words, _NOWHERE), 0
    for word, standing in zip(words, places, strict=True):
        if standing:
            start, end = end, end + standing
            postings[word] = Postings(keys[start:end], counts[start:end], lengths[start:end], sources[start:end])
    return postings
