"""Indexes from which lists, claims and exports find their rows, however many others there are."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import text

revision = "0054"
down_revision = "0053"

_NEWEST_FIRST = [text("starts_at DESC"), text("id DESC")]


def upgrade() -> None:
    _replace_index("ix_bookings_newest", "ix_bookings_status", ["status", *_NEWEST_FIRST])
    _replace_index(
        *("ix_bookings_companion", "ix_bookings_companion"),
        ["companion_id", *_NEWEST_FIRST, "status"],
    )
    _replace_index(
        *("ix_bookings_customer", "ix_bookings_customer"),
        ["customer_id", *_NEWEST_FIRST, "status", "companion_id"],
    )
    _replace_index(
        *("ix_bookings_agency", "ix_bookings_agency"),
        ["booked_by", *_NEWEST_FIRST, "status"],
        **_where("booked_by IS NOT NULL"),
    )
    op.drop_index("ix_processor_inbox_open", "processor_inbox")
    op.create_index(
        *("ix_processor_inbox_due", "processor_inbox", ["next_at", "id"]),
        **_where("done = false", "done = 0"),
    )
    op.create_index(
        *("ix_webhook_deliveries_cancelled", "webhook_deliveries", ["endpoint_id", "id"]),
        **_where("status = 'cancelled'"),
    )
    op.create_index("ix_reviews_reviewer", "reviews", ["reviewer_id", "id"])


def _replace_index(old_name: str, name: str, columns: list[Any], **given: Any) -> None:
    op.drop_index(old_name, "bookings")
    op.create_index(name, "bookings", columns, **given)


def _where(on_postgresql: str, on_sqlite: str | None = None) -> dict[str, Any]:
    return {
        "postgresql_where": text(on_postgresql),
        "sqlite_where": text(on_sqlite or on_postgresql),
    }
