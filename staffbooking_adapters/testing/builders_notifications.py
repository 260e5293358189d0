"""Notifications and emails with defaults, like the values of `builders`."""

from __future__ import annotations

from typing import Any

from staffbooking_adapters.testing.builders import NOW
from staffbooking_core.ports import Email, Notification, NotificationKind, Store


def make_notification(user_id: int | None = 1, **given: Any) -> Notification:
    """A notification that a webhook endpoint of user 1 was disabled."""
    defaults: dict[str, Any] = {
        "user_id": user_id,
        "kind": NotificationKind.WEBHOOK_DISABLED,
        "subject": "Your webhook endpoint was disabled",
        "text": "It failed\nten times: \N{PILE OF POO}.",
    }
    return Notification(**{**defaults, **given})


def make_email(**given: Any) -> Email:
    """The email of such a notification to Ada Okoro."""
    defaults: dict[str, Any] = {
        "notice_id": 7,
        "kind": NotificationKind.WEBHOOK_DISABLED,
        "user_id": 1,
        "to": "ada@example.com",
        "name": "Ada Okoro",
        "subject": "Your webhook endpoint was disabled",
        "text": "It failed ten times.",
    }
    return Email(**{**defaults, **given})


async def add_notification(
    store: Store, notice: Notification | None = None, at: Any = NOW
) -> Notification:
    """A notification in the store that is due at `at`."""
    added = notice or make_notification()
    await store.run_transaction(lambda tx: tx.notifications.add_notifications([added], at))
    return added
