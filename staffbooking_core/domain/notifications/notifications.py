"""Notifications by email: their kinds, recipients and texts.

Texts are plain English for one person. They contain names and amounts, but no contact details and
no text that a user wrote. Only an inquiry, which goes to the operators, has the author's address
and words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum

from attrs import field, frozen

from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.errors import StaffbookingError

__all__ = ["Email", "UndeliverableEmail"]


class NotificationKind(StrEnum):
    REQUEST = "request"
    ACCEPTED = "accepted"
    PAID = "paid"
    CANCELLED = "cancelled"
    DISPUTED = "disputed"
    REMINDER = "reminder"
    PAYOUT = "payout"
    WEBHOOK_DISABLED = "webhook_disabled"
    CALENDAR_DISABLED = "calendar_disabled"
    NEW_MESSAGE = "new_message"
    VERIFY_EMAIL = "verify_email"
    RESET_PASSWORD = "reset_password"
    PASSWORD_CHANGED = "password_changed"
    LOGIN_CLOSED = "login_closed"
    INQUIRY = "inquiry"


OPTIONAL_NOTIFICATION_KINDS = (
    NotificationKind.ACCEPTED,
    NotificationKind.PAYOUT,
    NotificationKind.NEW_MESSAGE,
)
"""Kinds that users may switch off."""

ACTION_LABELS: Mapping[NotificationKind, str] = {
    NotificationKind.REQUEST: "See the request",
    NotificationKind.ACCEPTED: "See the booking and pay",
    NotificationKind.CALENDAR_DISABLED: "See your calendars",
    NotificationKind.NEW_MESSAGE: "Read and answer",
    NotificationKind.VERIFY_EMAIL: "Confirm your address",
    NotificationKind.RESET_PASSWORD: "Set a new password",
}
"""Label of the button that opens the link."""

_DEFAULT_ACTION_LABEL = "See more"


@frozen
class Notification:
    """A notification before it is delivered."""

    user_id: int | None
    """None for the owner of the address, or for the operators."""
    kind: NotificationKind | str
    """A plain string if it was read from a store and this version does not know the kind."""
    subject: str
    text: str = field(repr=False)
    link: str | None = None
    """Path of a page of this service. Links with a token are created on delivery and not stored
    here. Of a password reset: the page to return to."""
    address: str | None = field(default=None, repr=False)
    """Of a password reset: the given address, which may have no account. Of an inquiry: the address
    to reply to."""


@frozen
class Email:
    """A rendered email."""

    notice_id: int
    """The notification's id, the same for every attempt."""
    kind: NotificationKind
    user_id: int | None
    to: str = field(repr=False)
    name: str
    """Name of the recipient; empty for the operators."""
    subject: str
    text: str = field(repr=False)
    url: str | None = field(default=None, repr=False)
    unsubscribe_url: str | None = field(default=None, repr=False)
    """None for kinds that cannot be switched off."""
    reply_to: str | None = field(default=None, repr=False)

    @property
    def action(self) -> str:
        """Label of the button that opens the URL."""
        return ACTION_LABELS.get(self.kind, _DEFAULT_ACTION_LABEL)


class UndeliverableEmail(StaffbookingError):
    """The email cannot be delivered: a retry would fail too."""

    code = "undeliverable"


def new_message_notification(
    user_id: int, conversation_id: int, senders: Sequence[str]
) -> Notification:
    """Notify a user of unread messages in a conversation, with the senders' names."""
    *others, last = senders
    names = f"{', '.join(others)} and {last}" if others else last
    text = f"{names} wrote to you while you were away. Sign in to read it and to answer."
    page = f"/conversations/{conversation_id}"
    return Notification(user_id, NotificationKind.NEW_MESSAGE, "You have a new message", text, page)


def inquiry_notification(inquiry: Inquiry) -> Notification:
    """Send an inquiry to the operators, who reply to its author."""
    return Notification(
        user_id=None,
        kind=NotificationKind.INQUIRY,
        subject=f"Inquiry {inquiry.id}: {inquiry.subject or 'no subject'}",
        text=f"{inquiry.name} ({inquiry.email}) asks:\n\n{inquiry.message}",
        address=inquiry.email,
    )


# Accounts ---------------------------------------------------------------------------------


def email_verification_notification(user_id: int) -> Notification:
    """Ask a user to confirm their email address."""
    text = "Please confirm that this is your address. The link can be used once."
    return Notification(user_id, NotificationKind.VERIFY_EMAIL, "Confirm your address", text)


def password_reset_notification(address: str, return_path: str | None) -> Notification:
    """Send a password reset to the address, if it has an account; `return_path` is the page to
    return to."""
    return Notification(
        user_id=None,
        kind=NotificationKind.RESET_PASSWORD,
        subject="Set a new password",
        text=(
            "Somebody, probably you, wants to set a new password for your account. "
            "The link can be used once, and not for long. If it was not you, do nothing: "
            "your password stays as it is."
        ),
        link=return_path,
        address=address,
    )


def password_changed_notification(user_id: int) -> Notification:
    """Notify a user of a password changed by the user, an operator or an import."""
    text = (
        "The password of your account was changed, and whoever was signed in elsewhere is signed "
        "out. If it was not you, set a new password at once, and revoke API keys and the address "
        "of a calendar feed that you do not know: they stay valid."
    )
    return Notification(
        user_id, NotificationKind.PASSWORD_CHANGED, "Your password was changed", text, "/"
    )


def login_closed_notification(user_id: int, closed_for: timedelta) -> Notification:
    """Notify a user that their account is closed to unknown addresses, because of many wrong
    passwords."""
    text = (
        "Somebody has tried many wrong passwords for your account. For up to "
        f"{format_duration(closed_for)} nobody can sign in from an address that you have not "
        "signed in from before. Your password still works where you have used it before. "
        "If you use it elsewhere too, set a new one."
    )
    subject = "Many wrong passwords for your account"
    return Notification(user_id, NotificationKind.LOGIN_CLOSED, subject, text, "/")


# Bookings ---------------------------------------------------------------------------------
