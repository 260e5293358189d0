"""The tables as statements use them; the migrations create them.

Constraints that no statement names are in the migrations alone: the one that forbids overlapping
bookings of a companion, and the triggers that seal the ledger. Times are `Instant`: wall time for
leases, keys and sessions, business time for bookings.
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
    true,
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

# People -----------------------------------------------------------------------------------

users = Table(
    "users",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("email", Text, nullable=False),
    Column("email_folded", Text, nullable=False),
    Column("first_name", Text, nullable=False),
    Column("last_name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("subscription", Text, nullable=False),
    Column("subscription_expires_at", Instant),
    Column("password_hash", Text),
    *(Column(name, Instant) for name in ("disabled_at", "email_verified_at", "erased_at")),
    *(Column(name, Text) for name in ("language", "theme", "timezone")),
    # Accepted bookings: a new one is stored if there are as many as when it was decided.
    Column("acceptances", BigInt, nullable=False, server_default="0"),
    UniqueConstraint("email_folded", name="uq_users_email"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False, index=True),
    Column("created_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    *(Column(name, Text) for name in ("browser", "system", "network")),
    Index("ix_sessions_seen_at", "seen_at"),
    Index("ix_sessions_created_at", "created_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("owner_id", BigInt, ForeignKey("users.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("masked_key", Text, nullable=False),
    Column("permissions", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    UniqueConstraint("digest", name="uq_api_keys_digest"),
    sqlite_autoincrement=True,
)
"""API keys. Digests are hexadecimal text, so that many can be looked up by one array. Ids of
erased keys are not reused, so that a revocation by id never applies to a later key."""

notices = Table(
    "notices",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("user_id", BigInt),
    Column("at", Instant, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    Column("link", Text),
    Column("address", Text),
    Column("due_at", Instant, nullable=False),
    Column("attempts", BigInt, nullable=False, server_default="0"),
    Column("request_id", Text),
    Index("ix_notices_due", "due_at", "id"),
    sqlite_autoincrement=True,
)
"""Notifications to send; a row is deleted after it was sent. Ids are not reused, since they are
part of the mails' Message-IDs."""

# Companions -------------------------------------------------------------------------------

