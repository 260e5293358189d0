"""Bookings: their rows, and all that is saved together with a transition of one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.booking import Booking, DueTimer, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.domain.notifications.notifications import Notification
from staffbooking_core.domain.payments.ledger import Posting
from staffbooking_core.domain.payments.operations import OperationOrder
from staffbooking_core.ports.idempotency import StoredResponse
from staffbooking_core.representations.events import DomainEvent

__all__ = [
    "BOOKING_CODE_TAKEN",
    "BOOKING_OVERLAP",
    "CALENDAR_CHANGED",
    "PARTY_DISABLED",
    "BookableCompanion",
    "BookingQuery",
    "BookingRequestContext",
    "BookingWrite",
    "BookingsReadPort",
    "BookingsWritePort",
    "RebookingCredit",
]

BOOKING_CODE_TAKEN = "uq_bookings_code"
"""Constraint: two bookings have the same public code."""
BOOKING_OVERLAP = "ex_bookings_overlap"
"""Constraint: two bookings of a companion that hold their slot overlap."""
CALENDAR_CHANGED = "ck_bookings_calendar"
"""Constraint: the companion has accepted a booking since a new one was decided."""
PARTY_DISABLED = "ck_bookings_parties"
"""Constraint: a party of a new booking (customer, companion, who booked it) is disabled or erased,
or the customer has another role than that of a customer."""


@frozen
class BookableCompanion:
    """What a booking request needs of a listed companion. Rates are in minor units."""

    id: int
    name: str
    hourly_rate: int
    daily_rate: int | None
    service_types: tuple[str, ...]
    calendar: Calendar
    busy: tuple[Interval, ...]
    acceptances: int = 0
    """How many bookings the companion had accepted when `busy` was read."""


@frozen
class BookingRequestContext:
    """All that a booking request is decided on, read in one round trip.

    `booking_id` is the id that the booking will have; it may stay unused.
    """

    booking_id: int
    companion: BookableCompanion | None
    customer: User | None
    clock_offset: timedelta
    """How far business time is ahead of the wall clock in a sandbox."""


@frozen
class RebookingCredit:
    """A priority rebooking, granted with the cancellation or reported absence of
    `booking_id`."""

    booking_id: int
    customer_id: int
    expires_at: datetime
    used_by: int | None = None
    """Id of the booking that it was used for."""


@frozen
class BookingWrite:
    """One transition of one booking with all its rows: saved together or not at all."""

    booking: Booking
    due: DueTimer | None
    operations_due_at: datetime
    """Wall time: when its operations may first be sent."""
    event: DomainEvent | None = None
    postings: tuple[Posting, ...] = ()
    orders: tuple[OperationOrder, ...] = ()
    alerts: tuple[Alert, ...] = ()
    notifications: tuple[Notification, ...] = ()
    rebooking_credit: RebookingCredit | None = None
    response: StoredResponse | None = None
    seen_acceptances: int | None = None
    """Of a new booking: `BookableCompanion.acceptances` when it was decided. None: any."""


@frozen
class BookingQuery:
    """A page of bookings of which a user is a party; of all bookings where `user_id` is None.

    Latest start first (starts_at, then id, descending), or earliest with `earliest_first`; with
    `priority_first`, pending priority requests come before all others.
    """

    user_id: int | None
    parties: frozenset[Party] = frozenset({Party.CUSTOMER, Party.STAFF, Party.API})
    """The user's parties in the listed bookings; ignored where `user_id` is None."""
    status: BookingStatus | None = None
    page: int = 1
    limit: int = 12
    priority_first: bool = False
    earliest_first: bool = False


