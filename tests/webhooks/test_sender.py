"""The webhook sender: requests, addresses and connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from staffbooking_adapters.testing.receivers import (
    FakeResolver,
    HangingResolver,
    ReceiverConnection,
    ReceiverServer,
    SingleAddressResolver,
    respond_with,
)
from staffbooking_adapters.webhook import connections, gate, sender
from staffbooking_adapters.webhook.dialing import create_tls_context
from staffbooking_adapters.webhook.sender import HttpSender
from staffbooking_core import __version__
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from tests.support.tls import client_tls_context, server_tls_context

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
TRUSTING = client_tls_context(AUTHORITY)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
HEADERS = {"Content-Type": "application/json", "X-Webhook-Id": "evt_1"}
AMPLE = 10.0


@asynccontextmanager
async def sending(
    *answers: str, insecure: bool = True, names: FakeResolver | None = None
) -> AsyncIterator[HttpSender]:
    """A sender for which all names resolve to these addresses."""
    names = names or SingleAddressResolver(*(answers or ("127.0.0.1",)))
    made = HttpSender(insecure=insecure, resolver=names, tls=TRUSTING)
    try:
        yield made
    finally:
        await made.close()


async def test_body_and_headers_are_sent_unchanged() -> None:
    """Body and headers arrive unchanged, with only the sender's own headers added."""
    async with ReceiverServer(respond_with()) as receiver, sending() as sends:
        url = f"http://127.0.0.1:{receiver.port}/a%2Fb/%7e;x?q=%20+&q=[1]|"
        assert await sends.send(url, HEADERS, b'{"id":"evt_1"}', AMPLE) == 204
    (got,) = receiver.requests
    assert got.line == "POST /a%2Fb/%7e;x?q=%20+&q=[1]| HTTP/1.1"
    assert got.body == b'{"id":"evt_1"}'
    assert got.headers.pop("user-agent").startswith("staffbooking/")
    expected = {
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": "application/json",
        "x-webhook-id": "evt_1",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-length": "14",
        "user-agent": f"staffbooking/{__version__}",
    }
    assert got.headers == expected


@pytest.mark.parametrize("value", ["a\r\nX-More: b", "a\nX-More: b", "a\rb"])
async def test_a_header_with_a_line_break_is_refused(value: str) -> None:
    """A header that holds a line break, which only a bug can cause, is not sent."""
    async with ReceiverServer(respond_with()) as receiver, sending() as sends:
        with pytest.raises(AssertionError):
            await sends.send(receiver.url, {"X-Webhook-Id": value}, b"{}", AMPLE)
    assert receiver.connections == 0


async def test_the_host_name_is_sent() -> None:
    """The Host header and the TLS server name are the host's ASCII name, whatever address is
    used."""
    tls = server_tls_context(AUTHORITY, "xn--bcher-kva.test")
    named: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: named.append(name)
    async with (
        ReceiverServer(respond_with(), tls, name="Bücher.test") as receiver,
        sending() as sends,
    ):
        assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 204
    assert receiver.requests[0].headers["host"] == f"xn--bcher-kva.test:{receiver.port}"
    assert named == ["xn--bcher-kva.test"]


async def test_cookies_are_not_sent_back() -> None:
    """Cookies of a receiver are not sent back."""
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    async with (
        ReceiverServer(respond_with(cookie), name="hooks.test") as receiver,
        sending() as sends,
    ):
        for _ in range(2):
            await sends.send(receiver.url, HEADERS, b"{}", AMPLE)
    assert "cookie" not in receiver.requests[1].headers


async def test_proxy_settings_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Proxy settings of the environment are ignored."""
    async with ReceiverServer(respond_with()) as proxy, ReceiverServer(respond_with()) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        async with sending() as sends:
            assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 204
    assert proxy.connections == 0
    assert receiver.requests[0].line == "POST /hook HTTP/1.1"


async def test_a_connection_is_reused_for_the_same_url() -> None:
    """A second delivery to the same URL reuses the connection."""
    async with ReceiverServer(respond_with(OK)) as receiver, sending() as sends:
        for _ in range(3):
            assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200
    assert receiver.connections == 1


async def test_a_connection_is_not_reused_for_another_url() -> None:
    """Another URL of the same receiver uses another connection."""
    async with ReceiverServer(respond_with(OK)) as receiver, sending() as sends:
        for path in ("", "/2"):
            assert await sends.send(receiver.url + path, HEADERS, b"{}", AMPLE) == 200
    assert receiver.connections == 2


async def test_names_are_looked_up_for_each_connection() -> None:
    """A name is resolved once for each new connection, and not for a reused one."""
    names = SingleAddressResolver("127.0.0.1")
    receiver = ReceiverServer(respond_with(OK), name="hooks.test")
    async with receiver, sending(names=names) as sends:
        for path in ("", "", "/2"):
            assert await sends.send(receiver.url + path, HEADERS, b"{}", AMPLE) == 200
        assert names.lookups == ["hooks.test"] * 2


async def test_bodies_are_not_decompressed() -> None:
    """A response's content encoding is ignored, and the connection is reused."""
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\nno zip"
    async with ReceiverServer(respond_with(packed)) as receiver, sending() as sends:
        for _ in range(2):
            assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200
    assert receiver.connections == 1


