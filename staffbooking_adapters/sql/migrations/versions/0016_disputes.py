"""Disputes have statements, files and a deadline; the parties are reminded of their bookings."""

from __future__ import annotations

import json

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    ForeignKeyConstraint,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    select,
    text,
)

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0016"
down_revision = "0015"

_MINUTE_US = 60_000_000
_RESPONSE, _REMINDER, _QUESTION = 72 * 60, -24 * 60, 15
"""Minutes from the dispute to its deadline, and from the start to the two reminders."""


def upgrade() -> None:
    _extend_bookings()
    _add_statements()
    _add_files()
    _fill_disputes()
    _set_timers()


def _extend_bookings() -> None:
    op.add_column("bookings", Column("dispute_respond_by", Instant))
    op.add_column("bookings", Column("dispute_alarmed_at", Instant))
    op.add_column("bookings", Column("dispute_note", Text()))
    op.add_column("bookings", Column("dispute_refund", BigInt, nullable=False, server_default="0"))
    op.add_column("bookings", Column("reminded_at", Instant))
    op.add_column(
        "bookings", Column("payout_held", Boolean(), nullable=False, server_default=text("false"))
    )
    is_disputed = text("status = 'disputed'")
    op.create_index(
        "ix_bookings_disputes",
        "bookings",
        ["dispute_respond_by", "id"],
        postgresql_where=is_disputed,
        sqlite_where=is_disputed,
    )


def _add_statements() -> None:
    op.create_table(
        "dispute_statements",
        Column("booking_id", BigInt, nullable=False),
        Column("dispute_number", BigInt, nullable=False),
        Column("author_id", BigInt, nullable=False),
        Column("party", Text(), nullable=False),
        Column("text", Text(), nullable=False),
        Column("files", Text(), nullable=False),
        Column("at", Instant, nullable=False),
        Column("id", BigInt, nullable=False),
        ForeignKeyConstraint(
            ["booking_id"], ["bookings.id"], name="fk_dispute_statements_booking_id"
        ),
        ForeignKeyConstraint(["author_id"], ["users.id"], name="fk_dispute_statements_author_id"),
        PrimaryKeyConstraint("id", name="pk_dispute_statements"),
    )
    op.create_index(
        "ix_dispute_statements_booking",
        "dispute_statements",
        ["booking_id", "dispute_number", "id"],
    )
    op.create_index("ix_dispute_statements_author", "dispute_statements", ["author_id", "id"])


def _add_files() -> None:
    op.create_table(
        "dispute_files",
        Column("id", Text(), nullable=False),
        Column("booking_id", BigInt, nullable=False),
        Column("owner_id", BigInt, nullable=False),
        Column("kind", Text(), nullable=False),
        Column("size", BigInt, nullable=False),
        Column("created_at", Instant, nullable=False),
        ForeignKeyConstraint(["booking_id"], ["bookings.id"], name="fk_dispute_files_booking_id"),
        ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_dispute_files_owner_id"),
        PrimaryKeyConstraint("id", name="pk_dispute_files"),
    )
    op.create_index("ix_dispute_files_booking", "dispute_files", ["booking_id"])
    op.create_index("ix_dispute_files_owner", "dispute_files", ["owner_id"])


def _fill_disputes() -> None:
    """Earlier disputes get a deadline, and their reason as the first statement."""
    op.execute(
        f"UPDATE bookings SET dispute_respond_by = {_shifted('disputed_at', _RESPONSE)}"
        " WHERE disputed_at IS NOT NULL"
    )
    op.execute(
        "UPDATE bookings SET dispute_refund = refunded_amount"
        " WHERE disputed_at IS NOT NULL AND status <> 'disputed'"
    )
    op.execute(
        "UPDATE bookings SET payout_held = true"
        " WHERE payout_status = 'frozen' AND status IN ('completed', 'cancelled')"
    )
    connection = op.get_bind()
    described = MetaData()
    bookings = Table("bookings", described, autoload_with=connection)
    statements = Table("dispute_statements", described, autoload_with=connection)
    disputed = select(
        *(bookings.c[name] for name in ("id", "customer_id", "companion_id", "disputed_by")),
        *(bookings.c[name] for name in ("dispute_reason", "disputed_at", "timeline")),
    ).where(
        bookings.c.dispute_reason.is_not(None), bookings.c.disputed_by.in_(["customer", "staff"])
    )
    for row in connection.execute(disputed.order_by(bookings.c.id)).all():
        number = sum(entry["to"] == "disputed" for entry in json.loads(row.timeline))
        is_customer = row.disputed_by == "customer"
        connection.execute(
            statements.insert().values(
                booking_id=row.id,
                dispute_number=number,
                author_id=row.customer_id if is_customer else row.companion_id,
                party=row.disputed_by,
                text=row.dispute_reason,
                files="[]",
                at=row.disputed_at,
            )
        )


def _set_timers() -> None:
    """Open disputes get their deadline's timer, and paid bookings that of their next reminder.
    Reminders whose time has passed count as sent."""
    op.execute(
        "INSERT INTO timers (booking_id, kind, due_at, attempts)"
        " SELECT id, 'dispute_overdue', dispute_respond_by, 0 FROM bookings"
        " WHERE status = 'disputed' AND dispute_respond_by IS NOT NULL"
    )
    for minutes in (_REMINDER, _QUESTION):
        at = _shifted("starts_at", minutes)
        op.execute(
            f"UPDATE bookings SET reminded_at = {at}"
            f" WHERE status = 'paid' AND {at} <= {_business_now()}"
        )
    question, reminder = _shifted("starts_at", _QUESTION), _shifted("starts_at", _REMINDER)
    is_asked_later = f"checked_in_at IS NULL AND {question} > {_business_now()}"
    is_reminded_later = f"reminded_at IS NULL AND paid_at <= {reminder}"
    _set_timer("ask_check_in", question, is_asked_later)
    _set_timer("remind", reminder, is_reminded_later)


def _set_timer(kind: str, at: str, condition: str) -> None:
    op.execute(
        f"UPDATE timers SET kind = '{kind}', due_at ="
        f" (SELECT {at} FROM bookings WHERE bookings.id = timers.booking_id)"
        f" WHERE booking_id IN (SELECT id FROM bookings WHERE status = 'paid' AND {condition})"
    )


def _shifted(column: str, minutes: int) -> str:
    if op.get_bind().dialect.name == "postgresql":
        return f"{column} + interval '{minutes} minutes'"
    return f"{column} + {minutes * _MINUTE_US}"


def _business_now() -> str:
    offset = "(SELECT offset_us FROM sandbox_clock WHERE id = 1)"
    if op.get_bind().dialect.name == "postgresql":
        return f"(now() + {offset} * interval '1 microsecond')"
    return f"(CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + {offset})"
