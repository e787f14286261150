"""Freshness of pages: validators and bytes, seen only on allowed hosts, at checked addresses, within bounds."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream

from remit.pipeline.errors import ConfigError
from remit.pipeline.freshness import Watch
from remit.pipeline.freshness.web import WebChecker, addresses_of, is_public
from remit.stages.access import Access, Label, Shelf
from remit.stages.evidence import Memory, MemoryId, Origin, PassageId, Verdict
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ACCESS = Access(actor="ada", org="acme", granted=None, as_of=NOW)
BODY = b"a page about deploys"
SHA = hashlib.sha256(BODY).hexdigest()
DATE = "Mon, 30 Nov 2026 08:00:00 GMT"
LATER = "Mon, 30 Nov 2026 09:00:00 GMT"
CERTIFICATE = Path(__file__).with_name("page_test.pem")
"""Of `page.test`, signed by itself until 2120; its key is no secret."""

TRUSTS_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

Page = bytes | Callable[[ByteStream], Awaitable[None]]


def page(status: str = "200 OK", body: bytes = BODY, **headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Site:
    """A real server on this machine: what it has at which path, and the requests that came."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages, self.requests, self.port = dict(pages), list[str](), 0

    async def serve(self, stream: ByteStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive()
        self.requests.append(head.decode())
        answer = self.pages.get(head.split()[1].decode(), page("404 Not Found"))
        await (stream.send(answer) if isinstance(answer, bytes) else answer(stream))

    def of(self, path: str, *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def site(tls: ssl.SSLContext | None = None, **pages: Page) -> AsyncIterator[Site]:
    served = Site({f"/{name}": answer for name, answer in pages.items()})

    async def handle(stream: ByteStream) -> None:
        try:
            secured = await TLSStream.wrap(stream, server_side=True, ssl_context=tls, standard_compatible=False) if tls else stream
            await served.serve(secured)
        except (ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream):
            pass  # a client may go when it has seen enough, or does not trust us
        finally:
            with anyio.CancelScope(shield=True):
                await stream.aclose()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        served.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
        tasks.start_soon(listener.serve, handle)
        yield served
        tasks.cancel_scope.cancel()


def answering(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def checker(*hosts: str, **changes: Any) -> WebChecker:
    return WebChecker(hosts, **{"redirects": 2, "most_bytes": 1000, "tls": TRUSTS_NOBODY} | changes)


def memory(uri: str, version: str | None = None, sha256: str | None = None) -> Memory:
    return Memory(
        passage=PassageId(MemoryId(Source.DOC, "d1"), 0),
        version=1,
        label=Label(shelf=Shelf(org="acme", source=Source.DOC)),
        title="",
        text="",
        created_at=NOW,
        origin=Origin(uri=uri, version=version, sha256=sha256),
    )


async def verdict(check: WebChecker, uri: str, version: str | None = None, sha256: str | None = None, seconds: float = 60) -> Verdict:
    """As a recall gets it: through the watch, which makes a fault of the network an unverified memory."""
    watch = Watch({"http": check, "https": check}, workers=2, check_seconds=seconds)
    (found,) = (await watch.still_true([memory(uri, version, sha256)], ACCESS)).values()
    assert isinstance(found, Verdict)
    return found


async def seen(answer: Page, version: str | None = None, sha256: str | None = None) -> Verdict:
    """What is said of a page that answers so."""
    async with site(page=answer) as served:
        return await verdict(checker(f"127.0.0.1:{served.port}"), served.of("/page"), version, sha256)


# Validators and bytes


@pytest.mark.parametrize(
    "stated, now, expected",
    [
        ('"v1"', '"v1"', Verdict.FRESH),
        ('"v1"', 'W/"v1"', Verdict.FRESH),
        ('W/"v1"', '"v1"', Verdict.FRESH),
        ('"v1"', '"v2"', Verdict.CHANGED),
        ('"v1"', '"V1"', Verdict.CHANGED),
        ('"v1"', "v1", Verdict.UNVERIFIED),
        ("v1", "v1", Verdict.UNVERIFIED),
        ('"', '"', Verdict.UNVERIFIED),
        ('"v1"\r\nX-Y: z', '"v1"', Verdict.UNVERIFIED),
        ('"v\ud800"', '"v1"', Verdict.UNVERIFIED),
    ],
)
async def test_a_page_is_fresh_while_its_entity_tag_is_the_stated_one(stated: str, now: str, expected: Verdict) -> None:
    assert await seen(page(ETag=now), stated) is expected


async def test_a_server_that_says_not_modified_is_believed_only_when_it_was_asked() -> None:
    assert await seen(page("304 Not Modified", b""), '"v1"') is Verdict.FRESH
    assert await seen(page("304 Not Modified", b""), DATE) is Verdict.UNVERIFIED
    assert await seen(page("304 Not Modified", b""), None, SHA) is Verdict.UNVERIFIED


@pytest.mark.parametrize("now, expected", [(DATE, Verdict.FRESH), (LATER, Verdict.CHANGED)])
async def test_a_page_is_fresh_while_it_was_last_modified_as_stated(now: str, expected: Verdict) -> None:
    assert await seen(page(Last_Modified=now), DATE) is expected


async def test_an_older_page_that_was_put_back_is_changed() -> None:
    assert await seen(page(Last_Modified=DATE), LATER) is Verdict.CHANGED


async def test_a_validator_that_the_page_no_longer_tells_is_unverified() -> None:
    assert await seen(page(), '"v1"') is Verdict.UNVERIFIED
    assert await seen(page(), DATE) is Verdict.UNVERIFIED


@pytest.mark.parametrize("version", [None, '"v1"', DATE, "2026-11-30", "v1"])
async def test_the_bytes_decide_where_no_validator_is_the_same(version: str | None) -> None:
    now = page(ETag='"v2"', Last_Modified=LATER)

    assert await seen(now, version, SHA.upper()) is Verdict.FRESH
    assert await seen(now, version, "0" * 64) is Verdict.CHANGED


async def test_a_validator_that_is_the_same_spares_the_body() -> None:
    async def never_ends(stream: ByteStream) -> None:
        await stream.send(b'HTTP/1.1 200 OK\r\nETag: "v1"\r\nContent-Length: 900\r\n\r\n')
        await anyio.sleep_forever()

    assert await seen(never_ends, '"v1"', "0" * 64) is Verdict.FRESH


async def test_without_a_validator_and_a_hash_a_page_is_unverified_but_its_loss_is_seen() -> None:
    assert await seen(page(ETag='"v1"')) is Verdict.UNVERIFIED
    assert await seen(page("404 Not Found")) is Verdict.MISSING


@pytest.mark.parametrize(
    "status, expected",
    [
        *((each, Verdict.MISSING) for each in ("404 Not Found", "410 Gone")),
        *((each, Verdict.INACCESSIBLE) for each in ("401 Unauthorized", "403 Forbidden", "407 Proxy", "451 Unavailable For Legal Reasons")),
        *((each, Verdict.UNVERIFIED) for each in ("204 No Content", "206 Partial Content", "300 Multiple", "302 Found")),
        *((each, Verdict.UNVERIFIED) for each in ("400 Bad", "408 Late", "418 Teapot", "429 Too Many", "500 Oops", "503 Busy", "599 Odd")),
    ],
)
async def test_a_status_is_a_verdict_whatever_the_bytes(status: str, expected: Verdict) -> None:
    body = b"" if status.startswith("204") else BODY

    assert await seen(page(status, body, ETag='"v1"'), '"v1"', SHA) is expected


# Faults and bounds


async def refuses(stream: ByteStream) -> None:
    await stream.aclose()


async def ends_early(stream: ByteStream) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + BODY)


@pytest.mark.parametrize(
    "answer",
    [
        refuses,
        ends_early,
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000 + b"\r\n\r\n",
        page(Content_Encoding="gzip"),
        page(body=bytes(1001)),
    ],
    ids=range(9),
)
async def test_an_answer_that_is_none_is_unverified(answer: Page) -> None:
    assert await seen(answer, None, SHA) is Verdict.UNVERIFIED


async def test_a_body_is_hashed_up_to_the_most_bytes_and_not_one_beyond() -> None:
    async def endless(stream: ByteStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await stream.send(b"64\r\n" + bytes(100) + b"\r\n")

    assert await seen(page(body=bytes(1000)), None, hashlib.sha256(bytes(1000)).hexdigest()) is Verdict.FRESH
    assert await seen(endless, None, SHA) is Verdict.UNVERIFIED


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
async def test_a_page_that_never_comes_is_unverified_in_its_own_time(begin: bytes) -> None:
    ended = anyio.Event()

    async def hangs(stream: ByteStream) -> None:
        await stream.send(begin or b"H")
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            ended.set()

    async with site(page=hangs) as served:
        assert await verdict(checker(f"127.0.0.1:{served.port}"), served.of("/page"), None, SHA, seconds=0.2) is Verdict.UNVERIFIED
        with anyio.fail_after(10):
            await ended.wait()  # no connection is left behind


async def test_a_host_that_nobody_serves_is_unverified() -> None:
    async with site() as served:
        gone = served.port

    assert await verdict(checker(f"127.0.0.1:{gone}"), f"http://127.0.0.1:{gone}/", None, SHA) is Verdict.UNVERIFIED


async def test_what_is_sent_holds_no_credentials_and_names_the_host() -> None:
    async with site(page=page()) as served:
        await verdict(checker(f"127.0.0.1:{served.port}"), served.of("/page?a=%20b#part"), '"v1"')

    (request,) = served.requests
    lines = request.strip().split("\r\n")
    assert lines[0] == "GET /page?a=%20b HTTP/1.1"
    assert {line.partition(":")[0].lower() for line in lines[1:]} == {
        "host", "user-agent", "accept", "accept-encoding", "connection", "if-none-match",
    }  # fmt: skip
    assert f"Host: 127.0.0.1:{served.port}" in lines


# Where a look may go


@pytest.mark.parametrize(
    "uri",
    [
        "http://other.test/",
        "http://page.test:81/",
        "http://sub.page.test/",
        "http://page.test.evil.test/",
        "http://evil-page.test/",
        "http://page.test./",
        "http://page.test@other.test/",
        "http://other.test\\@page.test/",
        "http://ada:secret@page.test/",
        "http://ada@page.test/",
        "http://%70age.test/",
        "http://ｐage.test\u3002x/",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http:page.test/",
        "http:///page.test",
        "http://",
        "http:",
        "http://page.test:99999/",
        "http://page.test/\ud800",
        "http://page.test\x00/",
    ],
)
async def test_another_host_than_the_allowed_one_is_inaccessible_and_never_resolved(uri: str) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    assert await verdict(checker("page.test", resolve=resolve), uri, '"v1"') is Verdict.INACCESSIBLE
    assert asked == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",  # noqa: S104 - what must not be reached
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "fc00::1",
        "fe80::1",
        "fe80::1%lo",
        "fec0::1",
        "ff02::1",
    ],
)
async def test_an_allowed_name_leads_to_no_address_that_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))
    for addresses in ([address], ["8.8.8.8", address], [address, "8.8.8.8"]):
        assert await verdict(checker("page.test", resolve=answering(*addresses)), "http://page.test/", '"v1"') is Verdict.INACCESSIBLE


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


