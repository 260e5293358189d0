"""Lists open chargebacks among the bookings that the processor has not decided yet."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0041"
down_revision = "0040"

_UNDECIDED = (
    "payment_status IN ('processing', 'refund_pending', 'requires_payment')"
    " OR chargeback_status = 'open'"
)


def upgrade() -> None:
    op.drop_index("ix_bookings_unsettled", "bookings")
    op.create_index(
        *("ix_bookings_unsettled", "bookings", ["id"]),
        postgresql_where=text(_UNDECIDED),
        sqlite_where=text(_UNDECIDED),
    )
