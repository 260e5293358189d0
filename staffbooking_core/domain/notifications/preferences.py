"""Which notifications somebody may switch off."""

from __future__ import annotations

from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.notifications.notifications import (
    OPTIONAL_NOTIFICATION_KINDS,
    NotificationKind,
)


def optional_kinds_of(role: Role) -> tuple[NotificationKind, ...]:
    """The kinds that somebody of a role gets and may switch off: payouts are those of staff
    members, and bookings are accepted for customers."""
    foreign = NotificationKind.ACCEPTED if role is Role.STAFF else NotificationKind.PAYOUT
    return tuple(kind for kind in OPTIONAL_NOTIFICATION_KINDS if kind is not foreign)
