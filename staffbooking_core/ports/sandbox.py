"""The sandbox: its business clock, which can be moved ahead of the wall clock, and the mails that
it keeps for testers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from attrs import field, frozen

from staffbooking_core.domain.bookings.lifecycle import TimerKind

__all__ = [
    "MAX_SENT_MAILS",
    "NewSentMail",
    "NextTimer",
    "SandboxMark",
    "SandboxReadPort",
    "SandboxWritePort",
    "SentMail",
]

MAX_SENT_MAILS = 500
"""The number of mails that the sandbox keeps: the newest."""


@frozen
class NewSentMail:
    """A mail that was sent, as its recipient reads it. `sent_at` is wall time."""

    sent_at: datetime
    recipient: str = field(repr=False)
    subject: str
    text: str = field(repr=False)
    action: str
    """The label of the link."""
    url: str | None = field(repr=False)
    unsubscribe_url: str | None = field(repr=False)


@frozen
class SentMail(NewSentMail):
    """A kept mail; later mails have higher ids."""

    id: int


@frozen
class NextTimer:
    """The next timer of any booking; `due_at` is business time."""

    booking_id: int
    booking_code: str
    kind: TimerKind
    due_at: datetime


@frozen
class SandboxMark:
    """A place in the order of what happens: the last position in the feed of events, and the id of
    the last mail. Zero where there is none."""

    position: int
    mail_id: int


class SandboxReadPort(Protocol):
    """Queries on the sandbox."""

    async def clock_offset(self) -> timedelta:
        """How far business time is ahead of the wall clock; zero at first."""
        ...

    async def next_timer(self, now: datetime) -> NextTimer | None:
        """The first timer that is due after `now` (business time)."""
        ...

    async def mark(self) -> SandboxMark:
        """The present place."""
        ...

    async def sent_mails(self, limit: int, before_id: int | None = None) -> Sequence[SentMail]:
        """Up to `limit` kept mails, the newest first; with `before_id` those with lower ids."""
        ...

    async def sent_mails_after(self, after_id: int, limit: int) -> Sequence[SentMail]:
        """Up to `limit` kept mails with higher ids, the oldest first."""
        ...


class SandboxWritePort(SandboxReadPort, Protocol):
    """Commands on the sandbox."""

    async def lock_clock(self) -> timedelta:
        """The clock offset, locked until the transaction ends."""
        ...

    async def set_clock_offset(self, offset: timedelta) -> None:
        """Set the clock offset; the caller holds the lock of `lock_clock`."""
        ...

    async def add_sent_mails(self, mails: Sequence[NewSentMail]) -> None:
        """Keep mails, and delete the oldest beyond `MAX_SENT_MAILS`."""
        ...

    async def delete_sent_mails(self) -> None:
        """Delete all kept mails."""
        ...
