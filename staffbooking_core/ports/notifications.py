"""Notifications due to be sent, the kinds that users muted, and inquiries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import Notification, NotificationKind
from staffbooking_core.ports.leases import Lease

__all__ = ["DueNotification", "NotificationsReadPort", "NotificationsWritePort"]


@frozen
class DueNotification:
    """A claimed notification; `attempts` is the number of failed ones."""

    id: int
    notification: Notification
    attempts: int
    request_id: str | None = None
    """The id of the request that caused it, for the log."""


class NotificationsReadPort(Protocol):
    """Queries on muted kinds and inquiries."""

    async def muted_kinds_of(self, user_id: int) -> frozenset[NotificationKind]:
        """The kinds that a user muted, of those that this version knows."""
        ...

    async def muted_kinds_of_all(
        self, user_ids: Collection[int]
    ) -> Mapping[int, frozenset[NotificationKind]]:
        """The kinds that each of these users muted; users without any may be left out."""
        ...

    async def inquiries(self, after_id: int, limit: int) -> Sequence[Inquiry]:
        """Up to `limit` inquiries above `after_id`, by id."""
        ...

    async def newest_inquiries(
        self, before_id: int | None, limit: int, *, answered: bool | None = None
    ) -> Sequence[Inquiry]:
        """Up to `limit` inquiries below `before_id`, the newest first; with `answered`, only those
        that are answered or not."""
        ...

    async def inquiry(self, inquiry_id: int) -> Inquiry | None:
        """An inquiry by id."""
        ...


class NotificationsWritePort(NotificationsReadPort, Protocol):
    """Commands on notifications and inquiries. Times are wall time."""

    async def add_notifications(
        self, notifications: Sequence[Notification], due_at: datetime
    ) -> None:
        """Insert notifications that are due from `due_at` on."""
        ...

    async def claim_notifications(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[DueNotification]:
        """Claim up to `limit` due notifications on which no lease runs, the longest overdue first;
        of kinds that this version does not know too."""
        ...

    async def finish_notifications(self, notification_ids: Collection[int], lease: Lease) -> None:
        """Delete notifications that were sent or never will be; those whose lease was lost are
        left."""
        ...

    async def release_notifications(self, notification_ids: Collection[int], lease: Lease) -> None:
        """Release notifications that were not tried: they can be claimed at once, in their place;
        those whose lease was lost are left."""
        ...

    async def defer_notification(self, notification_id: int, lease: Lease, until: datetime) -> None:
        """Release a notification that could not be sent, not to be claimed before `until`; nothing
        happens where the lease was lost."""
        ...

    async def mute(self, user_id: int, kind: NotificationKind) -> None:
        """Mute a kind for a user; muting it again changes nothing."""
        ...

    async def unmute(self, user_id: int, kind: NotificationKind) -> None:
        """Unmute a kind for a user."""
        ...

    async def add_inquiry(self, inquiry: NewInquiry) -> Inquiry:
        """Insert an inquiry."""
        ...

    async def save_answer(self, inquiry: Inquiry) -> bool:
        """Save when, by whom and how an inquiry was answered; False, and nothing changes, where it
        was answered before."""
        ...
