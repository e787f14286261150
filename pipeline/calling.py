"""Calling a provider: one bounded request at a time that never leads elsewhere, and whose failure tells nothing but its kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from ssl import SSLError
from typing import Any

import anyio
import httpx2

from remit.pipeline.cooling import CoolDown, CoolRules, stated_seconds
from remit.pipeline.errors import ProviderFailed
from remit.pipeline.outbound import Address
from remit.pipeline.trail import log


class CallFault(StrEnum):
    """Why a provider gave no answer. The list is closed; `ops/runbook.md` explains each."""

    COOLING = "cooling"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_CALLS = "out_of_calls"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    SERVER_UNAVAILABLE = "server_unavailable"
    TEXT_REFUSED = "text_refused"
    NOT_ALLOWED = "not_allowed"
    REDIRECTED = "redirected"
    UNEXPECTED_STATUS = "unexpected_status"


OF_THE_TEXT = frozenset({CallFault.TEXT_REFUSED, CallFault.SERVER_ERROR})
"""What one text among others may have brought about: it says nothing of the provider until no text gets through."""

_STATUSES = {
    400: CallFault.TEXT_REFUSED,
    413: CallFault.TEXT_REFUSED,
    422: CallFault.TEXT_REFUSED,
    401: CallFault.NOT_ALLOWED,
    403: CallFault.NOT_ALLOWED,
    429: CallFault.RATE_LIMITED,
    500: CallFault.SERVER_ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The body of a successful answer, and what it is declared to be. Of one that is too long it is the beginning, too long by a little."""

    body: bytes
    content_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """What went wrong with one call, before it becomes an error: raised where it was caught, it would carry what the library knew."""

    code: CallFault
    stated: float | None = None


class Caller:
    """One provider for everybody in this engine: its connections, its cool-down, and how many calls of a kind go side by side.

    `places` are the calls of each kind that may be under way, `fair_seconds` what a provider has to be given before silence is its fault.
    Follows no redirect, reads no proxy and no netrc from the environment, and keeps within the caller's own deadline.
    """

    def __init__(
        self,
        address: Address,
        *,
        places: Mapping[str, int],
        rules: CoolRules,
        fair_seconds: float,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self.cooling = CoolDown(rules, monotonic)
        self._url = address.url
        self._fair_seconds, self._clock, self._monotonic = fair_seconds, clock, monotonic
        self._places = {kind: anyio.CapacityLimiter(most) for kind, most in places.items()}
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json"}
        if address.key is not None:
            headers["Authorization"] = f"Bearer {address.key}"
        self._client = httpx2.AsyncClient(headers=headers, follow_redirects=False, trust_env=False, timeout=None)

    async def post(self, path: str, payload: Mapping[str, Any], *, kind: str, most_bytes: int, seconds: float) -> Reply:
        """Posts JSON to the address with this path after it. Raises `ProviderFailed`; makes no call while the provider cools down.

        Every failure starts the cool-down, but those that may be the text's own: of these whoever asked has to judge.
        """
        content = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        async with self._places[kind]:
            if self.cooling.left():
                raise ProviderFailed(CallFault.COOLING, "it failed a moment ago and is left alone for a while")
            seconds = min(seconds, anyio.current_effective_deadline() - anyio.current_time())
            if seconds <= 0:
                raise ProviderFailed(CallFault.OUT_OF_TIME, "no time was left to call it")
            told = await self._within(seconds, self._url + path, content, most_bytes)
        if isinstance(told, _Failure):
            log.info("provider_call", code=told.code.value)
            if told.code not in OF_THE_TEXT:
                self.cooling.failed(told.stated)
            raise ProviderFailed(told.code, told.code.value.replace("_", " "))
        return told

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _within(self, seconds: float, url: str, content: bytes, most_bytes: int) -> Reply | _Failure:
        """One call in its time. Cut short by whoever waits for it, it counts as failed when the provider had a fair time to answer."""
        began = self._monotonic()
        told: Reply | _Failure | None = None
        try:
            with anyio.move_on_after(seconds) as time:
                told = await self._called(url, content, most_bytes)
            if time.cancelled_caught and self._monotonic() - began < self._fair_seconds:
                raise ProviderFailed(CallFault.OUT_OF_TIME, "too little time was left to call it")
            return told or _Failure(code=CallFault.TIMED_OUT)
        except anyio.get_cancelled_exc_class():
            if self._monotonic() - began >= self._fair_seconds:
                self.cooling.failed()
            raise

    async def _called(self, url: str, content: bytes, most_bytes: int) -> Reply | _Failure:
        try:
            async with self._client.stream("POST", url, content=content) as response:
                if (failure := self._failure_of(response)) is not None:
                    return failure
                body = bytearray()
                with anyio.CancelScope() as reading:
                    async for piece in response.aiter_raw():
                        body += piece
                        if len(body) > most_bytes:
                            reading.cancel()  # from within: the library's generators, left half-way, would be closed by nobody
                return Reply(body=bytes(body[: most_bytes + 1]), content_type=response.headers.get("content-type"))
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, SSLError, OSError):
            return _Failure(code=CallFault.UNREACHABLE)

    def _failure_of(self, response: httpx2.Response) -> _Failure | None:
        status = response.status_code
        if status == 200 and response.headers.get("content-encoding", "identity").lower() == "identity":
            return None
        if 300 <= status < 400:
            return _Failure(code=CallFault.REDIRECTED)
        code = _STATUSES.get(status, CallFault.SERVER_UNAVAILABLE if status > 500 else CallFault.UNEXPECTED_STATUS)
        return _Failure(code=code, stated=stated_seconds(response.headers.get("retry-after"), self._clock()))
