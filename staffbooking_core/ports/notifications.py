"""The store's family of notices, of what people refuse to be told, and of inquiries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import Notification, NotificationKind
from staffbooking_core.ports.leases import Lease


@frozen
class DueNotification:
    """A notice that was claimed; `attempts` to tell it have failed before."""

    id: int
    notification: Notification
    attempts: int


class NotificationsReadPort(Protocol):
    async def muted_kinds_of(self, user_id: int) -> frozenset[NotificationKind]:
        """What a user does not want to be told, of what this version knows."""
        ...

    async def inquiries(self, after_id: int, limit: int) -> Sequence[Inquiry]:
        """In the order of ids, from the first above `after_id`."""
        ...


class NotificationsWritePort(NotificationsReadPort, Protocol):
    async def add_notifications(
        self, notifications: Sequence[Notification], due_at: datetime
    ) -> None:
        """To be told from now on; wall time."""
        ...

    async def claim_notifications(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[DueNotification]:
        """Claim notices that are due, what is due longest first; none while another's lease
        on it runs. One of a kind that this version doesn't know is claimed like any other."""
        ...

    async def finish_notification(self, notification_id: int, lease: Lease) -> None:
        """It was told, or never will be, and goes away; nothing where the claim was lost."""
        ...

    async def defer_notification(self, notification_id: int, lease: Lease, until: datetime) -> None:
        """It could not be told: once more, and not before; nothing where the claim was lost."""
        ...

    async def mute(self, user_id: int, kind: NotificationKind) -> None:
        """Once or more often."""
        ...

    async def unmute(self, user_id: int, kind: NotificationKind) -> None: ...
    async def add_inquiry(self, inquiry: NewInquiry) -> Inquiry: ...
