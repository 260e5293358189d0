"""Notifications of what the service has disabled after failures."""

from __future__ import annotations

from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.domain.notifications.notifications import Notification, NotificationKind
from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.domain.webhooks.deliveries import WebhookEndpoint
from staffbooking_core.policy import Policy


def webhook_disabled_notification(endpoint: WebhookEndpoint, policy: Policy) -> Notification:
    """Notify the owner that an endpoint was disabled."""
    retention = format_duration(policy.webhook_held_retention)
    text = (
        f"The webhook endpoint {endpoint.id} was disabled: {endpoint.disabled_reason}. "
        f"Its deliveries are kept for {retention}, and sent once it is enabled again."
    )
    subject = "Your webhook endpoint was disabled"
    return Notification(endpoint.owner_id, NotificationKind.WEBHOOK_DISABLED, subject, text)


def calendar_disabled_notification(
    subscription: CalendarSubscription, policy: Policy
) -> Notification:
    """Notify a staff member that a calendar is not read any more. The host names it: its name is
    the owner's text, and its address is a secret."""
    duration = format_duration(policy.calendar_disable_after)
    text = (
        f"Your calendar at {subscription.host} could not be read for {duration}, so it is not read "
        "any more. The times at which you were busy there stay closed for bookings, but new ones "
        "are not seen. On the page of your calendars you can have it read again, or remove it."
    )
    subject = "One of your calendars is not read any more"
    kind = NotificationKind.CALENDAR_DISABLED
    return Notification(subscription.companion_id, kind, subject, text, "/staff/calendars")
