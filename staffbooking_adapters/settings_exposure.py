"""What a deployment that strangers can reach must set: a strong secret key, and an explicit
sandbox (CONTRACT 10)."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from math import log2
from urllib.parse import urlsplit

DEFAULT_SECRET = "development-only-secret-key"
_MIN_SECRET_LENGTH = 16
STRONG_SECRET_LENGTH = 32
_MIN_SECRET_BITS = 80
"""Random keys of STRONG_SECRET_LENGTH hexadecimal digits have at least 95."""


def parse_secrets(text: str) -> tuple[str, ...]:
    """The secret keys of a setting. Raises ValueError with what they must be."""
    keys = tuple(key.strip() for key in text.split(","))
    if any(len(key) < _MIN_SECRET_LENGTH for key in keys):
        raise ValueError(
            f"must be one or more keys of at least {_MIN_SECRET_LENGTH} characters, "
            f"{STRONG_SECRET_LENGTH} where strangers can reach the service"
        )
    return keys


def is_weak_secret(key: str) -> bool:
    """Whether a secret key is the default, shorter than STRONG_SECRET_LENGTH, or of little
    entropy: few different characters, a repeated part, or a sequence such as `abcdef`."""
    if key == DEFAULT_SECRET or len(key) < STRONG_SECRET_LENGTH:
        return True
    period = next(size for size in range(1, len(key) + 1) if key == _repeat(key[:size], len(key)))
    steps = [ord(after) - ord(before) for before, after in pairwise(key)]
    return period * min(_entropy_bits(key), _entropy_bits(steps)) < _MIN_SECRET_BITS


def _repeat(part: str, length: int) -> str:
    return (part * (length // len(part) + 1))[:length]


def _entropy_bits(symbols: Sequence[Hashable]) -> float:
    """Shannon's entropy of the symbols, in bits a symbol."""
    shares = [count / len(symbols) for count in Counter(symbols).values()]
    return -sum(share * log2(share) for share in shares)


def is_public_url(base_url: str) -> bool:
    """Whether a URL's host is public, not this machine or a private network."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        local = ("localhost", "test", "local", "internal", "invalid", "example")
        return "." in host and host.rpartition(".")[2] not in local


def is_loopback(address: str) -> bool:
    """Whether a server that listens on this IP address is reached from its own machine alone."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def is_exposed(base_url: str, listening_address: str | None) -> bool:
    """Whether strangers can reach a deployment: by its URL, or where its server listens beyond its
    own machine. `listening_address` is None where no server is known."""
    listens_beyond = listening_address is not None and not is_loopback(listening_address)
    return listens_beyond or is_public_url(base_url)
