"""The look at a file: its bytes, if it lies where files may be read."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from urllib.parse import unquote_to_bytes

from remit.pipeline.freshness.threads import Threads
from remit.pipeline.freshness.watch import scheme_of
from remit.pipeline.storage.held import is_held
from remit.stages.access import Access
from remit.stages.evidence import Memory, Origin, Verdict

CHUNK = 1 << 20
"""Bytes hashed before asking whether anybody still waits for the answer."""

Roots = Sequence[str] | Callable[[str], Awaitable[Sequence[str]]]
"""Folders or files, or what gives those of an org."""


class FileChecker:
    """The check for `file:` origins: the bytes at the path still have the recorded SHA-256.

    Only regular files inside `roots` (folders or single files) are opened, whatever `..`, links or escapes a URI is made of; what
    lies outside is inaccessible, alike whether it exists or not. A file above `most_bytes` and an origin without a hash are
    unverified. At most `threads` files are read at once: when a hanging disk holds them all, the others wait out their own seconds.
    """

    def __init__(self, roots: Roots, *, most_bytes: int, threads: int) -> None:
        self._roots = roots
        self._most_bytes = most_bytes
        self._threads = Threads(threads)

    async def __call__(self, memory: Memory, access: Access, /) -> Verdict:
        if memory.origin is None:
            return Verdict.UNVERIFIED
        found = await self._digest(memory.origin.uri, access.org)
        if isinstance(found, Verdict):
            return found
        if memory.origin.sha256 is None:
            return Verdict.UNVERIFIED
        return Verdict.FRESH if found == memory.origin.sha256.lower() else Verdict.CHANGED

    async def resolved(self, origin: Origin, org: str) -> Origin:
        """The origin with the SHA-256 of its file, when it is a `file:` inside the org's roots that can be read and states none itself."""
        if origin.sha256 is not None or scheme_of(origin.uri) != "file":
            return origin
        found = await self._digest(origin.uri, org)
        return origin if isinstance(found, Verdict) else replace(origin, sha256=found)

    async def _digest(self, uri: str, org: str) -> str | Verdict:
        path = path_of(uri)
        if path is None:
            return Verdict.INACCESSIBLE
        roots = await self._roots(org) if callable(self._roots) else self._roots
        found = await self._threads.run(partial(self._look, path, tuple(roots)))
        return Verdict.UNVERIFIED if found is None else found

    def _look(self, path: str, roots: Sequence[str], unwanted: threading.Event) -> str | Verdict:
        try:
            return digest(path, roots, most_bytes=self._most_bytes, unwanted=unwanted)
        except FileNotFoundError:
            return Verdict.MISSING
        except (PermissionError, NotADirectoryError):
            return Verdict.INACCESSIBLE
        except OSError as error:
            return Verdict.INACCESSIBLE if error.errno in (errno.ELOOP, errno.ENAMETOOLONG) else Verdict.UNVERIFIED


def path_of(uri: str) -> str | None:
    """The absolute path a `file:` URI of this machine names, percent-decoded once; None for everything else.

    None too when a part is `..`, or when it holds a NUL, a query or a fragment: no file that was taken in is named like that.
    """
    scheme, _, rest = uri.partition(":")
    if scheme.lower() != "file" or "?" in rest or "#" in rest:
        return None
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        if authority.lower() not in ("", "localhost"):
            return None
        rest = slash + rest
    try:
        path = os.fsdecode(unquote_to_bytes(rest))
    except UnicodeEncodeError:
        return None
    return None if not path.startswith("/") or "\0" in path or ".." in path.split("/") else path


def digest(path: str, roots: Sequence[str], *, most_bytes: int, unwanted: threading.Event) -> str | Verdict:
    """SHA-256 of a regular file inside the roots, lower-case hex; a verdict when it may not be read, is too large or is unwanted.

    Raises `OSError` as the system does.
    """
    real = PurePosixPath(os.path.realpath(path))
    root = next((root for root in map(_real, filter(None, roots)) if real.is_relative_to(root)), None)
    if root is None:
        return Verdict.INACCESSIBLE
    with _opened_inside(root, real) as file:
        if file is None:
            return Verdict.INACCESSIBLE
        if os.fstat(file).st_size > most_bytes:
            return Verdict.UNVERIFIED
        seen, hashed = 0, hashlib.sha256()
        while chunk := os.read(file, CHUNK):
            seen += len(chunk)
            if seen > most_bytes or unwanted.is_set():
                return Verdict.UNVERIFIED
            hashed.update(chunk)
    return hashed.hexdigest()


def _real(root: str) -> PurePosixPath:
    return PurePosixPath(os.path.realpath(os.path.expanduser(root)))


@contextmanager
def _opened_inside(root: PurePosixPath, real: PurePosixPath) -> Iterator[int | None]:
    """The regular file at `real`, opened; None when it is anything else.

    From the root on, every part is opened by itself and never through a link, so that a link put in its way after the path was
    resolved leads nowhere. Only regular files are opened at all, and without waiting: a pipe or a device never blocks.
    """
    parts = real.relative_to(root).parts
    start, names = (root, parts) if parts else (root.parent, (root.name,))
    folder = os.open(start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names[:-1]:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = _opened_regular(names[-1], folder)
    finally:
        os.close(folder)
    try:
        yield file
    finally:
        if file is not None:
            os.close(file)


def _opened_regular(name: str, folder: int) -> int | None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode) or is_held(found):
        return None
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=folder)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None
