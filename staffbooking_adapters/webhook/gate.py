"""Resolves host names and checks that their addresses are safe to connect to.

A name is resolved once per new connection, and one unsafe address refuses all of them. The
connection is made to a checked address, never to the name, so DNS rebinding has no effect.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from itertools import zip_longest
from typing import Final, Protocol

import aiodns
import pycares
from attrs import frozen

from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from staffbooking_core.domain.webhooks.url_safety import embedded_ipv4_address, is_safe_address

security_log = logging.getLogger("staffbooking.security")

_DNS_TIMEOUT_SECONDS: Final = 1.0
"""Timeout of the first DNS query; the second and last try takes twice as long."""

MAX_ADDRESSES: Final = 3
"""Maximum addresses of a name that are tried."""


class NameResolver(Protocol):
    """Resolves host names."""

    async def resolve(self, name: str) -> Sequence[str]:
        """All addresses of a name. Raises OSError if there are none."""
        ...

    async def close(self) -> None: ...


class ConnectionNotMade(Exception):
    """The connection failed or was refused; `failure` is the reason."""

    def __init__(self, failure: DeliveryFailure) -> None:
        super().__init__(failure)
        self.failure = failure


class SystemNameResolver:
    """Resolves names asynchronously with the system's DNS servers, so a slow name delays no other.

    Answers are cached for their TTL. Create it inside a running event loop.
    """

    def __init__(self, servers: Sequence[str] | None = None) -> None:
        # NOSEARCH: registered names are absolute, so the system's search domains do not apply.
        flags = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_EDNS
        self._resolver = aiodns.DNSResolver(
            servers, asyncio.get_running_loop(), flags=flags, timeout=_DNS_TIMEOUT_SECONDS, tries=2
        )

    async def resolve(self, name: str) -> Sequence[str]:
        try:
            found = await self._resolver.getaddrinfo(name, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            raise OSError(str(error)) from error
        return [node.addr[0].decode() for node in found.nodes]

    async def close(self) -> None:
        await self._resolver.close()


@frozen
class AddressGuard:
    """Decides which addresses may be connected to."""

    resolver: NameResolver
    allow_loopback: bool

    async def resolve_safe_addresses(self, host: str) -> Sequence[str]:
        """The addresses of a host to try, at most MAX_ADDRESSES.

        Raises ConnectionNotMade if there are none, or if any is unsafe or can't be checked.
        """
        try:
            found = [host] if _is_address(host) else await self.resolver.resolve(host)
        except OSError:
            found = []
        if not found:
            raise ConnectionNotMade(DeliveryFailure.NAME_NOT_RESOLVED)
        if not all(map(self.is_allowed, found)):
            security_log.warning("webhook_address_refused", extra={"host": host})
            raise ConnectionNotMade(DeliveryFailure.UNSAFE_ADDRESS)
        return _interleave_ip_versions(found)[:MAX_ADDRESSES]

    def is_allowed(self, address: str) -> bool:
        return is_safe_address(address, allow_loopback=self.allow_loopback) and (
            self.allow_loopback or not is_own_address(address)
        )


def is_own_address(address: str) -> bool:
    """Whether an address belongs to this machine: its route's source address is then the same.

    Sends no packet. Raises ConnectionNotMade if no socket is available for the check.
    """
    target = embedded_ipv4_address(ip_address(address))
    family = socket.AF_INET6 if target.version == 6 else socket.AF_INET
    try:
        probe = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return False
        raise ConnectionNotMade(DeliveryFailure.CONNECTION_FAILED) from None
    with probe:
        try:
            probe.connect((str(target), 9))
        except OSError:
            return False
        return ip_address(probe.getsockname()[0]) == target


def _interleave_ip_versions(found: Sequence[str]) -> Sequence[str]:
    """IPv4 and IPv6 addresses alternating, starting with the first one's version, so that a few
    tries cover both versions."""
    begins = ":" in found[0]
    first = [address for address in found if (":" in address) is begins]
    second = [address for address in found if (":" in address) is not begins]
    pairs = zip_longest(first, second)
    return [address for pair in pairs for address in pair if address is not None]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
