"""Tables of payment operations, the ledger and processor data."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
    false,
    or_,
    true,
)

from staffbooking_adapters.sql.engine.leases import NOW_PARAM
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index
from staffbooking_core.domain.payments.operations import (
    FAILED_OPERATION_STATUSES,
    UNFINISHED_OPERATION_STATUSES,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import OperationKind

payment_operations = Table(
    "payment_operations",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("booking_id", BigInt, ForeignKey("bookings.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("n", BigInt, nullable=False),
    Column("command", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("generation", BigInt, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", BigInt, nullable=False),
    Column("first_sent_at", Instant),
    Column("last_sent_at", Instant),
    Column("result_ref", Text),
    Column("settlement", Text),
    Column("last_error", Text),
    Column("request_id", Text),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    UniqueConstraint("booking_id", "n", name="uq_operations_order"),
    sqlite_autoincrement=True,
)
"""One column for each field of the domain's `Operation`, in its order, and the lease."""

is_unfinished = payment_operations.c.status.in_(sorted(UNFINISHED_OPERATION_STATUSES))
partial_index(
    "ix_payment_operations_due",
    *(payment_operations.c.next_at, payment_operations.c.id),
    where=is_unfinished,
)
is_failed_refund = and_(
    payment_operations.c.kind == OperationKind.REFUND,
    payment_operations.c.status != OperationStatus.VOID,
    or_(
        payment_operations.c.status.in_(sorted(FAILED_OPERATION_STATUSES)),
        payment_operations.c.settlement == SettlementStatus.FAILED,
    ),
)
partial_index(
    "ix_payment_operations_failed_refunds", payment_operations.c.id, where=is_failed_refund
)
is_in_flight = and_(is_unfinished, payment_operations.c.first_sent_at.is_not(None))
is_operation_due = and_(is_unfinished, payment_operations.c.next_at <= NOW_PARAM)
is_delayed_payout = and_(
    payment_operations.c.kind == OperationKind.PAY_OUT,
    payment_operations.c.status == OperationStatus.PENDING,
    payment_operations.c.next_at > NOW_PARAM,
)

ledger_postings = Table(
    "ledger_postings",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("key", Text, nullable=False),
    Column("booking_id", BigInt, ForeignKey("bookings.id"), nullable=False, index=True),
    Column("at", Instant, nullable=False),
    UniqueConstraint("key", name="uq_ledger_postings_key"),
)

ledger_legs = Table(
    "ledger_legs",
    metadata,
    Column(
        "posting_key",
        Text,
        ForeignKey("ledger_postings.key", deferrable=True, initially="DEFERRED"),
        nullable=False,
    ),
    Column("n", BigInt, nullable=False),
    Column("account", Text, nullable=False),
    Column("amount", BigInt, nullable=False),
    PrimaryKeyConstraint("posting_key", "n"),
)
"""Legs are written before their posting, which then seals them."""

processor_inbox = Table(
    "processor_inbox",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("intent_id", BigInt),
    Column("payment_ref", Text),
    Column("payee_ref", Text),
    Column("received_at", Instant, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("done", Boolean, nullable=False),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    UniqueConstraint("provider", "event_id", name="uq_processor_inbox_event"),
)
partial_index(
    "ix_processor_inbox_due",
    *(processor_inbox.c.next_at, processor_inbox.c.id),
    where=processor_inbox.c.done == false(),
)
partial_index(
    "ix_processor_inbox_open_intents",
    processor_inbox.c.intent_id,
    where=processor_inbox.c.done == false(),
)
partial_index(
    "ix_processor_inbox_done",
    processor_inbox.c.received_at,
    where=processor_inbox.c.done == true(),
)

processor_cursors = Table(
    "processor_cursors",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("cursor", Text, nullable=False),
    Column("at", Instant, nullable=False),
)

payees = Table(
    "payees",
    metadata,
    Column("provider", Text, nullable=False),
    Column("companion_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("command", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("next_at", Instant),
    Column("generation", BigInt, nullable=False),
    Column("attempts", BigInt, nullable=False),
    Column("first_sent_at", Instant),
    Column("ref", Text),
    Column("ready", Boolean, nullable=False),
    Column("needs", Text, nullable=False),
    Column("last_error", Text),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    PrimaryKeyConstraint("provider", "companion_id"),
    UniqueConstraint("provider", "ref", name="uq_payees_ref"),
    Index("ix_payees_companion", "companion_id"),
)
"""One column for each field of the domain's `Payee`, in its order, and the lease."""

is_payee_due = payees.c.next_at <= NOW_PARAM
partial_index(
    "ix_payees_due",
    *(payees.c.provider, payees.c.next_at, payees.c.companion_id),
    where=payees.c.next_at.is_not(None),
)

reconciliation_runs = Table(
    "reconciliation_runs",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("asked_at", Instant, nullable=False),
    Column("asked_by", Text),
    Column("finished_at", Instant),
    Column("checked", BigInt, nullable=False),
    Column("in_flight", BigInt, nullable=False),
    Column("differences", BigInt, nullable=False),
    Column("findings", Text, nullable=False),
    Column("error", Text),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    Index("ix_reconciliation_runs_finished_at", "finished_at"),
)
"""Runs of the reconciliation, asked for by the worker itself or by an operator."""
is_unfinished_run = reconciliation_runs.c.finished_at.is_(None)
partial_index("ix_reconciliation_runs_open", reconciliation_runs.c.id, where=is_unfinished_run)
