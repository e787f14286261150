"""Where an embedded server lives: a folder that is ours, whose server may use it, and that keeps others out."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from remit.pipeline.errors import ConfigError, StorageUnavailable
from remit.pipeline.storage.postgres.binaries import Binaries
from remit.pipeline.storage.postgres.keeper import MARK, PORT, SOCKETS, UNMARKED, give

SERVER_UID = 60831
"""Who serves root's folders, since Postgres refuses root: a number that systems leave free, so that no account needs to be made."""

LONGEST_SOCKET = 107
"""Bytes of a socket's path; more is refused by the system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """How a server uses its folder: as which `user` (uid, gid), None for ours, and with which `sockets` and programs.

    `hidden` says that the user cannot walk to the folder; `runtime` is a temporary folder that holds what it needs elsewhere.
    """

    user: tuple[int, int] | None
    hidden: bool
    sockets: Path
    bin: Path
    runtime: Path | None


def marked(folder: Path) -> int | None:
    """The major version that a folder of ours was made by; None for one that is empty, just begun or not there. Changes nothing.

    Raises `ConfigError` for anything else, and `StorageUnavailable` for a folder that may not be read.
    """
    try:
        names = set(os.listdir(folder))
        if MARK in names:
            major = json.loads((folder / MARK).read_text())["postgres"]
            if isinstance(major, int):
                return major
    except FileNotFoundError:
        return None
    except PermissionError:
        raise StorageUnavailable("The folder may not be read by this user: it belongs to another one.") from None
    except (OSError, ValueError, KeyError, TypeError):
        names = {"?"}
    if names - UNMARKED:
        raise ConfigError("embedded: it is not a folder of ours: choose another one, or one that does not exist. Nothing was changed.")
    return None


def ours(folder: Path) -> None:
    """Makes the folder if need be, and sees that only its server's user can write in it. Raises as `marked`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise StorageUnavailable(f"The folder cannot be made or opened: {error.strerror}.") from None
    try:
        _settle(descriptor, fresh=not set(os.listdir(folder)) - UNMARKED)
    except StorageUnavailable:
        raise
    except OSError as error:
        raise StorageUnavailable(f"The folder cannot be used: {error.strerror}.") from None
    finally:
        os.close(descriptor)


def _settle(descriptor: int, *, fresh: bool) -> None:
    folder = os.fstat(descriptor)
    if os.geteuid() not in (0, folder.st_uid):
        raise StorageUnavailable("The folder belongs to another user.")
    if folder.st_mode & 0o077:
        if not fresh and folder.st_mode & 0o022:
            raise StorageUnavailable("Others may write in the folder: look at what they did, then chmod 700 it.")
        os.fchmod(descriptor, 0o700)
    if folder.st_uid == 0:
        try:
            give(descriptor, SERVER_UID, SERVER_UID)
        except OSError:
            raise StorageUnavailable("Postgres refuses root, who cannot hand files to another user here: be an ordinary user.") from None


def housed(folder: Path, binaries: Binaries) -> House:
    """How the server of this folder, which is ours, can live. What its user cannot reach is put into a temporary folder that it can.

    Raises `StorageUnavailable` when there is no place for that.
    """
    user = _user_of(folder)
    hidden = user is not None and not may_enter(folder, user)
    unreached = user is not None and not may_enter(binaries.bin, user)
    within = folder / SOCKETS
    if not hidden and not unreached and fits(within):
        return House(user=user, hidden=False, sockets=within, bin=binaries.bin, runtime=None)
    runtime = _temporary(user)
    try:
        programs = _copied(binaries, runtime / "programs") if unreached else binaries.bin
        if user is not None:
            _hand_over(runtime, user)
    except BaseException as error:
        shutil.rmtree(runtime, ignore_errors=True)
        if isinstance(error, OSError):
            raise StorageUnavailable(f"The server's programs cannot be copied to the temporary folder: {error.strerror}.") from None
        raise
    return House(user=user, hidden=hidden, sockets=runtime / SOCKETS, bin=programs, runtime=runtime)


def _user_of(folder: Path) -> tuple[int, int] | None:
    if os.geteuid() != 0:
        return None
    owner = folder.stat()
    return owner.st_uid, owner.st_gid


def may_enter(folder: Path, user: tuple[int, int]) -> bool:
    """Whether the modes of a folder and of all above it let a user (uid, gid), of no other group, walk to what is in it."""
    return all(_lets_in(each.stat(), user) for each in (folder, *folder.parents))


def _lets_in(folder: os.stat_result, user: tuple[int, int]) -> bool:
    if folder.st_uid == user[0]:
        return bool(folder.st_mode & stat.S_IXUSR)
    if folder.st_gid == user[1]:
        return bool(folder.st_mode & stat.S_IXGRP)
    return bool(folder.st_mode & stat.S_IXOTH)


def fits(sockets: Path) -> bool:
    return len(os.fsencode(sockets / f".s.PGSQL.{PORT}")) < LONGEST_SOCKET


def _temporary(user: tuple[int, int] | None) -> Path:
    """A new private folder whose sockets have a short path."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - a folder of our own is made in it
        parent = Path(place).resolve()
        if not parent.is_dir() or not (user is None or may_enter(parent, user)) or not fits(parent / "remit-12345678" / SOCKETS):
            continue
        try:
            return Path(tempfile.mkdtemp(prefix="remit-", dir=parent))
        except OSError:
            continue
    raise StorageUnavailable(
        "The folder's path is too long or closed to the server's user, and no temporary folder does: choose a shorter one."
    )


def _copied(binaries: Binaries, to: Path) -> Path:
    for part in binaries.parts:
        target = to / part.relative_to(binaries.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if part.is_dir():
            shutil.copytree(part, target, ignore=shutil.ignore_patterns("pgxs"))
        else:
            shutil.copy2(part, target)
    return to / binaries.bin.relative_to(binaries.root)


def _hand_over(runtime: Path, user: tuple[int, int]) -> None:
    """Gives the temporary folder to the server's user, and lets everybody walk through it to the programs, which are no secret."""
    for folder, _, files in os.walk(runtime):
        os.chmod(folder, 0o755)  # noqa: S103 - as said
        for name in files:
            path = Path(folder, name)
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
    descriptor = os.open(runtime, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        give(descriptor, *user)
    finally:
        os.close(descriptor)
