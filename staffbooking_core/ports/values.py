"""Values that cross the ports of the store, and the names of its constraints."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from attrs import field, frozen

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.domain.bookings.booking import Booking, DueTimer
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, TimerKind
from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.domain.notifications.notifications import Notification
from staffbooking_core.domain.payments.ledger import Posting
from staffbooking_core.domain.payments.processor import Operation, OperationOrder
from staffbooking_core.representations.events import DomainEvent

T = TypeVar("T")


# Names of constraints, the same on every store ------------------------------------------

BOOKING_OVERLAP = "ex_bookings_overlap"
"""Two bookings of a companion that hold their slot overlap."""
EMAIL_TAKEN = "uq_users_email"
IDEMPOTENCY_KEY_TAKEN = "uq_answers_key"
"""An answer is kept already for this caller and idempotency key."""
PARTY_DISABLED = "ck_bookings_parties"
"""Whoever has a part in a new booking (customer, companion, who booked it) is disabled, or was
erased."""
ALREADY_REVIEWED = "uq_reviews_reviewer"
"""A party reviews a booking once."""

# Values that cross the ports --------------------------------------------------------------


@frozen
class Lease:
    """A claim on a row for a while. A holder that has lost it can't write: the token is
    checked with every save of what was claimed (fencing)."""

    token: str
    until: datetime


@frozen
class NewUser:
    email: str
    first_name: str
    last_name: str
    role: Role
    created_at: datetime
    password_hash: str | None = field(default=None, repr=False)
    subscription: Subscription = Subscription.NONE
    subscription_expires_at: datetime | None = None


@frozen
class NewApiKey:
    owner_id: int
    name: str
    digest: bytes = field(repr=False)
    masked_key: str
    permissions: frozenset[Permission]
    created_at: datetime
    expires_at: datetime | None = None


@frozen
class CompanionAvailability:
    """A companion's calendar with what is taken of it."""

    companion_id: int
    calendar: Calendar
    busy: tuple[Interval, ...]


@frozen
class BookableCompanion:
    """What of a companion a booking request has to know; only listed ones are given."""

    id: int
    name: str
    hourly_rate: int
    daily_rate: int | None
    service_types: tuple[str, ...]
    calendar: Calendar
    busy: tuple[Interval, ...]


@frozen
class RebookingCandidate:
    """A companion that may stand in, as its ready-made summary, with its agenda."""

    summary: bytes
    availability: CompanionAvailability


@frozen
class BookingRequestContext:
    """All that a booking request is decided on, read in one round trip.

    `booking_id` is the number that the booking will have; it may stay unused.
    """

    booking_id: int
    companion: BookableCompanion | None
    customer: User | None


@frozen
class StoredResponse:
    """A kept answer of an idempotent call: the first one, byte for byte (CONTRACT 4)."""

    scope: str
    key: str
    fingerprint: bytes
    """Digest of the request's body."""
    status: int
    body: bytes
    expires_at: datetime


@frozen
class RebookingCredit:
    """A priority rebooking, granted with the cancellation of `booking_id`."""

    booking_id: int
    customer_id: int
    expires_at: datetime
    used_by: int | None = None


@frozen
class BookingWrite:
    """One step of one booking with all its rows: saved together or not at all."""

    booking: Booking
    due: DueTimer | None
    operations_due_at: datetime
    """Wall time: when its operations may first be sent."""
    event: DomainEvent | None = None
    postings: tuple[Posting, ...] = ()
    orders: tuple[OperationOrder, ...] = ()
    alerts: tuple[str, ...] = ()
    notifications: tuple[Notification, ...] = ()
    rebooking_credit: RebookingCredit | None = None
    response: StoredResponse | None = None


@frozen
class BookingQuery:
    """A page of bookings that a user has part in; all bookings where `user_id` is None.

    Newest event first (starts_at, then id, descending); where `priority_first`, the
    pending priority requests come before all.
    """

    user_id: int | None
    sides: frozenset[Party] = frozenset({Party.CUSTOMER, Party.STAFF, Party.API})
    status: BookingStatus | None = None
    page: int = 1
    limit: int = 12
    priority_first: bool = False


@frozen
class Timer:
    """A claimed due time of a booking; `due_at` is business time."""

    booking_id: int
    kind: TimerKind
    due_at: datetime
    attempts: int


@frozen
class AuditedBooking:
    """One booking with everything that the ledger and the processor's rows say of it."""

    booking: Booking
    postings: tuple[Posting, ...]
    operations: tuple[Operation, ...]


@frozen
class Backlog:
    """Work of one kind that is due: how much, and how late the oldest of it is (seconds)."""

    kind: str
    """An `OpKind`, `timer`, `event`, `payee` or `payout` (released, not made yet)."""
    count: int
    oldest: float
