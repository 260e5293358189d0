"""The reader of calendars against real servers: its requests, limits, redirects and faults."""

from __future__ import annotations

import asyncio
import gzip

import aiohttp
import pytest
import trustme
from aiohttp.client_proto import ResponseHandler

from staffbooking_adapters.testing.receivers import (
    Behaviour,
    HangingResolver,
    ReceiverServer,
    SingleAddressResolver,
    closed_port,
    cut_body,
    drip_body,
    drip_head,
    endless_body,
    gzip_bomb,
    hang_in_head,
    long_header,
    many_headers,
    never_respond,
    reset_after_request,
    respond_redirect,
    respond_status,
    respond_with,
)
from staffbooking_adapters.webhook import calendar_connector
from staffbooking_adapters.webhook.calendars import HttpCalendarFetcher
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarVersion,
)
from staffbooking_core.ports import FetchedCalendar
from tests.support.tls import client_tls_context, server_tls_context

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
CALENDAR = b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"
MAX_BYTES = 2**20
NEW = CalendarVersion()
TEST_TIMEOUT_SECONDS = 30.0
"""Seconds after which a read that does not end fails its test."""

Outcome = FetchedCalendar | CalendarReadFault | None


async def fetch(
    url: str,
    known: CalendarVersion = NEW,
    *,
    insecure: bool = True,
    names: SingleAddressResolver | HangingResolver | None = None,
    seconds: float = 20.0,
) -> Outcome:
    names = names or SingleAddressResolver("127.0.0.1")
    fetcher = HttpCalendarFetcher(
        insecure=insecure, resolver=names, tls=client_tls_context(AUTHORITY)
    )
    try:
        async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
            return await fetcher.fetch(url, known, MAX_BYTES, seconds)
    finally:
        await fetcher.close()


async def fetch_from(behaviour: Behaviour, seconds: float = 20.0) -> Outcome:
    async with ReceiverServer(behaviour) as server:
        return await fetch(server.url, seconds=seconds)


def answer(body: bytes, *headers: str, status: str = "200 OK") -> Behaviour:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return respond_with("\r\n".join(lines).encode() + body)


def content_of(outcome: Outcome) -> bytes:
    assert isinstance(outcome, FetchedCalendar), outcome
    return outcome.content


async def test_a_calendar_is_read_over_tls() -> None:
    """A calendar at a public name is read by https, without cookies, with its version."""
    version = ('ETag: "v1"', "Last-Modified: Mon, 01 Mar 2027 12:00:00 GMT", "Set-Cookie: a=b")
    tls = server_tls_context(AUTHORITY, "calendar.test")
    async with ReceiverServer(answer(CALENDAR, *version), tls=tls, name="calendar.test") as server:
        read = await fetch(server.url)
    assert content_of(read) == CALENDAR
    assert isinstance(read, FetchedCalendar)
    assert read.version == CalendarVersion('"v1"', "Mon, 01 Mar 2027 12:00:00 GMT")
    (request,) = server.requests
    assert request.line == "GET /hook HTTP/1.1"
    assert request.headers["accept"] == "text/calendar, */*;q=0.1"
    assert "if-none-match" not in request.headers


async def test_a_known_version_is_not_sent_again() -> None:
    """A request names the known version: its 304 is no change, another 304 is a fault."""
    known = CalendarVersion('"v1"', "Mon, 01 Mar 2027 12:00:00 GMT")
    async with ReceiverServer(respond_with(b"HTTP/1.1 304 Not Modified\r\n\r\n")) as server:
        assert await fetch(server.url, known) is None
        assert await fetch(server.url) is CalendarReadFault.UNREACHABLE
    headers = server.requests[0].headers
    assert (headers["if-none-match"], headers["if-modified-since"]) == (
        known.etag,
        known.last_modified,
    )


@pytest.mark.parametrize("etag", ["x" * 501, '"\xe9"', ""])
async def test_an_unusable_version_is_not_kept(etag: str) -> None:
    """An ETag that is long or not ASCII is dropped."""
    read = await fetch_from(answer(CALENDAR, f"ETag: {etag}"))
    assert content_of(read) == CALENDAR
    assert isinstance(read, FetchedCalendar)
    assert read.version == NEW


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        *((code, CalendarReadFault.NOT_FOUND) for code in (404, 410)),
        *((code, CalendarReadFault.REFUSED) for code in (401, 403)),
        *((code, CalendarReadFault.UNREACHABLE) for code in (204, 206, 400, 429, 500, 503)),
    ],
)
async def test_statuses_have_faults(status: int, fault: CalendarReadFault) -> None:
    """A missing calendar, a refused one and a temporary error have different faults."""
    assert await fetch_from(respond_status(status, b"secret text")) is fault


# Size -------------------------------------------------------------------------------------


async def test_a_large_calendar_is_read() -> None:
    """A calendar of the maximum size is read, plain and compressed."""
    large = CALENDAR.ljust(MAX_BYTES, b" ")
    assert content_of(await fetch_from(answer(large))) == large
    packed = gzip.compress(large)
    read = await fetch_from(answer(packed, "Content-Encoding: gzip"))
    assert content_of(read) == large


@pytest.mark.parametrize("extra", [(), ("Content-Encoding: gzip",)])
async def test_a_calendar_over_the_limit_is_refused(extra: tuple[str, ...]) -> None:
    """A calendar that is one byte too large is refused, plain and compressed."""
    body = bytes(MAX_BYTES + 1)
    sent = gzip.compress(body) if extra else body
    assert await fetch_from(answer(sent, *extra)) is CalendarReadFault.TOO_LARGE


