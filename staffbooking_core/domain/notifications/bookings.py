"""Notifications of bookings to their parties: of changes, reminders, statements and payouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import BookingNotification, BookingStatus, Party
from staffbooking_core.domain.notifications.notifications import Notification, NotificationKind
from staffbooking_core.domain.shared.money import Currency


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
    if refund := booking.refunded_amount - before.refunded_amount:
        text += f" {_format_amount(booking, refund)} is refunded to you."
    subject = f"Booking {booking.code} cancelled"
    return _to_customer(booking, NotificationKind.CANCELLED, subject, text)


def _cancellation_to_staff(_: Booking, booking: Booking) -> Notification:
    text = _describe_cancellation(booking)
    if booking.payout_left > 0:
        text += f" You will be paid {_format_amount(booking, booking.payout_left)} for it."
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


def _resolution_to_customer(before: Booking, booking: Booking) -> Notification:
    refund = booking.refunded_amount - before.refunded_amount
    share = f"{_format_amount(booking, refund)} goes" if refund else "nothing goes"
    return _to_customer(
        booking, NotificationKind.DISPUTED, *_describe_resolution(booking, f"{share} back to you")
    )


def _resolution_to_staff(_: Booking, booking: Booking) -> Notification:
    share = f"your payout is {_format_amount(booking, booking.payout_amount)}"
    return _to_staff(booking, NotificationKind.DISPUTED, *_describe_resolution(booking, share))


def _describe_resolution(booking: Booking, share: str) -> tuple[str, str]:
    text = (
        f"The dispute about booking {booking.code} was decided: {share}. "
        f"The booking was for {_describe_event(booking)}."
    )
    return f"Dispute about booking {booking.code} decided", text


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
    BookingNotification.RESOLUTION_TO_CUSTOMER: _resolution_to_customer,
    BookingNotification.RESOLUTION_TO_STAFF: _resolution_to_staff,
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
