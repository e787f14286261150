"""Sealing: the secret that an engine signs with, and a key of its own for each thing that is signed."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_bytes

from remit.pipeline.errors import ConfigError

SECRET = "REMIT_SECRET"  # noqa: S105 - the name of the variable, not what it holds

LEAST_BYTES = 32
"""As many as HMAC-SHA256 gives: a shorter secret would be the easier thing to guess."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What an engine signs with. Only a `lasting` one is known to other processes, and to this one after it was started again."""

    secret: bytes = field(repr=False)
    lasting: bool

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Seal:
        """The secret of the environment, or one that dies with the engine. Raises `ConfigError` for one that is too short."""
        stated = os.fsencode(environment.get(SECRET, ""))
        if not stated:
            return cls(token_bytes(LEAST_BYTES), lasting=False)
        if len(stated) < LEAST_BYTES:
            raise ConfigError(f"{SECRET}: has {len(stated)} bytes, at least {LEAST_BYTES} are needed")
        return cls(stated, lasting=True)

    def key(self, purpose: str) -> bytes:
        """A key for one purpose, which tells nothing of the secret and of other keys."""
        return hmac.digest(self.secret, purpose.encode(), "sha256")


def sealed(key: bytes, content: bytes) -> bytes:
    """The seal on some content: HMAC-SHA256, 32 bytes."""
    return hmac.digest(key, content, "sha256")


def unbroken(key: bytes, content: bytes, seal: bytes) -> bool:
    """Whether a seal is that of the content, compared in constant time."""
    return hmac.compare_digest(sealed(key, content), seal)