async def test_an_endless_body_is_cut() -> None:
    """An endless body is not read beyond the limit."""
    async with ReceiverServer(endless_body) as server:
        assert await fetch(server.url) is CalendarReadFault.TOO_LARGE
    assert server.bytes_written < 4 * MAX_BYTES


BAD: dict[str, tuple[Behaviour, CalendarReadFault]] = {
    "a bomb of gzip": (gzip_bomb, CalendarReadFault.TOO_LARGE),
    "gzip that is none": (
        answer(CALENDAR, "Content-Encoding: gzip"),
        CalendarReadFault.NOT_A_CALENDAR,
    ),
    "gzip that is cut": (
        answer(gzip.compress(CALENDAR)[:-4], "Content-Encoding: gzip"),
        CalendarReadFault.UNREACHABLE,
    ),
    "an unknown encoding": (
        answer(CALENDAR, "Content-Encoding: br"),
        CalendarReadFault.NOT_A_CALENDAR,
    ),
    "a body that is cut": (cut_body, CalendarReadFault.UNREACHABLE),
    "100,000 headers": (many_headers, CalendarReadFault.UNREACHABLE),
    "a header without end": (long_header, CalendarReadFault.UNREACHABLE),
    "a reset": (reset_after_request, CalendarReadFault.UNREACHABLE),
    "not HTTP": (respond_with(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), CalendarReadFault.UNREACHABLE),
}


@pytest.mark.parametrize("name", BAD)
async def test_servers_that_misbehave_end_a_read(name: str) -> None:
    """Each misbehaviour of a server is a fault of the read, and raises no error."""
    behaviour, fault = BAD[name]
    assert await fetch_from(behaviour) is fault


@pytest.mark.parametrize("behaviour", [never_respond, hang_in_head, drip_head, drip_body])
async def test_a_read_ends_in_time(behaviour: Behaviour) -> None:
    """A read from a server that hangs or sends slowly ends at the timeout."""
    assert await fetch_from(behaviour, seconds=0.3) is CalendarReadFault.UNREACHABLE


async def test_a_name_that_hangs_ends_in_time() -> None:
    """The resolution of a name ends at the timeout too."""
    read = await fetch("https://calendar.test/", names=HangingResolver(), seconds=0.2)
    assert read is CalendarReadFault.UNREACHABLE


async def test_a_closed_port_is_unreachable() -> None:
    """A refused connection is a temporary fault."""
    async with closed_port() as url:
        assert await fetch(url) is CalendarReadFault.UNREACHABLE


# Addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["10.0.0.7", "169.254.169.254", "127.0.0.1", "fd00::1"])
async def test_a_name_of_a_private_address_is_refused(address: str) -> None:
    """A public name that resolves to a private address is refused."""
    names = SingleAddressResolver(address)
    read = await fetch("https://calendar.test/a.ics", insecure=False, names=names)
    assert read is CalendarReadFault.NOT_PUBLIC


@pytest.mark.parametrize(
    "target",
    [
        "https://169.254.169.254/latest",
        "http://[::ffff:10.0.0.1]/",
        "ftp://calendar.test/",
        "https://user:password@calendar.test/",
        "file:///etc/passwd",
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(target: str) -> None:
    """The target of a redirect is checked like the first address."""
    assert await fetch_from(respond_redirect(302, target)) is CalendarReadFault.NOT_PUBLIC


async def test_a_redirect_from_https_to_http_is_refused() -> None:
    """Outside the sandbox a redirect from https to http is refused."""
    fetcher = HttpCalendarFetcher(resolver=SingleAddressResolver("127.0.0.1"))
    base = fetcher._check_target("https://calendar.test/a")
    with pytest.raises(Exception, match="not_public"):
        fetcher._redirect_target(base, "http://calendar.test/a")
    assert str(fetcher._redirect_target(base, "/b#part")) == "https://calendar.test/b"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed(status: int) -> None:
    """A redirect is followed, and the request to its target names the known version."""
    async with ReceiverServer(answer(CALENDAR)) as there:
        redirect = respond_redirect(status, there.url)
        async with ReceiverServer(redirect) as here:
            read = await fetch(here.url, CalendarVersion('"v1"'))
    assert content_of(read) == CALENDAR
    assert there.requests[0].headers["if-none-match"] == '"v1"'


@pytest.mark.parametrize("location", ["/hook", "", "//["])
async def test_redirects_end(location: str) -> None:
    """A loop of redirects, and redirects without a valid target, are unreachable."""
    async with ReceiverServer(respond_redirect(302, location)) as server:
        assert await fetch(server.url) is CalendarReadFault.UNREACHABLE
    assert len(server.requests) <= 6


@pytest.mark.parametrize(
    ("ours", "base", "overridden"),
    [
        (calendar_connector.BoundedResponseHandler, ResponseHandler, "data_received close"),
        (calendar_connector.GuardedConnector, aiohttp.BaseConnector, "_create_connection"),
    ],
)
def test_the_overridden_methods_exist(ours: type, base: type, overridden: str) -> None:
    """The undocumented aiohttp methods that we override exist, so that limits and checks stay in
    effect."""
    for name in overridden.split():
        assert name in vars(ours)
        assert hasattr(base, name)
