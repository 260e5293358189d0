"""The end of a history: faults stop, open cases are decided, and time passes. Then no work is
left, and the ledger equals the processor's book line by line.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.domain.payments.ledger import LIABILITY_ACCOUNTS, account_balances
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    IntentRefs,
    OperationKind,
    OperationStatus,
)
from staffbooking_core.errors import ProcessorUnavailable, RuleBroken
from staffbooking_core.ports import AuditedBooking
from staffbooking_core.usecases.payments import payouts, refunds, statement
from staffbooking_core.usecases.payments.statement import StatementDifference
from tests.simulation.deployment import SimulatedScenario, SimulationWorld

SETTLE_INTERVALS = (6 * MINUTE, 15 * MINUTE, 40 * MINUTE, 40 * MINUTE, HOUR)
"""Waits within whose sum all due work is done without faults. Lost events are recovered within
the first."""

MAX_ONBOARDING_VISITS = 4
MAX_ROUNDS = 8
FINAL_BOOKING_STATUSES = (BookingStatus.COMPLETED, BookingStatus.CANCELLED)
FINAL_OPERATION_STATUSES = frozenset(
    {OperationStatus.DONE, OperationStatus.VOID, OperationStatus.REFUSED}
)


async def finish_history(world: SimulationWorld, verdict: str, by_hand: set[int]) -> None:
    """Run a history to its end and check it. Chargebacks end by `verdict`. `by_hand` has the
    bookings whose money was moved manually at the processor, so that operations on it can be
    refused for good."""
    world.fate.point = ""
    scene = world.scene
    await scene.clear_faults()
    for companion in world.companions:
        await companion.fake.dashboard.set_payee_ready(companion.staff.user_id, True)
        await _onboard_companion(companion)
    await _drain_until_finished(scene)
    for _ in range(MAX_ROUNDS):
        await _decide_open_cases(scene, verdict)
        await _drain_until_finished(scene)
        if not (waits := await _next_due_time(scene)):
            break
        await scene.jump_to(waits)
        await _drain_until_finished(scene)
    assert await scene.faults() == []
    await _assert_reconciled(scene)
    for one in await scene.audited_bookings():
        _assert_finished(one, one.booking.id in by_hand)
    await world.webhooks.finish_deliveries(
        [one.booking.id for one in await scene.audited_bookings()]
    )


async def _onboard_companion(companion: SimulatedScenario) -> None:
    """Complete the onboarding; a visit can fail because of a concurrent one or a stored error."""
    for _ in range(MAX_ONBOARDING_VISITS - 1):
        with suppress(ProcessorUnavailable):
            await companion.onboard_payee()
            return
        companion.pass_time(MINUTE)
    await companion.onboard_payee()


async def _drain_until_finished(scene: SimulatedScenario) -> None:
    """Run due work until none is left."""
    for wait in SETTLE_INTERVALS:
        scene.pass_time(wait)
        await scene.drain()
        if not await scene.unfinished():
            return
    raise AssertionError(f"still unfinished: {await scene.unfinished()}")


async def _next_due_time(scene: SimulatedScenario) -> datetime | None:
    """Due time of the last pending operation, or None without pending operations."""
    now = await scene.now()
    under_way = [
        one.booking for one in await scene.audited_bookings() if _is_under_way(one.booking)
    ]
    if not under_way:
        return None
    return max(now, *(booking.ends_at for booking in under_way)) + 4 * DAY


def _is_under_way(booking: Booking) -> bool:
    return booking.status not in FINAL_BOOKING_STATUSES or booking.payout_status in (
        PayoutStatus.SCHEDULED,
        PayoutStatus.FROZEN,
    )


async def _decide_open_cases(scene: SimulatedScenario, verdict: str) -> None:
    """Decide the cases that wait for banks and operators."""
    for one in await scene.audited_bookings():
        booking = one.booking
        known = await scene.fake.snapshot(IntentRefs(booking.id), 5.0)
        for chargeback in known.chargebacks:
            if chargeback.status is ChargebackStatus.OPEN:
                await scene.charge_back(booking, verdict)
        booking = await scene.booking(booking)
        if booking.status is BookingStatus.DISPUTED:
            await scene.resolve(booking, Trigger.RELEASE)
        for decide in (payouts.release_payout, payouts.retry_payout, refunds.retry_refunds):
            with suppress(RuleBroken):  # No such case is open.
                await decide(scene.ports, booking.code)


async def _assert_reconciled(scene: SimulatedScenario) -> None:
    found = [one async for one in statement.reconcile_statement(scene.ports)]
    assert [one for one in found if isinstance(one, StatementDifference)] == []
    [done] = [one for one in found[-1:] if not isinstance(one, StatementDifference)]
    assert done.in_flight == 0


def _assert_finished(one: AuditedBooking, by_hand: bool) -> None:
    booking, owed = one.booking, account_balances(one.postings)
    assert booking.status in FINAL_BOOKING_STATUSES
    assert {operation.status for operation in one.operations} <= FINAL_OPERATION_STATUSES
    refused = {op.kind for op in one.operations if op.status is OperationStatus.REFUSED}
    if by_hand:
        return
    assert not any(owed[account] for account in LIABILITY_ACCOUNTS)
    assert booking.payout_status in (PayoutStatus.NONE, PayoutStatus.PAID, PayoutStatus.REVERSED)
    irrecoverable = OperationKind.REVERSE_PAYOUT in refused or booking.netted > 0
    assert irrecoverable or booking.owed_by_staff == 0
