"""Who holds the write lock: a note of the operation beside the database, which names it to those who wait.

The note is a file of its own. The database and its side files are never opened here: closing them would drop SQLite's locks.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from secrets import token_hex

from remit.pipeline.storage.operations import UNKNOWN, Operation

SUFFIX = "-writer"
SIZE = 64
"""Bytes of a note; a file of another size is somebody else's, and stays as it is."""


class Note:
    """The note of one store, used by the one thread that writes there. Where it cannot be kept, writing goes on without it."""

    def __init__(self, database: str) -> None:
        self._database = os.path.realpath(database)  # SQLite follows links too before it names its side files
        self._mark = token_hex(8)
        self._file: int | None = None
        self._asked = False

    def put(self, operation: Operation) -> None:
        """Only while the lock is held."""
        self._write(self._text(operation))

    def clear(self, operation: Operation) -> None:
        """Takes the note back, unless the next one who holds the lock has noted something already."""
        if self._read() == self._text(operation):
            self._write(b" " * SIZE)

    def holder(self) -> str:
        """The operation that is noted, or `UNKNOWN`."""
        text = self._read()
        words = text.split(b" ", 2)
        if len(text) == SIZE and len(words) == 3 and words[1].isdigit() and _lives(int(words[1])):
            with suppress(ValueError):
                return Operation(words[0].decode("ascii"))
        return UNKNOWN

    def close(self) -> None:
        """The file stays: to remove it would take it from those who have it open."""
        file, self._file, self._asked = self._file, None, True
        if file is not None:
            os.close(file)

    def _text(self, operation: Operation) -> bytes:
        return f"{operation} {os.getpid()} {self._mark}".encode().ljust(SIZE)

    def _read(self) -> bytes:
        with suppress(OSError):
            if (file := self._opened()) is not None:
                return os.pread(file, SIZE + 1, 0)
        return b""

    def _write(self, text: bytes) -> None:
        with suppress(OSError):
            if (file := self._opened()) is not None:
                os.pwrite(file, text, 0)

    def _opened(self) -> int | None:
        if not self._asked:
            self._asked = True
            with suppress(OSError):
                self._file = _opened(self._database)
        return self._file


def _opened(database: str) -> int | None:
    """A descriptor of the note, which whoever may use the database may use; None for a file that is not one of ours."""
    path, rights = f"{database}{SUFFIX}", stat.S_IMODE(os.stat(database).st_mode) & 0o666
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size not in (0, SIZE):
            return None
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, rights)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return process > 0
