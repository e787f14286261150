"""The keeper: a process of its own that runs a folder's Postgres while somebody uses the folder, and stops it after them.

`server.py` starts this file as a script with an `Order` in JSON, so it imports nothing but the standard library, not even a file beside it:
that is why it is longer than others. It reports one line of
JSON: `{}` when the server is ready, or what went wrong. Whoever uses the folder holds a share of its lock `users`, which the system takes
back however a process ends; the keeper waits until it gets the whole lock.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

OWNER = "remit"
"""The superuser, and the database it starts with."""

# What lies in the folder. DOOR lets in one opener at a time; of USERS each user holds a share; KEEPER is the keeper's; SERVER is held
# by every process of the server, by inheritance: while it is taken, one of them lives.
DOOR, USERS, KEEPER, SERVER = "door.lock", "users.lock", "keeper.lock", "server.lock"
MARK, READY, RUNTIME = "remit.json", "ready.json", "runtime.json"
DATA, LOG, SOCKETS = "data", "server.log", "sockets"
UNMARKED = frozenset({DOOR, USERS, KEEPER, SERVER, LOG, f"{LOG}.old", f"{MARK}.new"})
"""What may lie in a folder that has no mark yet: somebody is just beginning, or was interrupted."""

PORT = 5432
"""Names the socket; nothing listens on a network."""

_NAP = 0.02
_COMPLAINT = re.compile(r"(?:FATAL|PANIC|error): +(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a keeper is told. `user` is whom it becomes first (uid, gid), None to stay; `hidden` says that `user` cannot walk to `folder`.

    `runtime` is a temporary folder to remove at the end; `sockets` and `bin` may lie in it.
    """

    folder: str
    major: int
    user: Sequence[int] | None
    hidden: bool
    sockets: str
    runtime: str | None
    bin: str
    durable: bool
    connections: int
    shared_megabytes: int
    client_check_seconds: float
    stop_seconds: float


class Trouble(Exception):
    """Why there is no server, in a sentence; `theirs` when it is the caller's folder or configuration that must change."""

    def __init__(self, sentence: str, *, theirs: bool = False) -> None:
        super().__init__(sentence)
        self.theirs = theirs


