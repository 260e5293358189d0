"""Addresses of clients and proxies.

An address is an IPv4 address or the /64 network of an IPv6 address, because one machine may use
all of that network (CONTRACT 8).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from staffbooking_adapters.settings import IpNetwork

Address: TypeAlias = IPv4Address | IPv6Address

_ADDRESS_WITH_PORT = re.compile(r"([0-9.]+)(?::[0-9]{1,5})?|\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?")


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """Parse an address, with a port or without; an IPv4-mapped IPv6 address becomes the IPv4
    address. None if it is not an address."""
    if match := _ADDRESS_WITH_PORT.fullmatch(text):
        text = match[1] or match[2]
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


@lru_cache(maxsize=4096)
def address_key(address: Address) -> str:
    """The key under which an address is counted: an IPv4 address or an IPv6 /64."""
    if isinstance(address, IPv6Address):
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(address)


def is_trusted_proxy(candidate: Address, trusted_proxies: Sequence[IpNetwork]) -> bool:
    """Whether the address is in one of the networks of trusted proxies."""
    return any(candidate in network for network in trusted_proxies)