class BookingsReadPort(Protocol):
    """Queries on bookings, their events and rebooking credits."""

    async def booking(self, booking_id: int) -> Booking | None:
        """A booking by id."""
        ...

    async def booking_by_code(self, code: str) -> Booking | None:
        """A booking by its public code."""
        ...

    async def bookings(self, query: BookingQuery) -> Sequence[Booking]:
        """Up to `limit + 1` bookings from the page's start."""
        ...

    async def bookings_between(
        self, customer_id: int, companion_ids: Collection[int], limit: int
    ) -> Sequence[Booking]:
        """Up to `limit` bookings of a customer with any of these companions, the latest start
        first."""
        ...

    async def disputed_bookings(self, page: int, limit: int) -> Sequence[Booking]:
        """Up to `limit + 1` disputed bookings from the page's start: the earliest
        `dispute_respond_by` first, so overdue disputes before all others."""
        ...

    async def bookings_since(
        self, companion_id: int, since: datetime, limit: int
    ) -> Sequence[Booking]:
        """A companion's bookings that end after `since`, without cancelled ones, in the order of
        their starts. Of more than `limit`, pending requests are dropped first, the furthest
        ahead before others."""
        ...

    async def bookings_within(
        self, companion_id: int, span: Interval, limit: int
    ) -> Sequence[Booking]:
        """Up to `limit` bookings of a companion that overlap the span, without cancelled ones, in
        the order of their starts."""
        ...

    async def request_context(
        self,
        companion_id: int,
        customer_email: str | None,
        customer_id: int | None,
        day: date,
    ) -> BookingRequestContext:
        """The context of a booking request. The customer is found by e-mail or by id, whichever
        is given; the busy intervals cover every booking of up to 24 h that starts on that
        local day."""
        ...

    async def rebooking_credit(self, booking_id: int) -> RebookingCredit | None:
        """The credit that the cancellation or the reported absence of a booking granted."""
        ...

    async def events_of(self, booking_id: int) -> Sequence[tuple[int, bytes]]:
        """Sequence number and encoded envelope of each event of a booking, in order."""
        ...

    async def open_payouts(
        self, limit: int, offset: int = 0, status: PayoutStatus | None = None
    ) -> Sequence[Booking]:
        """Up to `limit` bookings whose payout is scheduled, failed or frozen (with one of these
        statuses, those alone), after the first `offset` of them: the earliest due first, those
        without a due time last."""
        ...

    async def open_bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        """Up to `limit` bookings above `after_id` by id that are open for a user
        (`Booking.is_open_for`): pending, accepted or paid ones of the customer or companion, and
        ones whose payout the companion still expects."""
        ...

    async def earnings_of(
        self, companion_id: int, first: date, last: date, limit: int
    ) -> Sequence[Booking]:
        """Up to `limit` bookings of a companion that bring money (`has_earning`), with their event
        on a local date from `first` to `last`, the latest start first."""
        ...

    async def open_earnings_of(self, companion_id: int, limit: int) -> Sequence[Booking]:
        """Up to `limit` bookings of a companion of which money is to come or is owed
        (`has_open_earning`), the earliest start first."""
        ...

    async def indebted_booking_ids(self, companion_id: int) -> Sequence[int]:
        """The ids of bookings for which a companion owes money (`owed_by_staff`), ascending."""
        ...

    async def unsettled_bookings(self, after_id: int, limit: int) -> Sequence[Booking]:
        """Up to `limit` bookings above `after_id` that `is_unsettled`, by id; without those for
        which the inbox already holds an event."""
        ...


class BookingsWritePort(BookingsReadPort, Protocol):
    """Commands on bookings."""

    async def lock_booking(self, booking_id: int) -> Booking | None:
        """A booking by id, locked until the transaction ends."""
        ...

    async def count_acceptance(self, companion_id: int) -> None:
        """Count that a companion accepts a booking. From then on until the transaction ends no new
        booking of theirs is stored: those that were stored before are seen by
        `lock_competing_bookings`, and those that were decided before are refused after."""
        ...

    async def lock_competing_bookings(
        self, booking_id: int, buffer: timedelta
    ) -> Sequence[Booking]:
        """The booking and the pending ones of its companion that overlap it or are less than the
        buffer apart from it, all locked in the order of ids; empty where there is no such
        booking."""
        ...

    async def save_booking(self, booking_write: BookingWrite) -> None:
        """Save a transition of an existing booking; its timer is replaced, and a claim on it ends.

        Raises Conflict("booking") unless the stored revision is one below, and
        ConstraintViolated: BOOKING_OVERLAP where the slot is taken, OPERATION_NUMBER_TAKEN or
        POSTING_KEY_TAKEN where an order or a posting is there already, IDEMPOTENCY_KEY_TAKEN where
        the response is.
        """
        ...

    async def add_booking(self, booking_write: BookingWrite) -> None:
        """Save the first transition of a new booking.

        Raises ConstraintViolated as `save_booking` does; with BOOKING_CODE_TAKEN; and with
        PARTY_DISABLED or CALENDAR_CHANGED, also where a concurrent transaction that disables a
        party, gives the customer another role or accepts a booking of the companion commits first.
        """
        ...

    async def use_rebooking_credit(self, credit: RebookingCredit, used_by_booking_id: int) -> bool:
        """Use a credit up for a booking; False where it was used before."""
        ...

    async def take_back_rebooking_credit(self, booking_id: int) -> bool:
        """Delete the unused credit that a booking granted; False where it was used."""
        ...
