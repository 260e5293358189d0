"""Checks of the specification's promises, recomputed from the stored data: times, refunds, fees,
events and notifications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.testing.builders import DAY, HOUR, NOW
from staffbooking_core.domain.bookings.booking import Booking, TimelineEntry
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.refunds import RefundReason
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings.alerts import send_alert
from staffbooking_core.usecases.notifications.notifications import send_notifications

HELD_STATUSES = frozenset({BookingStatus.ACCEPTED, BookingStatus.PAID, BookingStatus.DISPUTED})
"""Statuses in which a booking holds its time."""
MAX_ACTIVE_KEYS = 5
FAILURES_TO_DISABLE = 10
MAX_CLOCK_SKEW = timedelta(seconds=30)

_ALLOWED_TIMES: dict[Trigger, Callable[[Booking, datetime], bool]] = {
    Trigger.ACCEPT: lambda booking, at: at < booking.starts_at,
    Trigger.CONFIRM: lambda booking, at: at >= booking.ends_at,
    Trigger.AUTO_COMPLETE: lambda booking, at: at >= booking.ends_at + 72 * HOUR,
    Trigger.NO_SHOW: lambda booking, at: at >= booking.starts_at + timedelta(minutes=15),
}
"""The times at which a trigger may change the status (SPECIFICATION 3)."""

_MAILS: dict[BookingStatus, NotificationKind] = {
    BookingStatus.PENDING: NotificationKind.REQUEST,
    BookingStatus.ACCEPTED: NotificationKind.ACCEPTED,
    BookingStatus.CANCELLED: NotificationKind.CANCELLED,
    BookingStatus.DISPUTED: NotificationKind.DISPUTED,
}
"""The kind of mail that at least one party gets when a booking enters the status."""


def find_broken_promises(booking: Booking, now: datetime) -> Iterator[str]:
    """The broken promises of a stored booking; `now` is business time by a correct clock."""
    for entry in booking.timeline:
        if not _is_timely(booking, entry):
            yield f"{entry.trigger} at {entry.at}"
        if entry.at > now + MAX_CLOCK_SKEW:
            yield f"{entry.trigger} at {entry.at}, which is to come"
    if booking.status not in (BookingStatus.COMPLETED, BookingStatus.CANCELLED) and not (
        booking.settlements or booking.platform_fee == _half_up(booking.price, booking.fee_ppm)
    ):
        yield f"a fee of {booking.platform_fee} for {booking.price}"
    released, completed = booking.payout_released_at, booking.completed_at
    if released and completed and released < completed + DAY:
        yield f"completed at {completed}, its payout was released at {released}"
    yield from _wrong_refund(booking)


def _is_timely(booking: Booking, entry: TimelineEntry) -> bool:
    if entry.trigger is Trigger.DISPUTE and entry.was is BookingStatus.PAID:
        return entry.at >= booking.starts_at
    if entry.trigger is Trigger.CANCEL and entry.was is BookingStatus.PAID:
        return entry.actor is Party.ADMIN or entry.at < booking.starts_at
    allowed = _ALLOWED_TIMES.get(entry.trigger)
    return allowed is None or allowed(booking, entry.at)


def _wrong_refund(booking: Booking) -> Iterator[str]:
    """Compares the refund of a cancellation by a party with the specification's table."""
    last = booking.timeline[-1]
    if last.trigger is not Trigger.CANCEL or last.was is not BookingStatus.PAID:
        return
    given = sum(one.amount for one in booking.refunds if one.reason is RefundReason.CANCELLATION)
    left = booking.starts_at - last.at
    if last.actor is not Party.CUSTOMER or left >= 48 * HOUR:
        owed = booking.total_amount
    elif left >= 24 * HOUR or booking.insurance_premium:
        owed = _half_up(booking.price, 500_000)
    else:
        owed = 0
    if given != owed:
        yield f"cancelled {left} before its start by the {last.actor}, refunds {given} of {owed}"


def _half_up(amount: int, ppm: int) -> int:
    whole, rest = divmod(amount * ppm, 1_000_000)
    return whole + (2 * rest >= 1_000_000)


def _is_made_in_the_history(booking: Booking) -> bool:
    """Whether the booking was requested in the history, and not before its start."""
    return booking.created_at >= NOW


async def find_missing_events(ports: Ports, booking_id: int) -> Iterator[str]:
    """Checks that each version of a booking has an event (I3, CONTRACT 10)."""
    async with ports.store.read_view() as view:
        while True:  # A view is no snapshot: the booking may change before its events are read.
            booking = await view.bookings.booking(booking_id)
            events = len(await view.bookings.events_of(booking_id))
            if await view.bookings.booking(booking_id) == booking:
                break
    assert booking is not None
    is_wrong = _is_made_in_the_history(booking) and (
        events != booking.events or events < booking.version
    )
    return iter([f"{events} events of version {booking.version}"] if is_wrong else [])


async def find_missing_notifications(ports: Ports, bookings: Sequence[Booking]) -> list[str]:
    """Send all due notifications; returns the alerts and mails that were never sent."""
    assert isinstance(ports.notifier, RecordingNotifier)
    ports.clock.advance(2 * DAY)  # type: ignore[attr-defined]
    while await send_notifications(ports) or await send_alert(ports):
        pass  # A worker may have claimed an alert and died since.
    async with ports.store.read_view() as view:
        stored = await view.alerts.alerts(10_000)
    alerts = Counter((alert.booking_id, alert.text) for alert in stored)
    alerts -= Counter(ports.notifier.alerts)
    mails = Counter((mail.kind, mail.subject) for mail in ports.notifier.emails)
    found = [f"the operators never got the alert {text!r}" for _, text in alerts]
    for booking in filter(_is_made_in_the_history, bookings):
        entered = Counter(_MAILS[entry.to] for entry in booking.timeline if entry.to in _MAILS)
        for kind, times in entered.items():
            sent = sum(
                number
                for (sent_kind, subject), number in mails.items()
                if sent_kind is kind and booking.code in subject
            )
            if sent < times:
                found.append(f"booking {booking.id}: {sent} mails of {times} times {kind}")
    return found
