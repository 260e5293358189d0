"""The machine: clocks, names, slow hashes, signatures, and telling people."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from staffbooking_core.domain.notifications.notifications import Email


class Clock(Protocol):
    def wall(self) -> datetime:
        """Real time: sessions, windows, leases, keys."""
        ...

    async def business(self) -> datetime:
        """The service's time: starts, refunds, payouts. The sandbox may move it ahead."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait in real time (at once where time is virtual)."""
        ...


class IdGenerator(Protocol):
    """Unguessable names, from a secure source (a seeded one in simulations)."""

    def booking_code(self) -> str:
        """`BK` and 12 Crockford base32 characters."""
        ...

    def event_id(self) -> str:
        """`evt_` and 26 characters, in the order of their making."""
        ...

    def token(self) -> str:
        """256 bits, url-safe: sessions and leases."""
        ...

    def api_key_body(self) -> str:
        """59 base62 characters."""
        ...

    def webhook_secret(self) -> str:
        """`whsec_` and 32 bytes in base64."""
        ...


class Hasher(Protocol):
    """Slow password hashes, computed off the event loop."""

    async def hash(self, password: str) -> str: ...
    async def verify(self, password: str, hashed: str | None) -> bool:
        """With None the same work is done, and the answer is False."""
        ...


class Vault(Protocol):
    """Keyed signatures and seals, by purpose; what an older key made still holds."""

    def sign(self, purpose: str, message: bytes) -> bytes: ...
    def verify(self, purpose: str, message: bytes, signature: bytes) -> bool: ...
    def seal(self, purpose: str, secret: bytes, row_id: int) -> bytes:
        """Encrypt a secret for the row that keeps it: it opens in no other."""
        ...

    def open(self, purpose: str, sealed: bytes, row_id: int) -> bytes:
        """Raises SealBroken where it was sealed for another purpose or row, with a key that is
        not known any more, or was changed."""
        ...

    def is_current(self, sealed: bytes) -> bool:
        """Whether it is sealed with the key that seals now."""
        ...


class Hint(StrEnum):
    """What a process may want to be woken for."""

    EVENTS = "events"
    """An event was committed."""
    DELIVERIES = "deliveries"
    """An endpoint was given its turn."""


class Hints(Protocol):
    """Hints that work may be due, from any process of the deployment. The store gives them
    after its commits. One may be lost: polling is the truth."""

    def count(self, hint: Hint) -> int:
        """How many were heard so far."""
        ...

    async def wait(self, hint: Hint, seen_count: int, timeout_seconds: float) -> None:
        """Until more than `beyond` were heard, or the time has passed."""
        ...


class Notifier(Protocol):
    async def alert_operators(self, booking_id: int, text: str) -> None:
        """Tell the operators of something that they should look at."""
        ...

    async def send_email(self, email: Email) -> None:
        """Tell a person, within `Policy.mail_deadline`: once more, where it was told and that
        could not be noted. Raises Undeliverable where it never can be, and anything else where
        it could not be now, and is asked again later."""
        ...
