"""The sender of webhooks, on aiohttp (CONTRACT 7)."""

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
    MOST_BYTES,
    Connector,
    Request,
    Stale,
    Wire,
)
from staffbooking_adapters.webhook.gate import Gate, Names, NotSent, SystemNames
from staffbooking_core import __version__
from staffbooking_core.domain.webhooks.deliveries import Failure
from staffbooking_core.domain.webhooks.url_safety import judge_url

DROP_SECONDS: Final = 1.0
"""For the body of a response, which nobody reads."""

LOOK_SECONDS: Final = 3.0
"""For a name that is looked up ahead of any delivery."""


class HttpSender:
    """To be made where the event loop runs.

    `insecure` lets http and loopback through. `names` and `tls` take the place of the
    machine's own; `names` are closed with the sender.
    """

    def __init__(
        self,
        *,
        insecure: bool = False,
        names: Names | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._insecure = insecure
        self._names = names or SystemNames()
        self._gate = Gate(self._names, insecure)
        context = tls or trusted_roots()
        wires: set[Wire] = set()
        self._keeping = _session(Connector(self._gate, context, wires, kept=True))
        self._fresh = _session(Connector(self._gate, context, wires, kept=False))

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, seconds: float
    ) -> int | Failure:
        """The head of the response decides; its body is dropped, at the latest a second later,
        and never outlasts `seconds`."""
        ends = asyncio.get_running_loop().time() + seconds
        try:
            target = _target(url, self._insecure)
        except ValueError:
            return Failure.UNSAFE_ADDRESS
        try:
            async with asyncio.timeout_at(ends):
                response = await self._post(target, headers, body)
        except TimeoutError:
            return Failure.TIMEOUT
        except NotSent as not_sent:
            return not_sent.failure
        except aiohttp.ClientConnectionError:
            return Failure.CONNECTION_CLOSED
        except aiohttp.ClientError:
            return Failure.MALFORMED_RESPONSE
        await _drop_body(response, ends)
        return response.status

    async def resolves_to_unsafe(self, host: str) -> bool:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._gate.addresses(host)
        except TimeoutError:
            return False
        except NotSent as not_sent:
            return not_sent.failure is Failure.UNSAFE_ADDRESS
        return False

    async def close(self) -> None:
        await self._keeping.close()
        await self._fresh.close()
        await self._names.close()

    async def _post(
        self, target: URL, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        try:
            return await self._keeping.post(
                target, headers=headers, data=body, allow_redirects=False
            )
        except Stale:
            return await self._fresh.post(target, headers=headers, data=body, allow_redirects=False)


def trusted_roots() -> ssl.SSLContext:
    """The machine's roots; where it has none, those that Mozilla trusts."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    return context


@lru_cache(4096)
def _target(url: str, insecure: bool) -> URL:
    """The URL as it was registered, but for the host, which is the one that was judged."""
    return URL(url, encoded=True).with_host(judge_url(url, insecure=insecure))


def _session(connector: Connector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        request_class=Request,
        headers={"User-Agent": f"staffbooking/{__version__}", "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=16 * 1024,
        # A connection bounds the whole: no part of it needs a bound of its own.
        max_line_size=MOST_BYTES,
        max_field_size=MOST_BYTES,
        max_headers=MOST_BYTES,
    )


async def _drop_body(response: aiohttp.ClientResponse, ends: float) -> None:
    """Read to the end where that is near, so that the connection can be kept."""
    ends = min(ends, asyncio.get_running_loop().time() + DROP_SECONDS)
    try:
        # Most have no body, and to set an alarm for those is dear.
        if not response.content.at_eof():
            async with asyncio.timeout_at(ends):
                async for _ in response.content.iter_any():
                    pass
    except (TimeoutError, aiohttp.ClientError):
        pass
    finally:
        response.close()
