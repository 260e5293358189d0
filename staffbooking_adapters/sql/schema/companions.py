"""Tables of companions: profiles, searches, portfolios, calendars, reviews and saved people."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
    true,
)

from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Instant
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus

# Profiles ---------------------------------------------------------------------------------

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
"""One column for each field of the domain's `Companion`, in its order, then `summary` and `detail`:
the encoded records that clients get."""

is_pending_companion = companions.c.approval == Approval.PENDING
partial_index("ix_companions_pending", companions.c.id, where=is_pending_companion)

saved_people = Table(
    "saved_people",
    metadata,
    Column("customer_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("companion_id", BigInt, ForeignKey("companions.id"), nullable=False),
    Column("saved_at", Instant, nullable=False),
    PrimaryKeyConstraint("customer_id", "companion_id"),
    Index("ix_saved_people_saved_at", "customer_id", "saved_at", "companion_id"),
    Index("ix_saved_people_companion", "companion_id"),
)
"""The staff members whom a customer has saved."""

# Searches ---------------------------------------------------------------------------------

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

# Portfolios -------------------------------------------------------------------------------

portfolio_items = Table(
    "portfolio_items",
    metadata,
    Column("companion_id", BigInt, ForeignKey("companions.id"), nullable=False),
    Column("title", Text, nullable=False),
    Column("image", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("status", Text, nullable=False),
    Column("position", BigInt, nullable=False, server_default="0"),
    Column("rejection", Text, nullable=False, server_default=text("''")),
    Column("id", BigInt, primary_key=True),
    Index("ix_portfolio_items_companion", "companion_id", "id"),
    sqlite_autoincrement=True,
)
"""One column for each field of the domain's `PortfolioItem`, in its order. Ids of deleted items
are not reused, so that an approval by id never applies to a later item."""
is_pending_item = portfolio_items.c.status == PortfolioItemStatus.PENDING
partial_index("ix_portfolio_items_pending", portfolio_items.c.id, where=is_pending_item)

images = Table(
    "images",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("size", BigInt, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("ix_images_owner", "owner_id", "created_at"),
)
"""Images; their bytes are in the file storage."""

dropped_images = Table("dropped_images", metadata, Column("name", Text, primary_key=True))
"""Images that nothing refers to, whose files must still be deleted."""

# Calendars --------------------------------------------------------------------------------

calendar_feeds = Table(
    "calendar_feeds",
    metadata,
    Column(
        "companion_id", BigInt, ForeignKey("companions.id"), primary_key=True, autoincrement=False
    ),
    Column("digest", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("digest", name="uq_calendar_feeds_digest"),
)
"""Calendar feeds. Digests are hexadecimal text; the secret is only in the feed's address."""

calendar_subscriptions = Table(
    "calendar_subscriptions",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("companion_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("address", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("next_read_at", Instant),
    Column("tried_at", Instant, nullable=False),
    Column("read_at", Instant, nullable=False),
    Column("parsed_at", Instant, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("fault", Text),
    Column("failures", BigInt, nullable=False),
    Column("failing_since", Instant),
    Column("busy", Text, nullable=False),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    Index("ix_calendar_subscriptions_companion", "companion_id", "id"),
    sqlite_autoincrement=True,
)
"""One column for each field of the domain's `CalendarSubscription`, in its order, and the lease.
All times are wall time. Ids are not reused: a sealed address is bound to its id."""

_has_next_read = calendar_subscriptions.c.next_read_at.is_not(None)
Index(
    "ix_calendar_subscriptions_due",
    calendar_subscriptions.c.next_read_at,
    calendar_subscriptions.c.id,
    postgresql_where=_has_next_read,
    sqlite_where=_has_next_read,
)

# Reviews ----------------------------------------------------------------------------------

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
is_hidden_review = reviews.c.hidden == true()
partial_index("ix_reviews_hidden", reviews.c.id, where=is_hidden_review)