async def test_many_open_connections_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number of open connections each is closed after its response."""
    monkeypatch.setattr(connections, "MAX_KEPT_CONNECTIONS", 0)
    async with ReceiverServer(respond_with(OK)) as receiver, sending() as sends:
        for _ in range(2):
            assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200
    assert receiver.connections == 2


@pytest.mark.usefixtures("loop_time")
async def test_kept_connections_that_are_closed() -> None:
    """A delivery succeeds although the receiver has closed the kept connection."""
    async with ReceiverServer(respond_with(OK, times=1)) as receiver, sending() as sends:
        for _ in range(5):
            assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200
    assert len(receiver.requests) == receiver.connections == 5


@pytest.mark.parametrize(
    ("ended", "requests", "after"),
    [
        (200, 3, connections.STALE_WINDOW_SECONDS / 2),
        (DeliveryFailure.CONNECTION_CLOSED, 2, connections.STALE_WINDOW_SECONDS * 2),
        (DeliveryFailure.CONNECTION_CLOSED, 2, AMPLE - 1),
    ],
)
async def test_a_kept_connection_that_dies(
    loop_time: list[float], ended: int | DeliveryFailure, requests: int, after: float
) -> None:
    """A kept connection that ends at once without a response is replaced; a later end is a failed
    attempt, since the request may have been read."""

    async def answers_once_then_drops(connection: ReceiverConnection) -> None:
        await connection.request()
        loop_time[0] += 1.0
        await connection.write(OK)
        await connection.request()
        loop_time[0] += after

    async with ReceiverServer(answers_once_then_drops) as receiver, sending() as sends:
        assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200
        assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == ended
    assert [request.body for request in receiver.requests] == [b"{}"] * requests


async def answers_once_then_half(connection: ReceiverConnection) -> None:
    await connection.request()
    await connection.write(OK)
    await connection.request()
    await connection.write(b"HTTP/1.1 200")


async def test_a_kept_connection_that_dies_in_the_response() -> None:
    """After the first byte of a response the attempt fails and is not repeated."""
    async with ReceiverServer(answers_once_then_half) as receiver, sending() as sends:
        assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200
        ended = await sends.send(receiver.url, HEADERS, b"{}", AMPLE)
        assert ended is DeliveryFailure.CONNECTION_CLOSED
    assert len(receiver.requests) == 2


UNREQUESTED_RESPONSE = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"


async def test_an_extra_response_is_ignored() -> None:
    """An extra response is not taken for the next request's."""
    async with (
        ReceiverServer(respond_with(OK + UNREQUESTED_RESPONSE)) as receiver,
        sending() as sends,
    ):
        for _ in range(2):
            assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200


async def test_data_on_an_idle_connection_is_no_response() -> None:
    """Data received on an idle connection is not taken for a response."""
    may_speak, has_spoken = asyncio.Event(), asyncio.Event()

    async def speaks_later(connection: ReceiverConnection) -> None:
        await connection.request()
        await connection.write(OK)
        await may_speak.wait()
        await connection.write(UNREQUESTED_RESPONSE)
        has_spoken.set()
        await connection.request()

    async with ReceiverServer(speaks_later) as receiver, sending() as sends:
        assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200
        may_speak.set()
        await has_spoken.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 200


async def test_a_receiver_that_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is aborted at the end of an attempt, without waiting for a TLS shutdown."""
    accepted, ended = asyncio.Event(), asyncio.Event()
    lost = connections.HttpConnection.connection_lost

    def note(wire: connections.HttpConnection, error: Exception | None) -> None:
        lost(wire, error)
        ended.set()

    async def reads_nothing(connection: ReceiverConnection) -> None:
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        accepted.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(connections.HttpConnection, "connection_lost", note)
    receiver = ReceiverServer(reads_nothing, server_tls_context(AUTHORITY, "127.0.0.1"))
    async with receiver, sending() as sends:
        sent = asyncio.create_task(sends.send(receiver.url, HEADERS, b"{}", AMPLE))
        await accepted.wait()
        sent.cancel()
        async with asyncio.timeout(AMPLE):
            await ended.wait()


async def test_the_next_address_is_tried() -> None:
    """If the first address refuses the connection, the next one is used."""
    receiver = ReceiverServer(respond_with(), name="hooks.test")
    async with receiver, sending("127.0.0.2", "127.0.0.1") as sends:
        assert await sends.send(receiver.url, HEADERS, b"{}", AMPLE) == 204


async def test_few_addresses_are_tried() -> None:
    """Only a few addresses of a name are tried."""
    async with ReceiverServer(respond_with(), name="hooks.test") as receiver:
        many = [f"127.0.0.{last}" for last in range(2, 2 + gate.MAX_ADDRESSES)]
        async with sending(*many, "127.0.0.1") as sends:
            ended = await sends.send(receiver.url, HEADERS, b"{}", AMPLE)
    assert ended is DeliveryFailure.CONNECTION_FAILED


async def test_resolving_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup that times out does not make a name unsafe."""
    monkeypatch.setattr(sender, "RESOLVE_TIMEOUT_SECONDS", 0.05)
    async with sending(names=HangingResolver()) as sends:
        assert not await sends.resolves_to_unsafe("hooks.test")


async def test_closing_the_sender_closes_its_resolver() -> None:
    """Closing the sender closes its resolver."""
    names = SingleAddressResolver()
    async with sending(names=names):
        pass
    assert names.lookups == ["closed"]


def test_certificates_are_checked() -> None:
    """By default receivers need a certificate for their name from a trusted authority."""
    context = create_tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_certifi_is_used_without_system_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system has no root certificates, certifi's are trusted."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(ssl, "create_default_context", lambda: bare)
    assert create_tls_context().cert_store_stats()["x509_ca"] > 50
