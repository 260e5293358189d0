"""Addresses of clients and proxies.

What counts by address counts by IPv4 address or by the /64 network of an IPv6 address, because one
machine may use all of that network (CONTRACT 8).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from staffbooking_adapters.settings import IpNetwork
from staffbooking_core.domain.accounts.devices import SignInOrigin, mask_address, read_user_agent
from staffbooking_http.api.endpoint import Call, Scope

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


def is_trusted_peer(scope: Scope, trusted_proxies: Sequence[IpNetwork]) -> bool:
    """Whether a request comes from a trusted proxy."""
    peer = _peer_address(scope)
    return peer is not None and is_trusted_proxy(peer, trusted_proxies)


def client_address_key(call: Call) -> str:
    """The key of the address of a call's client; `local` if the server knows no address."""
    client = _client_address(call)
    return "local" if client is None else address_key(client)


def sign_in_origin(call: Call) -> SignInOrigin:
    """The device and the network from which a call comes."""
    agents = call.headers(b"user-agent")
    browser, system = read_user_agent(agents[0].decode("latin-1") if agents else "")
    return SignInOrigin(browser, system, mask_address(client_address_key(call)))


def _client_address(call: Call) -> Address | None:
    """The client's address. If the peer is a trusted proxy, it is the last address in
    X-Forwarded-For that is not a trusted proxy's."""
    client = _peer_address(call.scope)
    if client is None or not is_trusted_proxy(client, call.site.trusted_proxies):
        return client
    for forwarded in reversed(b",".join(call.headers(b"x-forwarded-for")).split(b",")):
        further = parse_address(forwarded.decode("latin-1").strip())
        if further is None:
            break
        client = further
        if not is_trusted_proxy(client, call.site.trusted_proxies):
            break
    return client


def _peer_address(scope: Scope) -> Address | None:
    """The address of the other end of the connection."""
    peer = scope.get("client")
    return parse_address(peer[0]) if peer else None