async def test_a_private_address_is_reached_when_its_network_is_listed() -> None:
    async with site(page=page(ETag='"v1"')) as served:
        uri, host = served.of("/page", host="page.test"), f"page.test:{served.port}"
        for networks, expected in ((["127.0.0.0/8"], Verdict.FRESH), (["10.0.0.0/8", "::1"], Verdict.INACCESSIBLE)):
            assert await verdict(checker(host, networks=networks, resolve=answering("127.0.0.1")), uri, '"v1"') is expected

    assert [f"Host: {host}" in request for request in served.requests] == [True]


async def test_the_address_that_is_connected_to_is_the_one_that_was_checked() -> None:
    """A name that leads elsewhere each time it is asked: it is asked once."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return next(answers)

    async with site(page=page("302 Found", Location="/there"), there=page(ETag='"v1"')) as served:
        check = checker(f"page.test:{served.port}", networks=["127.0.0.1"], resolve=rebinding)
        assert await verdict(check, served.of("/page", host="page.test"), '"v1"') is Verdict.FRESH

    assert list(answers) == [["10.0.0.1"], ["10.0.0.1"]]


async def test_an_address_that_nobody_answers_at_is_followed_by_the_next() -> None:
    async with site(page=page(ETag='"v1"')) as served:
        check = checker(f"page.test:{served.port}", networks=["127.0.0.0/8"], resolve=answering("127.0.0.2", "127.0.0.1"))
        assert await verdict(check, served.of("/page", host="page.test"), '"v1"') is Verdict.FRESH


@pytest.mark.parametrize("resolve", [answering(), None])
async def test_a_name_without_an_address_is_unverified(resolve: Any) -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    assert await verdict(checker("page.test", resolve=resolve or unknown), "http://page.test/", '"v1"') is Verdict.UNVERIFIED


async def test_an_address_is_its_own_and_by_itself_this_machine_is_asked_for_them() -> None:
    assert await addresses_of("127.0.0.1", 80) == ["127.0.0.1"]
    async with site(page=page(ETag='"v1"')) as served:
        check = WebChecker([f"127.0.0.1:{served.port}"], redirects=0, most_bytes=0)
        assert await verdict(check, served.of("/page"), '"v1"') is Verdict.FRESH


# Redirects


@pytest.mark.parametrize(
    "location, expected",
    [
        ("/there", Verdict.FRESH),
        ("there", Verdict.FRESH),
        ("//127.0.0.1:{port}/there", Verdict.FRESH),
        ("http://127.0.0.1:{port}/there", Verdict.FRESH),
        ("http://127.0.0.1:{port}/page", Verdict.UNVERIFIED),
        ("http://127.0.0.1:{port}/gone", Verdict.MISSING),
        ("http://127.0.0.1/there", Verdict.INACCESSIBLE),
        ("http://localhost:{port}/there", Verdict.INACCESSIBLE),
        ("http://other.test:{port}/there", Verdict.INACCESSIBLE),
        ("http://a:b@127.0.0.1:{port}/there", Verdict.INACCESSIBLE),
        ("//other.test/there", Verdict.INACCESSIBLE),
        ("file:///etc/passwd", Verdict.INACCESSIBLE),
        ("http://[", Verdict.INACCESSIBLE),
    ],
)
async def test_a_redirect_is_followed_on_the_same_host_only(location: str, expected: Verdict) -> None:
    async with site(there=page(ETag='"v1"')) as served:
        served.pages["/page"] = page("301 Moved", Location=location.format(port=served.port))
        check = checker(f"127.0.0.1:{served.port}", f"localhost:{served.port}", f"other.test:{served.port}")
        assert await verdict(check, served.of("/page"), '"v1"') is expected


@pytest.mark.parametrize("redirects, expected", [(2, Verdict.FRESH), (1, Verdict.UNVERIFIED), (0, Verdict.UNVERIFIED)])
async def test_redirects_are_counted(redirects: int, expected: Verdict) -> None:
    hops = {"page": page("302 Found", Location="/b"), "b": page("307 Temporary", Location="/c"), "c": page(ETag='"v1"')}
    async with site(**hops) as served:
        assert await verdict(checker(f"127.0.0.1:{served.port}", redirects=redirects), served.of("/page"), '"v1"') is expected


# TLS


def context(side: ssl.Purpose) -> ssl.SSLContext:
    made = ssl.create_default_context(side)
    if side is ssl.Purpose.CLIENT_AUTH:
        made.load_cert_chain(CERTIFICATE)
    else:
        made.load_verify_locations(CERTIFICATE)
    return made


@pytest.mark.parametrize(
    "host, trusting, expected",
    [("page.test", True, Verdict.FRESH), ("other.test", True, Verdict.UNVERIFIED), ("page.test", False, Verdict.UNVERIFIED)],
)
async def test_a_certificate_must_be_trusted_and_of_the_name_and_not_of_the_address(host: str, trusting: bool, expected: Verdict) -> None:
    tls = context(ssl.Purpose.SERVER_AUTH) if trusting else TRUSTS_NOBODY
    async with site(context(ssl.Purpose.CLIENT_AUTH), page=page(ETag='"v1"')) as served:
        check = checker(f"{host}:{served.port}", networks=["127.0.0.1"], resolve=answering("127.0.0.1"), tls=tls)
        assert await verdict(check, served.of("/page", host=host, scheme="https"), '"v1"') is expected


async def test_a_redirect_never_leads_from_https_to_http() -> None:
    async with site(there=page(ETag='"v1"')) as plain, site(context(ssl.Purpose.CLIENT_AUTH)) as served:
        served.pages["/page"] = page("302 Found", Location=plain.of("/there", host="page.test"))
        hosts = [f"page.test:{each.port}" for each in (plain, served)]
        trusted = {"networks": ["127.0.0.1"], "resolve": answering("127.0.0.1"), "tls": context(ssl.Purpose.SERVER_AUTH)}
        assert (
            await verdict(checker(*hosts, **trusted), served.of("/page", host="page.test", scheme="https"), '"v1"') is Verdict.INACCESSIBLE
        )
        assert await verdict(checker(*hosts, **trusted), plain.of("/there", host="page.test"), '"v1"') is Verdict.FRESH


# Settings


@pytest.mark.parametrize(
    "host", ["", "http://page.test", "page.test/x", "page.test?x", "*.test", "*", "a b", "ada@page.test", "page.test:x", "page.test:0"]
)
def test_what_is_no_host_is_refused_by_name(host: str) -> None:
    with pytest.raises(ConfigError, match=r"freshness\.hosts"):
        checker(host)


@pytest.mark.parametrize("network", ["", "page.test", "10.0.0.0/33", "10.0.0.1/8"])
def test_what_is_no_network_is_refused_by_name(network: str) -> None:
    with pytest.raises(ConfigError, match=r"freshness\.networks"):
        checker("page.test", networks=[network])


@pytest.mark.parametrize(
    "host", ["page.test", "PAGE.test", "page.test:80", "bücher.test", "xn--bcher-kva.test", "[2606:4700::1111]", "8.8.8.8:8080"]
)
def test_hosts_may_be_names_and_addresses_with_a_port(host: str) -> None:
    assert checker(host)
