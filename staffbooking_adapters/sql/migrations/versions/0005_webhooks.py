"""Webhook endpoints, their deliveries, the pull feed, and notifications."""

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

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0005"
down_revision = "0004"


def _where(rows: str) -> dict[str, Any]:
    """The condition of a partial index."""
    return {"postgresql_where": text(rows), "sqlite_where": text(rows)}


def upgrade() -> None:
    _add_endpoints()
    _add_deliveries()
    _add_attempts()
    _add_feeds()
    _add_notices()


def _add_endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        Column("id", BigInt, nullable=False),
        Column("owner_id", BigInt, nullable=False),
        Column("url", Text(), nullable=False),
        Column("events", Text(), nullable=False),
        Column("description", Text()),
        Column("created_at", Instant, nullable=False),
        Column("secret", LargeBinary(), nullable=False),
        Column("next_secret", LargeBinary()),
        Column("next_secret_from", Instant),
        Column("active", Boolean(), nullable=False),
        Column("consecutive_failures", BigInt, nullable=False),
        Column("disabled_at", Instant),
        Column("disabled_reason", Text()),
        Column("deleted_at", Instant),
        Column("troubled", Boolean(), nullable=False),
        Column("succeeded", BigInt, nullable=False),
        Column("failed", BigInt, nullable=False),
        Column("due_at", Instant),
        Column("lease_token", Text()),
        Column("lease_until", Instant),
        ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_webhook_endpoints_owner_id"),
        PrimaryKeyConstraint("id", name="pk_webhook_endpoints"),
    )
    for name, columns, where in (
        ("owner", ["owner_id", "id"], "deleted_at IS NULL"),
        ("turns", ["troubled", "due_at", "id"], "due_at IS NOT NULL"),
        ("claims", ["lease_token"], "lease_token IS NOT NULL"),
    ):
        op.create_index(
            f"ix_webhook_endpoints_{name}", "webhook_endpoints", columns, **_where(where)
        )
    op.create_index("ix_users_admins", "users", ["id"], **_where("role = 'admin'"))


def _add_deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        Column("id", BigInt, nullable=False),
        Column("endpoint_id", BigInt, nullable=False),
        Column("event_id", Text(), nullable=False),
        Column("event", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("status", Text(), nullable=False),
        Column("next_at", Instant, nullable=False),
        Column("attempts", BigInt, nullable=False),
        Column("tries", BigInt, nullable=False),
        Column("counts", Boolean(), nullable=False),
        Column("held_at", Instant),
        Column("body", LargeBinary()),
        ForeignKeyConstraint(
            ["endpoint_id"], ["webhook_endpoints.id"], name="fk_webhook_deliveries_endpoint_id"
        ),
        PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
        UniqueConstraint("endpoint_id", "event_id", name="uq_webhook_deliveries_event"),
    )
    op.create_index("ix_webhook_deliveries_newest", "webhook_deliveries", ["endpoint_id", "id"])
    for name, columns, where in (
        ("retries", ["endpoint_id", "next_at", "id"], "status = 'pending' AND tries > 0"),
        ("first_tries", ["endpoint_id", "next_at", "id"], "status = 'pending' AND tries = 0"),
        ("held", ["endpoint_id"], "status = 'held'"),
        ("held_since", ["held_at", "id"], "status = 'held'"),
        ("done", ["next_at", "id"], "status IN ('cancelled', 'failed', 'succeeded')"),
    ):
        op.create_index(
            f"ix_webhook_deliveries_{name}", "webhook_deliveries", columns, **_where(where)
        )


def _add_attempts() -> None:
    op.create_table(
        "webhook_attempts",
        Column("delivery_id", BigInt, nullable=False),
        Column("number", BigInt, nullable=False),
        Column("at", Instant, nullable=False),
        Column("duration_ms", BigInt, nullable=False),
        Column("response_status", BigInt),
        Column("error", Text()),
        ForeignKeyConstraint(
            ["delivery_id"],
            ["webhook_deliveries.id"],
            name="fk_webhook_attempts_delivery_id",
            ondelete="CASCADE",
        ),
        PrimaryKeyConstraint("delivery_id", "number", name="pk_webhook_attempts"),
    )
    op.create_index("ix_webhook_attempts_at", "webhook_attempts", ["at", "delivery_id", "number"])


def _add_feeds() -> None:
    op.create_table(
        "event_readers",
        Column("user_id", BigInt, nullable=False),
        Column("position", BigInt, nullable=False),
        PrimaryKeyConstraint("user_id", "position", name="pk_event_readers"),
    )
    op.create_index("ix_events_unplaced", "events", ["id"], **_where("position IS NULL"))
    op.create_index(
        "uq_events_position",
        "events",
        ["position"],
        unique=True,
        **_where("position IS NOT NULL"),
    )


def _add_notices() -> None:
    op.create_table(
        "notices",
        Column("id", BigInt, nullable=False),
        Column("user_id", BigInt, nullable=False),
        Column("at", Instant, nullable=False),
        Column("kind", Text(), nullable=False),
        Column("subject", Text(), nullable=False),
        Column("text", Text(), nullable=False),
        Column("lease_token", Text()),
        Column("lease_until", Instant),
        PrimaryKeyConstraint("id", name="pk_notices"),
    )
