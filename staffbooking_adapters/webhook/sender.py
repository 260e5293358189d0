"""The webhook sender (CONTRACT 7)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from attrs import frozen
from yarl import URL

from staffbooking_adapters.webhook.connections import (
    ConnectionPool,
    HttpConnection,
    StaleConnection,
)
from staffbooking_adapters.webhook.dialing import default_tls_context, open_connection
from staffbooking_adapters.webhook.gate import (
    AddressGuard,
    ConnectionNotMade,
    NameResolver,
    SystemNameResolver,
)
from staffbooking_core import __version__
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url

BODY_DRAIN_TIMEOUT_SECONDS: Final = 1.0
"""Maximum time for discarding a response's body."""

RESOLVE_TIMEOUT_SECONDS: Final = 3.0
"""Timeout for resolving a name when an endpoint is registered."""


class HttpSender:
    """Implements `WebhookSender`. Create it inside a running event loop.

    `insecure` allows http and loopback. `resolver` and `tls` replace the system's; the resolver is
    closed with the sender.
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
        self._pool = ConnectionPool()

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        """Send a request; the response's headers decide the outcome. The body is discarded within
        BODY_DRAIN_TIMEOUT_SECONDS and within `timeout_seconds` of the start."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        try:
            target = _parse_target(url, self._insecure)
        except ValueError:
            return DeliveryFailure.UNSAFE_ADDRESS
        request = _format_request(target, headers, body)
        try:
            connection, outcome = await self._post(target, request, deadline)
        except TimeoutError:
            return DeliveryFailure.TIMEOUT
        except ConnectionNotMade as not_sent:
            return not_sent.failure
        try:
            # Most responses have no body, and a timeout context is expensive.
            if not connection.is_complete:
                await _discard_body(connection, deadline)
        finally:
            self._pool.release(url, connection)
        return outcome

    async def resolves_to_unsafe(self, host: str) -> bool:
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
                await self._guard.resolve_safe_addresses(host)
        except TimeoutError:
            return False
        except ConnectionNotMade as not_sent:
            return not_sent.failure is DeliveryFailure.UNSAFE_ADDRESS
        return False

    async def close(self) -> None:
        await self._pool.close()
        await self._resolver.close()

    async def _post(
        self, target: _Target, request: bytes, deadline: float
    ) -> tuple[HttpConnection, int | DeliveryFailure]:
        kept = self._pool.acquire(target.url)
        if kept is not None:
            try:
                return kept, await kept.post(request, deadline)
            except StaleConnection:
                pass
        tls = self._tls if target.is_https else None
        async with asyncio.timeout_at(deadline):
            connection = await open_connection(
                self._pool.create_connection, self._guard, target.host, target.port, tls
            )
        return connection, await connection.post(request, deadline)


@frozen
class _Target:
    """A registered URL, and the part of its requests that is always the same."""

    url: str
    host: str
    port: int
    is_https: bool
    head: str


@lru_cache(4096)
def _parse_target(url: str, insecure: bool) -> _Target:
    """Raises ValueError."""
    # The host in its validated form; all else as it is registered.
    parsed = URL(url, encoded=True).with_host(validate_webhook_url(url, allow_insecure=insecure))
    host, port = parsed.raw_host, parsed.port
    assert host is not None
    assert port is not None
    head = (
        f"POST {parsed.raw_path_qs} HTTP/1.1\r\n"
        f"Host: {parsed.host_port_subcomponent}\r\n"
        f"User-Agent: staffbooking/{__version__}\r\n"
        "Accept: */*\r\n"
        "Accept-Encoding: identity\r\n"
    )
    return _Target(url, host, port, parsed.scheme == "https", head)


def _format_request(target: _Target, headers: Mapping[str, str], body: bytes) -> bytes:
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not len(headers) == fields.count("\r") == fields.count("\n"):
        raise AssertionError("a header may not hold a line break")
    return f"{target.head}{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _discard_body(connection: HttpConnection, deadline: float) -> None:
    """Read a short body to its end, so that the connection can be reused."""
    deadline = min(deadline, asyncio.get_running_loop().time() + BODY_DRAIN_TIMEOUT_SECONDS)
    try:
        async with asyncio.timeout_at(deadline):
            await connection.discard_body()
    except TimeoutError:
        pass
