"""Continuing: the token with which an exhausted answer is gone on from, by the same principal, for the same request and store."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from math import ceil

from remit.pipeline.authority import Grants, within
from remit.pipeline.config import Config
from remit.pipeline.digests import digest_of
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.outcome import Because, Code, Owner
from remit.pipeline.sealing import Seal, sealed, unbroken
from remit.stages.evidence import MemoryId
from remit.stages.request import Source
from remit.stages.shares import Page

FORMAT = 1
REFUSED = "goes on from no answer that this principal was given for this request here a moment ago: ask without it"
"""What is said of every token that is not honoured, whatever is wrong with it."""

_HEAD = struct.Struct(">BBBqqQQHHHII")
_DEEPER, _MORE_POSTINGS, _EVERY_SCOPE = 1, 2, 4
_SEAL_BYTES, _SEEN_BYTES, _SCOPE_BYTES = 32, 8, 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_PLACES = 65_535
_PURPOSE, _NAMING = "continuation", "continuation names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Where a recall was stopped: how deep it searched and whether the next search goes `deeper` or walks on down the same list, the
    postings it could read and whether the next needs more, the places of the page that are taken, and the memories it decided."""

    depth: int
    deeper: bool
    postings: int
    more_postings: bool
    taken: Mapping[Source, int]
    decided: frozenset[MemoryId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """Where a recall begins: at the very beginning, or where the answer before it was stopped. `part` counts the answers before it."""

    part: int = 0
    as_of: datetime | None = None
    depth: int = 0
    deeper: bool = True
    postings: int = 0
    more_postings: bool = True
    taken: Mapping[Source, int] = field(default_factory=dict)
    decided: Callable[[MemoryId], bool] | None = None
    granted: Callable[[str], bool] | None = None
    names: frozenset[bytes] = frozenset()

    def depth_with(self, further: int) -> int:
        """How deep every lane of every source is searched with a further budget of that many."""
        return self.depth + further if self.deeper else max(self.depth, further)

    def postings_with(self, further: int) -> int:
        """How many (word, passage) pairs may be read with a further budget of that many."""
        return self.postings + further if self.more_postings else max(self.postings, further)

    def settled_on(self, page: Page) -> Callable[[MemoryId], bool] | None:
        """Says of a memory whether the answers before this one decided it, one by one or by filling all places of its source."""
        if (decided := self.decided) is None:
            return None
        closed = {source for source in Source if page.closed_to(source) is not None}
        return lambda memory: memory.source in closed or decided(memory)

    def left_of(self, grants: Grants) -> Grants:
        """No more than was granted when the search began, and no more than is granted now.

        Raises `InvalidRequest` when all of the org is granted now and was not: which scopes those were cannot be told from their digests.
        """
        if self.granted is None:
            return grants
        if grants.scopes is None:
            raise refused()
        return within(grants, self.granted)


START = Onward()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a token is good for: one actor of one org, and one request, by its digest."""

    actor: str
    org: str
    request: str


class Continuations:
    """Makes and reads the tokens of one store, as it is searched now: `store` names it with its analyser, its spaces and the config.

    A token is a head of numbers, then a short keyed digest of each granted scope and each decided memory, then a seal over all of that
    and what it is bound to. It says nothing readable of any memory, and gives no authority: it only leaves things out.
    """

    def __init__(self, seal: Seal, config: Config, store: str, clock: Callable[[], datetime]) -> None:
        self._key, self._naming = seal.key(_PURPOSE), seal.key(_NAMING)
        self._settings, self._store, self._clock = config.continuing, store, clock
        self._most_bytes = _HEAD.size + config.limits.scopes * _SCOPE_BYTES + config.continuing.seen * _SEEN_BYTES + _SEAL_BYTES

    def token(self, stopped: Stopped, onward: Onward, as_of: datetime, scopes: Collection[str] | None, bound: Bound) -> str | None:
        """A token to go on from where a recall stopped that had itself begun at `onward`; None when too many memories were decided."""
        names = onward.names | {self._name(bound.org, str(memory), _SEEN_BYTES) for memory in stopped.decided}
        if len(names) > self._settings.seen:
            return None
        granted = sorted(self._name(bound.org, scope, _SCOPE_BYTES) for scope in scopes or ())
        flags = _DEEPER * stopped.deeper | _MORE_POSTINGS * stopped.more_postings | _EVERY_SCOPE * (scopes is None)
        head = _HEAD.pack(
            FORMAT,
            onward.part + 1,
            flags,
            ceil(self._clock().timestamp() + self._settings.seconds),
            (as_of - _EPOCH) // timedelta(microseconds=1),
            stopped.depth,
            stopped.postings,
            *(min(stopped.taken.get(source, 0), _MOST_PLACES) for source in Source),
            len(granted),
            len(names),
        )
        content = b"".join([head, *granted, *sorted(names)])
        return _text(content + sealed(self._key, self._bound(bound) + content))

    def opened(self, token: object, bound: Bound, allowed: int) -> Onward:
        """Where a token says to go on. Raises `InvalidRequest`, always with the same words, when it is not one of ours, altered, bound
        to something else, too old, or one more than `allowed`. Asks nobody."""
        raw = _bytes(token, self._most_bytes)
        content, seal = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
        # Sealed means made here, so what stands in it can be relied on.
        if not unbroken(self._key, self._bound(bound) + content, seal):
            raise refused()
        onward, expires = self._read(content, bound.org)
        if self._clock().timestamp() >= expires or onward.part > allowed:
            raise refused()
        return onward

    def _read(self, content: bytes, org: str) -> tuple[Onward, int]:
        _, part, flags, expires, as_of, depth, postings, fact, session, doc, scopes, seen = _HEAD.unpack_from(content)
        names = [content[at : at + _SCOPE_BYTES] for at in range(_HEAD.size, _HEAD.size + scopes * _SCOPE_BYTES, _SCOPE_BYTES)]
        first = _HEAD.size + scopes * _SCOPE_BYTES
        decided = frozenset(content[at : at + _SEEN_BYTES] for at in range(first, first + seen * _SEEN_BYTES, _SEEN_BYTES))
        granted = frozenset(names)
        onward = Onward(
            part=part,
            as_of=_EPOCH + timedelta(microseconds=as_of),
            depth=depth,
            deeper=bool(flags & _DEEPER),
            postings=postings,
            more_postings=bool(flags & _MORE_POSTINGS),
            taken=dict(zip(Source, (fact, session, doc), strict=True)),
            decided=lambda memory: self._name(org, str(memory), _SEEN_BYTES) in decided,
            granted=None if flags & _EVERY_SCOPE else lambda scope: self._name(org, scope, _SCOPE_BYTES) in granted,
            names=decided,
        )
        return onward, expires

    def _bound(self, bound: Bound) -> bytes:
        return bytes.fromhex(digest_of([FORMAT, self._store, bound.actor, bound.org, bound.request]))

    def _name(self, org: str, name: str, size: int) -> bytes:
        """What stands for a name in a token; only who has the secret can tell for which, and no two orgs share any."""
        text = f"{len(org)}:{org}{name}".encode("utf-8", "surrogatepass")
        return blake2b(text, key=self._naming, digest_size=size).digest()


def told_on(reasons: Sequence[Because], token: str | None, *, parts: int, allowed: int) -> tuple[Because, ...]:
    """The reasons of an exhausted answer, with how it can be gone on from; or why it cannot any more, and whose job that is."""
    if token is not None:
        return tuple(replace(each, next=f"go on with meta.continuation, or {each.next}") for each in reasons)
    if not allowed:
        return tuple(reasons)
    if parts < allowed:
        detail, owner, following = "more memories were decided than a continuation can name", Owner.CALLER, "ask more narrowly"
    else:
        detail, owner = f"all {allowed} continued searches are spent", Owner.OPERATOR
        following = "allow more budget: recall.profiles.*.verify.continuations"
    spent = Because(stage=None, code=Code.CEILING_CONTINUATIONS, detail=detail, owner=owner, retryable=False, next=following)
    return (*reasons, spent)


def refused() -> InvalidRequest:
    return InvalidRequest("continuation", REFUSED)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(token: object, most: int) -> bytes:
    """What a token's text spells, in its one spelling; nothing when it is no such text, or longer than any."""
    if not isinstance(token, str) or len(token) > 4 * ceil(most / 3):
        return b""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return b""
    return raw if _text(raw) == token else b""
