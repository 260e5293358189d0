"""The corpus against the real sender, with a sentinel that must never be reached."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from ipaddress import ip_address

import pytest
import trustme
from attrs import define

from staffbooking_adapters.testing.receivers import (
    FakeResolver,
    ReceiverServer,
    SingleAddressResolver,
    respond_redirect,
)
from staffbooking_adapters.webhook import dialing
from staffbooking_adapters.webhook.sender import HttpSender
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from tests.support.dns import has_ipv6_loopback
from tests.support.tls import client_tls_context
from tests.webhooks.corpus import (
    ADDRESSES,
    ANSWERS,
    HOSTS,
    NAMED_ADDRESSES,
    PUBLIC,
    REDIRECTS,
    URLS,
    as_url_host,
)

pytestmark = pytest.mark.anyio

TRUSTING = client_tls_context(trustme.CA())
AMPLE = 10.0


@define
class Sentinel:
    """Listens on all addresses of the machine, including 127.0.0.0/8 and, with IPv6, ::1."""

    port: int
    listening: Sequence[socket.socket]

    def reached(self) -> int:
        """The number of connections that the kernel accepted."""
        count = 0
        for server in self.listening:
            while True:
                try:
                    connection, _ = server.accept()
                except BlockingIOError:
                    break
                connection.close()
                count += 1
        return count


@pytest.fixture
def sentinel() -> Iterator[Sentinel]:
    with ExitStack() as stack:
        first = stack.enter_context(socket.create_server(("", 0)))
        port: int = first.getsockname()[1]
        listening = [first]
        if has_ipv6_loopback():
            other = socket.create_server(("::", port), family=socket.AF_INET6)
            listening.append(stack.enter_context(other))
        for server in listening:
            server.setblocking(False)
        yield Sentinel(port, listening)


@asynccontextmanager
async def sending(names: FakeResolver, *, insecure: bool = False) -> AsyncIterator[HttpSender]:
    made = HttpSender(insecure=insecure, resolver=names, tls=TRUSTING)
    try:
        yield made
    finally:
        await made.close()


async def urls_not_refused(names: FakeResolver, urls: Mapping[str, str]) -> set[str]:
    """The URLs, by what their hosts resolve to, that are not refused for their address."""
    async with sending(names) as sends:
        ended = {vector: await sends.send(url, {}, b"{}", AMPLE) for vector, url in urls.items()}
    return {
        vector for vector, failure in ended.items() if failure is not DeliveryFailure.UNSAFE_ADDRESS
    }


def test_the_sentinel_listens(sentinel: Sentinel) -> None:
    """The sentinel is reached at 127.0.0.0/8, 0.0.0.0 and, with IPv6, ::1."""
    places = [
        "127.0.0.1",
        "127.1.2.3",
        "127.255.255.254",
        "0.0.0.0",
        *["::1"] * has_ipv6_loopback(),
    ]
    for place in places:
        socket.create_connection((place, sentinel.port)).close()
    assert sentinel.reached() == len(places)


@pytest.mark.parametrize("group", ADDRESSES)
async def test_unsafe_literals(sentinel: Sentinel, group: str) -> None:
    """Unsafe addresses as a URL's host are not connected to."""
    urls = {a: f"https://{as_url_host(a)}:{sentinel.port}/" for a in ADDRESSES[group]}
    assert await urls_not_refused(FakeResolver({}), urls) == set()
    assert sentinel.reached() == 0


@pytest.mark.parametrize("group", ADDRESSES)
@pytest.mark.parametrize("answer", ["{}", "{} 8.8.8.8", "8.8.8.8 {}"])
async def test_unsafe_answers(sentinel: Sentinel, group: str, answer: str) -> None:
    """Unsafe addresses as DNS answers are not connected to, alone or among public ones."""
    names = {f"v{number}.test": address for number, address in enumerate(ADDRESSES[group])}
    answers_by_lookup = FakeResolver(
        {name: [answer.format(a).split()] for name, a in names.items()}
    )
    urls = {address: f"https://{name}:{sentinel.port}/" for name, address in names.items()}
    assert await urls_not_refused(answers_by_lookup, urls) == set()
    assert sentinel.reached() == 0


@pytest.mark.parametrize("group", HOSTS)
async def test_odd_hosts(sentinel: Sentinel, group: str) -> None:
    """Invalid hosts are not even resolved."""
    names = SingleAddressResolver("127.0.0.1")
    urls = {host: f"https://{host}:{sentinel.port}/hook" for host in HOSTS[group]}
    assert await urls_not_refused(names, urls) == set()
    assert names.lookups == ["closed"]
    assert sentinel.reached() == 0


@pytest.mark.parametrize("group", URLS)
async def test_odd_urls(sentinel: Sentinel, group: str) -> None:
    """Invalid URLs are not sent to, whatever their host resolves to."""
    assert (
        await urls_not_refused(
            SingleAddressResolver("127.0.0.1"), {url: url for url in URLS[group]}
        )
        == set()
    )
    assert sentinel.reached() == 0


@pytest.mark.parametrize("answers", [answers for group in ANSWERS.values() for answers in group])
async def test_answers(sentinel: Sentinel, answers: str) -> None:
    """Only the answer of the sender's own lookup counts, with all of its addresses."""
    answers_by_lookup = [answer.split() for answer in answers.split(" | ")]
    names = FakeResolver({"hooks.test": answers_by_lookup})
    async with sending(names) as sends:
        for _ in answers_by_lookup[:-1]:
            assert not await sends.resolves_to_unsafe("hooks.test")
        ended = await sends.send(f"https://hooks.test:{sentinel.port}/", {}, b"{}", AMPLE)
    assert ended is DeliveryFailure.UNSAFE_ADDRESS
    assert sentinel.reached() == 0


@pytest.mark.parametrize("code", [300, 301, 302, 303, 307, 308])
async def test_redirects(sentinel: Sentinel, code: int) -> None:
    """Redirects are not followed, even if loopback is allowed."""
    locations = [location for group in REDIRECTS.values() for location in group]
    async with sending(SingleAddressResolver("127.0.0.1"), insecure=True) as sends:
        for location in locations:
            target = location.replace("{port}", str(sentinel.port))
            async with ReceiverServer(respond_redirect(code, target)) as receiver:
                assert await sends.send(receiver.url, {}, b"{}", AMPLE) == code
                assert len(receiver.requests) == 1
    assert sentinel.reached() == 0


@pytest.mark.parametrize("group", PUBLIC)
async def test_public_urls(monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    """Public URLs are allowed, and the connection is made to their exact address and port."""
    tried: list[tuple[object, int]] = []

    async def connect(address: str, port: int) -> socket.socket:
        tried.append((ip_address(address), port))
        raise ConnectionRefusedError

    monkeypatch.setattr(dialing, "connect_socket", connect)
    async with sending(SingleAddressResolver(NAMED_ADDRESSES)) as sends:
        for url in PUBLIC[group]:
            ended = await sends.send(url, {}, b"{}", AMPLE)
            assert ended is DeliveryFailure.CONNECTION_FAILED
    reached = [place.split() for place in PUBLIC[group].values()]
    assert tried == [(ip_address(address), int(port)) for address, port in reached]
