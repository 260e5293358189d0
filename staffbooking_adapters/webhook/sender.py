"""The webhook sender, based on aiohttp (CONTRACT 7)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import aiohttp
import certifi
from yarl import URL

from staffbooking_adapters.webhook.connections import (
    MAX_RESPONSE_BYTES,
    BoundedResponseHandler,
    GuardedConnector,
    StaleConnection,
    UrlKeyedRequest,
)
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
        context = tls or create_tls_context()
        connections: set[BoundedResponseHandler] = set()
        self._keepalive_session = _create_session(
            GuardedConnector(self._guard, context, connections, is_keepalive=True)
        )
        self._fresh_session = _create_session(
            GuardedConnector(self._guard, context, connections, is_keepalive=False)
        )

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        """Send a request; the response's headers decide the outcome. The body is discarded within
        BODY_DRAIN_TIMEOUT_SECONDS and within `timeout_seconds` of the start."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        try:
            target = _build_target(url, self._insecure)
        except ValueError:
            return DeliveryFailure.UNSAFE_ADDRESS
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._post(target, headers, body)
        except TimeoutError:
            return DeliveryFailure.TIMEOUT
        except ConnectionNotMade as not_sent:
            return not_sent.failure
        except aiohttp.ClientConnectionError:
            return DeliveryFailure.CONNECTION_CLOSED
        except aiohttp.ClientError:
            return DeliveryFailure.MALFORMED_RESPONSE
        await _drain_body(response, deadline)
        return response.status

    async def resolves_to_unsafe(self, host: str) -> bool:
        return await self._guard.resolves_to_unsafe(host)

    async def close(self) -> None:
        await self._keepalive_session.close()
        await self._fresh_session.close()
        await self._resolver.close()

    async def _post(
        self, target: URL, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        try:
            return await self._keepalive_session.post(
                target, headers=headers, data=body, allow_redirects=False
            )
        except StaleConnection:
            return await self._fresh_session.post(
                target, headers=headers, data=body, allow_redirects=False
            )


def create_tls_context() -> ssl.SSLContext:
    """A context with the system's root certificates, or certifi's if the system has none."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    return context


@lru_cache(4096)
def _build_target(url: str, insecure: bool) -> URL:
    """The registered URL with the host in its validated form."""
    return URL(url, encoded=True).with_host(validate_webhook_url(url, allow_insecure=insecure))


def _create_session(connector: GuardedConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        request_class=UrlKeyedRequest,
        headers={"User-Agent": f"staffbooking/{__version__}", "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=16 * 1024,
        # The connection bounds the whole response, so its parts need no lower limits.
        max_line_size=MAX_RESPONSE_BYTES,
        max_field_size=MAX_RESPONSE_BYTES,
        max_headers=MAX_RESPONSE_BYTES,
    )


async def _drain_body(response: aiohttp.ClientResponse, deadline: float) -> None:
    """Read a short body to its end, so that the connection can be reused."""
    deadline = min(deadline, asyncio.get_running_loop().time() + BODY_DRAIN_TIMEOUT_SECONDS)
    try:
        # Most responses have no body, and a timeout context is expensive.
        if not response.content.at_eof():
            async with asyncio.timeout_at(deadline):
                async for _ in response.content.iter_any():
                    pass
    except (TimeoutError, aiohttp.ClientError):
        pass
    finally:
        response.close()
