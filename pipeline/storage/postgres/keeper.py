"""The keeper: a process of its own that runs a folder's Postgres while somebody uses the folder, and stops it after them.

`server.py` starts it as a script with one JSON argument, an `Order`, so it imports nothing but the standard library. Whoever uses
the folder holds a share of its lock `users`, which the system takes back however a process ends; the keeper waits for the whole lock.
As root it becomes the folder's owner, or `SERVER_UID` for a folder of root's, before it starts anything.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

OWNER = "remit"
"""The superuser, and the database it starts with."""

SERVER_UID = 60831
"""Who serves a folder of root's: a number that no system hands out, so that no account needs to be made."""

# What lies in the folder. DOOR lets in one opener at a time; of USERS each user holds a share; KEEPER belongs to the keeper, and
# SERVER to every process of the server, by inheritance: while it is held, one of them lives.
DOOR, USERS, KEEPER, SERVER = LOCKS = ("door.lock", "users.lock", "keeper.lock", "server.lock")
MARK, DATA, LOG, SOCKETS = "remit.json", "data", "server.log", "sockets"
READY, FAILURE, RUNTIME = "ready.json", "failure.json", "runtime.txt"
UNMARKED = frozenset({*LOCKS, LOG, f"{LOG}.old", READY, FAILURE})
"""What may lie in a folder that is not marked yet: somebody was interrupted, or is just beginning."""

LONGEST_SOCKET = 107 - len("/.s.PGSQL.5432.lock")
"""Bytes that the path of a folder for sockets may have."""

_NAP = 0.02
_STOP = (signal.SIGTERM, signal.SIGUSR1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a keeper is told. `parts` are the folders the programs need, below `root`; seconds, megabytes and counts are from the config."""

    folder: str
    major: int
    root: str
    bin: str
    parts: Sequence[str]
    durable: bool
    connections: int
    shared_megabytes: int
    client_check_seconds: float
    stop_seconds: float


class Trouble(Exception):
    """Why there is no server, in a sentence for whoever asked for it. `kind` is `config` for what they must change."""

    def __init__(self, sentence: str, kind: str = "unavailable") -> None:
        super().__init__(sentence)
        self.kind = kind


def main(order: Order) -> None:
    """Prepares the folder, then serves until nobody uses it. What went wrong is left in `failure.json`."""
    os.umask(0o077)
    folder = order.folder
    try:
        place = settled(order)
        folder = place.folder
        with _nothing_left(place):
            _initialised(place, order)
            Keeper(place, order).serve()
    except Trouble as trouble:
        _told(folder, str(trouble), trouble.kind)
    except OSError as error:
        traceback.print_exc()
        _told(folder, _plain(str(error)) or f"Its folder cannot be used: {error.strerror}.", "unavailable")


# --- where and as whom -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the server lives, as paths that its user can follow. `kept` are file descriptors that these paths need."""

    folder: str
    sockets: str
    programs: Path
    libraries: str
    kept: tuple[int, ...]

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def runs(self, program: str, *arguments: str, say: str = "", mortal: signal.Signals = signal.SIGKILL) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.programs / program, *arguments],
            input=say,
            capture_output=True,
            text=True,
            errors="replace",
            env=self.environment,
            pass_fds=self.kept,
            preexec_fn=_dies_with_us(mortal),
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.programs), "LC_ALL": "C", "TZ": "UTC", "LD_LIBRARY_PATH": self.libraries}


def settled(order: Order) -> Place:
    """Makes the folder the server's, finds what its user can reach, and becomes that user."""
    owner = os.stat(order.folder)
    _clear_runtime(order.folder)
    if os.geteuid() != 0:
        return _place(order, order.folder, (), None)
    uid, gid = owner.st_uid, owner.st_gid
    if uid == 0:
        uid = gid = SERVER_UID
        _given(order.folder, uid, gid)
    kept = os.open(order.folder, os.O_RDONLY | os.O_DIRECTORY)
    with _as_user(uid, gid):
        reached = os.access(order.folder, os.X_OK, effective_ids=True)
    # A folder below one that only root may enter, such as its home, is reached by the descriptor of it that the server inherits.
    folder = order.folder if reached else f"/proc/self/fd/{kept}"
    place = _place(order, folder, (kept,), (uid, gid))
    try:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        os.stat(f"{folder}/{USERS}")
    except OSError as error:
        raise Trouble(
            "It is run as root, which Postgres refuses, and cannot become another user here: run it as an ordinary user."
        ) from error
    return place


def _place(order: Order, folder: str, kept: tuple[int, ...], user: tuple[int, int] | None) -> Place:
    """Sockets and programs where they are, or in a short private folder under the temporary one when they cannot be used there."""
    programs, root = Path(order.bin), Path(order.root)
    reached = True
    if user is not None:
        with _as_user(*user):
            reached = all(os.access(part, os.R_OK | os.X_OK, effective_ids=True) for part in order.parts) and os.access(
                programs / "postgres", os.R_OK | os.X_OK, effective_ids=True
            )
    short = folder == order.folder and len(os.fsencode(f"{folder}/{SOCKETS}")) <= LONGEST_SOCKET
    if short and reached:
        sockets = f"{folder}/{SOCKETS}"
        os.makedirs(sockets, mode=0o700, exist_ok=True)
        if user is not None:
            os.chown(sockets, *user)
        return Place(folder=folder, sockets=sockets, programs=programs, libraries="", kept=kept)
    runtime = _runtime_folder(user)
    Path(order.folder, RUNTIME).write_text(runtime)
    if not reached:
        for part in order.parts:
            shutil.copytree(part, Path(runtime) / Path(part).relative_to(root), symlinks=True, ignore=shutil.ignore_patterns("*.a", "pgxs"))
        programs = Path(runtime) / programs.relative_to(root)
    if user is not None:
        _given(runtime, *user)
        os.chown(Path(order.folder, RUNTIME), *user)
    return Place(folder=folder, sockets=runtime, programs=programs, libraries="", kept=kept)
