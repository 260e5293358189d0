"""People, companions, counters, the sandbox clock and the fake processor's documents."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    ForeignKeyConstraint,
    LargeBinary,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import CreateSequence, Sequence

from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Instant

revision = "0001"
down_revision = None


def _where(postgresql: str, sqlite: str | None = None) -> dict[str, Any]:
    """The condition of a partial index."""
    return {"postgresql_where": text(postgresql), "sqlite_where": text(sqlite or postgresql)}


def upgrade() -> None:
    _add_people()
    _add_companions()
    _add_machine()
    if op.get_bind().dialect.name == "postgresql":
        _add_what_only_postgresql_has()
    else:
        op.execute("INSERT INTO counters (name, value) VALUES ('bookings', 0)")
    op.execute("INSERT INTO sandbox_clock (id, offset_us) VALUES (1, 0)")


def _add_people() -> None:
    op.create_table(
        "users",
        Column("id", BigInt, nullable=False),
        Column("email", Text(), nullable=False),
        Column("email_folded", Text(), nullable=False),
        Column("first_name", Text(), nullable=False),
        Column("last_name", Text(), nullable=False),
        Column("role", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("subscription", Text(), nullable=False),
        Column("subscription_expires_at", Instant),
        Column("password_hash", Text()),
        Column("disabled_at", Instant),
        PrimaryKeyConstraint("id", name="pk_users"),
        UniqueConstraint("email_folded", name="uq_users_email"),
    )
    op.create_table(
        "sessions",
        Column("digest", Text(), nullable=False),
        Column("user_id", BigInt, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("seen_at", Instant, nullable=False),
        ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sessions_user_id"),
        PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_table(
        "api_keys",
        Column("id", BigInt, nullable=False),
        Column("owner_id", BigInt, nullable=False),
        Column("name", Text(), nullable=False),
        Column("digest", Text(), nullable=False),
        Column("masked_key", Text(), nullable=False),
        Column("permissions", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("last_used_at", Instant),
        Column("expires_at", Instant),
        Column("revoked_at", Instant),
        ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_api_keys_owner_id"),
        PrimaryKeyConstraint("id", name="pk_api_keys"),
        UniqueConstraint("digest", name="uq_api_keys_digest"),
    )
    op.create_index("ix_api_keys_owner_id", "api_keys", ["owner_id"])


def _add_companions() -> None:
    op.create_table(
        "companions",
        Column("id", BigInt, autoincrement=False, nullable=False),
        Column("first_name", Text(), nullable=False),
        Column("last_name", Text(), nullable=False),
        Column("hourly_rate", BigInt, nullable=False),
        Column("location_city", Text(), nullable=False),
        Column("location_country", Text(), nullable=False),
        Column("calendar", Text(), nullable=False),
        Column("member_since", Instant, nullable=False),
        Column("daily_rate", BigInt),
        Column("tagline", Text(), nullable=False),
        Column("bio", Text(), nullable=False),
        Column("profile_photo", Text(), nullable=False),
        Column("service_types", Text(), nullable=False),
        Column("languages", Text(), nullable=False),
        Column("years_experience", BigInt),
        Column("tier", Text(), nullable=False),
        Column("badges", Text(), nullable=False),
        Column("rating_sum", BigInt, nullable=False),
        Column("total_reviews", BigInt, nullable=False),
        Column("approval", Text(), nullable=False),
        Column("active", Boolean(), nullable=False),
        Column("payout_account", Text()),
        Column("summary", LargeBinary(), nullable=False),
        Column("detail", LargeBinary(), nullable=False),
        ForeignKeyConstraint(["id"], ["users.id"], name="fk_companions_id"),
        PrimaryKeyConstraint("id", name="pk_companions"),
    )
    op.create_table(
        "locations",
        Column("id", BigInt, nullable=False),
        Column("city_folded", Text(), nullable=False),
        Column("country_folded", Text(), nullable=False),
        PrimaryKeyConstraint("id", name="pk_locations"),
        UniqueConstraint(
            "city_folded", "country_folded", name="uq_locations_city_folded_country_folded"
        ),
    )
    op.create_table(
        "services",
        Column("id", BigInt, nullable=False),
        Column("name_folded", Text(), nullable=False),
        PrimaryKeyConstraint("id", name="pk_services"),
        UniqueConstraint("name_folded", name="uq_services_name_folded"),
    )
    op.create_table(
        "companion_search",
        Column("service_id", BigInt, nullable=False),
        Column("companion_id", BigInt, nullable=False),
        Column("location_id", BigInt, nullable=False),
        Column("rank", BigInt, nullable=False),
        Column("hourly_rate", BigInt, nullable=False),
        Column("weekday_mask", BigInt, nullable=False),
        Column("spelling", Text(), nullable=False),
        PrimaryKeyConstraint("companion_id", "service_id", name="pk_companion_search"),
    )
    op.create_index(
        "ix_companion_search_location",
        "companion_search",
        ["service_id", "location_id", "rank", "companion_id", "hourly_rate", "weekday_mask"],
    )
    op.create_index(
        "ix_companion_search_rank",
        "companion_search",
        ["service_id", "rank", "companion_id", "hourly_rate", "weekday_mask", "location_id"],
    )
    op.create_index(
        "ix_companion_search_rate",
        "companion_search",
        ["service_id", "hourly_rate", "rank", "companion_id", "weekday_mask"],
    )
    op.create_table(
        "companion_days",
        Column("companion_id", BigInt, nullable=False),
        Column("day", CivilDate, nullable=False),
        Column("free", Boolean(), nullable=False),
        PrimaryKeyConstraint("companion_id", "day", name="pk_companion_days"),
    )


def _add_machine() -> None:
    op.create_table(
        "counters",
        Column("name", Text(), nullable=False),
        Column("value", BigInt, nullable=False),
        PrimaryKeyConstraint("name", name="pk_counters"),
    )
    op.create_table(
        "sandbox_clock",
        Column("id", BigInt, autoincrement=False, nullable=False),
        Column("offset_us", BigInt, nullable=False),
        PrimaryKeyConstraint("id", name="pk_sandbox_clock"),
    )
    op.create_table(
        "fakepay_documents",
        Column("kind", Text(), nullable=False),
        Column("key", Text(), nullable=False),
        Column("body", Text(), nullable=False),
        Column("due_at", Instant),
        Column("amount", BigInt, nullable=False),
        PrimaryKeyConstraint("kind", "key", name="pk_fakepay_documents"),
    )
    op.create_index(
        "ix_fakepay_documents_due",
        "fakepay_documents",
        ["kind", "due_at"],
        **_where("due_at IS NOT NULL"),
    )


def _add_what_only_postgresql_has() -> None:
    """SQLite counts bookings in `counters`, and windows of requests in another file."""
    op.execute(CreateSequence(Sequence("booking_numbers")))
    op.create_table(
        "rate_windows",
        Column("scope", Text(), nullable=False),
        Column("count", BigInt, nullable=False),
        Column("resets_at", Instant, nullable=False),
        PrimaryKeyConstraint("scope", name="pk_rate_windows"),
    )
    # Free space in each page lets frequent updates leave the index unchanged (HOT updates).
    op.execute("ALTER TABLE rate_windows SET (fillfactor = 50)")
