"""Outbound: which orgs let their text leave this process for a provider, and where providers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from remit.pipeline.config import OutboundSettings
from remit.pipeline.errors import ConfigError

EMBEDDINGS_URL, EMBEDDINGS_KEY = "REMIT_EMBEDDINGS_URL", "REMIT_EMBEDDINGS_KEY"
RERANKING_URL, RERANKING_KEY = "REMIT_RERANKING_URL", "REMIT_RERANKING_KEY"


class Outward(StrEnum):
    """A way by which text leaves."""

    EMBEDDING = "embedding"
    RERANKING = "reranking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """The orgs whose text may go each way, by their whole names; `None` is every org."""

    embedding: frozenset[str] | None = frozenset()
    reranking: frozenset[str] | None = frozenset()

    @classmethod
    def of(cls, settings: OutboundSettings) -> Outbound:
        return cls(embedding=_orgs(settings.embedding_orgs), reranking=_orgs(settings.reranking_orgs))

    def allows(self, way: Outward, org: str) -> bool:
        orgs = self.embedding if way is Outward.EMBEDDING else self.reranking
        return orgs is None or org in orgs


def _orgs(stated: Literal["*"] | Sequence[str]) -> frozenset[str] | None:
    return None if stated == "*" else frozenset(stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a provider is, without a slash at the end, and the key it wants. Neither is shown."""

    url: str = field(repr=False)
    key: str | None = field(repr=False, default=None)


def address(url: str, key: str, environment: Mapping[str, str]) -> Address:
    """The address that these two variables of the environment state; `url` is the base that `/embeddings` or `/rerank` comes after.

    Raises `ConfigError`, which names the variable and never its value. A key is not sent in the clear, unless to this machine itself.
    """
    stated, secret = environment.get(url, "").strip(), environment.get(key, "").strip() or None
    if not stated:
        raise ConfigError(f"${url}: must hold the provider's address")
    if (fault := _fault_of(stated)) is not None:
        raise ConfigError(f"${url}: {fault}")
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise ConfigError(f"${key}: holds characters that no header can carry")
    if secret is not None and urlsplit(stated).scheme == "http" and not _is_this_machine(urlsplit(stated).hostname):
        raise ConfigError(f"${url}: must be https, because ${key} would be sent in the clear")
    return Address(url=stated.rstrip("/"), key=secret)


def _fault_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no address"
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or any(map(str.isspace, url)):
        return "must be an http or https address"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or a password: keys have a variable of their own"
    return "must have no query and no fragment" if parts.query or parts.fragment else None


def _is_this_machine(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False
