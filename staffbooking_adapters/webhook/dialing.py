"""Opens connections to checked addresses only."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeVar

import certifi

from staffbooking_adapters.webhook.gate import AddressGuard, ConnectionNotMade
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

CONNECT_TIMEOUT_SECONDS: Final = 3.0
"""Timeout of the TCP connect to one address, without the TLS handshake."""

MAX_RESPONSE_BYTES: Final = 64 * 1024
"""Maximum bytes read of a webhook's response, including its headers."""

_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)


def create_tls_context() -> ssl.SSLContext:
    """A context with the system's root certificates, or certifi's if the system has none."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    return context


@cache
def default_tls_context() -> ssl.SSLContext:
    """The context of `create_tls_context` that all connections share: the certificates take 17 ms
    to load."""
    return create_tls_context()


async def open_connection(
    create_protocol: Callable[[], _Protocol],
    guard: AddressGuard,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
) -> _Protocol:
    """Connect to the first reachable address of a host, with TLS if there is a context for it.

    Raises ConnectionNotMade.
    """
    addresses = await guard.resolve_safe_addresses(host)
    connected_socket = await _connect_first(addresses, port)
    try:
        _, protocol = await asyncio.get_running_loop().create_connection(
            create_protocol,
            sock=connected_socket,
            ssl=tls,
            server_hostname=host if tls is not None else None,
        )
    except ssl.SSLError:
        raise ConnectionNotMade(DeliveryFailure.TLS_FAILED) from None
    except OSError:
        raise ConnectionNotMade(DeliveryFailure.CONNECTION_CLOSED) from None
    return protocol


async def _connect_first(addresses: Sequence[str], port: int) -> socket.socket:
    failure = DeliveryFailure.CONNECTION_FAILED
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                return await connect_socket(address, port)
        except TimeoutError:
            failure = DeliveryFailure.TIMEOUT
        except OSError:
            failure = DeliveryFailure.CONNECTION_FAILED
    raise ConnectionNotMade(failure)


async def connect_socket(address: str, port: int) -> socket.socket:
    """A socket that is connected to an address. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        # Bounds what the kernel buffers; the kernel doubles this value.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_RESPONSE_BYTES // 2)
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection
