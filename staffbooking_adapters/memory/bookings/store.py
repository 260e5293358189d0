"""Bookings and rebooking credits in memory; each booking write with all its dependent rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta

from attrs import evolve, frozen

from staffbooking_adapters.memory.accounts.store import find_by_email
from staffbooking_adapters.memory.idempotency import store_response
from staffbooking_adapters.memory.notifications.store import add_notices
from staffbooking_adapters.memory.payments.inbox import intents_with_pending_events
from staffbooking_adapters.memory.payments.ledger import add_posting
from staffbooking_adapters.memory.payments.operations import add_operation
from staffbooking_adapters.memory.slots import (
    bookings_after,
    bookings_of,
    busy_intervals,
    overlaps,
    require_free_slot,
)
from staffbooking_adapters.memory.state import AlertRow, MemoryTransaction, TimerRow
from staffbooking_adapters.memory.webhooks.feed import add_event
from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import (
    OPEN_PAYOUT_STATUSES,
    Booking,
    PayoutStatus,
)
from staffbooking_core.domain.bookings.earnings import has_earning, has_open_earning
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES, BookingStatus, Party
from staffbooking_core.domain.companions.availability import DAY, Interval
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import (
    BOOKING_CODE_TAKEN,
    CALENDAR_CHANGED,
    PARTY_DISABLED,
    BookableCompanion,
    BookingQuery,
    BookingRequestContext,
    BookingWrite,
    RebookingCredit,
)

BOOKING_ID_TAKEN = "pk_bookings"


@frozen
class BookingsReader:
    """Reads bookings and rebooking credits."""

    tx: MemoryTransaction

    async def booking(self, booking_id: int) -> Booking | None:
        return self.tx.state.bookings.get(booking_id)

    async def booking_by_code(self, code: str) -> Booking | None:
        booking_id = self.tx.state.booking_by_code.get(code)
        return None if booking_id is None else self.tx.state.bookings[booking_id]

    async def bookings(self, query: BookingQuery) -> Sequence[Booking]:
        found = [each for each in self.tx.state.bookings.values() if _matches_query(each, query)]
        found.sort(
            key=lambda booking: (booking.starts_at, booking.id), reverse=not query.earliest_first
        )
        if query.priority_first:
            found.sort(key=lambda booking: not booking.is_urgent)
        start = (query.page - 1) * query.limit
        return found[start : start + query.limit + 1]

    async def bookings_between(
        self, customer_id: int, companion_ids: Collection[int], limit: int
    ) -> Sequence[Booking]:
        found = [
            booking
            for companion_id in companion_ids
            for booking in bookings_of(self.tx.state, companion_id)
            if booking.customer_id == customer_id
        ]
        found.sort(key=lambda booking: (booking.starts_at, booking.id), reverse=True)
        return found[:limit]

    async def disputed_bookings(self, page: int, limit: int) -> Sequence[Booking]:
        bookings = self.tx.state.bookings.values()
        found = [booking for booking in bookings if booking.status is BookingStatus.DISPUTED]
        found.sort(
            key=lambda booking: (booking.dispute_respond_by or booking.created_at, booking.id)
        )
        start = (page - 1) * limit
        return found[start : start + limit + 1]

    async def bookings_since(
        self, companion_id: int, since: datetime, limit: int
    ) -> Sequence[Booking]:
        found = [
            booking
            for booking in bookings_of(self.tx.state, companion_id)
            if booking.ends_at > since and booking.status is not BookingStatus.CANCELLED
        ]
        found.sort(key=lambda booking: (booking.starts_at, booking.id))
        found.sort(key=lambda booking: booking.status not in CONFIRMED_STATUSES)
        return sorted(found[:limit], key=lambda booking: (booking.starts_at, booking.id))

    async def bookings_within(
        self, companion_id: int, span: Interval, limit: int
    ) -> Sequence[Booking]:
        found = [
            booking
            for booking in bookings_of(self.tx.state, companion_id)
            if booking.ends_at > span.starts_at
            and booking.starts_at < span.ends_at
            and booking.status is not BookingStatus.CANCELLED
        ]
        return sorted(found, key=lambda booking: (booking.starts_at, booking.id))[:limit]

    async def request_context(
        self,
        companion_id: int,
        customer_email: str | None,
        customer_id: int | None,
        day: date,
    ) -> BookingRequestContext:
        ids, taken = self.tx.shared.booking_ids, self.tx.state.bookings
        return BookingRequestContext(
            booking_id=next(free_id for free_id in ids if free_id not in taken),
            companion=self._find_bookable(companion_id, day),
            customer=self._find_customer(customer_email, customer_id),
            clock_offset=self.tx.state.clock_offset,
        )

    def _find_bookable(self, companion_id: int, day: date) -> BookableCompanion | None:
        row = self.tx.state.companions.get(companion_id)
        if row is None or not row.companion.is_listed:
            return None
        companion = row.companion
        # The local day starts within one day of the UTC day, and the booking ends 24 h after it.
        midnight = datetime.combine(day, time(), UTC)
        held_intervals = busy_intervals(
            self.tx.state, companion_id, midnight - DAY, midnight + 3 * DAY
        )
        return BookableCompanion(
            id=companion.id,
            name=companion.name,
            hourly_rate=companion.hourly_rate,
            daily_rate=companion.daily_rate,
            service_types=companion.service_types,
            calendar=companion.calendar,
            busy=tuple(held_intervals),
            acceptances=self.tx.state.acceptances.get(companion_id) or 0,
        )

    def _find_customer(self, email: str | None, user_id: int | None) -> User | None:
        if email is not None:
            return find_by_email(self.tx, email)
        return None if user_id is None else self.tx.state.users.get(user_id)

    async def rebooking_credit(self, booking_id: int) -> RebookingCredit | None:
        return self.tx.state.credits.get(booking_id)

    async def events_of(self, booking_id: int) -> Sequence[tuple[int, bytes]]:
        state = self.tx.state
        rows = [state.events[event_id] for event_id in state.events_of.get(booking_id) or ()]
        return sorted((row.event.sequence, row.body) for row in rows)

    async def open_payouts(
        self, limit: int, offset: int = 0, status: PayoutStatus | None = None
    ) -> Sequence[Booking]:
        wanted = OPEN_PAYOUT_STATUSES if status is None else OPEN_PAYOUT_STATUSES & {status}
        bookings = self.tx.state.bookings.values()
        found = [booking for booking in bookings if booking.payout_status in wanted]
        return sorted(found, key=_payout_sort_key)[offset : offset + limit]

    async def open_bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        found = bookings_after(self.tx.state, after_id)
        return [booking for booking in found if booking.is_open_for(user_id)][:limit]

    async def earnings_of(
        self, companion_id: int, first: date, last: date, limit: int
    ) -> Sequence[Booking]:
        found = [
            booking
            for booking in bookings_of(self.tx.state, companion_id)
            if has_earning(booking) and first <= booking.event_date <= last
        ]
        found.sort(key=lambda booking: (booking.starts_at, booking.id), reverse=True)
        return found[:limit]

    async def open_earnings_of(self, companion_id: int, limit: int) -> Sequence[Booking]:
        found = filter(has_open_earning, bookings_of(self.tx.state, companion_id))
        return sorted(found, key=lambda booking: (booking.starts_at, booking.id))[:limit]

    async def indebted_booking_ids(self, companion_id: int) -> Sequence[int]:
        return sorted(
            booking.id
            for booking in bookings_of(self.tx.state, companion_id)
            if booking.has_staff_debt
        )

    async def unsettled_bookings(self, after_id: int, limit: int) -> Sequence[Booking]:
        state = self.tx.state
        pending = intents_with_pending_events(state)
        return [
            booking
            for booking in bookings_after(state, after_id)
            if booking.is_unsettled and booking.id not in pending
        ][:limit]


@frozen
class BookingsWriter(BookingsReader):
    """Reads and writes bookings and rebooking credits."""

    async def lock_booking(self, booking_id: int) -> Booking | None:
        return await self.booking(booking_id)

    async def count_acceptance(self, companion_id: int) -> None:
        counts = self.tx.state.acceptances
        counts[companion_id] = (counts.get(companion_id) or 0) + 1

    async def lock_competing_bookings(
        self, booking_id: int, buffer: timedelta
    ) -> Sequence[Booking]:
        booking = await self.booking(booking_id)
        if booking is None:
            return []
        rivals = [
            other
            for other in bookings_of(self.tx.state, booking.companion_id)
            if other.id == booking.id
            or (other.status is BookingStatus.PENDING and overlaps(booking, other, buffer))
        ]
        return sorted(rivals, key=lambda rival: rival.id)

    async def save_booking(self, booking_write: BookingWrite) -> None:
        before = self.tx.state.bookings.get(booking_write.booking.id)
        if before is None or before.revision != booking_write.booking.revision - 1:
            raise Conflict("booking")
        self._put_change(booking_write)

    async def add_booking(self, booking_write: BookingWrite) -> None:
        state, booking = self.tx.state, booking_write.booking
        self._require_parties(booking)
        seen = booking_write.seen_acceptances
        if seen is not None and seen != (state.acceptances.get(booking.companion_id) or 0):
            raise ConstraintViolated(CALENDAR_CHANGED)
        if booking.id in state.bookings:
            raise ConstraintViolated(BOOKING_ID_TAKEN)
        if booking.code in state.booking_by_code:
            raise ConstraintViolated(BOOKING_CODE_TAKEN)
        state.booking_by_code[booking.code] = booking.id
        others = state.bookings_of.get(booking.companion_id) or ()
        state.bookings_of[booking.companion_id] = (*others, booking.id)
        self._put_change(booking_write)

    def _require_parties(self, booking: Booking) -> None:
        for party in (booking.customer_id, booking.companion_id, booking.booked_by):
            user = None if party is None else self.tx.state.users.get(party)
            if user is not None and (
                user.disabled_at is not None
                or (user.id == booking.customer_id and user.role is not Role.CUSTOMER)
            ):
                raise ConstraintViolated(PARTY_DISABLED)

    def _put_change(self, change: BookingWrite) -> None:
        state, booking = self.tx.state, change.booking
        state.bookings[booking.id] = booking
        require_free_slot(state, booking)
        self._set_timer(change)
        if change.event is not None:
            add_event(self.tx, change.event)
        for posting in change.postings:
            add_posting(state, posting)
        for order in change.orders:
            add_operation(self.tx, booking.id, order, change.operations_due_at)
        for alert in change.alerts:
            alert_id = next(self.tx.shared.alert_ids)
            state.alerts[alert_id] = AlertRow(
                StoredAlert(change.operations_due_at, booking.id, alert.text, alert.alarmed_at)
            )
        add_notices(self.tx, change.notifications, change.operations_due_at)
        if change.rebooking_credit is not None:
            state.credits[change.rebooking_credit.booking_id] = change.rebooking_credit
        if change.response is not None:
            store_response(self.tx, change.response)

    def _set_timer(self, change: BookingWrite) -> None:
        timers, due = self.tx.state.timers, change.due
        if due is None:
            timers.discard(change.booking.id)
        else:
            timers[change.booking.id] = TimerRow(due.kind, due.at)

    async def use_rebooking_credit(self, credit: RebookingCredit, used_by_booking_id: int) -> bool:
        credits = self.tx.state.credits
        stored = credits.get(credit.booking_id)
        if stored is None or stored.used_by is not None:
            return False
        credits[stored.booking_id] = evolve(stored, used_by=used_by_booking_id)
        return True

    async def take_back_rebooking_credit(self, booking_id: int) -> bool:
        stored = self.tx.state.credits.get(booking_id)
        if stored is None or stored.used_by is not None:
            return False
        self.tx.state.credits.discard(booking_id)
        return True


def _matches_query(booking: Booking, query: BookingQuery) -> bool:
    if query.status is not None and booking.status is not query.status:
        return False
    user_id = query.user_id
    return user_id is None or any(
        party in query.parties
        for party, party_id in (
            (Party.CUSTOMER, booking.customer_id),
            (Party.STAFF, booking.companion_id),
            (Party.API, booking.booked_by),
        )
        if party_id == user_id
    )


def _payout_sort_key(booking: Booking) -> tuple[bool, datetime, int]:
    """The earliest due date first, bookings without a due date last."""
    due_at = booking.payout_due_at
    return due_at is None, due_at or booking.created_at, booking.id
