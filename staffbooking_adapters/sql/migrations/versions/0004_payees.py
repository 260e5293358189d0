"""Payees, cursors, and the indexes of reconciliation."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0004"
down_revision = "0003"


def _where(postgresql: str, sqlite: str | None = None) -> dict[str, Any]:
    """The condition of a partial index."""
    return {"postgresql_where": text(postgresql), "sqlite_where": text(sqlite or postgresql)}


def upgrade() -> None:
    _extend_bookings()
    _extend_operations()
    _change_inbox()
    _add_payees()


def _extend_bookings() -> None:
    op.add_column("bookings", Column("netted", BigInt, nullable=False, server_default="0"))
    op.add_column("bookings", Column("payout_alarmed_at", Instant))
    op.create_index(
        "ix_bookings_debts", "bookings", ["companion_id", "id"], **_where("owed_by_staff > 0")
    )
    op.create_index(
        "ix_bookings_unsettled",
        "bookings",
        ["id"],
        **_where("payment_status IN ('processing', 'refund_pending', 'requires_payment')"),
    )


def _extend_operations() -> None:
    op.create_index(
        "ix_payment_operations_failed_refunds",
        "payment_operations",
        ["id"],
        **_where(
            "kind = 'refund' AND status != 'void'"
            " AND (status IN ('dead', 'refused') OR settlement = 'failed')"
        ),
    )


def _change_inbox() -> None:
    # Events no longer name a companion, so unprocessed ones are dropped: state is looked up.
    op.execute("UPDATE processor_inbox SET done = true WHERE companion_id IS NOT NULL")
    op.drop_column("processor_inbox", "companion_id")
    op.add_column("processor_inbox", Column("payment_ref", Text()))
    op.add_column("processor_inbox", Column("payee_ref", Text()))
    op.create_index(
        "ix_processor_inbox_open_intents",
        "processor_inbox",
        ["intent_id"],
        **_where("done = false", "done = 0"),
    )
    op.create_index(
        "ix_processor_inbox_done",
        "processor_inbox",
        ["received_at"],
        **_where("done = true", "done = 1"),
    )


def _add_payees() -> None:
    op.create_table(
        "processor_cursors",
        Column("provider", Text(), nullable=False),
        Column("cursor", Text(), nullable=False),
        Column("at", Instant, nullable=False),
        PrimaryKeyConstraint("provider", name="pk_processor_cursors"),
    )
    op.create_table(
        "payees",
        Column("provider", Text(), nullable=False),
        Column("companion_id", BigInt, nullable=False),
        Column("command", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("next_at", Instant),
        Column("generation", BigInt, nullable=False),
        Column("attempts", BigInt, nullable=False),
        Column("first_sent_at", Instant),
        Column("ref", Text()),
        Column("ready", Boolean(), nullable=False),
        Column("needs", Text(), nullable=False),
        Column("last_error", Text()),
        Column("lease_token", Text()),
        Column("lease_until", Instant),
        ForeignKeyConstraint(["companion_id"], ["users.id"], name="fk_payees_companion_id"),
        PrimaryKeyConstraint("provider", "companion_id", name="pk_payees"),
        UniqueConstraint("provider", "ref", name="uq_payees_ref"),
    )
    op.create_index(
        "ix_payees_due",
        "payees",
        ["provider", "next_at", "companion_id"],
        **_where("next_at IS NOT NULL"),
    )
