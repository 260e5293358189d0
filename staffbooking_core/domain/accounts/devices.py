"""Devices in words: the browser and the system that a `User-Agent` header names, and the network
of an address, from which nobody's own address can be told."""

from __future__ import annotations

import ipaddress
import re

from attrs import frozen

__all__ = ["SignInOrigin"]

_BROWSERS = (
    (r"Edg(?:e|A|iOS)?/", "Edge"),
    (r"OPR/|Opera", "Opera"),
    (r"Vivaldi/", "Vivaldi"),
    (r"SamsungBrowser/", "Samsung Internet"),
    (r"DuckDuckGo/|Ddg/", "DuckDuckGo"),
    (r"Firefox/|FxiOS/", "Firefox"),
    (r"Chrome/|CriOS/|Chromium/", "Chrome"),
    (r"Version/\S+ .*Safari/", "Safari"),
    (r"curl/", "curl"),
    (r"python-requests/|python-httpx/|aiohttp/", "Python"),
)
"""A pattern of each browser, in the order in which they are tried: most name others as well."""
_SYSTEMS = (
    (r"iPhone", "iPhone"),
    (r"iPad", "iPad"),
    (r"Android", "Android"),
    (r"Windows", "Windows"),
    (r"CrOS", "ChromeOS"),
    (r"Macintosh|Mac OS X", "Mac"),
    (r"Linux|X11", "Linux"),
)
_MAX_HEADER_LENGTH = 500
_NETWORK_BITS = {4: 24, 6: 48}


@frozen
class SignInOrigin:
    """The device and the network of a sign-in; None where one is unknown."""

    browser: str | None = None
    system: str | None = None
    network: str | None = None
    """An IPv4 /24 or an IPv6 /48, such as `203.0.113.0/24`."""


def read_user_agent(header: str) -> tuple[str | None, str | None]:
    """The names of the browser and of the system in a `User-Agent` header."""
    header = header[:_MAX_HEADER_LENGTH]
    return _first_match(_BROWSERS, header), _first_match(_SYSTEMS, header)


def _first_match(patterns: tuple[tuple[str, str], ...], header: str) -> str | None:
    return next((name for pattern, name in patterns if re.search(pattern, header)), None)


def mask_address(address: str) -> str | None:
    """The network of an IP address or of a shorter network; None for what is neither."""
    try:
        found = ipaddress.ip_network(address, strict=False)
    except ValueError:
        return None
    bits = min(found.prefixlen, _NETWORK_BITS[found.version])
    return str(ipaddress.ip_network(f"{found.network_address}/{bits}", strict=False))
