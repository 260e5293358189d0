"""The sandbox in memory: its clock, kept mails, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from attrs import asdict, frozen

from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.ports import (
    MAX_SENT_MAILS,
    NewSentMail,
    NextTimer,
    SandboxMark,
    SentMail,
)


@frozen
class SandboxReader:
    """Reads the sandbox."""

    tx: MemoryTransaction

    async def clock_offset(self) -> timedelta:
        return self.tx.state.clock_offset

    async def next_timer(self, now: datetime) -> NextTimer | None:
        state = self.tx.state
        later = [
            (row.due_at, booking_id) for booking_id, row in state.timers.items() if row.due_at > now
        ]
        if not later:
            return None
        due_at, booking_id = min(later)
        return NextTimer(
            booking_id, state.bookings[booking_id].code, state.timers[booking_id].kind, due_at
        )

    async def mark(self) -> SandboxMark:
        state = self.tx.state
        return SandboxMark(
            max(state.event_by_position, default=0), max(state.sent_mails, default=0)
        )

    async def sent_mails(self, limit: int, before_id: int | None = None) -> Sequence[SentMail]:
        mails = self.tx.state.sent_mails
        found = sorted(
            (mail_id for mail_id in mails if before_id is None or mail_id < before_id), reverse=True
        )
        return [mails[mail_id] for mail_id in found[:limit]]

    async def sent_mails_after(self, after_id: int, limit: int) -> Sequence[SentMail]:
        mails = self.tx.state.sent_mails
        later_ids = sorted(mail_id for mail_id in mails if mail_id > after_id)
        return [mails[mail_id] for mail_id in later_ids[:limit]]


@frozen
class SandboxWriter(SandboxReader):
    """Reads and changes the sandbox."""

    async def lock_clock(self) -> timedelta:
        return self.tx.state.clock_offset

    async def set_clock_offset(self, offset: timedelta) -> None:
        self.tx.state.clock_offset = offset

    async def add_sent_mails(self, mails: Sequence[NewSentMail]) -> None:
        stored = self.tx.state.sent_mails
        for mail in mails:
            mail_id = next(self.tx.shared.mail_ids)
            stored[mail_id] = SentMail(**asdict(mail, recurse=False), id=mail_id)
        for old_id in sorted(stored)[:-MAX_SENT_MAILS]:
            stored.discard(old_id)

    async def delete_sent_mails(self) -> None:
        for mail_id in list(self.tx.state.sent_mails):
            self.tx.state.sent_mails.discard(mail_id)
