"""Checking: what is wrong with a SQLite store as it stands, and what it can do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import apsw

from remit.pipeline.storage.sqlite.line import reading, rows, value
from remit.pipeline.storage.store import Fault

SIGNATURE = "analyser"
IDENTITY = "identity"

LARGE_LOG = 256 << 20
"""Bytes of a log that is emptied every few megabytes, unless somebody keeps it from that."""

_RESTORE = "put a copy of the file in its place, or export what can be read"
_REINDEX = "run `remit init`: it makes the indexes again"
_CARRY = "export, and import into a new store"

_DISAGREEMENTS = {
    "missing_postings": "passages whose words are not all in the index",
    "orphan_postings": "places of words that belong to no passage as it stands",
    "missing_vectors": "passages whose vector is gone",
    "orphan_vectors": "vectors that belong to no passage as it stands",
    "missing_phrases": "passages that the phrase index does not know",
    "orphan_phrases": "rows of the phrase index that belong to no passage",
    "miscounted_shelves": "shelves whose counters are wrong",
    "miscounted_vectors": "counters of vectors that are wrong",
    "miscounted_words": "words of the vocabulary that are counted wrongly",
    "orphan_past": "rows of histories, tags and descents that belong to no memory",
}


def facts(db: apsw.Connection, sql: Mapping[str, str]) -> dict[str, str]:
    return {
        "store": "sqlite",
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "size": _megabytes(value(db, "PRAGMA page_count") * value(db, "PRAGMA page_size")),
        "journal": str(value(db, "PRAGMA journal_mode")),
        "writable": "no" if db.readonly("main") else "yes",
        "log": _megabytes(_log_bytes(db)),
        "migrations": str(len(rows(db, sql["applied"]))),
        "analyser": str(value(db, sql["setting"], {"name": SIGNATURE})),
    }


def faults(db: apsw.Connection, sql: Mapping[str, str], signature: str) -> list[Fault]:
    """All that is wrong; looks at every row, so it takes a while on a large store."""
    return [*_keeping(db), *_damage(db), *_phrases(db, sql), *_disagreements(db, sql), *_analyser(db, sql, signature)]


def _keeping(db: apsw.Connection) -> Iterator[Fault]:
    mode, log = value(db, "PRAGMA journal_mode"), _log_bytes(db)
    if mode != "wal":
        detail = f"the journal is kept in the mode {mode}, so that who writes stops who reads"
        yield Fault(code="no_log", detail=detail, fix="see what changed it, stop that, and open the store again")
    if log > LARGE_LOG:
        fix = "end what reads from it for long: the log is emptied at the next write after that"
        yield Fault(code="large_log", detail=f"the log has grown to {_megabytes(log)}", fix=fix)


def _log_bytes(db: apsw.Connection) -> int:
    try:
        return os.stat(f"{db.filename}-wal").st_size
    except FileNotFoundError:
        return 0


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def _damage(db: apsw.Connection) -> Iterator[Fault]:
    try:
        said = [str(row[0]) for row in db.execute("PRAGMA quick_check")]
    except apsw.CorruptError:
        said = ["malformed"]
    if said != ["ok"]:
        yield Fault(code="damaged_file", detail="the file's pages are damaged", fix=_RESTORE)


def _phrases(db: apsw.Connection, sql: Mapping[str, str]) -> Iterator[Fault]:
    if db.readonly("main"):
        return  # FTS5 is asked to check itself by a write
    try:
        db.execute(sql["check_phrases"])
    except apsw.CorruptError:
        yield Fault(code="damaged_phrases", detail="the phrase index is damaged", fix=_REINDEX)


def _disagreements(db: apsw.Connection, sql: Mapping[str, str]) -> Iterator[Fault]:
    with reading(db):
        for name, told in _DISAGREEMENTS.items():
            try:
                number = value(db, sql[name])
            except apsw.CorruptError:
                yield Fault(code=name, detail=f"cannot be counted: {told}", fix=_RESTORE)
                continue
            if number:
                yield Fault(code=name, detail=f"{number} {told}", fix=_CARRY if name == "orphan_past" else _REINDEX)


def _analyser(db: apsw.Connection, sql: Mapping[str, str], signature: str) -> Iterator[Fault]:
    if value(db, sql["setting"], {"name": SIGNATURE}) != signature:
        yield Fault(code="other_analyser", detail="the words were made by another analyser than the configured one", fix=_REINDEX)
