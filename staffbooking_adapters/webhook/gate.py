"""Which addresses a name stands for, and whether they may be connected to.

A name is looked up once for each new connection, and one unsafe answer refuses them all.
What is connected to is an address that was judged here, never the name: so an answer that
changes in between changes nothing, and there is nothing left to be checked on the open
connection.
"""

from __future__ import annotations

import asyncio
import errno
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

_DNS_TIMEOUT_SECONDS: Final = 1.0
"""For a question to a server of names, the first time; the second and last time twice that."""

MAX_ADDRESSES: Final = 3
"""That are tried, of those that a name stands for."""


class NameResolver(Protocol):
    """Who knows which addresses a name stands for."""

    async def resolve(self, name: str) -> Sequence[str]:
        """All of them. Raises OSError where there are none."""
        ...

    async def close(self) -> None: ...


class ConnectionNotMade(Exception):
    """No connection came about."""

    def __init__(self, failure: DeliveryFailure) -> None:
        super().__init__(failure)
        self.failure = failure


class SystemNameResolver:
    """Asks the machine's servers of names, without a thread for each question: a name that
    hangs keeps no other waiting. Made where the event loop runs.

    Answers are kept as long as they say they may be.
    """

    def __init__(self, servers: Sequence[str] | None = None) -> None:
        # Registered names are whole: none is looked up below a domain of the machine's own.
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
    """The one place that decides what is connected to."""

    resolver: NameResolver
    allow_loopback: bool

    async def resolve_safe_addresses(self, host: str) -> Sequence[str]:
        """Addresses of a host that may be connected to, as many as are worth trying.

        Raises NotSent where it has none, or any that is unsafe or can't be judged.
        """
        try:
            found = [host] if _is_address(host) else await self.resolver.resolve(host)
        except OSError:
            found = []
        if not found:
            raise ConnectionNotMade(DeliveryFailure.NAME_NOT_RESOLVED)
        if not all(map(self.is_allowed, found)):
            raise ConnectionNotMade(DeliveryFailure.UNSAFE_ADDRESS)
        return _interleave_ip_versions(found)[:MAX_ADDRESSES]

    def is_allowed(self, address: str) -> bool:
        return is_safe_address(address, allow_loopback=self.allow_loopback) and (
            self.allow_loopback or not is_own_address(address)
        )


def is_own_address(address: str) -> bool:
    """Whether an address is, or stands for, one of this machine's: the way to it then starts
    there. No packet is sent. Raises NotSent where the machine has no socket left to tell."""
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
    """Both versions in turns, beginning with that of the first: so few of them are enough where
    one version leads nowhere."""
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
