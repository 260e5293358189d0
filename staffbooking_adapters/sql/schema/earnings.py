"""The conditions of bookings that bring money to their staff member, and their index."""

from __future__ import annotations

from sqlalchemy import and_, or_

from staffbooking_adapters.sql.schema.bookings import bookings, has_staff_debt
from staffbooking_adapters.sql.schema.metadata import partial_index
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus

has_earning = or_(
    bookings.c.payout_status != PayoutStatus.NONE,
    bookings.c.status.in_([BookingStatus.DISPUTED, BookingStatus.PAID]),
)
has_open_earning = and_(
    has_earning,
    or_(
        bookings.c.payout_status.not_in([PayoutStatus.PAID, PayoutStatus.REVERSED]),
        has_staff_debt,
    ),
)

partial_index(
    "ix_bookings_open_earnings",
    *(bookings.c.companion_id, bookings.c.starts_at, bookings.c.id),
    where=has_open_earning,
)
