"""Bookings in memory, each change with all its rows; answers and credits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time

from attrs import evolve, frozen

from staffbooking_adapters.memory.accounts.store import find_by_email
from staffbooking_adapters.memory.notifications.store import put_notices
from staffbooking_adapters.memory.payments.store import add_operation, add_posting
from staffbooking_adapters.memory.slots import bookings_of, busy, overlaps, require_free_slot
from staffbooking_adapters.memory.state import AlertRow, Place, TimerRow
from staffbooking_adapters.memory.webhooks.feed import add_event
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party, Status
from staffbooking_core.domain.companions.availability import DAY
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import (
    ANSWER_KEPT,
    PARTY_DISABLED,
    Answer,
    Bookable,
    BookingQuery,
    Change,
    Credit,
    RequestContext,
)

NUMBER_TAKEN = "pk_bookings"
CODE_TAKEN = "uq_bookings_code"


@frozen
class BookingsReader:
    place: Place

    async def booking(self, booking_id: int) -> Booking | None:
        return self.place.state.bookings.get(booking_id)

    async def booking_by_code(self, code: str) -> Booking | None:
        number = self.place.state.booking_by_code.get(code)
        return None if number is None else self.place.state.bookings[number]

    async def bookings(self, query: BookingQuery) -> Sequence[Booking]:
        found = [each for each in self.place.state.bookings.values() if _answers(each, query)]
        found.sort(key=lambda booking: (booking.starts_at, booking.id), reverse=True)
        if query.priority_first:
            found.sort(key=lambda booking: not _is_urgent(booking))
        start = (query.page - 1) * query.limit
        return found[start : start + query.limit + 1]

    async def bookings_since(
        self, companion_id: int, since: datetime, limit: int
    ) -> Sequence[Booking]:
        found = [
            booking
            for booking in bookings_of(self.place.state, companion_id)
            if booking.ends_at > since and booking.status is not Status.CANCELLED
        ]
        found.sort(key=lambda booking: (booking.starts_at, booking.id))
        kept = sorted(found, key=lambda booking: booking.status is Status.PENDING)[:limit]
        return sorted(kept, key=lambda booking: (booking.starts_at, booking.id))

    async def request_context(
        self,
        companion_id: int,
        customer_email: str | None,
        customer_id: int | None,
        day: date,
    ) -> RequestContext:
        numbers, taken = self.place.shared.booking_ids, self.place.state.bookings
        return RequestContext(
            booking_id=next(number for number in numbers if number not in taken),
            companion=self._bookable(companion_id, day),
            customer=self._customer(customer_email, customer_id),
        )

    def _bookable(self, companion_id: int, day: date) -> Bookable | None:
        row = self.place.state.companions.get(companion_id)
        if row is None or not row.companion.is_listed:
            return None
        companion = row.companion
        # The local day begins at most a day from UTC's, and the booking ends 24 h after it.
        midnight = datetime.combine(day, time(), UTC)
        taken = busy(self.place.state, companion_id, midnight - DAY, midnight + 3 * DAY)
        return Bookable(
            id=companion.id,
            name=companion.name,
            hourly_rate=companion.hourly_rate,
            daily_rate=companion.daily_rate,
            service_types=companion.service_types,
            calendar=companion.calendar,
            busy=tuple(taken),
        )

    def _customer(self, email: str | None, user_id: int | None) -> User | None:
        if email is not None:
            return find_by_email(self.place, email)
        return None if user_id is None else self.place.state.users.get(user_id)

    async def credit(self, booking_id: int) -> Credit | None:
        return self.place.state.credits.get(booking_id)

    async def answer(self, scope: str, key: str, now: datetime) -> Answer | None:
        kept = self.place.state.answers.get((scope, key))
        return kept if kept is not None and now < kept.expires_at else None

    async def events_of(self, booking_id: int) -> Sequence[tuple[int, bytes]]:
        state = self.place.state
        rows = [state.events[number] for number in state.events_of.get(booking_id) or ()]
        return sorted((row.told.sequence, row.body) for row in rows)


@frozen
class BookingsWriter(BookingsReader):
    async def lock_booking(self, booking_id: int) -> Booking | None:
        return await self.booking(booking_id)

    async def lock_contenders(self, booking_id: int) -> Sequence[Booking]:
        booking = await self.booking(booking_id)
        if booking is None:
            return []
        rivals = [
            other
            for other in bookings_of(self.place.state, booking.companion_id)
            if other.id == booking.id
            or (other.status is Status.PENDING and overlaps(booking, other))
        ]
        return sorted(rivals, key=lambda rival: rival.id)

    async def save(self, change: Change) -> None:
        before = self.place.state.bookings.get(change.booking.id)
        if before is None or before.version != change.booking.version - 1:
            raise Conflict("booking")
        self._put(change)

    async def add(self, change: Change) -> None:
        state, booking = self.place.state, change.booking
        self._require_enabled(booking.customer_id, booking.companion_id, booking.booked_by)
        if booking.id in state.bookings:
            raise ConstraintViolated(NUMBER_TAKEN)
        if booking.code in state.booking_by_code:
            raise ConstraintViolated(CODE_TAKEN)
        state.booking_by_code[booking.code] = booking.id
        others = state.bookings_of.get(booking.companion_id) or ()
        state.bookings_of[booking.companion_id] = (*others, booking.id)
        self._put(change)

    def _require_enabled(self, *parties: int | None) -> None:
        found = (None if each is None else self.place.state.users.get(each) for each in parties)
        if any(user is not None and user.disabled_at is not None for user in found):
            raise ConstraintViolated(PARTY_DISABLED)

    def _put(self, change: Change) -> None:
        state, booking = self.place.state, change.booking
        state.bookings[booking.id] = booking
        require_free_slot(state, booking)
        self._set_timer(change)
        if change.event is not None:
            add_event(self.place, change.event)
        for posting in change.postings:
            add_posting(state, posting)
        for order in change.orders:
            add_operation(self.place, booking.id, order, change.at)
        for text in change.alerts:
            number = next(self.place.shared.alert_ids)
            state.alerts[number] = AlertRow(change.at, booking.id, text)
        put_notices(self.place, change.notices, change.at)
        if change.credit is not None:
            state.credits[change.credit.booking_id] = change.credit
        if change.answer is not None:
            self._keep(change.answer)

    def _set_timer(self, change: Change) -> None:
        timers, due = self.place.state.timers, change.due
        if due is None:
            timers.discard(change.booking.id)
        else:
            timers[change.booking.id] = TimerRow(due.kind, due.at)

    async def use_credit(self, credit: Credit, used_by: int) -> bool:
        credits = self.place.state.credits
        kept = credits.get(credit.booking_id)
        if kept is None or kept.used_by is not None:
            return False
        credits[kept.booking_id] = evolve(kept, used_by=used_by)
        return True

    async def keep_answer(self, answer: Answer) -> None:
        self._keep(answer)

    def _keep(self, answer: Answer) -> None:
        answers, name = self.place.state.answers, (answer.scope, answer.key)
        made_at = answer.expires_at - self.place.policy.idempotency_lifetime
        if (kept := answers.get(name)) and made_at < kept.expires_at:
            raise ConstraintViolated(ANSWER_KEPT)
        answers[name] = answer


def _answers(booking: Booking, query: BookingQuery) -> bool:
    if query.status is not None and booking.status is not query.status:
        return False
    user = query.user_id
    return user is None or any(
        side in query.sides
        for side, number in (
            (Party.CUSTOMER, booking.customer_id),
            (Party.STAFF, booking.companion_id),
            (Party.API, booking.booked_by),
        )
        if number == user
    )


def _is_urgent(booking: Booking) -> bool:
    return booking.priority and booking.status is Status.PENDING
