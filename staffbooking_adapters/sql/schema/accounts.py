"""Tables of users' settings, muted notifications and imports."""

from __future__ import annotations

from sqlalchemy import (
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

from staffbooking_adapters.sql.engine.types import BigInt, ByteOrderedText, Instant
from staffbooking_adapters.sql.schema.bookings import companions, reviews, users
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus

Index("ix_users_role", users.c.role, users.c.id)
is_hidden_review = reviews.c.hidden == true()
partial_index("ix_reviews_hidden", reviews.c.id, where=is_hidden_review)
is_disabled = users.c.disabled_at.is_not(None)
partial_index("ix_users_disabled", users.c.id, where=is_disabled)
is_pending_companion = companions.c.approval == Approval.PENDING
partial_index("ix_companions_pending", companions.c.id, where=is_pending_companion)

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

person_terms = Table(
    "person_terms",
    metadata,
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("term", ByteOrderedText, nullable=False),
    PrimaryKeyConstraint("user_id", "term"),
    Index("ix_person_terms_term", "term", "user_id"),
)
"""The `search_terms` of accounts that are not erased, in the order of their code points."""

login_addresses = Table(
    "login_addresses",
    metadata,
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("at", Instant, nullable=False),
    PrimaryKeyConstraint("user_id", "digest"),
)
"""Addresses from which a user has logged in, the newest `MAX_LOGIN_ADDRESSES`. Digests are keyed,
as hexadecimal text."""

saved_people = Table(
    "saved_people",
    metadata,
    Column("customer_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("companion_id", BigInt, ForeignKey("companions.id"), nullable=False),
    Column("saved_at", Instant, nullable=False),
    PrimaryKeyConstraint("customer_id", "companion_id"),
    Index("ix_saved_people_saved_at", "customer_id", "saved_at", "companion_id"),
)
"""The staff members whom a customer has saved."""

audit = Table(
    "audit",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor_id", BigInt),
    Column("actor", Text),
    Column("act", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("subject_id", Text, nullable=False),
    Column("reason", Text),
    Column("origin", Text),
    Index("ix_audit_subject", "subject_id", "subject", "id"),
    Index("ix_audit_kind", "subject", "id"),
    Index("ix_audit_actor_id", "actor_id", "id"),
    Index("ix_audit_actor", "actor", "id"),
    sqlite_autoincrement=True,
)
"""Changes by operators. Triggers refuse every change of a row but one that only sets `reason` or
`origin` to NULL, as erasure does."""

mutes = Table(
    "mutes",
    metadata,
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("kind", Text, nullable=False),
    PrimaryKeyConstraint("user_id", "kind"),
)
"""Notification kinds that a user has muted."""

inquiries = Table(
    "inquiries",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("name", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("email_folded", Text, nullable=False),
    Column("answered_at", Instant),
    Column("answered_by", BigInt),
    Column("note", Text),
    Index("ix_inquiries_email", "email_folded", "id"),
    Index("ix_inquiries_created_at", "created_at"),
    sqlite_autoincrement=True,
)
"""Inquiries. Ids of erased ones are not reused, so that paging after an id skips none."""
is_waiting_inquiry = inquiries.c.answered_at.is_(None)
partial_index("ix_inquiries_waiting", inquiries.c.id, where=is_waiting_inquiry)

imports = Table(
    "imports",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("line", BigInt, nullable=False),
    Column("imported", BigInt, nullable=False),
    Column("updated", BigInt, nullable=False),
    Column("skipped", BigInt, nullable=False),
    Column("at", Instant, nullable=False),
)
"""Progress of unfinished imports; a row is deleted when its whole file is imported."""

skipped_rows = Table(
    "skipped_rows",
    metadata,
    Column("fingerprint", Text, nullable=False),
    Column("line", BigInt, nullable=False),
    Column("email", Text),
    Column("reason", Text, nullable=False),
    Column("email_folded", Text),
    PrimaryKeyConstraint("fingerprint", "line"),
    Index("ix_skipped_rows_email", "email_folded"),
)
"""Skipped rows of unfinished imports; they are deleted with the import."""

api_key_calls = Table(
    "api_key_calls",
    metadata,
    Column("key_id", BigInt, nullable=False, autoincrement=False),
    Column("hour", Instant, nullable=False),
    Column("calls", BigInt, nullable=False),
    PrimaryKeyConstraint("key_id", "hour"),
    Index("ix_api_key_calls_hour", "hour"),
)
"""How many requests each API key made in each hour of wall time. Not a foreign key: what is written
late for a key that was erased meanwhile must fail nothing."""
