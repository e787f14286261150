"""Migrations: numbered SQL files that bring a store to the schema this code knows, each once and in order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from remit.pipeline.errors import StorageUnavailable

_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered file. `checksum` is the SHA-256 of its text with plain line ends, so that a checkout on Windows is the same."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


def read(folder: Path) -> tuple[Migration, ...]:
    """The migrations of a folder, numbered 1, 2, 3 … without a gap. Raises ValueError when they are not."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        named = _FILE.match(path.name)
        if named is None:
            raise ValueError(f"{path.name} is not a migration: it should be called 0001_what_it_does.sql")
        found.append(Migration(number=int(named.group(1)), name=named.group(2), sql="\n".join(path.read_text("utf-8").splitlines())))
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations must be numbered 1, 2, 3 … without a gap")
    return tuple(found)


def pending(files: Sequence[Migration], applied: Mapping[int, str]) -> tuple[Migration, ...]:
    """The migrations a store still needs, given the numbers and checksums of those it had.

    Raises `StorageUnavailable` for a store that is newer than this code, or whose schema did not come from these files.
    """
    checksums = {each.number: each.checksum for each in files}
    if applied.keys() - checksums.keys():
        raise StorageUnavailable("It was written by a newer Remit: upgrade Remit to open it. Nothing was changed.")
    if sorted(applied) != list(range(1, len(applied) + 1)) or any(checksums[number] != sum_ for number, sum_ in applied.items()):
        raise StorageUnavailable("Its schema did not come from this Remit: export from the one that wrote it. Nothing was changed.")
    return tuple(each for each in files if each.number not in applied)
