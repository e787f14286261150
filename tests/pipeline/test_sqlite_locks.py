"""A process that opens a store twice keeps the locks of the first: POSIX would drop them with any other descriptor of the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from remit.pipeline import Fact, Principal, Request, open_engine
from remit.pipeline.freshness.files import FileChecker
from remit.pipeline.storage import held
from remit.stages.evidence import Origin

LOCKED = """
import fcntl, os, struct, sys
file = os.open(sys.argv[1], os.O_RDWR)
asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0x40000000, 1024, 0)
print(struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)
"""
"""Whether another process has a lock where SQLite keeps those of a database that is in use."""

ME = Principal(actor="me", org="local", scopes="*")


def locked(path: Path) -> bool:
    return subprocess.run([sys.executable, "-c", LOCKED, str(path)], capture_output=True, text=True, check=True).stdout == "True\n"


async def test_opening_a_store_again_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "remit.db"
    async with open_engine(f"sqlite:{path}") as first:
        await first.remember([Fact(id="f1", text="the lighthouse is lit")], ME)
        assert locked(path)
        async with open_engine(f"sqlite:{path}") as second:
            assert [card.id for card in (await second.recall(Request(query="lighthouse"), ME)).data] == ["f1"]
        assert locked(path)
    assert not held.is_held(path.stat())


async def test_a_file_check_never_opens_a_store_that_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "remit.db"
    origin = Origin(uri=path.as_uri())
    async with open_engine(f"sqlite:{path}"):
        assert locked(path)
        assert (await FileChecker([str(tmp_path)], most_bytes=10**9, threads=1).resolved(origin, "acme")).sha256 is None
        assert locked(path)
    assert (await FileChecker([str(tmp_path)], most_bytes=10**9, threads=1).resolved(origin, "acme")).sha256 is not None
