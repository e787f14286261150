"""What Remit raises: only for what someone must change. Everything else is an outcome of the answer."""

from __future__ import annotations


class RemitError(Exception):
    """Remit could not do what was asked."""

    def __init__(self, fact: str = "") -> None:
        sentence = (type(self).__doc__ or "").split("\n", 1)[0]
        super().__init__(f"{sentence} {fact}".strip())
        self.fact = fact


class InvalidRequest(RemitError, ValueError):
    """The request cannot be understood as it stands."""

    def __init__(self, field: str, fact: str) -> None:
        super().__init__(f"{field}: {fact}")
        self.field = field


class NotAuthorised(RemitError, PermissionError):
    """The principal may not do this."""


class ConfigError(RemitError, ValueError):
    """The configuration cannot be used as it stands."""


class UnsafeStorage(RemitError):
    """The database role could bypass row security, so nothing was read."""


class StorageUnavailable(RemitError, ConnectionError):
    """The store cannot be used now."""


class UnsoundBatch(RemitError, ValueError):
    """The embedding provider's answer is malformed, so all of it was refused."""

    def __init__(self, code: str, fact: str) -> None:
        super().__init__(fact)
        self.code = code


class ProviderFailed(RemitError, ConnectionError):
    """The provider did not answer."""

    def __init__(self, code: str, fact: str) -> None:
        super().__init__(fact)
        self.code = code


class AuthorityFailed(RemitError):
    """The host's authority did not say what is granted."""


class CounterFailed(RemitError):
    """The host's token counter did not give a count."""
