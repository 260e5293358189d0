"""Notifications by email: their kinds, recipients and texts.

Texts are plain English for one person. They contain names and amounts, but no contact details and
no text that a user wrote. Only an inquiry, which goes to the operators, has the author's address
and words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum

from attrs import field, frozen

from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import BookingNotification, BookingStatus, Party
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.domain.shared.money import Currency
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


def notifications_for(before: Booking | None, result: TransitionResult) -> tuple[Notification, ...]:
    """The notifications of a transition by the lifecycle tables; `before` is None for a new
    booking."""
    booking = result.booking
    return tuple(
        _WRITERS[name](before or booking, booking)
        for name in result.notifications
        if (name, booking.cancelled_by) not in _OWN_CANCELLATIONS
        and (name, booking.disputed_by) not in _OWN_WITHDRAWALS
    )


def statement_notification(booking: Booking, author: Party) -> Notification:
    """Notify the other party of a statement in the dispute of a booking."""
    other = Party.STAFF if author is Party.CUSTOMER else Party.CUSTOMER
    name = booking.customer_name if author is Party.CUSTOMER else booking.companion_name
    text = (
        f"{name} made a statement in the dispute about booking {booking.code}: "
        f"{_describe_event(booking)}. You can read and answer it."
    )
    to_party = _to_staff if other is Party.STAFF else _to_customer
    subject = f"New statement in the dispute about booking {booking.code}"
    return to_party(booking, NotificationKind.DISPUTED, subject, text)


def _request_notification(_: Booking, booking: Booking) -> Notification:
    text = (
        f"{booking.customer_name} would like to book you: {_describe_event(booking)}. "
        f"You would be paid {_format_amount(booking, booking.payout_amount)}. "
        "Please accept or decline the request before the event begins."
    )
    return _to_staff(booking, NotificationKind.REQUEST, f"New request {booking.code}", text)


def _accepted_notification(_: Booking, booking: Booking) -> Notification:
    text = (
        f"{booking.companion_name} accepted your booking: {_describe_event(booking)}. "
        f"Please pay {_format_amount(booking, booking.total_amount)} to confirm it."
    )
    return _to_customer(
        booking, NotificationKind.ACCEPTED, f"Booking {booking.code} accepted", text
    )


def _receipt_notification(_: Booking, booking: Booking) -> Notification:
    amount = _format_amount(booking, booking.total_amount)
    text = (
        f"This is your receipt for booking {booking.code}: {amount} for {_describe_event(booking)} "
        f"with {booking.companion_name}. The money is held until the event has taken place."
    )
    if booking.insurance_premium:
        premium = _format_amount(booking, booking.insurance_premium)
        text += f" {premium} of it is the cancellation insurance."
    return _to_customer(booking, NotificationKind.PAID, f"Receipt for booking {booking.code}", text)


def _confirmation_notification(_: Booking, booking: Booking) -> Notification:
    text = (
        f"{booking.customer_name} has paid, the booking is confirmed: {_describe_event(booking)}. "
        f"You will be paid {_format_amount(booking, booking.payout_amount)} after the event."
    )
    return _to_staff(booking, NotificationKind.PAID, f"Booking {booking.code} confirmed", text)


_SYSTEM_CANCEL_REASONS: Mapping[str | None, str] = {
    "expired": "it was not confirmed in time",
    "slot_taken": "the companion was booked by somebody else for that time",
    "party_disabled": "the account of one of the parties was closed",
    "charged_back": "the bank of the customer took the payment back",
}


def _cancellation_to_customer(before: Booking, booking: Booking) -> Notification:
    if booking.cancelled_by is Party.STAFF and before.status is BookingStatus.PENDING:
        subject = f"Booking {booking.code} declined"
        text = f"{booking.companion_name} can't take your booking: {_describe_event(booking)}."
        return _to_customer(booking, NotificationKind.CANCELLED, subject, text)
    text = _describe_cancellation(booking)
    if booking.refunded_amount:
        text += f" {_format_amount(booking, booking.refunded_amount)} is refunded to you."
    subject = f"Booking {booking.code} cancelled"
    return _to_customer(booking, NotificationKind.CANCELLED, subject, text)


def _cancellation_to_staff(_: Booking, booking: Booking) -> Notification:
    text = _describe_cancellation(booking)
    if booking.payout_amount:
        text += f" You will be paid {_format_amount(booking, booking.payout_amount)} for it."
    subject = f"Booking {booking.code} cancelled"
    return _to_staff(booking, NotificationKind.CANCELLED, subject, text)


def _describe_cancellation(booking: Booking) -> str:
    """The text without the reason, since that may be free text of a user."""
    cause, event = _cancellation_cause(booking), _describe_event(booking)
    return f"The booking {booking.code} was cancelled{cause}. It was for {event}."


def _cancellation_cause(booking: Booking) -> str:
    match booking.cancelled_by:
        case Party.CUSTOMER:
            return f" by {booking.customer_name}"
        case Party.STAFF:
            return f" by {booking.companion_name}"
        case Party.ADMIN:
            return " by the operators"
    reason = _SYSTEM_CANCEL_REASONS.get(booking.cancel_reason)
    return f": {reason}" if reason else ""


def _dispute_to_customer(_: Booking, booking: Booking) -> Notification:
    return _to_customer(booking, NotificationKind.DISPUTED, *_describe_dispute(booking))


def _dispute_to_staff(_: Booking, booking: Booking) -> Notification:
    return _to_staff(booking, NotificationKind.DISPUTED, *_describe_dispute(booking))


def _describe_dispute(booking: Booking) -> tuple[str, str]:
    """Subject and text, the same for both parties."""
    text = (
        f"A dispute was opened about booking {booking.code}: {_describe_event(booking)}. "
        "The money is held until it is resolved. You can add a statement and files to it."
    )
    return f"Dispute about booking {booking.code}", text


def _no_show_to_staff(_: Booking, booking: Booking) -> Notification:
    text = (
        f"{booking.customer_name} reported that you did not come: {_describe_event(booking)}. "
        "The money is held until this is resolved. If you were there, please say so."
    )
    subject = f"Reported absence, booking {booking.code}"
    return _to_staff(booking, NotificationKind.DISPUTED, subject, text)


def _withdrawal_to_customer(_: Booking, booking: Booking) -> Notification:
    return _to_customer(booking, NotificationKind.DISPUTED, *_describe_withdrawal(booking))


def _withdrawal_to_staff(_: Booking, booking: Booking) -> Notification:
    return _to_staff(booking, NotificationKind.DISPUTED, *_describe_withdrawal(booking))


def _describe_withdrawal(booking: Booking) -> tuple[str, str]:
    """Subject and text, the same for both parties."""
    text = (
        f"The dispute about booking {booking.code} was withdrawn: {_describe_event(booking)}. "
        "The booking goes on as before."
    )
    return f"Dispute about booking {booking.code} withdrawn", text


def _reminder_to_customer(_: Booking, booking: Booking) -> Notification:
    text = f"Your booking with {booking.companion_name} is near: {_describe_event(booking)}."
    return _to_customer(booking, NotificationKind.REMINDER, *_as_reminder(booking, text))


def _reminder_to_staff(_: Booking, booking: Booking) -> Notification:
    text = (
        f"Your booking for {booking.customer_name} is near: {_describe_event(booking)}. "
        "Please check in when you arrive."
    )
    return _to_staff(booking, NotificationKind.REMINDER, *_as_reminder(booking, text))


def _as_reminder(booking: Booking, text: str) -> tuple[str, str]:
    return f"Reminder of booking {booking.code}", text


def _question_to_customer(_: Booking, booking: Booking) -> Notification:
    text = (
        f"Has {booking.companion_name} come? Nobody has checked in yet: "
        f"{_describe_event(booking)}. If not, you can report it on the page of the booking."
    )
    subject = f"Has booking {booking.code} begun?"
    return _to_customer(booking, NotificationKind.REMINDER, subject, text)


def _question_to_staff(_: Booking, booking: Booking) -> Notification:
    text = (
        f"Are you there? You have not checked in yet: {_describe_event(booking)}. "
        "Please check in on the page of the booking."
    )
    subject = f"Has booking {booking.code} begun?"
    return _to_staff(booking, NotificationKind.REMINDER, subject, text)


def _payout_notification(before: Booking, after: Booking) -> Notification:
    sent, code = after.paid_out - before.paid_out, after.code
    if sent > 0:
        text = f"Your payout for booking {code} was sent: {_format_amount(after, sent)}."
    else:
        text = f"Your payout for booking {code} was kept for what you owed of other bookings."
    text += f" It was for {_describe_event(after)}."
    return _to_staff(after, NotificationKind.PAYOUT, f"Payout for booking {code}", text)


_WRITERS: Mapping[BookingNotification, Callable[[Booking, Booking], Notification]] = {
    BookingNotification.REQUEST_TO_STAFF: _request_notification,
    BookingNotification.ACCEPTANCE_TO_CUSTOMER: _accepted_notification,
    BookingNotification.CONFIRMATION_TO_STAFF: _confirmation_notification,
    BookingNotification.RECEIPT_TO_CUSTOMER: _receipt_notification,
    BookingNotification.CANCELLATION_TO_CUSTOMER: _cancellation_to_customer,
    BookingNotification.CANCELLATION_TO_STAFF: _cancellation_to_staff,
    BookingNotification.DISPUTE_TO_CUSTOMER: _dispute_to_customer,
    BookingNotification.DISPUTE_TO_STAFF: _dispute_to_staff,
    BookingNotification.NO_SHOW_TO_STAFF: _no_show_to_staff,
    BookingNotification.WITHDRAWAL_TO_CUSTOMER: _withdrawal_to_customer,
    BookingNotification.WITHDRAWAL_TO_STAFF: _withdrawal_to_staff,
    BookingNotification.REMINDER_TO_CUSTOMER: _reminder_to_customer,
    BookingNotification.REMINDER_TO_STAFF: _reminder_to_staff,
    BookingNotification.QUESTION_TO_CUSTOMER: _question_to_customer,
    BookingNotification.QUESTION_TO_STAFF: _question_to_staff,
    BookingNotification.PAYOUT_TO_STAFF: _payout_notification,
}
"""Writers of the texts, from the booking before and after the transition."""

_OWN_CANCELLATIONS = {
    (BookingNotification.CANCELLATION_TO_CUSTOMER, Party.CUSTOMER),
    (BookingNotification.CANCELLATION_TO_STAFF, Party.STAFF),
}
"""Notifications that are not sent: the party that cancelled knows."""

_OWN_WITHDRAWALS = {
    (BookingNotification.WITHDRAWAL_TO_CUSTOMER, Party.CUSTOMER),
    (BookingNotification.WITHDRAWAL_TO_STAFF, Party.STAFF),
}
"""Notifications that are not sent: the party that opened the dispute withdrew it."""


def _to_customer(booking: Booking, kind: NotificationKind, subject: str, text: str) -> Notification:
    return Notification(booking.customer_id, kind, subject, text, _booking_path(booking))


def _to_staff(booking: Booking, kind: NotificationKind, subject: str, text: str) -> Notification:
    return Notification(booking.companion_id, kind, subject, text, _booking_path(booking))


def _booking_path(booking: Booking) -> str:
    return f"/bookings/{booking.id}/return"


def _describe_event(booking: Booking) -> str:
    """Service, date and duration, in the local time of the event."""
    day, hours = booking.event_date, booking.duration_hours
    return (
        f"{booking.service_type} on {day:%A}, {day.day} {day:%B %Y} at {booking.start_time} "
        f"({booking.timezone}), {hours} hour{'s' if hours > 1 else ''}"
    )


def _format_amount(booking: Booking, minor: int) -> str:
    return f"{Currency(booking.currency).to_decimal(minor)} {booking.currency.upper()}"
