"""The keeper: a process of its own that runs a folder's Postgres while somebody uses the folder, and stops it after them.

`server.py` starts this file as a script with an `Order` in JSON, so it imports nothing but the standard library. It reports one line of
JSON: `{}` when the server is ready, or what went wrong. Whoever uses the folder holds a share of its lock `users`, which the system takes
back however a process ends; the keeper waits until it gets the whole lock.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
_DAMAGED = "Its data folder is not one of this version: put a copy of it in its place."


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
    """Prepares a folder and serves from it."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._held = os.open(order.folder, os.O_RDONLY | os.O_DIRECTORY)
        # A folder below one that only root may enter, such as root's home, is reached by a descriptor of it, which the server inherits.
        self._folder = Path(f"/proc/self/fd/{self._held}") if order.hidden else Path(order.folder)
        self._data = self._folder / DATA
        self._unused = threading.Event()

    def run(self) -> None:
        """All of a keeper's life."""
        try:
            self._become_user()
            self._open_log()
            self._write(MARK, {"madeBy": "remit", "postgres": self._order.major})
            self._tidy()
            self._initialise()
            self._serve()
        except Trouble as trouble:
            self._report(fact=str(trouble), theirs=trouble.theirs)
        except OSError as error:
            traceback.print_exc()
            self._report(fact=plain(error.strerror or ""), theirs=False)
        finally:
            (self._folder / READY).unlink(missing_ok=True)
            if self._order.runtime:
                shutil.rmtree(self._order.runtime, ignore_errors=True)

    # Before the server.

    def _become_user(self) -> None:
        if self._order.user is None:
            return
        uid, gid = self._order.user
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        except OSError:
            raise Trouble("Postgres refuses root, and another user cannot be taken on here: run this as an ordinary user.") from None
        if not os.access(self._folder / USERS, os.R_OK):
            raise Trouble("The server's user cannot reach the folder: choose one that is not below a private one.")

    def _open_log(self) -> None:
        """What the server says goes to a file; that of the last time is kept."""
        log = self._folder / LOG
        with suppress(FileNotFoundError):
            log.replace(self._folder / f"{LOG}.old")
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, sys.stderr.fileno())
        os.close(file)

    def _tidy(self) -> None:
        """Removes what a killed keeper and a killed server have left, once the last of their processes is gone."""
        os.close(self._server_lock())
        record = self._folder / RUNTIME
        with suppress(OSError, ValueError, KeyError):
            shutil.rmtree(json.loads(record.read_text())["runtime"], ignore_errors=True)
        record.unlink(missing_ok=True)
        if self._order.runtime:
            self._write(RUNTIME, {"runtime": self._order.runtime})
        for left in self._folder.glob(f"{DATA}.new-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _server_lock(self) -> int:
        """The whole lock that only processes of a server hold. Raises `Trouble` when one of them does not end."""
        lock = os.open(self._folder / SERVER, os.O_RDWR | os.O_CREAT, 0o600)
        until = time.monotonic() + self._order.stop_seconds
        while not _taken(lock):
            if sys.platform != "linux":  # there the server ends with its keeper
                self._signal_orphan()
            if time.monotonic() > until:
                raise Trouble("A server that was left here has not stopped: try again.")
            time.sleep(_NAP)
        return lock

    def _signal_orphan(self) -> None:
        with suppress(OSError, ValueError, IndexError):
            os.kill(self._postmaster()[0], signal.SIGINT)

    def _postmaster(self) -> tuple[int, str]:
        """Which process the data folder says serves it, and how far that is. Raises OSError, ValueError or IndexError without one."""
        lines = (self._data / "postmaster.pid").read_text().splitlines()
        return int(lines[0]), (lines[7].strip() if len(lines) > 7 else "")

    def _initialise(self) -> None:
        """Makes the data in a folder beside its place, so that half of it is never taken for the whole."""
        if self._data.exists():
            version = self._data / "PG_VERSION"
            if not version.is_file() or version.read_text().strip() != str(self._order.major):
                raise Trouble(_DAMAGED, theirs=True)
            return
        new = Path(tempfile.mkdtemp(prefix=f"{DATA}.new-", dir=self._folder))
        try:
            quick = () if self._order.durable else ("--no-sync",)
            secure = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions")
            self._run("initdb", f"--pgdata={new}", f"--username={OWNER}", *secure, *quick)
            (new / "pg_hba.conf").write_text("# Whoever reaches the socket, in a folder for its owner only.\nlocal all all trust\n")
            hurried = () if self._order.durable else ("-F",)
            self._run("postgres", "--single", *hurried, "-D", str(new), "postgres", say=f"CREATE DATABASE {OWNER}\n")
            new.rename(self._data)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        os.fsync(self._held)

    def _run(self, program: str, *arguments: str, say: str = "") -> None:
        line = [f"{self._order.bin}/{program}", *arguments]
        told = subprocess.run(
            line,
            input=say,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            **self._manner(signal.SIGKILL),
        )
        sys.stderr.write(told.stdout)
        sys.stderr.flush()
        # In single-user mode postgres reports what went wrong and ends well.
        if told.returncode or (say and "ERROR:" in told.stdout):
            raise Trouble(plain(told.stdout))

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
        users = os.open(self._folder / USERS, os.O_RDWR)
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
            return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=sys.stderr, **self._manner(signal.SIGINT, lock))
        finally:
            os.close(lock)

    def _forget_the_dead(self) -> None:
        """Removes the notes of a killed server: the number in them may belong to another process by now, and postgres would not start."""
        if sys.platform == "linux":
            with suppress(OSError, ValueError):
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
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
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
        if sys.stdout.closed:
            return
        with suppress(BrokenPipeError):
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.close()

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        """Puts a small file in its place at once and whole."""
        new = self._folder / f"{name}.new"
        new.write_text(json.dumps(content))
        new.replace(self._folder / name)


def plain(told: str) -> str:
    """What initdb or postgres complained about, in one sentence for who opens the folder."""
    if "No space left on device" in told or "Disk quota exceeded" in told:
        return "The disk is full: make room and try again."
    if "Permission denied" in told or "Operation not permitted" in told or "Read-only file system" in told:
        return "The folder may not be written by the server's user."
    complaints = _COMPLAINT.findall(told)
    return f"Postgres did not start: {complaints[-1] if complaints else 'its log may say why'} (see {LOG} in the folder)."


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
