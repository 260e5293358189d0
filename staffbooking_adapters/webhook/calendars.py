"""The reader of calendars at addresses that users give, based on aiohttp."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from typing import Final

import aiohttp
from yarl import URL

from staffbooking_adapters.webhook.calendar_connector import GuardedConnector
from staffbooking_adapters.webhook.dialing import MAX_RESPONSE_BYTES, default_tls_context
from staffbooking_adapters.webhook.gate import (
    AddressGuard,
    ConnectionNotMade,
    NameResolver,
    SystemNameResolver,
)
from staffbooking_core import __version__
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarVersion,
)
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url
from staffbooking_core.ports import FetchedCalendar

_MAX_REDIRECTS: Final = 5
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_FAULTS_BY_STATUS: Final = {
    401: CalendarReadFault.REFUSED,
    403: CalendarReadFault.REFUSED,
    404: CalendarReadFault.NOT_FOUND,
    410: CalendarReadFault.NOT_FOUND,
}
"""All other failures may pass."""
_MAX_VERSION_LENGTH: Final = 500
"""Maximum characters of a stored ETag; a longer one is not used."""
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


class _ReadFailed(Exception):
    """The calendar could not be read; `fault` is the reason."""

    def __init__(self, fault: CalendarReadFault) -> None:
        super().__init__(fault)
        self.fault = fault


class HttpCalendarFetcher:
    """Implements `CalendarFetcher`. Create it inside a running event loop.

    `insecure` allows http and loopback. `resolver` and `tls` replace the system's; the resolver is
    closed with the fetcher. Each redirect is checked as the first address was.
    """

    def __init__(
        self,
        *,
        insecure: bool = False,
        resolver: NameResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._insecure = insecure
        self._resolver = resolver or SystemNameResolver()
        self._guard = AddressGuard(self._resolver, insecure)
        self._tls = tls or default_tls_context()

    async def fetch(
        self, url: str, known: CalendarVersion, max_bytes: int, timeout_seconds: float
    ) -> FetchedCalendar | CalendarReadFault | None:
        try:
            async with asyncio.timeout(timeout_seconds), self._open_session(max_bytes) as session:
                return await self._follow(session, url, known, max_bytes)
        except _ReadFailed as failed:
            return failed.fault
        except ConnectionNotMade as not_made:
            if not_made.failure is DeliveryFailure.UNSAFE_ADDRESS:
                return CalendarReadFault.NOT_PUBLIC
            return CalendarReadFault.UNREACHABLE
        except (TimeoutError, aiohttp.ClientError, OSError):
            return CalendarReadFault.UNREACHABLE

    async def close(self) -> None:
        await self._resolver.close()

    def _open_session(self, max_bytes: int) -> aiohttp.ClientSession:
        """A session for one read."""
        # The body is counted as it is read; this bounds what a server sends besides.
        max_response_bytes = 2 * max_bytes + MAX_RESPONSE_BYTES
        connector = GuardedConnector(self._guard, self._tls, max_response_bytes)
        return aiohttp.ClientSession(
            connector=connector,
            headers={
                "User-Agent": f"staffbooking/{__version__}",
                "Accept": "text/calendar, */*;q=0.1",
                "Accept-Encoding": "gzip",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=16 * 1024,
        )

    async def _follow(
        self, session: aiohttp.ClientSession, url: str, known: CalendarVersion, max_bytes: int
    ) -> FetchedCalendar | None:
        """The calendar at the end of the redirects; None where its version is the known one."""
        target = self._check_target(url)
        conditions = _conditional_headers(known)
        for _ in range(_MAX_REDIRECTS + 1):
            async with session.get(target, headers=conditions, allow_redirects=False) as response:
                if response.status not in _REDIRECT_STATUSES:
                    if response.status == 304 and conditions:
                        return None
                    if response.status != 200:
                        unknown = CalendarReadFault.UNREACHABLE
                        raise _ReadFailed(_FAULTS_BY_STATUS.get(response.status, unknown))
                    content = await _read_body(response, max_bytes)
                    return FetchedCalendar(content, _version_of(response))
                target = self._redirect_target(target, response.headers.get("Location", ""))
        raise _ReadFailed(CalendarReadFault.UNREACHABLE)

    def _check_target(self, url: str) -> URL:
        """The address with the host in its validated form."""
        try:
            host = validate_webhook_url(url, allow_insecure=self._insecure)
            return URL(url, encoded=True).with_host(host)
        except ValueError:
            raise _ReadFailed(CalendarReadFault.NOT_PUBLIC) from None

    def _redirect_target(self, base: URL, location: str) -> URL:
        try:
            target = base.join(URL(location)).with_fragment(None)
        except ValueError:
            raise _ReadFailed(CalendarReadFault.UNREACHABLE) from None
        return self._check_target(str(target))


def _conditional_headers(known: CalendarVersion) -> dict[str, str]:
    headers = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
    return {name: value for name, value in headers.items() if value is not None}


def _version_of(response: aiohttp.ClientResponse) -> CalendarVersion:
    return CalendarVersion(
        _usable_header(response, "ETag"), _usable_header(response, "Last-Modified")
    )


def _usable_header(response: aiohttp.ClientResponse, name: str) -> str | None:
    value = response.headers.get(name, "")
    is_usable = 0 < len(value) <= _MAX_VERSION_LENGTH and value.isascii() and value.isprintable()
    return value if is_usable else None


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The body, decompressed. Neither form is read beyond `max_bytes`."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise _ReadFailed(CalendarReadFault.NOT_A_CALENDAR)
    if (response.content_length or 0) > max_bytes:
        raise _ReadFailed(CalendarReadFault.TOO_LARGE)
    received = bytearray()
    async for chunk in response.content.iter_any():
        received += chunk
        if len(received) > max_bytes:
            raise _ReadFailed(CalendarReadFault.TOO_LARGE)
    if encoding in ("", "identity"):
        return bytes(received)
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        content = unpacker.decompress(bytes(received), max_bytes + 1)
    except zlib.error:
        raise _ReadFailed(CalendarReadFault.NOT_A_CALENDAR) from None
    if len(content) > max_bytes:
        raise _ReadFailed(CalendarReadFault.TOO_LARGE)
    if not unpacker.eof:
        raise _ReadFailed(CalendarReadFault.UNREACHABLE)
    return content
