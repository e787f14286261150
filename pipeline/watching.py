"""Watching: the checks of an engine by URI scheme, from its config and from its host, as one watch."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from remit.pipeline.config import Config, Freshness
from remit.pipeline.errors import ConfigError
from remit.pipeline.freshness import Check, FileChecker, Query, QueryChecker, Reuse, Watch


def watch_of(settings: Config, files: FileChecker, checkers: Mapping[str, Check], queries: Mapping[str, Query]) -> Watch:
    """`file:` always, `http(s):` when hosts are allowed, `sql:` when the host names queries; the host's own checkers win."""
    freshness = settings.freshness
    reuse = Reuse(seconds=freshness.reuse_seconds, deny_seconds=freshness.deny_seconds, most=freshness.reuse_most, clock=monotonic)
    checks = {"file": files, **_pages(freshness), **_named(queries, freshness), **checkers}
    return Watch(checks, workers=freshness.workers, check_seconds=freshness.check_seconds, reuse=reuse)


def _pages(freshness: Freshness) -> dict[str, Check]:
    if not freshness.hosts:
        return {}
    try:
        from remit.pipeline.freshness.web import WebChecker
    except ImportError:
        raise ConfigError("freshness.hosts: looking at web pages needs the extra `remote`.") from None
    pages = WebChecker(freshness.hosts, networks=freshness.networks, redirects=freshness.redirects, most_bytes=freshness.most_bytes)
    return {"http": pages, "https": pages}


def _named(queries: Mapping[str, Query], freshness: Freshness) -> dict[str, Check]:
    return {"sql": QueryChecker(queries, most_bytes=freshness.most_bytes, threads=freshness.workers)} if queries else {}
