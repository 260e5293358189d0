"""System clock, random identifiers and password hashing."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import time_ns
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from staffbooking_adapters.batcher import Batcher
from staffbooking_core.domain.accounts.api_keys import API_KEY_RANDOM_LENGTH, BASE62_ALPHABET
from staffbooking_core.ports import Store

if TYPE_CHECKING:
    from argon2 import PasswordHasher

_MAX_SHARED_READS = 500

_CROCKFORD_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CROCKFORD_PAIRS = [
    first + second for first in _CROCKFORD_ALPHABET for second in _CROCKFORD_ALPHABET
]


class SystemClock:
    """The system's clock; business time is wall time."""

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def business(self) -> datetime:
        return self.wall()

    def business_at(self, clock_offset: timedelta) -> datetime:
        return self.wall()

    def skew(self) -> timedelta | None:
        return timedelta(0)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class SandboxClock(SystemClock):
    """Business time is ahead of wall time by an offset in the store. The offset is read after each
    call, so every process sees a change at once; calls that wait together share a reading. Wall
    time is `real_clock`'s."""

    def __init__(self, store: Store, real_clock: SystemClock) -> None:
        self._store = store
        self._real_clock = real_clock
        self._offset_reads: Batcher[None, timedelta] = Batcher(
            self._read_offset, max_batch_size=_MAX_SHARED_READS
        )
        self._kept_offset: timedelta | None = None

    @asynccontextmanager
    async def keeping_offset(self) -> AsyncIterator[None]:
        """A time in which the offset stays as it is now, so that it is read only once."""
        self._kept_offset = await self._offset_reads.submit(None)
        try:
            yield
        finally:
            self._kept_offset = None

    def wall(self) -> datetime:
        return self._real_clock.wall()

    def skew(self) -> timedelta | None:
        return self._real_clock.skew()

    async def business(self) -> datetime:
        if self._kept_offset is not None:
            return self.business_at(self._kept_offset)
        return self.business_at(await self._offset_reads.submit(None))

    def business_at(self, clock_offset: timedelta) -> datetime:
        return self.wall() + clock_offset

    async def _read_offset(self, calls: Sequence[None]) -> Sequence[timedelta]:
        async with self._store.read_view() as view:
            return [await view.sandbox.clock_offset()] * len(calls)


class SystemIds:
    """Identifiers and secrets from the operating system's secure random source."""

    def booking_code(self) -> str:
        return "BK" + _encode_base32(secrets.randbits(12 * 5), 12)

    def event_id(self) -> str:
        """The time in milliseconds followed by 80 random bits: ids sort by creation time."""
        milliseconds = time_ns() // 1_000_000
        return "evt_" + _encode_base32(milliseconds << 80 | secrets.randbits(80), 26)

    def token(self) -> str:
        return secrets.token_urlsafe(32)

    def api_key_body(self) -> str:
        return "".join(secrets.choice(BASE62_ALPHABET) for _ in range(API_KEY_RANDOM_LENGTH))

    def webhook_secret(self) -> str:
        return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _encode_base32(number: int, length: int) -> str:
    """An even number of digits, two at a time."""
    digits = ""
    for _ in range(length // 2):
        number, pair = divmod(number, len(_CROCKFORD_PAIRS))
        digits = _CROCKFORD_PAIRS[pair] + digits
    return digits


class Argon2Hasher:
    """Argon2id (CONTRACT 2) in at most two threads at once, so that many logins delay only
    logins."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(2)

    async def hash(self, password: str) -> str:
        return await anyio.to_thread.run_sync(_hasher().hash, password, limiter=self._limiter)

    async def verify(self, password: str, hashed: str | None) -> bool:
        return await anyio.to_thread.run_sync(_verify, password, hashed, limiter=self._limiter)


@lru_cache(maxsize=1)
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    # OWASP's recommended parameters: 19 MiB, 2 passes, 1 lane.
    return PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


@lru_cache(maxsize=1)
def _dummy_hash() -> str:
    return _hasher().hash(secrets.token_urlsafe())


def _verify(password: str, hashed: str | None) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return _hasher().verify(hashed or _dummy_hash(), password) and hashed is not None
    except (Argon2Error, InvalidHashError):
        return False
