"""Receipts: what a recall came to, without its content, as one line of a chain that nobody can change unnoticed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter

from remit.pipeline.config import Receipts
from remit.pipeline.digests import canonical
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.sealing import Seal, sealed, unbroken
from remit.pipeline.times import moment_at
from remit.pipeline.trail import log

FORMAT = 1
FIRST = "0" * 64
"""What the first receipt of a chain names as the one before it."""

REFUSED = "holds no whole and unchanged receipt of this principal and this store"
"""What is said of every receipt that is not honoured, whatever is wrong with it."""

_PURPOSE, _ASKING = "receipt", "receipt request"
_PIECE = 65_536
_AGAIN_SECONDS = 0.005


_Moment = Annotated[datetime, BeforeValidator(partial(moment_at, "receipt"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What has to stand on a line, and nothing else: without a secret anybody can make a chain that is whole."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: int
    number: int
    previous: str
    hash: str
    seal: str | None
    at: _Moment
    store: str
    org: str
    actor: str
    scopes: list[str] | Literal["*"] | None
    request: str
    config: str
    analyser: str
    spaces: dict[str, str]
    asOf: _Moment  # noqa: N815 - the names are those of the line
    outcome: str
    because: list[str]
    degraded: list[str]
    items: list[tuple[Annotated[str, Field(pattern="^(fact|session|doc):")], int, str]]
    stages: dict[str, _Stage]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    received: int
    returned: int
    rejected: dict[str, int]
    exhausted: str | None


_LINE = TypeAdapter(_Line)


@dataclass(frozen=True, slots=True)
class Kept:
    """A receipt that stands in a chain: what it says, by the names it has on its line."""

    line: Mapping[str, Any]

    @property
    def number(self) -> int:
        return int(self.line["number"])

    @property
    def hash(self) -> str:
        return str(self.line["hash"])


class Keeper:
    """Appends receipts to a file, one at a time, also when many processes do; each names the one before it by its hash.

    With a lasting secret each is sealed as well: without it, whoever may write the file could make a whole new chain.
    """

    def __init__(self, path: Path, settings: Receipts, seal: Seal) -> None:
        self._path, self._settings = path, settings
        self._key = seal.key(_PURPOSE) if seal.lasting else None
        self._one_by_one = anyio.CapacityLimiter(1)

    async def keep(self, receipt: Mapping[str, Any]) -> str | None:
        """The hash of the receipt once it is on the disk; None, and a line in the log, when it could not be kept."""
        append = partial(appended, self._path, receipt, self._key, self._settings.wait_seconds)
        kept, kind = None, "TimeoutError"
        with anyio.move_on_after(self._settings.wait_seconds):
            try:
                kept = await anyio.to_thread.run_sync(append, limiter=self._one_by_one)
            except (OSError, ValueError) as error:
                kind = type(error).__name__
        if kept is None:
            log.error("receipt", **{"error.type": kind})
        return kept


def appended(path: Path, receipt: Mapping[str, Any], key: bytes | None, wait_seconds: float) -> str:
    """Appends one receipt under the file's lock, all of it or nothing, and returns its hash.

    What a process left half written when it was killed is taken away first: it had told nobody that it was kept. Raises `OSError`, and
    `ValueError` when the last line is no receipt.
    """
    with _locked(path, wait_seconds) as file:
        end = _whole_end(file)
        number, previous = _last(file, end)
        line = _signed({**receipt, "format": FORMAT, "number": number + 1, "previous": previous}, key)
        left = memoryview(canonical(line).encode() + b"\n")
        try:
            file.truncate(end)
            file.seek(end)
            while left:
                left = left[file.write(left) or 0 :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise
    return str(line["hash"])


@contextmanager
def _locked(path: Path, wait_seconds: float) -> Iterator[FileIO]:
    until = time.monotonic() + wait_seconds
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+b", buffering=0) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise OSError(errno.EAGAIN, "locked by another") from None
                time.sleep(_AGAIN_SECONDS)
        yield file


def _whole_end(file: FileIO) -> int:
    """Where the last whole line ends."""
    at = file.seek(0, os.SEEK_END)
    while at > 0:
        start = max(0, at - _PIECE)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _last(file: FileIO, end: int) -> tuple[int, str]:
    """Number and hash of the last whole line."""
    if not end:
        return 0, FIRST
    start, tail = end - 1, b""
    while start > 0 and b"\n" not in tail:
        before = max(0, start - _PIECE)
        file.seek(before)
        tail = file.read(start - before) + tail
        start = before
    last = json.loads(tail.rsplit(b"\n", 1)[-1])
    if not isinstance(last, dict) or not isinstance(last.get("number"), int) or not isinstance(last.get("hash"), str):
        raise ValueError("the file holds something else than receipts")
    return last["number"], last["hash"]


def _signed(linked: Mapping[str, Any], key: bytes | None) -> dict[str, Any]:
    told = canonical(linked).encode()
    hashed = sha256(told).hexdigest()
    return {**linked, "hash": hashed, "seal": None if key is None else sealed(key, hashed.encode()).hex()}


def chain_of(path: str | Path, seal: Seal, most_bytes: int) -> list[Kept]:
    """All receipts of a file, each whole, unchanged and behind the one it names. Raises `InvalidRequest`, always with the same words."""
    key = seal.key(_PURPOSE) if seal.lasting else None
    kept: list[Kept] = []
    try:
        with _regular(Path(path)).open("rb") as file:
            while line := file.readline(most_bytes):
                kept.append(Kept(_checked(line, kept[-1] if kept else None, key)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise refused() from None
    return kept


def _regular(path: Path) -> Path:
    """A path at which a file lies; a pipe would be waited for, and a device may have no end."""
    if not path.is_file():
        raise FileNotFoundError
    return path


def _checked(line: bytes, before: Kept | None, key: bytes | None) -> dict[str, Any]:
    """What stands on a line, if that is exactly what was written there. Raises `ValueError` and its like when it is not."""
    stated = json.loads(line)
    if not isinstance(stated, dict):
        raise ValueError
    linked = {name: value for name, value in stated.items() if name not in ("hash", "seal")}
    hashed, number, previous = stated["hash"], before.number if before else 0, before.hash if before else FIRST
    whole = canonical(stated).encode() + b"\n" == line and _signed(linked, None)["hash"] == hashed
    follows = (stated["format"], stated["number"], stated["previous"]) == (FORMAT, number + 1, previous)
    if not (whole and follows and (key is None or unbroken(key, hashed.encode(), bytes.fromhex(stated["seal"])))):
        raise ValueError
    _LINE.validate_json(line)
    return dict(stated)


def refused() -> InvalidRequest:
    return InvalidRequest("receipt", REFUSED)


def mark_of(request: str, seal: Seal) -> str:
    """What stands for a request, given by its digest, in a receipt.

    With a lasting secret it is keyed: questions are short, and who guessed one could else tell from the receipts that it was asked.
    """
    return sealed(seal.key(_ASKING), request.encode()).hex() if seal.lasting else request


def own_of(chain: Sequence[Kept], *, store: str, org: str, actor: str, only: str | None = None) -> list[Kept]:
    """Of a chain, the receipts of this principal in this store, or the one among them with this number or hash.

    Raises `InvalidRequest` when there is none, whosever the others are.
    """
    own = [each for each in chain if (each.line["store"], each.line["org"], each.line["actor"]) == (store, org, actor)]
    named = [each for each in own if only is None or only in (str(each.number), each.hash)]
    if not named:
        raise refused()
    return named
