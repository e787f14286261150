"""The look at a page: its validator or its bytes, on hosts that are allowed and at addresses that were checked."""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import anyio
import httpx2

from remit.pipeline.errors import ConfigError
from remit.stages.access import Access
from remit.stages.evidence import Memory, Origin, Verdict

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

PORTS = {"http": 80, "https": 443}
CARRIES_IPV4 = ip_network("64:ff9b::/96")
"""Where translators put IPv4 addresses (RFC 6052): the last four bytes are what is really reached."""

HOST = re.compile(r"(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::[1-9]\d*)?")
ETAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e]*")')
DATE = re.compile(r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT")
"""How Last-Modified is written (RFC 9110). An origin's `version` of any other form is no validator."""


class WebChecker:
    """The check for `http:` and `https:` origins: the page still has the validator that the origin's `version` states, else its SHA-256.

    A page is asked for without credentials, cookies or proxies, and only on `hosts` (names or addresses, at the scheme's own port or at
    a `host:port`). Every address of the host must be public or inside `networks`, and the one connected to is one of those that were
    checked. At most `redirects` are followed, on the same host and never from https to http. A body is read only to hash it, and only
    up to `most_bytes`. There is no time limit but the caller's. Raises `ConfigError` for a host or network that is none, and in a look
    what the network raises.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        *,
        networks: Iterable[str] = (),
        redirects: int,
        most_bytes: int,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        places = [place for host in hosts for place in places_named(host)]
        self._places = frozenset(places)
        self._networks = [network_named(each) for each in (*networks, *(host for _, host, _ in places if is_address(host)))]
        self._redirects = redirects
        self._most_bytes = most_bytes
        self._resolve = resolve or addresses_of
        self._tls = tls or httpx2.create_ssl_context(trust_env=False)

    async def __call__(self, memory: Memory, _access: Access, /) -> Verdict:
        if memory.origin is None:
            return Verdict.UNVERIFIED
        url = self._allowed(memory.origin.uri)
        if url is None:
            return Verdict.INACCESSIBLE
        addresses = [ip_address(each) for each in await self._resolve(*place_of(url)[1:])]
        if not all(map(self._may_be_reached, addresses)):
            return Verdict.INACCESSIBLE
        return await self._looked_at(url, addresses, memory.origin)

    async def _looked_at(self, url: httpx2.URL, addresses: Sequence[Address], origin: Origin) -> Verdict:
        for _ in range(self._redirects + 1):
            async with self._answer(url, addresses, etag_of(origin.version)) as answer:
                if not answer.has_redirect_location:
                    return await judged(answer, origin, self._most_bytes)
                following = self._followed(url, answer.headers["location"])
            if following is None:
                return Verdict.INACCESSIBLE
            url = following
        return Verdict.UNVERIFIED

    @asynccontextmanager
    async def _answer(self, url: httpx2.URL, addresses: Sequence[Address], etag: str | None) -> AsyncIterator[httpx2.Response]:
        """The beginning of what the first of the addresses that can be reached answers, of whatever status.

        The name goes into the Host header and into the TLS handshake, and the certificate is checked for it; the connection itself is
        made to the address, and used once: so it is never one that was made for another name.
        """
        headers = {"Host": url.netloc.decode("ascii"), "User-Agent": "remit", "Accept": "*/*", "Accept-Encoding": "identity"}
        headers |= {"Connection": "close"} | ({"If-None-Match": etag} if etag else {})
        name = {"sni_hostname": place_of(url)[1]}
        async with httpx2.AsyncHTTPTransport(verify=self._tls, trust_env=False) as transport:
            for address in addresses:
                request = httpx2.Request("GET", url.copy_with(host=str(address)), headers=headers, extensions=name)
                try:
                    answer = await transport.handle_async_request(request)
                except httpx2.ConnectError:
                    if address is addresses[-1]:
                        raise
                else:
                    break
            else:
                raise OSError("the host has no address")
            try:
                yield answer
            finally:
                await answer.aclose()

    def _allowed(self, uri: str) -> httpx2.URL | None:
        try:
            url = httpx2.URL(uri)
        except (httpx2.InvalidURL, ValueError):
            return None
        return url if not url.userinfo and place_of(url) in self._places else None

    def _followed(self, url: httpx2.URL, location: str) -> httpx2.URL | None:
        try:
            following = self._allowed(str(url.join(location)))
        except (httpx2.InvalidURL, ValueError):
            return None
        if following is None or following.raw_host != url.raw_host or (url.scheme, following.scheme) == ("https", "http"):
            return None
        return following

    def _may_be_reached(self, address: Address) -> bool:
        return is_public(address) or any(address in network for network in self._networks)


async def judged(answer: httpx2.Response, origin: Origin, most_bytes: int) -> Verdict:
    """What a page's answer says of an origin. Another validator means changed, unless the bytes are known and are still the same."""
    if answer.status_code in (404, 410):
        return Verdict.MISSING
    if answer.status_code in (401, 403, 407, 451):
        return Verdict.INACCESSIBLE
    stated, now = etag_of(origin.version), etag_of(answer.headers.get("etag"))
    if answer.status_code == 304:
        return Verdict.FRESH if stated else Verdict.UNVERIFIED
    if answer.status_code not in (200, 203):
        return Verdict.UNVERIFIED
    if stated is None and origin.version is not None and DATE.fullmatch(origin.version):
        # Compared and not asked for: what was "not modified since" may also be an older page that was put back.
        stated, now = origin.version, answer.headers.get("last-modified")
    if stated is not None and now is not None and bare(stated) == bare(now):
        return Verdict.FRESH
    if origin.sha256 is not None:
        found = await digest(answer, most_bytes)
        return Verdict.UNVERIFIED if found is None else Verdict.FRESH if found == origin.sha256.lower() else Verdict.CHANGED
    return Verdict.CHANGED if stated and now else Verdict.UNVERIFIED


async def digest(answer: httpx2.Response, most_bytes: int) -> str | None:
    """SHA-256 of a body as it comes, lower-case hex; None when it is above `most_bytes`, or packed, which nobody asked for."""
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        return None
    if int(answer.headers.get("content-length", "0")) > most_bytes:
        return None
    seen, hashed = 0, hashlib.sha256()
    with anyio.CancelScope() as enough:
        async for chunk in answer.aiter_raw():
            seen += len(chunk)
            hashed.update(chunk)
            if seen > most_bytes:
                enough.cancel()  # leaving the loop instead would leave the generators inside the library half way
    return None if seen > most_bytes else hashed.hexdigest()


def etag_of(text: str | None) -> str | None:
    """The text, if it is an entity tag; two are compared without their mark of weakness, as the request does."""
    return text if text is not None and ETAG.fullmatch(text) else None


def bare(validator: str) -> str:
    return validator.removeprefix("W/")


def place_of(url: httpx2.URL) -> tuple[str, str, int]:
    """Scheme, host (IDNA, lower case) and port."""
    return url.scheme, url.raw_host.decode("ascii"), url.port or PORTS.get(url.scheme, 0)


def places_named(host: str) -> list[tuple[str, str, int]]:
    """The places that `example.com` or `example.com:8443` stands for, over http and https. Raises `ConfigError` when it is no host."""
    try:
        url = httpx2.URL(f"http://{host}")
    except (httpx2.InvalidURL, ValueError):
        url = httpx2.URL()
    named = url.netloc.decode("ascii")
    if not HOST.fullmatch(named) or str(url) != f"http://{named}":
        raise ConfigError(f"freshness.hosts: {host!r} is no host or host:port")
    return [(scheme, place_of(url)[1], url.port or port) for scheme, port in PORTS.items()]


def network_named(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise ConfigError(f"freshness.networks: {text!r} is no address or network") from None


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: Address) -> bool:
    """Whether it is a public host's: not private, local to a link or to this machine, shared, reserved, multicast or a wrapping of one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address in CARRIES_IPV4:
            return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
        if address.sixtofour is not None or address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


async def addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a host, best first. Raises `OSError` when it has none."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))
