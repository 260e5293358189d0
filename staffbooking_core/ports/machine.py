"""The machine: clocks, names, slow hashes, signatures, and telling people."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, TypeVar

T = TypeVar("T")


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


class Ids(Protocol):
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

    def key_body(self) -> str:
        """59 base62 characters."""
        ...


class Hasher(Protocol):
    """Slow password hashes, computed off the event loop."""

    async def hash(self, password: str) -> str: ...
    async def verify(self, password: str, hashed: str | None) -> bool:
        """With None the same work is done, and the answer is False."""
        ...


class Vault(Protocol):
    """Keyed signatures, by purpose; what an older key made still verifies."""

    def sign(self, purpose: str, message: bytes) -> bytes: ...
    def verify(self, purpose: str, message: bytes, signature: bytes) -> bool: ...


class Notifier(Protocol):
    async def alert(self, booking_id: int, text: str) -> None:
        """Tell the operators of something that they should look at."""
        ...
