"""A Postgres of our own: started by the first process that opens its folder, shared by all that do, gone after the last one.

Every opener holds a share of the lock `users` in the folder. A keeper, a process of its own, runs the server and stops it when it gets the
whole lock, so a server outlives a killed user by moments only. Its socket lies in a folder for one user, and it listens on nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread

from remit.pipeline.config import Embedded
from remit.pipeline.errors import ConfigError, StorageUnavailable
from remit.pipeline.storage.postgres import keeper
from remit.pipeline.storage.postgres.binaries import Binaries, installed
from remit.pipeline.storage.postgres.housing import House, housed, marked, ours
from remit.pipeline.storage.postgres.keeper import OWNER, Order

_NAP = 0.01


class Lock:
    """A file lock that the system takes back when the process ends; another `Lock` of the same file is another holder."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _opened(path)

    def taken(self, *, whole: bool) -> bool:
        """Takes the whole lock or a share of it, if that can be had at once."""
        try:
            fcntl.flock(self._descriptor, (fcntl.LOCK_EX if whole else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """A running Postgres of major version `major` under `directory`, whose socket lies in `sockets`. Kept running until `close`."""

    directory: Path
    sockets: Path
    major: int
    stop_seconds: float
    share: Lock

    def dsn(self, database: str = OWNER, user: str = OWNER) -> str:
        """Where a database is, for a role that may log in. The defaults are the owner, a superuser, and the database it starts with."""
        return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?host={quote(os.fsencode(self.sockets), safe='')}"

    async def close(self) -> None:
        """Leaves the server. The last one to leave waits until it has stopped, for `stop_seconds` at most. Can be called again."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(self.stop_seconds):
            self.share.close()
            with suppress(OSError):
                while _stopping(self.directory):  # noqa: ASYNC110 - what is awaited happens in another process
                    await anyio.sleep(_NAP)


async def started(
    directory: str | Path,
    settings: Embedded,
    *,
    major: int | None = None,
    durable: bool = True,
    binaries: tuple[Binaries, ...] | None = None,
) -> EmbeddedServer:
    """The server of a folder, started if it is not running; the folder is made if it is not there, for the newest version or `major`.

    `durable=False` risks what a crash of the machine would lose, for tests; `binaries` are those to choose from, else the installed ones.
    Raises `ConfigError` for a folder that is not ours or was made by a version that is not there, and changes nothing then;
    `StorageUnavailable`, with what to do, when the server does not run within `startSeconds`.
    """
    folder = await anyio.to_thread.run_sync(Path(directory).resolve)
    choice = binaries if binaries is not None else await anyio.to_thread.run_sync(installed)
    _chosen(choice, await anyio.to_thread.run_sync(marked, folder), major)
    await anyio.to_thread.run_sync(ours, folder)
    with ExitStack() as opening:
        try:
            with anyio.fail_after(settings.start_seconds):
                door = opening.enter_context(_closing(folder / keeper.DOOR))
                await _wait_for(door, whole=True)
                share = Lock(folder / keeper.USERS)
                giving_up = opening.enter_context(ExitStack())
                giving_up.callback(share.close)
                await _wait_for(share, whole=False)
                chosen = _chosen(choice, marked(folder), major)
                ready = await _running(folder, chosen, settings, durable=durable)
                giving_up.pop_all()
        except TimeoutError:
            raise StorageUnavailable(
                f"The server did not run within {settings.start_seconds:g} s: wait for another process, or see {keeper.LOG} in its folder."
            ) from None
    return EmbeddedServer(
        directory=folder, sockets=Path(ready["sockets"]), major=chosen.major, stop_seconds=settings.stop_seconds, share=share
    )


def _chosen(binaries: tuple[Binaries, ...], mark: int | None, asked: int | None) -> Binaries:
    """The programs for a folder: of the version that made it, else of the version asked for, else the newest."""
    wanted = mark or asked or binaries[0].major
    if mark and asked and mark != asked:
        raise ConfigError(f"embedded: the folder was made by Postgres {mark}, not {asked}. Nothing was changed.")
    for each in binaries:
        if each.major == wanted:
            return each
    there = ", ".join(str(each.major) for each in binaries)
    raise ConfigError(
        f"embedded: the folder needs Postgres {wanted}, and installed is {there}: open it with the Remit that made it, export, and import "
        "into a new folder. Nothing was changed."
    )


async def _running(folder: Path, binaries: Binaries, settings: Embedded, *, durable: bool) -> dict[str, Any]:
    """What the keeper says of its ready server; starts one when there is none. The caller stands in the door and holds a share."""
    while True:
        probe = Lock(folder / keeper.KEEPER)
        try:
            if probe.taken(whole=False):
                if probe.taken(whole=True):
                    await _launch(folder, binaries, settings, durable=durable, lock=probe)
            elif (ready := _read(folder / keeper.READY)) is not None:
                if durable and not ready["durable"]:
                    raise StorageUnavailable("Its server runs in a test's manner, which a crash of the machine would not leave whole.")
                return ready
        finally:
            probe.close()
        await anyio.sleep(_NAP)


async def _launch(folder: Path, binaries: Binaries, settings: Embedded, *, durable: bool, lock: Lock) -> None:
    """Starts a keeper, which inherits the lock, and waits for its report. Raises what it reports, as an error of ours."""
    (folder / keeper.READY).unlink(missing_ok=True)
    Lock(folder / keeper.SERVER).close()
    house = await anyio.to_thread.run_sync(housed, folder, binaries)
    order = json.dumps(asdict(_order(folder, binaries.major, house, settings, durable=durable)))
    line = [sys.executable, "-I", "-S", keeper.__file__, order]
    try:
        _raise_reported(await _report_of(line, lock))
    except BaseException:
        if house.runtime:
            shutil.rmtree(house.runtime, ignore_errors=True)
        raise


async def _report_of(line: list[str], lock: Lock) -> bytes:
    """What a new keeper says. It gets nothing of ours but the lock and what its Python may need: no secrets, no standard input."""
    plain = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    try:
        done = await anyio.run_process(
            line, stdin=DEVNULL, stderr=None, check=False, env=plain, pass_fds=[lock.fileno()], start_new_session=True
        )
    except OSError as error:
        raise StorageUnavailable(f"Its keeper could not be started: {error.strerror}.") from None
    return done.stdout


def _raise_reported(report: bytes) -> None:
    try:
        what = json.loads(report)
    except ValueError:
        raise StorageUnavailable(f"Its keeper could not be started: see {keeper.LOG} in the folder.") from None
    if what:
        raise (ConfigError if what["theirs"] else StorageUnavailable)(what["fact"])


def _order(folder: Path, major: int, house: House, settings: Embedded, *, durable: bool) -> Order:
    return Order(
        folder=str(folder),
        major=major,
        user=house.user,
        hidden=house.hidden,
        sockets=str(house.sockets),
        runtime=str(house.runtime) if house.runtime else None,
        bin=str(house.bin),
        durable=durable,
        connections=settings.connections,
        shared_megabytes=settings.shared_megabytes,
        client_check_seconds=settings.client_check_seconds,
        stop_seconds=settings.stop_seconds,
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return None


async def _wait_for(lock: Lock, *, whole: bool) -> None:
    while not lock.taken(whole=whole):  # noqa: ASYNC110 - another process gives it back
        await anyio.sleep(_NAP)


def _stopping(folder: Path) -> bool:
    """Whether the server is on its way out, or about to be: its keeper lives, and nobody else uses it."""
    with _closing(folder / keeper.KEEPER) as kept:
        if kept.taken(whole=False):
            return False
    with _closing(folder / keeper.USERS) as users:
        # Neither the whole lock nor a share of it can be had while the keeper has it.
        return users.taken(whole=True) or not users.taken(whole=False)


@contextmanager
def _closing(path: Path) -> Iterator[Lock]:
    lock = Lock(path)
    try:
        yield lock
    finally:
        lock.close()


def _opened(path: Path) -> int:
    """Opens a lock file, made for the folder's owner if it is not there, and never by a link that somebody put in its place."""
    try:
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        return _made(path)
    except OSError as error:
        raise StorageUnavailable(f"The folder cannot be used: {error.strerror}.") from None


def _made(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor
