"""Checks after every step (decision 0047) of the service's and the processor's data.

Only changed rows are checked again; rows are immutable values, so changes are detected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import combinations, product

from staffbooking_adapters.codec import load
from staffbooking_adapters.fake import documents, machine
from staffbooking_adapters.fake.charge import Charge
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.payments.processor import CheckoutStatus, RefundStatus
from staffbooking_core.domain.reconciliation.invariants import find_invariant_violations
from staffbooking_core.ports import AuditedBooking
from staffbooking_core.representations.bookings import booking_record
from tests.simulation.deployment import LONG_RETENTION, SimulatedScenarios
from tests.simulation.promises import (
    FAILURES_TO_DISABLE,
    HELD_STATUSES,
    find_broken_promises,
    find_missing_events,
)


class InvariantChecks:
    """Checks the invariants and caches the rows already checked."""

    def __init__(self, scenarios: SimulatedScenarios) -> None:
        self._scenarios = scenarios
        self._checked_bookings: dict[int, AuditedBooking] = {}
        self._checked_intents: dict[int, str] = {}

    async def find_faults(self) -> list[str]:
        """The violations in rows that were not checked before."""
        everything = await self._scenarios.scene.audited_bookings()
        new = [
            one
            for one in everything
            if not _is_unchanged(one, self._checked_bookings.get(one.booking.id))
        ]
        bookings = [one.booking for one in everything]
        found = [fault for one in new for fault in _booking_faults(one)]
        found += [fault for one in new for fault in await self._promise_faults(one.booking)]
        found += await self._endpoint_faults()
        if new:
            found += [*_double_booked(bookings), *_unbalanced_netting(bookings)]
            found += await self._credit_faults([one.booking for one in new])
            found += self._unversioned_changes(new)
        self._checked_bookings.update((one.booking.id, one) for one in new)
        return [*found, *await self._processor_faults(bookings)]

    async def _promise_faults(self, booking: Booking) -> list[str]:
        scene = self._scenarios.scene
        found = [*find_broken_promises(booking, await scene.now())]
        found += await find_missing_events(scene.ports, booking.id)
        return [f"booking {booking.id}: {fault}" for fault in found]

    async def _endpoint_faults(self) -> list[str]:
        """Endpoints that were disabled after too few failures in a row. The number is read from the
        reason, since a late success resets the count to 0."""
        webhooks = self._scenarios.webhooks
        async with self._scenarios.scene.ports.store.read_view() as view:
            endpoints = [await view.webhooks.endpoint(one.id) for _, one in webhooks.endpoints]
        return [
            f"endpoint {one.id} was disabled: {one.disabled_reason}"
            for one in endpoints
            if one is not None and one.disabled_at is not None
            if int((one.disabled_reason or "0").split()[0]) < FAILURES_TO_DISABLE
        ]

    async def _credit_faults(self, bookings: Sequence[Booking]) -> list[str]:
        """Reported absences without a rebooking credit, and withdrawn ones with a credit. A
        cancellation by the staff member, or with their account, has a credit of its own."""
        async with self._scenarios.scene.ports.store.read_view() as view:
            credits = {one.id: await view.bookings.rebooking_credit(one.id) for one in bookings}
        return [
            f"booking {one.id}: the reported absence and its credit differ"
            for one in bookings
            if one.was_no_show and one.cancelled_by not in (Party.STAFF, Party.ADMIN)
            if (credits[one.id] is None) is not _is_withdrawn(one)
        ]

    def _unversioned_changes(self, new: Sequence[AuditedBooking]) -> Iterator[str]:
        """Bookings whose record has changed without a higher version (CONTRACT 10)."""
        for one in new:
            seen = self._checked_bookings.get(one.booking.id)
            if seen is None or one.booking.version > seen.booking.version:
                continue
            if _visible(one.booking) != _visible(seen.booking):
                yield f"booking {one.booking.id}: changed within version {one.booking.version}"

    async def _processor_faults(self, bookings: Sequence[Booking]) -> list[str]:
        found: list[str] = []
        now = await self._scenarios.scene.now()
        for booking in bookings:
            body = await self._intent_body(booking.id)
            if body is not None and body != self._checked_intents.get(booking.id):
                self._checked_intents[booking.id] = body
                found += _processor_overpaid(booking, load(body, machine.FakeIntent), now)
        return found

    async def _intent_body(self, intent_id: int) -> str | None:
        return await self._scenarios.fake_store.read(
            lambda view: view.get(documents.INTENT_KIND, str(intent_id))
        )


def _is_unchanged(one: AuditedBooking, seen: AuditedBooking | None) -> bool:
    return (
        seen is not None
        and one.booking is seen.booking
        and one.operations == seen.operations
        and one.postings == seen.postings
    )


def _visible(booking: Booking) -> dict[str, object]:
    """The record of a booking for an admin, without its version."""
    return {**booking_record(booking, Party.ADMIN, LONG_RETENTION), "version": None}


def _booking_faults(one: AuditedBooking) -> Iterator[str]:
    for text in find_invariant_violations(one.booking, one.postings, one.operations):
        yield f"booking {one.booking.id}: {text}"


def _is_withdrawn(booking: Booking) -> bool:
    """Whether the last reported absence was withdrawn."""
    triggers = [entry.trigger for entry in booking.timeline]
    number = len(triggers) - 1 - triggers[::-1].index(Trigger.NO_SHOW)
    return triggers[number + 1 : number + 2] == [Trigger.WITHDRAW]


def _double_booked(bookings: Sequence[Booking]) -> Iterator[str]:
    holders = [
        booking
        for booking in bookings
        if booking.status in HELD_STATUSES and booking.completed_at is None
    ]
    waiting = [booking for booking in bookings if booking.status is BookingStatus.PENDING]
    for one, other in (*combinations(holders, 2), *product(holders, waiting)):
        overlap = one.starts_at < other.ends_at and other.starts_at < one.ends_at
        if overlap and one.companion_id == other.companion_id:
            yield f"bookings {one.id} and {other.id} ({other.status}) are of the same time"


def _unbalanced_netting(bookings: Sequence[Booking]) -> Iterator[str]:
    if netted := sum(booking.netted for booking in bookings):
        yield f"debts netted between bookings sum to {netted}"


def _processor_overpaid(
    booking: Booking, intent: machine.FakeIntent, now: datetime
) -> Iterator[str]:
    """Violations in the processor's records; money that was moved there manually is not counted.

    A payment that is too low waits for an operator and does not pay the booking, so that the
    customer may pay the whole price too.
    """
    amounts = [charge.payment.amount for charge in intent.charges]
    charged = sum(amounts)
    paid = sum(amount for amount in amounts if amount >= booking.total_amount)
    if paid > booking.total_amount:
        yield f"booking {booking.id}: charged {paid} of {booking.total_amount}"
    given = sum(_refunded_amount(charge) + _paid_out_amount(charge) for charge in intent.charges)
    if given > charged:
        yield f"booking {booking.id}: charged {charged}, refunded and paid out {given}"
    known = machine.snapshot(machine.advance_to(intent, now))
    if sum(page.status is CheckoutStatus.OPEN for page in known.checkouts) > 1:
        yield f"booking {booking.id}: more than one checkout is open"
    moved = Counter(
        [
            *(refund.op_id for refund in known.refunds),
            *(payout.op_id for payout in known.payouts),
            *(reversal.op_id for reversal in known.reversals),
        ]
    )
    for op_id, times in moved.items():
        if op_id is not None and times > 1:
            yield f"booking {booking.id}: operation {op_id} has moved money {times} times"


def _refunded_amount(charge: Charge) -> int:
    return sum(
        refund.amount
        for refund in charge.refunds
        if refund.op_id is not None and refund.status is not RefundStatus.FAILED
    )


def _paid_out_amount(charge: Charge) -> int:
    """Payouts less the reversals that the service requested."""
    reversed_ = sum(back.amount for back in charge.reversals if back.op_id is not None)
    return sum(payout.amount for payout in charge.payouts) - reversed_