companions = Table(
    "companions",
    metadata,
    Column("id", BigInt, ForeignKey("users.id"), primary_key=True, autoincrement=False),
    Column("first_name", Text, nullable=False),
    Column("last_name", Text, nullable=False),
    Column("hourly_rate", BigInt, nullable=False),
    Column("location_city", Text, nullable=False),
    Column("location_country", Text, nullable=False),
    Column("calendar", Text, nullable=False),
    Column("member_since", Instant, nullable=False),
    Column("daily_rate", BigInt),
    Column("tagline", Text, nullable=False),
    Column("bio", Text, nullable=False),
    Column("profile_photo", Text, nullable=False),
    Column("service_types", Text, nullable=False),
    Column("languages", Text, nullable=False),
    Column("years_experience", BigInt),
    Column("tier", Text, nullable=False),
    Column("badges", Text, nullable=False),
    Column("rating_sum", BigInt, nullable=False),
    Column("total_reviews", BigInt, nullable=False),
    Column("approval", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("payout_account", Text),
    Column("summary", LargeBinary, nullable=False),
    Column("detail", LargeBinary, nullable=False),
)

locations = Table(
    "locations",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("city_folded", Text, nullable=False),
    Column("country_folded", Text, nullable=False),
    UniqueConstraint("city_folded", "country_folded"),
)

services = Table(
    "services",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("name_folded", Text, nullable=False, unique=True),
)

companion_search = Table(
    "companion_search",
    metadata,
    Column("service_id", BigInt, nullable=False),
    Column("companion_id", BigInt, nullable=False),
    Column("location_id", BigInt, nullable=False),
    Column("rank", BigInt, nullable=False),
    Column("hourly_rate", BigInt, nullable=False),
    Column("weekday_mask", BigInt, nullable=False),
    Column("spelling", Text, nullable=False),
    PrimaryKeyConstraint("companion_id", "service_id"),
    Index(
        "ix_companion_search_rank",
        *("service_id", "rank", "companion_id", "hourly_rate", "weekday_mask", "location_id"),
    ),
    Index(
        "ix_companion_search_location",
        *("service_id", "location_id", "rank", "companion_id", "hourly_rate", "weekday_mask"),
    ),
    Index(
        "ix_companion_search_rate",
        *("service_id", "hourly_rate", "rank", "companion_id", "weekday_mask"),
    ),
    Index(
        "ix_companion_search_weekdays",
        *("service_id", "weekday_mask", "rank", "companion_id", "hourly_rate", "location_id"),
    ),
)
"""The rows that searches read: one for each service of a listed companion, and one with service
0 for any service. `rank` ascends in the order of CONTRACT 3."""

companion_days = Table(
    "companion_days",
    metadata,
    Column("companion_id", BigInt, nullable=False),
    Column("day", CivilDate, nullable=False),
    Column("free", Boolean, nullable=False),
    PrimaryKeyConstraint("companion_id", "day"),
    Index("ix_companion_days_day", "day", "free", "companion_id"),
)
is_day_marked_free = companion_days.c.free.is_(true())

companion_limits = Table(
    "companion_limits",
    metadata,
    Column("companion_id", BigInt, primary_key=True, autoincrement=False),
    Column("min_notice_hours", BigInt, nullable=False),
    Column("horizon_days", BigInt, nullable=False),
    Index("ix_companion_limits_notice", "min_notice_hours"),
    Index("ix_companion_limits_horizon", "horizon_days"),
)
"""The notice and horizon of the companions who set one, for searches by date."""

# Bookings ---------------------------------------------------------------------------------

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

holds_slot = bookings.c.status.in_(sorted(SLOT_HOLDING_STATUSES))
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

answers = Table(
    "answers",
    metadata,
    Column("scope", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", BigInt, nullable=False),
    Column("headers", Text, nullable=False, server_default=text("''")),
    Column("body", LargeBinary, nullable=False),
    Column("is_sealed", Boolean, nullable=False, server_default=text("false")),
    Column("expires_at", Instant, nullable=False, index=True),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    PrimaryKeyConstraint("scope", "key", name="uq_answers_key"),
)
"""`key` is a digest. The lease is that of a call in progress, whose status is 0."""

rebooking_credits = Table(
    "rebooking_credits",
    metadata,
    Column("booking_id", BigInt, ForeignKey("bookings.id"), primary_key=True, autoincrement=False),
    Column("customer_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("used_by", BigInt),
)

reviews = Table(
    "reviews",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("booking_id", BigInt, ForeignKey("bookings.id"), nullable=False),
    Column("reviewer_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("reviewer_name", Text, nullable=False),
    Column("reviewer_role", Text, nullable=False),
    Column("reviewee_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("rating", BigInt, nullable=False),
    Column("comment", Text),
    Column("punctuality", BigInt),
    Column("professionalism", BigInt),
    Column("communication", BigInt),
    Column("appearance", BigInt),
    Column("created_at", Instant, nullable=False),
    Column("response", Text),
    Column("responded_at", Instant),
    Column("hidden", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("booking_id", "reviewer_id", name="uq_reviews_reviewer"),
    Index("ix_reviews_reviewer", "reviewer_id", "id"),
)
is_visible_review = ~reviews.c.hidden
partial_index(
    "ix_reviews_newest",
    *(reviews.c.reviewee_id, reviews.c.id, reviews.c.rating),
    where=is_visible_review,
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("booking_id", BigInt, nullable=False),
    Column("text", Text, nullable=False),
    Column("told", Boolean, nullable=False),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    Index("ix_alerts_newest", "at", "id"),
)
partial_index("ix_alerts_untold", alerts.c.id, where=alerts.c.told == false())

# Sandbox clock ----------------------------------------------------------------------------

sandbox_clock = Table(
    "sandbox_clock",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    Column("offset_us", BigInt, nullable=False),
)
"""One row: the microseconds by which business time is ahead of wall time."""
