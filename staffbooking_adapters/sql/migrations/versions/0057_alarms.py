"""When an alert asked for something: the booking keeps the same time, and tells if it is done.

Earlier alerts are recognised by their texts. Of each booking and kind, the newest one has the time
that the booking keeps.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, text

from staffbooking_adapters.sql.engine.types import Instant

revision = "0057"
down_revision = "0056"

_PATTERNS = {
    "dispute_alarmed_at": "'the dispute of booking ' || code || ' is overdue: resolve it'",
    "payout_alarmed_at": "'the payout of booking ' || code || ' is not made yet: %'",
}
"""The pattern of an alert's text, by the column of the booking with its time."""


def upgrade() -> None:
    op.add_column("alerts", Column("alarmed_at", Instant))
    for column, pattern in _PATTERNS.items():
        booking = "FROM bookings WHERE bookings.id = alerts.booking_id"
        asks = f"EXISTS (SELECT 1 {booking} AND alerts.text LIKE {pattern})"
        newest = f"SELECT max(id) FROM alerts WHERE {asks} GROUP BY booking_id"
        op.execute(text(f"UPDATE alerts SET alarmed_at = alerts.at WHERE {asks}"))
        op.execute(
            text(
                f"UPDATE alerts SET alarmed_at = coalesce((SELECT {column} {booking}), alerts.at)"
                f" WHERE id IN ({newest})"
            )
        )