class Keeper:
    """Prepares a folder and serves from it. As root it does the first part as root, by descriptors, so that no link leads it astray."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._held = os.open(order.folder, os.O_RDONLY | os.O_DIRECTORY)
        # A folder below one that only root may enter, such as root's home, is reached by a descriptor of it, which the server inherits.
        self._folder = Path(f"/proc/self/fd/{self._held}") if order.hidden else Path(order.folder)
        self._data = self._folder / DATA
        self._unused = threading.Event()
        self._reported = False

    def run(self) -> None:
        """All of a keeper's life."""
        try:
            self._open_log()
            if not (self._folder / MARK).exists():
                self._write(MARK, {"madeBy": "remit", "postgres": self._order.major})
            self._tidy()
            self._initialise()
            self._become_user()
            self._serve()
        except Trouble as trouble:
            with suppress(OSError):
                print(trouble, file=sys.stderr, flush=True)  # noqa: T201 - for the log: a server that came up before has no other reader
            self._report(fact=str(trouble), theirs=trouble.theirs)
        except OSError as error:
            with suppress(OSError):
                traceback.print_exc()
            self._report(fact=plain(error.strerror or ""), theirs=False)
        finally:
            if self._order.runtime:
                shutil.rmtree(self._order.runtime, ignore_errors=True)

    # Before the server.

    def _open_log(self) -> None:
        """What the server says goes to a file; that of the last time is kept."""
        with suppress(FileNotFoundError):
            os.rename(LOG, f"{LOG}.old", src_dir_fd=self._held, dst_dir_fd=self._held)
        file = self._created(LOG)
        os.dup2(file, sys.stderr.fileno())
        os.close(file)

    def _tidy(self) -> None:
        """Removes what a killed keeper and a killed server have left, once the last of their processes is gone."""
        os.close(self._server_lock())
        before = _read(self._folder / RUNTIME).get("runtime")
        with suppress(OSError):
            if before and Path(before).name.startswith("remit-") and os.lstat(before).st_uid == os.fstat(self._held).st_uid:
                shutil.rmtree(before, ignore_errors=True)
        self._write(RUNTIME, {"runtime": self._order.runtime})
        for name in os.listdir(self._held):
            if name.startswith(f"{DATA}.new-"):
                shutil.rmtree(self._folder / name, ignore_errors=True)

    def _server_lock(self) -> int:
        """The whole lock that only processes of a server hold. Raises `Trouble` when one of them does not end."""
        lock = os.open(SERVER, os.O_RDWR | os.O_NOFOLLOW, dir_fd=self._held)
        until = time.monotonic() + self._order.stop_seconds
        while not _taken(lock):
            if sys.platform != "linux":  # there the server ends with its keeper
                with suppress(OSError, ValueError, IndexError):
                    os.kill(self._postmaster()[0], signal.SIGINT)
            if time.monotonic() > until:
                raise Trouble("A server that was left here has not stopped: try again.")
            time.sleep(_NAP)
        return lock

    def _postmaster(self) -> tuple[int, str]:
        """Which process the data folder says serves it, and how far that is. Raises OSError, ValueError or IndexError without one."""
        lines = (self._data / "postmaster.pid").read_text().splitlines()
        return int(lines[0]), (lines[7].strip() if len(lines) > 7 else "")

    def _initialise(self) -> None:
        """Makes the data in a folder beside its place, so that half of it is never taken for the whole."""
        if self._data.exists():
            version = self._data / "PG_VERSION"
            if not version.is_file() or version.read_text().strip() != str(self._order.major):
                raise Trouble("Its data is not of the version that its mark tells: put a copy of the folder in its place.", theirs=True)
            return
        maker, name = self._maker(), f"{DATA}.new-{os.getpid()}"
        os.mkdir(name, 0o700, dir_fd=self._held)
        new = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._held)
        try:
            if maker:
                os.fchown(new, *maker)
            self._make(f"/proc/self/fd/{new}" if maker else str(self._folder / name), maker, new)
            if self._order.user:
                give(new, *self._order.user)
            os.rename(name, DATA, src_dir_fd=self._held, dst_dir_fd=self._held)
            os.fsync(self._held)
        except BaseException:
            shutil.rmtree(self._folder / name, ignore_errors=True)
            raise
        finally:
            os.close(new)

    def _maker(self) -> tuple[int, int] | None:
        """Who makes the data: its user; or, since initdb wants one with a name, an account that no process uses. None for us."""
        if self._order.user is None:
            if not _named(os.geteuid()):
                raise Trouble("initdb wants to know the user's name: add a line for this user to /etc/passwd.")
            return None
        uid, gid = self._order.user
        if _named(uid):
            return uid, gid
        busy = {os.stat(process).st_uid for process in glob("/proc/[0-9]*") if os.path.exists(process)}
        for account in pwd.getpwall():
            if account.pw_uid and account.pw_uid not in busy:
                return account.pw_uid, gid
        raise Trouble("initdb wants a user with a name, and every account is in use: make the folder as an ordinary user.")

    def _make(self, place: str, maker: tuple[int, int] | None, new: int) -> None:
        # Whoever reaches the socket, which lies in a folder for one user, may be any role; nobody comes from elsewhere.
        secure = ("--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--locale=C", "--data-checksums")
        say = f"CREATE DATABASE {OWNER}\n"
        self._run(
            "initdb", f"--pgdata={place}", f"--username={OWNER}", "--no-instructions", "--no-sync", *secure, maker=maker, inherited=new
        )
        self._run("postgres", "--single", "-F", "-D", place, "postgres", say=say, maker=maker, inherited=new)
        if self._order.durable:
            self._run("initdb", f"--pgdata={place}", "--sync-only", maker=maker, inherited=new)

    def _run(self, program: str, *arguments: str, say: str = "", maker: tuple[int, int] | None, inherited: int) -> None:
        manner = self._manner(signal.SIGKILL, inherited)
        if maker:
            manner |= {"user": maker[0], "group": maker[1], "extra_groups": []}
        line = [f"{self._order.bin}/{program}", *arguments]
        told = subprocess.run(line, input=say.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **manner)  # noqa: S603 - as below
        output = told.stdout.decode(errors="replace")
        sys.stderr.write(output)
        sys.stderr.flush()
        # In single-user mode postgres tells what went wrong and ends well.
        if told.returncode or (say and "ERROR:" in output):
            raise Trouble(plain(output))

    def _become_user(self) -> None:
        if self._order.user is None:
            return
        uid, gid = self._order.user
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        if not os.access(self._folder / USERS, os.R_OK):
            raise Trouble("The server's user cannot reach the folder: choose one that is not below a private one.")

    # The server.

    def _serve(self) -> None:
        """Runs the server until nobody uses it. One that is killed is started again, on the same socket."""
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1))
        threading.Thread(target=self._wait_for_the_last_user, daemon=True).start()
        while not self._unused.is_set():
            server = self._launched()
            try:
                if self._comes_up(server):
                    self._write(READY, {"sockets": self._order.sockets, "durable": self._order.durable})
                    self._report()
                    if not _ends_by_itself(server):
                        return
            finally:
                (self._folder / READY).unlink(missing_ok=True)
                self._stop(server)

    def _wait_for_the_last_user(self) -> None:
        users = os.open(USERS, os.O_RDWR, dir_fd=self._held)
        fcntl.flock(users, fcntl.LOCK_EX)
        self._unused.set()
        os.kill(os.getpid(), signal.SIGUSR1)

    def _launched(self) -> subprocess.Popen[bytes]:
        lock = self._server_lock()
        try:
            self._forget_the_dead()
            os.set_inheritable(lock, True)
            line = [f"{self._order.bin}/postgres", "-D", str(self._data)]
            for name, value in self._settings().items():
                line += ["-c", f"{name}={value}"]
            manner = self._manner(signal.SIGINT, lock)
            return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=sys.stderr, **manner)  # noqa: S603 - pip's programs, our words
        finally:
            os.close(lock)

    def _forget_the_dead(self) -> None:
        """Removes the notes of a killed server: the number in them may belong to another process by now, and postgres would not start."""
        if sys.platform == "linux":
            with suppress(OSError, ValueError, IndexError):
                if os.path.samefile(f"/proc/{self._postmaster()[0]}/cwd", self._data):
                    raise Trouble("Another Postgres runs on its data: stop that one.")
            (self._data / "postmaster.pid").unlink(missing_ok=True)
        sockets = Path(self._order.sockets)
        sockets.mkdir(mode=0o700, exist_ok=True)
        for left in sockets.glob(f".s.PGSQL.{PORT}*"):
            left.unlink()

    def _settings(self) -> Mapping[str, object]:
        """What the server is told at its start. No statement and no value of a row is written to the log."""
        settings: dict[str, object] = {
            "listen_addresses": "",
            "unix_socket_directories": '"' + self._order.sockets.replace('"', '""') + '"',
            "unix_socket_permissions": "0700",
            "port": PORT,
            "cluster_name": OWNER,
            "max_connections": self._order.connections,
            "shared_buffers": f"{self._order.shared_megabytes}MB",
            "client_connection_check_interval": f"{round(self._order.client_check_seconds * 1000)}ms",
            "log_destination": "stderr",
            "logging_collector": "off",
            "log_min_error_statement": "panic",
            "log_error_verbosity": "terse",
            "log_checkpoints": "off",
        }
        if sys.platform == "linux":
            # /dev/shm is 64 MB in many containers, and building a vector index side by side needs more.
            settings["dynamic_shared_memory_type"] = "sysv"
        if not self._order.durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        return settings

    def _comes_up(self, server: subprocess.Popen[bytes]) -> bool:
        """Waits until the server takes connections; False when everybody left meanwhile. Raises `Trouble` when it ends instead."""
        while not self._unused.is_set():
            with suppress(OSError, ValueError, IndexError):
                if self._postmaster() == (server.pid, "ready"):
                    return True
            if server.poll() is not None:
                raise Trouble(plain((self._folder / LOG).read_text(errors="replace")))
            time.sleep(_NAP)
        return False

    def _stop(self, server: subprocess.Popen[bytes]) -> None:
        for kind in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            server.send_signal(kind)
            with suppress(subprocess.TimeoutExpired):
                server.wait(self._order.stop_seconds)
                return

    def _manner(self, at_our_end: signal.Signals, *inherited: int) -> dict[str, Any]:
        """How children are run: a plain environment, what they inherit, and the signal they get when the keeper is killed."""
        return {
            "env": {"PATH": self._order.bin, "LC_ALL": "C", "TZ": "UTC"},
            "cwd": "/",
            "pass_fds": (self._held, *inherited),
            "preexec_fn": _ending_with(os.getpid(), at_our_end),
        }

    def _report(self, **what: object) -> None:
        """Tells whoever started the keeper, the first time; from then on nobody listens."""
        if not self._reported:
            with suppress(BrokenPipeError):
                os.write(sys.stdout.fileno(), json.dumps(what).encode())
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
            self._reported = True

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        """Puts a small file in its place at once and whole."""
        with suppress(FileNotFoundError):
            os.unlink(f"{name}.new", dir_fd=self._held)
        with open(self._created(f"{name}.new"), "w") as file:
            json.dump(content, file)
        os.rename(f"{name}.new", name, src_dir_fd=self._held, dst_dir_fd=self._held)

    def _created(self, name: str) -> int:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600, dir_fd=self._held)
        if self._order.user:
            os.fchown(file, *self._order.user)
        return file


