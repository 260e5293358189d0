"""Notifications, muted kinds and inquiries in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.state import (
    MemoryTransaction,
    NoticeRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import Notification, NotificationKind
from staffbooking_core.ports import DueNotification, Lease
from staffbooking_core.request_id import CURRENT_REQUEST_ID


@frozen
class NotificationsReader:
    """Reads notifications, muted kinds and inquiries."""

    tx: MemoryTransaction

    async def muted_kinds_of(self, user_id: int) -> frozenset[NotificationKind]:
        return self.tx.state.muted_kinds.get(user_id) or frozenset()

    async def muted_kinds_of_all(
        self, user_ids: Collection[int]
    ) -> Mapping[int, frozenset[NotificationKind]]:
        return {user_id: await self.muted_kinds_of(user_id) for user_id in user_ids}

    async def inquiries(self, after_id: int, limit: int) -> Sequence[Inquiry]:
        inquiries = self.tx.state.inquiries
        later_ids = sorted(inquiry_id for inquiry_id in inquiries if inquiry_id > after_id)
        return [inquiries[inquiry_id] for inquiry_id in later_ids[:limit]]

    async def newest_inquiries(
        self, before_id: int | None, limit: int, *, answered: bool | None = None
    ) -> Sequence[Inquiry]:
        found = [
            inquiry
            for inquiry_id, inquiry in sorted(self.tx.state.inquiries.items(), reverse=True)
            if (before_id is None or inquiry_id < before_id)
            and answered in (None, inquiry.answered_at is not None)
        ]
        return found[:limit]

    async def inquiry(self, inquiry_id: int) -> Inquiry | None:
        return self.tx.state.inquiries.get(inquiry_id)


@frozen
class NotificationsWriter(NotificationsReader):
    """Reads and writes notifications, muted kinds and inquiries."""

    async def add_notifications(
        self, notifications: Sequence[Notification], due_at: datetime
    ) -> None:
        add_notices(self.tx, notifications, due_at)

    async def claim_notifications(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[DueNotification]:
        rows = self.tx.state.notices
        due = sorted(
            (row.due_at, notice_id)
            for notice_id, row in rows.items()
            if row.due_at <= now and not is_lease_active(row.lease, now)
        )
        claimed = [notice_id for _, notice_id in due[:limit]]
        for notice_id in claimed:
            rows[notice_id] = evolve(rows[notice_id], lease=lease)
        found = ((notice_id, rows[notice_id]) for notice_id in claimed)
        return [
            DueNotification(notice_id, row.notice, row.attempts, row.request_id)
            for notice_id, row in found
        ]

    async def finish_notifications(self, notification_ids: Collection[int], lease: Lease) -> None:
        for notification_id in notification_ids:
            if self._find_leased(notification_id, lease) is not None:
                self.tx.state.notices.discard(notification_id)

    async def release_notifications(self, notification_ids: Collection[int], lease: Lease) -> None:
        for notification_id in notification_ids:
            if (row := self._find_leased(notification_id, lease)) is not None:
                self.tx.state.notices[notification_id] = evolve(row, lease=None)

    async def defer_notification(self, notification_id: int, lease: Lease, until: datetime) -> None:
        if (row := self._find_leased(notification_id, lease)) is not None:
            deferred = evolve(row, due_at=until, attempts=row.attempts + 1, lease=None)
            self.tx.state.notices[notification_id] = deferred

    async def mute(self, user_id: int, kind: NotificationKind) -> None:
        self.tx.state.muted_kinds[user_id] = await self.muted_kinds_of(user_id) | {kind}

    async def unmute(self, user_id: int, kind: NotificationKind) -> None:
        self.tx.state.muted_kinds[user_id] = await self.muted_kinds_of(user_id) - {kind}

    async def add_inquiry(self, inquiry: NewInquiry) -> Inquiry:
        inquiry_id = next(self.tx.shared.inquiry_ids)
        added = Inquiry(id=inquiry_id, **asdict(inquiry, recurse=False))
        self.tx.state.inquiries[inquiry_id] = added
        return added

    async def save_answer(self, inquiry: Inquiry) -> bool:
        known = self.tx.state.inquiries.get(inquiry.id)
        if known is None or known.answered_at is not None:
            return False
        self.tx.state.inquiries[inquiry.id] = inquiry
        return True

    def _find_leased(self, notice_id: int, lease: Lease) -> NoticeRow | None:
        row = self.tx.state.notices.get(notice_id)
        return row if row is not None and holds_lease(row.lease, lease) else None


def add_notices(tx: MemoryTransaction, notices: Sequence[Notification], at: datetime) -> None:
    """Add notifications, due at `at`."""
    for notice in notices:
        tx.state.notices[next(tx.shared.notice_ids)] = NoticeRow(
            notice, at, request_id=CURRENT_REQUEST_ID.get()
        )
