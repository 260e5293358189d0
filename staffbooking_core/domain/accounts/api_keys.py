"""API keys: generation, format check, storage, masking and validity.

A key is `ps_`, 59 random base62 characters, and the CRC-32 of those 62 characters as 6 base62
digits: 68 characters (CONTRACT 2). The checksum lets a scanner recognize a key offline, and rejects
a mistyped one without a look-up; it proves nothing more.
"""

from __future__ import annotations

import hashlib
import zlib
from datetime import datetime
from enum import StrEnum
from operator import mul

from attrs import evolve, field, frozen

__all__ = ["ApiKey", "Permission"]

API_KEY_PREFIX = "ps_"
BASE62_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE62_VALUES = {digit: value for value, digit in enumerate(BASE62_ALPHABET)}
API_KEY_RANDOM_LENGTH = 59
API_KEY_LENGTH = 68
_CHECKSUM_LENGTH = 6
_CHECKSUM_PLACES = [len(BASE62_ALPHABET) ** place for place in reversed(range(_CHECKSUM_LENGTH))]
MAX_KEY_OVERLAP_HOURS = 30 * 24
"""How long a replaced key may work beside the new one, at most."""


class Permission(StrEnum):
    READ = "read"
    BOOK = "book"


@frozen
class ApiKey:
    """The stored data of a key. The key itself is shown once, at its creation, and never stored."""

    id: int
    owner_id: int
    name: str
    digest: bytes = field(repr=False)
    masked_key: str
    """`mask_api_key` of the key, stored because it cannot be derived later."""
    permissions: frozenset[Permission]
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_active(self, now: datetime) -> bool:
        """Whether the key is neither revoked nor expired. `now` is wall time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def retire(self, at: datetime) -> ApiKey:
        """The key once another one replaces it: it works until `at`, unless it expires earlier."""
        return evolve(self, expires_at=at if self.expires_at is None else min(at, self.expires_at))


def build_api_key(randomness: str) -> str:
    """Build a key from 59 characters drawn uniformly from `BASE62_ALPHABET` by a secure source."""
    if len(randomness) != API_KEY_RANDOM_LENGTH or not _is_base62(randomness):
        raise ValueError(f"a key needs {API_KEY_RANDOM_LENGTH} base62 characters")
    body = API_KEY_PREFIX + randomness
    return body + _checksum(body)


def is_well_formed_api_key(text: str) -> bool:
    """Whether a text has the format of a key: length, prefix, characters, checksum. Safe for any
    text."""
    return (
        len(text) == API_KEY_LENGTH
        and text.startswith(API_KEY_PREFIX)
        and _is_base62(text[len(API_KEY_PREFIX) :])
        and _checksum_value(text[-_CHECKSUM_LENGTH:]) == _crc(text[:-_CHECKSUM_LENGTH])
    )


def digest_api_key(key: str) -> bytes:
    """The SHA-256 of a well-formed key (32 bytes), which is stored and looked up instead of the
    key."""
    return hashlib.sha256(key.encode("ascii")).digest()


def mask_api_key(key: str) -> str:
    """The masked key for lists: `ps_abcd…wxyz`."""
    return f"{key[:7]}…{key[-4:]}"


def _is_base62(text: str) -> bool:
    return text.isascii() and text.isalnum()


def _crc(body: str) -> int:
    return zlib.crc32(body.encode("ascii"))


def _checksum_value(digits: str) -> int:
    """The number in base 62 that is written as these digits, whose places are known."""
    return sum(map(mul, map(_BASE62_VALUES.__getitem__, digits), _CHECKSUM_PLACES))


def _checksum(body: str) -> str:
    rest, digits = _crc(body), ""
    for _ in range(_CHECKSUM_LENGTH):
        rest, digit = divmod(rest, len(BASE62_ALPHABET))
        digits = BASE62_ALPHABET[digit] + digits
    return digits


def start_of_hour(at: datetime) -> datetime:
    """The hour to which a call of a key is counted."""
    return at.replace(minute=0, second=0, microsecond=0)
