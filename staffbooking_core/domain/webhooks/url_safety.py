"""URLs that may be registered for webhooks, and addresses that are safe to connect to (CONTRACT 7).

The table of unsafe networks is explicit: the result of Python's `is_global` varies with its
release, and it accepts several addresses that lead to internal networks.
"""

from __future__ import annotations

import re
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from stringprep import in_table_a1
from typing import Final

from staffbooking_core.domain.webhooks.deliveries import MAX_WEBHOOK_URL_LENGTH

_IpAddress = IPv4Address | IPv6Address

_UNSAFE_IPV4_NETWORKS: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network: 0.0.0.0 is the machine itself
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; metadata at 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # cloud metadata on a public address
        "169.254.0.0/16",  # link-local; metadata at 169.254.169.254
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; metadata at 192.0.0.192
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved and broadcast
    )
)

_GLOBAL_UNICAST_NETWORK: Final = IPv6Network("2000::/3")
"""IPv6 addresses outside it are unsafe, unless they embed an IPv4 address."""

_UNSAFE_IPV6_NETWORKS: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: embeds any IPv4 address
        "3fff::/20",  # documentation
    )
)

_IPV4_MAPPED_NETWORK: Final = IPv6Network("::ffff:0:0/96")
_NAT64_NETWORK: Final = IPv6Network("64:ff9b::/96")
"""NAT64: an IPv6-only network reaches IPv4 by it, so the embedded IPv4 address decides. Prefixes of
local translators (64:ff9b:1::/48) are unsafe."""

_LOOPBACK_IPV4_NETWORK: Final = IPv4Network("127.0.0.0/8")
_LOOPBACK_IPV6_ADDRESS: Final = IPv6Address("::1")

_URL_PATTERN: Final = re.compile(
    r"(?P<scheme>[a-z]+)://"
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^\[\]:/?#@%]+))"
    r"(?::(?P<port>[0-9]*))?"
    r"(?P<rest>[/?].*)?",
    re.I | re.S | re.A,
)
_HOST_LABEL_PATTERN: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.A)
_HOST_NUMBER_PATTERN: Final = re.compile(r"0x[0-9a-f]*|[0-9]+", re.A)

_AMBIGUOUS_IDNA_CHARACTERS: Final = frozenset("ßς\u200c\u200d")
"""Characters that the standard library (IDNA 2003) maps to others and newer rules do not, so the
name could be another owner's. The same holds for all characters newer than Unicode 3.2, for example
ẞ."""


def is_safe_address(address: str, *, allow_loopback: bool = False) -> bool:
    """Whether an address in canonical notation may be connected to. With `allow_loopback`,
    127.0.0.0/8 and ::1 may be too."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if allow_loopback and (
        parsed == _LOOPBACK_IPV6_ADDRESS or _is_in_network(parsed, _LOOPBACK_IPV4_NETWORK)
    ):
        return True
    return _is_public_address(parsed)


def embedded_ipv4_address(address: _IpAddress) -> _IpAddress:
    """The IPv4 address embedded in a mapped or NAT64 address; any other is returned unchanged."""
    if isinstance(address, IPv6Address) and (
        address in _IPV4_MAPPED_NETWORK or address in _NAT64_NETWORK
    ):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def validate_webhook_url(url: str, *, allow_insecure: bool = False) -> str:
    """Validate a URL and return its host: a lower-case ASCII name, or an address in canonical form.

    With `allow_insecure`, http and loopback are allowed too. Raises ValueError with the fault as
    the rest of a sentence.
    """
    if len(url) > MAX_WEBHOOK_URL_LENGTH:
        raise ValueError(f"must have at most {MAX_WEBHOOK_URL_LENGTH} characters")
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("must not hold blanks, backslashes or control characters")
    scheme, slashes, rest = url.partition("://")
    if not slashes or scheme.lower() not in (("https", "http") if allow_insecure else ("https",)):
        raise ValueError("must be an https URL")
    if "#" in rest:
        raise ValueError("must not have a fragment")
    if "@" in re.split("[/?]", rest, maxsplit=1)[0]:
        raise ValueError("must not hold a user name or password")
    parts = _URL_PATTERN.fullmatch(url)
    if parts is None:
        raise ValueError("must have a host, and a port of 1 to 65535 if any")
    if parts["port"] and not 1 <= int(parts["port"]) <= 65535:
        raise ValueError("must have a port of 1 to 65535 if any")
    if not (parts["rest"] or "").isascii():
        raise ValueError("must have its special characters percent-encoded")
    host = _parse_ipv6_host(parts["v6"]) if parts["v6"] else _parse_host(parts["name"])
    if not _may_host_be_public(host, allow_loopback=allow_insecure):
        raise ValueError("must lead to a public address")
    return host


def _is_in_network(address: _IpAddress, network: IPv4Network | IPv6Network) -> bool:
    return address.version == network.version and address in network


def _is_public_address(address: _IpAddress) -> bool:
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    effective_address = embedded_ipv4_address(address)
    if isinstance(effective_address, IPv4Address):
        return not any(effective_address in network for network in _UNSAFE_IPV4_NETWORKS)
    return effective_address in _GLOBAL_UNICAST_NETWORK and not any(
        effective_address in network for network in _UNSAFE_IPV6_NETWORKS
    )


def _may_host_be_public(host: str, *, allow_loopback: bool) -> bool:
    """Whether the host may be public: a name always, since its address is checked on connection."""
    if host == "localhost" or host.endswith(".localhost"):
        return allow_loopback
    try:
        ip_address(host)
    except ValueError:
        return True
    return is_safe_address(host, allow_loopback=allow_loopback)


def _parse_ipv6_host(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except AddressValueError:
        raise ValueError("must have a host that is a name or an address") from None


def _parse_host(text: str) -> str:
    """Normalize a name, or an IPv4 address in any notation."""
    if any(letter in _AMBIGUOUS_IDNA_CHARACTERS or in_table_a1(letter) for letter in text):
        raise ValueError("must have the host's name in ASCII (xn--…)")
    try:
        name = text.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError:
        raise ValueError("must have a host that is a name or an address") from None
    labels = name.split(".")
    if _HOST_NUMBER_PATTERN.fullmatch(labels[-1]):
        return str(IPv4Address(_inet_aton(labels)))
    if len(name) > 253 or not all(map(_HOST_LABEL_PATTERN.fullmatch, labels)):
        raise ValueError("must have a host that is a name or an address")
    return name


def _inet_aton(parts: list[str]) -> int:
    """The IPv4 address that the C library parses from up to four numbers, each decimal, octal
    (after 0) or hexadecimal (after 0x); the last number fills the remaining bytes."""
    try:
        *first, last = [_parse_host_number(part) for part in parts]
    except ValueError:
        raise ValueError("must have a host that is a name or an address") from None
    if len(first) > 3 or any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):
        raise ValueError("must have a host that is a name or an address")
    return sum(part << 8 * (3 - place) for place, part in enumerate(first)) + last


def _parse_host_number(text: str) -> int:
    if not _HOST_NUMBER_PATTERN.fullmatch(text):
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)
