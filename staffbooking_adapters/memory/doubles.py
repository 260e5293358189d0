"""Stand-ins for the machine: time, chance, passwords and what people are told under control.

With these and the memory store a whole deployment runs offline, at any hour, and comes
out the same each time. None is for a public service: `SeededIds` can be guessed and
`PlainHasher` hides nothing.
"""

from __future__ import annotations

import asyncio
import base64
import random
from datetime import datetime, timedelta

from staffbooking_core.domain.accounts.api_keys import API_KEY_RANDOM_LENGTH, BASE62_ALPHABET
from staffbooking_core.domain.messaging.conversations import ContentFindings
from staffbooking_core.ports import Email, Store

CROCKFORD_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class VirtualClock:
    """A clock that stands until it is moved or slept by.

    Business time is ahead of the wall's by `offset`, and with a store also by what the
    sandbox has moved it there.
    """

    def __init__(
        self, now: datetime, offset: timedelta = timedelta(), store: Store | None = None
    ) -> None:
        self.now = now
        self.offset = offset
        self._store = store

    def wall(self) -> datetime:
        return self.now

    async def business(self) -> datetime:
        if self._store is None:
            return self.now + self.offset
        async with self._store.read_view() as view:
            return self.now + self.offset + await view.sandbox.clock_offset()

    async def sleep(self, seconds: float) -> None:
        """Let others run, and the time pass at once."""
        await asyncio.sleep(0)
        self.advance(timedelta(seconds=seconds))

    def advance(self, duration: timedelta) -> None:
        """Let real time pass: both clocks move."""
        self.now += duration

    async def set_business(self, at: datetime) -> None:
        """Move business time alone, as the sandbox does."""
        self.offset += at - await self.business()


class SeededIds:
    """The same names in the same order for the same seed."""

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
    """Passwords as they are, at once."""

    async def hash(self, password: str) -> str:
        return f"plain:{password}"

    async def verify(self, password: str, hashed: str | None) -> bool:
        return hashed == f"plain:{password}"


class RecordingNotifier:
    """Keeps the alerts, as (booking id, text), and the letters, each oldest first."""

    def __init__(self) -> None:
        self.alerts: list[tuple[int, str]] = []
        self.emails: list[Email] = []

    async def alert_operators(self, booking_id: int, text: str) -> None:
        self.alerts.append((booking_id, text))

    async def send_email(self, email: Email) -> None:
        self.emails.append(email)


class PermissiveContentFilter:
    """A content filter that finds nothing."""

    async def scan(self, text: str) -> ContentFindings:
        return ContentFindings()
