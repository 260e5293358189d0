"""Tables of bookings, their timers, events, priority rebookings and alerts.

The constraint that forbids overlapping bookings of a companion is in the migrations alone.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    and_,
    desc,
    false,
    or_,
    text,
)

from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Instant
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index
from staffbooking_core.domain.bookings.booking import (
    OPEN_PAYOUT_STATUSES,
    UNPAID_PAYOUT_STATUSES,
    UNSETTLED_PAYMENT_STATUSES,
)
from staffbooking_core.domain.bookings.lifecycle import (
    CANCELLABLE_STATUSES,
    SLOT_HOLDING_STATUSES,
    BookingStatus,
)
from staffbooking_core.domain.payments.processor import ChargebackStatus

bookings = Table(
    "bookings",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    Column("code", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("companion_id", BigInt, ForeignKey("companions.id"), nullable=False),
    Column("companion_name", Text, nullable=False),
    Column("customer_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("customer_name", Text, nullable=False),
    Column("booked_by", BigInt, ForeignKey("users.id")),
    Column("service_type", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("event_date", CivilDate, nullable=False),
    Column("start_time", Text, nullable=False),
    Column("duration_hours", BigInt, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("starts_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    Column("currency", Text, nullable=False),
    Column("price", BigInt, nullable=False),
    Column("insurance_premium", BigInt, nullable=False),
    Column("fee_ppm", BigInt, nullable=False),
    Column("platform_fee", BigInt, nullable=False),
    Column("payout_amount", BigInt, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("cancellation_insurance", Boolean, nullable=False),
    Column("event_ref", Text),
    Column("priority", Boolean, nullable=False),
    Column("version", BigInt, nullable=False),
    Column("revision", BigInt, nullable=False, server_default="0"),
    Column("events", BigInt, nullable=False),
    Column("timeline", Text, nullable=False),
    Column("checked_in_at", Instant),
    Column("accepted_at", Instant),
    Column("paid_at", Instant),
    Column("completed_at", Instant),
    Column("completed_by", Text),
    Column("cancelled_at", Instant),
    Column("cancelled_by", Text),
    Column("cancel_reason", Text),
    Column("cancel_rule", Text),
    Column("disputed_at", Instant),
    Column("dispute_reason", Text),
    Column("disputed_by", Text),
    Column("dispute_respond_by", Instant),
    Column("dispute_alarmed_at", Instant),
    Column("dispute_note", Text),
    Column("dispute_refund", BigInt, nullable=False, server_default="0"),
    Column("reminded_at", Instant),
    Column("payment_status", Text, nullable=False),
    Column("payout_status", Text, nullable=False),
    Column("payout_due_at", Instant),
    Column("payout_released_at", Instant),
    Column("payout_held", Boolean, nullable=False, server_default=text("false")),
    Column("payout_hold_lifted", Boolean, nullable=False, server_default=false()),
    Column("payout_alarmed_at", Instant),
    Column("escrow", BigInt, nullable=False),
    Column("refunded_amount", BigInt, nullable=False),
    Column("paid_out", BigInt, nullable=False),
    Column("owed_by_staff", BigInt, nullable=False),
    Column("netted", BigInt, nullable=False, server_default="0"),
    Column("payout_n", BigInt),
    Column("orders", BigInt, nullable=False),
    Column("settlements", BigInt, nullable=False),
    Column("chargeback_ref", Text),
    Column("chargeback_status", Text),
    Column("chargeback_amount", BigInt, nullable=False),
    Column("intent", Text),
    Column("refunds", Text, nullable=False, server_default="[]"),
    UniqueConstraint("code"),
)
"""One column for each field of the domain's `Booking`, with its name and in its order."""

booking_numbers = Sequence("booking_numbers", metadata=metadata)
"""Booking ids of PostgreSQL; SQLite counts in `counters`."""

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInt, nullable=False),
)
"""Numbers under names: the last booking id on SQLite, the last message that was notified, and the
time of the newest readiness check."""

holds_slot = and_(
    bookings.c.status.in_(sorted(SLOT_HOLDING_STATUSES)), bookings.c.completed_at.is_(None)
)
is_cancellable = bookings.c.status.in_(sorted(CANCELLABLE_STATUSES))
is_urgent = and_(bookings.c.priority, bookings.c.status == BookingStatus.PENDING)
is_open_payout = bookings.c.payout_status.in_(sorted(OPEN_PAYOUT_STATUSES))
is_unpaid_payout = and_(  # The index of open payouts is used where a query repeats its condition.
    is_open_payout, bookings.c.payout_status.in_(sorted(UNPAID_PAYOUT_STATUSES))
)
has_staff_debt = bookings.c.owed_by_staff > 0
is_disputed = bookings.c.status == BookingStatus.DISPUTED
is_unsettled = or_(
    bookings.c.payment_status.in_(sorted(UNSETTLED_PAYMENT_STATUSES)),
    bookings.c.chargeback_status == ChargebackStatus.OPEN,
)

_NEWEST_FIRST = (desc(bookings.c.starts_at), desc(bookings.c.id))
# A status in the index spares a list of one status the rows of all others.
Index("ix_bookings_status", bookings.c.status, *_NEWEST_FIRST)
Index("ix_bookings_companion", bookings.c.companion_id, *_NEWEST_FIRST, bookings.c.status)
Index(
    "ix_bookings_customer",
    *(bookings.c.customer_id, *_NEWEST_FIRST, bookings.c.status, bookings.c.companion_id),
)
partial_index(
    "ix_bookings_agency",
    *(bookings.c.booked_by, *_NEWEST_FIRST, bookings.c.status),
    where=bookings.c.booked_by.is_not(None),
)
partial_index("ix_bookings_urgent", bookings.c.companion_id, where=is_urgent)
partial_index("ix_bookings_payouts", bookings.c.payout_due_at, bookings.c.id, where=is_open_payout)
partial_index("ix_bookings_debts", bookings.c.companion_id, bookings.c.id, where=has_staff_debt)
partial_index(
    "ix_bookings_disputes", bookings.c.dispute_respond_by, bookings.c.id, where=is_disputed
)
partial_index("ix_bookings_unsettled", bookings.c.id, where=is_unsettled)
partial_index(
    "ix_bookings_slots",
    *(bookings.c.companion_id, bookings.c.starts_at, bookings.c.ends_at),
    where=holds_slot,
)

timers = Table(
    "timers",
    metadata,
    Column("booking_id", BigInt, ForeignKey("bookings.id"), primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("not_before", Instant),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    Column("attempts", BigInt, nullable=False),
    Index("ix_timers_due", "due_at", "booking_id"),
)

events = Table(
    "events",
    metadata,
    Column("booking_id", BigInt, ForeignKey("bookings.id"), nullable=False),
    Column("sequence", BigInt, nullable=False),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("parties", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("position", BigInt),
    Column("request_id", Text),
    PrimaryKeyConstraint("booking_id", "sequence"),
)
"""`parties` is a JSON array of user ids; `position` is assigned after the commit."""

rebooking_credits = Table(
    "rebooking_credits",
    metadata,
    Column("booking_id", BigInt, ForeignKey("bookings.id"), primary_key=True, autoincrement=False),
    Column("customer_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("used_by", BigInt),
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("booking_id", BigInt, nullable=False),
    Column("text", Text, nullable=False),
    Column("alarmed_at", Instant),
    Column("told", Boolean, nullable=False),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    Index("ix_alerts_newest", "at", "id"),
)
partial_index("ix_alerts_untold", alerts.c.id, where=alerts.c.told == false())
