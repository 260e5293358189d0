"""Deterministic doubles of the clock, ids, password hasher, notifier and content filter.

With these and the memory store a deployment runs offline and gives the same results each time.
They are unsafe for a public service: `SeededIds` are predictable and `PlainHasher` stores
passwords in clear text.
"""

from __future__ import annotations

import asyncio
import base64
import random
from datetime import datetime, timedelta

from staffbooking_core.domain.accounts.api_keys import API_KEY_RANDOM_LENGTH, BASE62_ALPHABET
from staffbooking_core.domain.messaging.conversations import ContentFindings
from staffbooking_core.ports import Email, Store, UndeliverableEmail

CROCKFORD_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class VirtualClock:
    """A clock that advances only by `advance` and `sleep`.

    Business time is wall time plus `offset` and, with a store, plus the sandbox's clock offset.
    """

    def __init__(
        self, now: datetime, offset: timedelta = timedelta(), store: Store | None = None
    ) -> None:
        self.now = now
        self.offset = offset
        self.machine_skew: timedelta | None = timedelta(0)
        """What `skew` returns."""
        self._store = store

    def wall(self) -> datetime:
        return self.now

    async def business(self) -> datetime:
        if self._store is None:
            return self.now + self.offset
        async with self._store.read_view() as view:
            return self.business_at(await view.sandbox.clock_offset())

    def business_at(self, clock_offset: timedelta) -> datetime:
        return self.now + self.offset + (timedelta() if self._store is None else clock_offset)

    def skew(self) -> timedelta | None:
        return self.machine_skew

    async def sleep(self, seconds: float) -> None:
        """Yield to other tasks and advance the clock at once."""
        await asyncio.sleep(0)
        self.advance(timedelta(seconds=seconds))

    def advance(self, duration: timedelta) -> None:
        """Advance wall and business time."""
        self.now += duration

    async def set_business(self, at: datetime) -> None:
        """Set business time alone, as the sandbox does."""
        self.offset += at - await self.business()


class SeededIds:
    """Ids and secrets in an order determined by the seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._event_count = 0

    def booking_code(self) -> str:
        return "BK" + self._draw(CROCKFORD_ALPHABET, 12)

    def event_id(self) -> str:
        self._event_count += 1
        return f"evt_{self._event_count:016d}" + self._draw(CROCKFORD_ALPHABET, 10)

    def token(self) -> str:
        return base64.urlsafe_b64encode(self._random.randbytes(32)).rstrip(b"=").decode()

    def api_key_body(self) -> str:
        return self._draw(BASE62_ALPHABET, API_KEY_RANDOM_LENGTH)

    def webhook_secret(self) -> str:
        return "whsec_" + base64.b64encode(self._random.randbytes(32)).decode()

    def _draw(self, letters: str, length: int) -> str:
        return "".join(self._random.choices(letters, k=length))


class PlainHasher:
    """A hasher that stores passwords in clear text, without delay."""

    async def hash(self, password: str) -> str:
        return f"plain:{password}"

    async def verify(self, password: str, hashed: str | None) -> bool:
        return hashed == f"plain:{password}"


class RecordingNotifier:
    """Records alerts, as (booking id, text), and emails, each the oldest first.

    The next emails fail with `errors`, and all to `refused_addresses` are undeliverable.
    """

    def __init__(self) -> None:
        self.alerts: list[tuple[int, str]] = []
        self.emails: list[Email] = []
        self.errors: list[Exception] = []
        self.refused_addresses: set[str] = set()

    async def alert_operators(self, booking_id: int, text: str) -> None:
        self.alerts.append((booking_id, text))

    async def send_email(self, email: Email) -> None:
        if email.to in self.refused_addresses:
            raise UndeliverableEmail("the address is refused")
        if self.errors:
            raise self.errors.pop(0)
        self.emails.append(email)


class PermissiveContentFilter:
    """A content filter that finds nothing."""

    async def scan(self, text: str) -> ContentFindings:
        return ContentFindings()
