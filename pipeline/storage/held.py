"""Held files: the database files this process has open, which nobody in it may open and close by other means.

POSIX drops every lock a process has on a file as soon as it closes any descriptor of it, SQLite's locks included.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from threading import Lock

Inode = tuple[int, int]

_held: Counter[Inode] = Counter()
_lock = Lock()


def inode_of(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino


def hold(path: Path) -> Inode:
    """Notes that a database is open at `path`; to be given to `release` when it is closed."""
    inode = inode_of(path.stat())
    with _lock:
        _held[inode] += 1
    return inode


def release(inode: Inode) -> None:
    """Notes that it was closed; closing again changes nothing."""
    with _lock:
        if _held[inode] > 1:
            _held[inode] -= 1
        else:
            del _held[inode]


def is_held(found: os.stat_result) -> bool:
    return inode_of(found) in _held
