"""Freshness of origins: who looks again at what a memory came from, and for how long a look may be used again."""

from remit.pipeline.freshness.files import FileChecker
from remit.pipeline.freshness.reuse import Reuse
from remit.pipeline.freshness.sql import Query, QueryChecker, SqliteQuery
from remit.pipeline.freshness.watch import Check, Watch

# `web` is imported where hosts are allowed, because it needs the extra `remote`.
__all__ = ["Check", "FileChecker", "Query", "QueryChecker", "Reuse", "SqliteQuery", "Watch"]
