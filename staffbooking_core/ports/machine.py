"""Services of the machine: clocks, random names, password hashes, signatures, hints, mail."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from staffbooking_core.domain.notifications.notifications import Email

__all__ = ["Clock", "Hasher", "Hint", "Hints", "IdGenerator", "Notifier", "Vault"]


class Clock(Protocol):
    """Real time, and the service's time, both with `datetime.UTC` as their timezone."""

    def wall(self) -> datetime:
        """Real time, the same for all processes that share a store: for sessions, rate limits,
        leases and keys."""
        ...

    async def business(self) -> datetime:
        """The service's time: for starts, refunds and payouts. The sandbox may move it ahead."""
        ...

    def business_at(self, clock_offset: timedelta) -> datetime:
        """The service's time now, with the store's clock offset as it was just read: for
        use-cases that read it together with other rows."""
        ...

    def skew(self) -> timedelta | None:
        """How far this machine's own clock is ahead of real time as the store has it, now;
        negative where it is behind, and zero where there is nothing to compare. None where the
        two were not compared lately: the service is not ready until they are."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait in real time. A virtual clock advances by as much and returns at once."""
        ...


class IdGenerator(Protocol):
    """Unguessable names from a secure source (from a seeded one in simulations)."""

    def booking_code(self) -> str:
        """`BK` and 12 Crockford base32 characters."""
        ...

    def event_id(self) -> str:
        """`evt_` and 26 characters, ascending in the order of creation."""
        ...

    def token(self) -> str:
        """256 bits, url-safe: for sessions and leases."""
        ...

    def api_key_body(self) -> str:
        """59 base62 characters."""
        ...

    def webhook_secret(self) -> str:
        """`whsec_` and 32 bytes in base64."""
        ...


class Hasher(Protocol):
    """Slow password hashes, computed off the event loop."""

    async def hash(self, password: str) -> str:
        """The salted hash of a password."""
        ...

    async def verify(self, password: str, hashed: str | None) -> bool:
        """Whether a password has this hash. With None the same work is done, and the result is
        False."""
        ...


class Vault(Protocol):
    """Keyed signatures and encryption, by purpose; values made with an older known key stay
    valid."""

    def sign(self, purpose: str, message: bytes) -> bytes:
        """The signature of a message for a purpose."""
        ...

    def verify(self, purpose: str, message: bytes, signature: bytes) -> bool:
        """Whether a signature is that of a message for a purpose, with any known key."""
        ...

    def seal(self, purpose: str, secret: bytes, row_id: int) -> bytes:
        """Encrypt a secret for the row that stores it: it opens in no other row."""
        ...

    def open(self, purpose: str, sealed: bytes, row_id: int) -> bytes:
        """The secret that was sealed.

        Raises SealBroken where it was sealed for another purpose or row, with a key that is not
        known any more, or was changed.
        """
        ...

    def is_current(self, sealed: bytes) -> bool:
        """Whether it is sealed with the key that seals now."""
        ...


class Hint(StrEnum):
    """The kinds of work that a process may be woken for."""

    EVENTS = "events"
    """An event was committed."""
    DELIVERIES = "deliveries"
    """An endpoint has a due batch."""


class Hints(Protocol):
    """Hints that work may be due, from any process of the deployment. The store gives them after
    its commits. Hints may be lost: polling is the truth."""

    def count(self, hint: Hint) -> int:
        """The number of hints received so far."""
        ...

    async def wait(self, hint: Hint, seen_count: int, timeout_seconds: float) -> None:
        """Wait until more than `seen_count` hints were received, or the timeout has passed."""
        ...


class Notifier(Protocol):
    """Alerts to operators, and mail."""

    async def alert_operators(self, booking_id: int, text: str) -> None:
        """Send operators an alert about a booking."""
        ...

    async def send_email(self, email: Email) -> None:
        """Send an e-mail within `Policy.mail_timeout`, at least once: a repeat follows where its
        success could not be recorded.

        Raises UndeliverableEmail where it can never be delivered, and any other error where it must
        be retried later.
        """
        ...
