"""Segmentation: where one word ends and the next begins, in any script, with the parts that identifiers are put together from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple, cast

import apsw.unicode

# Changing one of these changes which words a text has: raise `analysis.VERSION` with it.
LONGEST_WORD = 64  # characters; a longer one becomes its beginning and a hash
LONGEST_JOINED = 256  # an address or path beyond this is its words, not one word
MOST_HUMPS = 8  # camelCase with more is a key or a hash, not words
MOST_MARKS = 30  # on one base, as UAX 15 calls stream-safe
BLOCK = 65_536  # characters worked on at a time

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u303b\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7fb\uf900-\ufaff\U00016fe0-\U00018cff\U0001aff0-\U0001b16f"
    "\U00020000-\U000323af"
)
_SPACELESS = "\u0e01-\u0e4e\u0e80-\u0ece\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u1950-\u19c9\u1a20-\u1a7f\uaa60-\uaadf"
_UNSPACED = re.compile(f"([{_CJK}]+)|([{_SPACELESS}]+)")

_SEPARATES = re.compile("[\x00\u200b\ud800-\udfff]")
_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{MOST_MARKS + 1},}}")
_SPACE = re.compile(r"\s")

_CONNECTOR = re.compile(r"[-_./\\:@&=+~#%?]|::|\+\+|:/{1,3}|:\\\\?|/[._~#?-]")
_SUFFIX = re.compile(r"\+\+|#")
_PUNCTUATION = ".,;:!?\"'()[]{}<>*`"
_POSSESSIVE = re.compile("'[sS]$")
_CONTRACTION = re.compile("(?:n't|'(?:ll|re|ve|[dmt]))$", re.IGNORECASE)
_INNER = re.compile(r"[^\w']+|_+")
_NUMBERED = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,})")


class Spelled(NamedTuple):
    """One word, folded: `whole`, and the `parts` of an identifier, address or hyphenated word.

    In a script without spaces the whole is a pair of neighbours, and `characters` are those not given with the pair before.
    """

    whole: str
    parts: tuple[str, ...] = ()
    characters: tuple[str, ...] = ()


def tokens(text: str) -> Iterator[str]:
    """What stands between spaces, normalised (NFKC) but not folded. NULs and lone surrogates separate, as spaces do."""
    start = 0
    while start < len(text):
        end = _block_end(text, start)
        yield from _normalised(text[start:end]).split()
        start = end


def spelled(token: str) -> Iterator[Spelled]:
    """The words of one token, in order."""
    core = token.strip(_PUNCTUATION)
    if core.isascii() and core.isalpha() and (core[1:].islower() or len(core) == 1):
        yield Spelled(_shortened(core.lower()))
        return
    start = 0
    for run in _UNSPACED.finditer(token) if not token.isascii() else ():
        yield from _spaced(token[start : run.start()])
        yield from _pairs(list(run[1]) if run[1] else list(apsw.unicode.grapheme_iter(run[2])))
        start = run.end()
    yield from _spaced(token[start:])


def unspaced(word: str) -> bool:
    """Whether the word is of a script that is written without spaces."""
    return not word.isascii() and _UNSPACED.match(word) is not None


def _block_end(text: str, start: int) -> int:
    """Texts are worked on a block at a time, so that no single call into C holds the interpreter for long."""
    if len(text) - start <= BLOCK:
        return len(text)
    space = _SPACE.search(text, start + BLOCK, start + 2 * BLOCK)
    return space.start() if space else min(len(text), start + 2 * BLOCK)


def _normalised(text: str) -> str:
    if text.isascii():
        return text.replace("\0", " ")
    text = _MARKS.sub(_calmed, _SEPARATES.sub(" ", text))
    text = _IGNORED.sub("", unicodedata.normalize("NFKC", text))
    return text.replace("\u2019", "'").replace("\u2018", "'").replace("\u02bc", "'").replace("\u2010", "-")


def _calmed(run: re.Match[str]) -> str:
    """Without the marks that are too many for one base: sorting them takes the square of their number."""
    kept, marks = [], 0
    for character in run[0]:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def _pairs(characters: list[str]) -> Iterator[Spelled]:
    """Overlapping pairs of neighbours; these scripts have no case to fold."""
    if len(characters) == 1:
        yield Spelled(_shortened(characters[0]))
    new: tuple[str, ...] = tuple(map(_shortened, characters[:1]))
    for one, other in pairwise(characters):
        new += (_shortened(other),)
        yield Spelled(_shortened(one + other), (), new)
        new = ()


def _spaced(text: str) -> Iterator[Spelled]:
    """The words of a script that has spaces: neighbours that a connector joins are one word and its parts."""
    joined: list[tuple[int, int]] = []
    for start, end in _segments(text):
        if joined and not (len(text) <= LONGEST_JOINED and _CONNECTOR.fullmatch(text, joined[-1][1], start)):
            yield _compound(text, joined)
            joined = []
        joined.append((start, end))
    if joined:
        yield _compound(text, joined)


def _segments(text: str) -> Iterator[tuple[int, int]]:
    found = apsw.unicode.word_iter_with_offsets(text, emoji=True, regional_indicator=True)
    for start, end, word in cast("Iterator[tuple[int, int, str]]", found):  # its stub says str
        bare = word.strip("_")
        left = start + word.index(bare)
        yield (left, left + len(bare)) if bare else (start, end)


def _compound(text: str, joined: list[tuple[int, int]]) -> Spelled:
    segments = [_POSSESSIVE.sub("", text[start:end]) for start, end in joined]
    whole = text[joined[0][0] : joined[-1][0]] + segments[-1]
    suffix = _SUFFIX.match(text, joined[-1][1])
    if suffix:
        whole += suffix[0]
    whole = _folded(whole)
    spellings = [*_parts(segments), *_closed_up(text, joined)]
    parts = dict.fromkeys(_folded(part) for part in spellings if part)
    parts.pop(whole, None)
    return Spelled(whole, tuple(parts))


def _closed_up(text: str, joined: list[tuple[int, int]]) -> Iterator[str]:
    """`email` of `e-mail`: two words with a hyphen are often written as one."""
    (first, end), (start, last) = joined[0], joined[-1]
    if len(joined) == 2 and text[end:start] == "-" and (text[first:end] + text[start:last]).isalpha():
        yield text[first:end] + text[start:last]


def _parts(segments: list[str]) -> Iterator[str]:
    for segment in segments:
        yield segment
        for piece in _INNER.split(segment):
            yield piece
            if "'" in piece:
                yield from () if _CONTRACTION.search(piece) else (piece.replace("'", ""), *piece.split("'"))
            else:
                yield from _humps(piece)


def _humps(word: str) -> Iterator[str]:
    """The words of a camelCase one, and of each the letters and the number. Too many humps are no words but noise."""
    cuts = [place for place in range(1, len(word)) if _starts_hump(word, place)] if not word.islower() else []
    if len(cuts) >= MOST_HUMPS:
        return
    for start, end in pairwise([0, *cuts, len(word)]):
        yield word[start:end]
        numbered = _NUMBERED.fullmatch(word, start, end)
        if numbered:
            yield from filter(None, numbered.groups())


def _starts_hump(word: str, place: int) -> bool:
    """`User` in `getUser`, `Server` in `HTTPServer`, but nothing in `PDFs`."""
    if not word[place].isupper():
        return False
    rest = word[place + 1 :]
    return word[place - 1].islower() or (rest[:1].islower() and rest != "s")


def _folded(word: str) -> str:
    if word.isascii():
        return _shortened(word.lower())
    folded = unicodedata.normalize("NFKC", apsw.unicode.casefold(word))
    return _shortened(folded.replace("i\u0307", "i"))  # a Turkish capital I with a dot is an i everywhere else


def _shortened(word: str) -> str:
    """A word too long for an index, as its beginning and a hash of the whole."""
    if len(word) <= LONGEST_WORD:
        return word
    return f"{word[: LONGEST_WORD - 17]}~{blake2b(word.encode(), digest_size=8).hexdigest()}"
