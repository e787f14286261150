"""The SQLite store: one file, written by one process at a time and read by many, through apsw."""

from remit.pipeline.storage.sqlite.store import SqliteStore, open_sqlite

__all__ = ["SqliteStore", "open_sqlite"]