def give(folder: int, uid: int, gid: int) -> None:
    """Hands a folder, by its descriptor, and all that is in it over to a user, following no links."""
    for _, folders, files, within in os.fwalk(".", dir_fd=folder):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=within, follow_symlinks=False)
    os.fchown(folder, uid, gid)


def plain(told: str) -> str:
    """What initdb or postgres complained about, in one sentence for who opens the folder."""
    if "No space left on device" in told or "Disk quota exceeded" in told:
        return "The disk is full: make room and try again."
    if "Permission denied" in told or "Operation not permitted" in told or "Read-only file system" in told:
        return "The folder may not be used by the server's user: look at its owner and modes, and at the system's limits on this process."
    complaints = _COMPLAINT.findall(told) or told.strip().splitlines() or ["it did not say why"]
    return f"Postgres did not start: {complaints[-1]} (see {LOG} in the folder)."


def _named(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return False


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ends_by_itself(server: subprocess.Popen[bytes]) -> bool:
    """Sleeps until the server has ended (True), or shall end: nobody uses it, or the keeper is asked to go (False)."""
    while server.poll() is None:
        if signal.sigwait((signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)) != signal.SIGCHLD:
            return False
    return True


def _ending_with(keeper: int, kind: signal.Signals) -> Callable[[], None] | None:
    """Asks the system to send `kind` to the child when the keeper ends, however it ends. Elsewhere the next keeper sees to it."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        prctl(1, int(kind))  # PR_SET_PDEATHSIG
        if os.getppid() != keeper:
            os._exit(1)

    return ask


if __name__ == "__main__":
    # The process that was started ends at once, so that nobody has to wait for its child.
    if os.fork() == 0:
        os.umask(0o077)
        os.chdir("/")
        signal.signal(signal.SIGCHLD, lambda *_: None)
        Keeper(Order(**json.loads(sys.argv[1]))).run()
