"""Bookings with all rows that are written with their transitions; the ledger."""

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

from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Instant

revision = "0002"
down_revision = "0001"


def _where(postgresql: str, sqlite: str | None = None) -> dict[str, Any]:
    """The condition of a partial index."""
    return {"postgresql_where": text(postgresql), "sqlite_where": text(sqlite or postgresql)}


def upgrade() -> None:
    _add_bookings()
    _add_rows_of_bookings()
    _add_money()


def _add_bookings() -> None:
    op.create_table(
        "bookings",
        Column("id", BigInt, autoincrement=False, nullable=False),
        Column("code", Text(), nullable=False),
        Column("status", Text(), nullable=False),
        Column("companion_id", BigInt, nullable=False),
        Column("companion_name", Text(), nullable=False),
        Column("customer_id", BigInt, nullable=False),
        Column("customer_name", Text(), nullable=False),
        Column("booked_by", BigInt),
        Column("service_type", Text(), nullable=False),
        Column("location", Text(), nullable=False),
        Column("event_date", CivilDate, nullable=False),
        Column("start_time", Text(), nullable=False),
        Column("duration_hours", BigInt, nullable=False),
        Column("timezone", Text(), nullable=False),
        Column("starts_at", Instant, nullable=False),
        Column("ends_at", Instant, nullable=False),
        Column("currency", Text(), nullable=False),
        Column("price", BigInt, nullable=False),
        Column("insurance_premium", BigInt, nullable=False),
        Column("fee_ppm", BigInt, nullable=False),
        Column("platform_fee", BigInt, nullable=False),
        Column("payout_amount", BigInt, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("cancellation_insurance", Boolean(), nullable=False),
        Column("event_ref", Text()),
        Column("priority", Boolean(), nullable=False),
        Column("version", BigInt, nullable=False),
        Column("events", BigInt, nullable=False),
        Column("timeline", Text(), nullable=False),
        Column("checked_in_at", Instant),
        Column("accepted_at", Instant),
        Column("paid_at", Instant),
        Column("completed_at", Instant),
        Column("completed_by", Text()),
        Column("cancelled_at", Instant),
        Column("cancelled_by", Text()),
        Column("cancel_reason", Text()),
        Column("disputed_at", Instant),
        Column("dispute_reason", Text()),
        Column("disputed_by", Text()),
        Column("payment_status", Text(), nullable=False),
        Column("payout_status", Text(), nullable=False),
        Column("payout_due_at", Instant),
        Column("payout_released_at", Instant),
        Column("escrow", BigInt, nullable=False),
        Column("refunded_amount", BigInt, nullable=False),
        Column("paid_out", BigInt, nullable=False),
        Column("owed_by_staff", BigInt, nullable=False),
        Column("payout_n", BigInt),
        Column("orders", BigInt, nullable=False),
        Column("settlements", BigInt, nullable=False),
        Column("chargeback_ref", Text()),
        Column("chargeback_status", Text()),
        Column("chargeback_amount", BigInt, nullable=False),
        Column("intent", Text()),
        ForeignKeyConstraint(["booked_by"], ["users.id"], name="fk_bookings_booked_by"),
        ForeignKeyConstraint(["companion_id"], ["companions.id"], name="fk_bookings_companion_id"),
        ForeignKeyConstraint(["customer_id"], ["users.id"], name="fk_bookings_customer_id"),
        PrimaryKeyConstraint("id", name="pk_bookings"),
        UniqueConstraint("code", name="uq_bookings_code"),
    )
    op.create_index(
        "ix_bookings_agency",
        "bookings",
        ["booked_by", text("starts_at DESC"), text("id DESC")],
        **_where("booked_by IS NOT NULL"),
    )
    op.create_index(
        "ix_bookings_companion",
        "bookings",
        ["companion_id", text("starts_at DESC"), text("id DESC")],
    )
    op.create_index(
        "ix_bookings_customer", "bookings", ["customer_id", text("starts_at DESC"), text("id DESC")]
    )
    op.create_index("ix_bookings_newest", "bookings", [text("starts_at DESC"), text("id DESC")])
    op.create_index(
        "ix_bookings_payouts",
        "bookings",
        ["payout_due_at", "id"],
        **_where("payout_status IN ('failed', 'frozen', 'scheduled')"),
    )
    op.create_index(
        "ix_bookings_slots",
        "bookings",
        ["companion_id", "starts_at", "ends_at"],
        **_where("status IN ('accepted', 'disputed', 'paid')"),
    )
    op.create_index(
        "ix_bookings_urgent",
        "bookings",
        ["companion_id"],
        **_where("priority AND status = 'pending'", "priority = 1 AND status = 'pending'"),
    )


def _add_rows_of_bookings() -> None:
    op.create_table(
        "timers",
        Column("booking_id", BigInt, autoincrement=False, nullable=False),
        Column("kind", Text(), nullable=False),
        Column("due_at", Instant, nullable=False),
        Column("not_before", Instant),
        Column("lease_token", Text()),
        Column("lease_until", Instant),
        Column("attempts", BigInt, nullable=False),
        ForeignKeyConstraint(["booking_id"], ["bookings.id"], name="fk_timers_booking_id"),
        PrimaryKeyConstraint("booking_id", name="pk_timers"),
    )
    op.create_index("ix_timers_due", "timers", ["due_at", "booking_id"])
    op.create_table(
        "events",
        Column("booking_id", BigInt, nullable=False),
        Column("sequence", BigInt, nullable=False),
        Column("id", Text(), nullable=False),
        Column("name", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("parties", Text(), nullable=False),
        Column("body", LargeBinary(), nullable=False),
        Column("position", BigInt),
        ForeignKeyConstraint(["booking_id"], ["bookings.id"], name="fk_events_booking_id"),
        PrimaryKeyConstraint("booking_id", "sequence", name="pk_events"),
        UniqueConstraint("id", name="uq_events_id"),
    )
    op.create_table(
        "answers",
        Column("scope", Text(), nullable=False),
        Column("key", Text(), nullable=False),
        Column("fingerprint", LargeBinary(), nullable=False),
        Column("status", BigInt, nullable=False),
        Column("body", LargeBinary(), nullable=False),
        Column("expires_at", Instant, nullable=False),
        PrimaryKeyConstraint("scope", "key", name="uq_answers_key"),
    )
    op.create_index("ix_answers_expires_at", "answers", ["expires_at"])
    op.create_table(
        "rebooking_credits",
        Column("booking_id", BigInt, autoincrement=False, nullable=False),
        Column("customer_id", BigInt, nullable=False),
        Column("expires_at", Instant, nullable=False),
        Column("used_by", BigInt),
        ForeignKeyConstraint(
            ["booking_id"], ["bookings.id"], name="fk_rebooking_credits_booking_id"
        ),
        ForeignKeyConstraint(
            ["customer_id"], ["users.id"], name="fk_rebooking_credits_customer_id"
        ),
        PrimaryKeyConstraint("booking_id", name="pk_rebooking_credits"),
    )
    op.create_table(
        "alerts",
        Column("id", BigInt, nullable=False),
        Column("at", Instant, nullable=False),
        Column("booking_id", BigInt, nullable=False),
        Column("text", Text(), nullable=False),
        Column("told", Boolean(), nullable=False),
        PrimaryKeyConstraint("id", name="pk_alerts"),
    )
    op.create_index("ix_alerts_newest", "alerts", ["at", "id"])
    op.create_index("ix_alerts_untold", "alerts", ["id"], **_where("told = false", "told = 0"))


def _add_money() -> None:
    op.create_table(
        "payment_operations",
        Column("id", BigInt, nullable=False),
        Column("booking_id", BigInt, nullable=False),
        Column("kind", Text(), nullable=False),
        Column("n", BigInt, nullable=False),
        Column("command", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("next_at", Instant, nullable=False),
        Column("generation", BigInt, nullable=False),
        Column("status", Text(), nullable=False),
        Column("attempts", BigInt, nullable=False),
        Column("first_sent_at", Instant),
        Column("last_sent_at", Instant),
        Column("result_ref", Text()),
        Column("settlement", Text()),
        Column("last_error", Text()),
        Column("lease_token", Text()),
        Column("lease_until", Instant),
        ForeignKeyConstraint(
            ["booking_id"], ["bookings.id"], name="fk_payment_operations_booking_id"
        ),
        PrimaryKeyConstraint("id", name="pk_payment_operations"),
        UniqueConstraint("booking_id", "n", name="uq_operations_order"),
    )
    op.create_index(
        "ix_payment_operations_due",
        "payment_operations",
        ["next_at", "id"],
        **_where("status IN ('pending', 'unknown')"),
    )
    op.create_table(
        "ledger_postings",
        Column("id", BigInt, nullable=False),
        Column("key", Text(), nullable=False),
        Column("booking_id", BigInt, nullable=False),
        Column("at", Instant, nullable=False),
        ForeignKeyConstraint(["booking_id"], ["bookings.id"], name="fk_ledger_postings_booking_id"),
        PrimaryKeyConstraint("id", name="pk_ledger_postings"),
        UniqueConstraint("key", name="uq_ledger_postings_key"),
    )
    op.create_index("ix_ledger_postings_booking_id", "ledger_postings", ["booking_id"])
    op.create_table(
        "ledger_legs",
        Column("posting_key", Text(), nullable=False),
        Column("n", BigInt, nullable=False),
        Column("account", Text(), nullable=False),
        Column("amount", BigInt, nullable=False),
        ForeignKeyConstraint(
            ["posting_key"],
            ["ledger_postings.key"],
            name="fk_ledger_legs_posting_key",
            initially="DEFERRED",
            deferrable=True,
        ),
        PrimaryKeyConstraint("posting_key", "n", name="pk_ledger_legs"),
    )
    op.create_table(
        "processor_inbox",
        Column("id", BigInt, nullable=False),
        Column("provider", Text(), nullable=False),
        Column("event_id", Text(), nullable=False),
        Column("intent_id", BigInt),
        Column("companion_id", BigInt),
        Column("received_at", Instant, nullable=False),
        Column("next_at", Instant, nullable=False),
        Column("done", Boolean(), nullable=False),
        Column("lease_token", Text()),
        Column("lease_until", Instant),
        PrimaryKeyConstraint("id", name="pk_processor_inbox"),
        UniqueConstraint("provider", "event_id", name="uq_processor_inbox_event"),
    )
    op.create_index(
        "ix_processor_inbox_open",
        "processor_inbox",
        ["received_at", "id"],
        **_where("done = false", "done = 0"),
    )
