"""The end of a history: open cases are decided, and business time passes. Then no work may be left,
and the ledger must equal the processor's statement line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.ledger import LIABILITY_ACCOUNTS, account_balances
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.payments.processor import ChargebackStatus, IntentRefs, OperationKind
from staffbooking_core.errors import ProcessorUnavailable, RuleBroken
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.ports import AuditedBooking
from staffbooking_core.usecases.payments import payouts, reconciliation, refunds, statement
from staffbooking_core.usecases.payments.statement import StatementDifference
from tests.simulation.deployment import SimulatedScenario, SimulatedScenarios

SETTLE_INTERVALS = (6 * MINUTE, 15 * MINUTE, 40 * MINUTE, 40 * MINUTE, HOUR)
"""Waits in whose sum all due work is done without faults. Lost events are recovered within the
first one."""

MAX_ONBOARDING_VISITS = 4
MAX_ROUNDS = 8
FINAL_BOOKING_STATUSES = (BookingStatus.COMPLETED, BookingStatus.CANCELLED)


async def heal_processor(scenarios: SimulatedScenarios) -> None:
    """End the processor's faults, and complete the payout accounts of all companions."""
    await scenarios.scene.clear_faults()
    for companion in scenarios.companions:
        await companion.fake.dashboard.set_payee_ready(companion.staff.user_id, True)
        await _onboard_companion(companion)


async def finish_bookings(
    scenarios: SimulatedScenarios, verdict: str, by_hand: set[int]
) -> list[str]:
    """Bring all bookings to their ends; returns the faults found then. Chargebacks end by
    `verdict`. `by_hand` has the bookings whose money was moved manually at the processor, so that
    operations on it can be refused permanently."""
    scene = scenarios.scene
    for _ in range(MAX_ROUNDS):
        await _decide_open_cases(scene, verdict)
        if left := await _drain_until_finished(scene):
            return left
        if not (due_at := await _time_after_open_bookings(scene)):
            break
        await scene.jump_to(due_at)
        if left := await _drain_until_finished(scene):
            return left
        # An expiry may have waited for an event that is processed only now.
        scene.pass_time(SETTLE_INTERVALS[0])
    everything = await scene.audited_bookings()
    found = [*await scene.faults(), *await _statement_differences(scene)]
    for one in everything:
        found += _booking_faults(one, one.booking.id in by_hand)
    return [
        *found,
        *await scenarios.webhooks.finish_deliveries([one.booking.id for one in everything]),
    ]


async def sync_bookings(scene: SimulatedScenario, booking_ids: Iterable[int]) -> None:
    """Sync bookings as `payments reconcile --apply` does: if the event of a manual change was lost,
    only the daily statement has the change."""
    for booking_id in sorted(booking_ids):
        await reconciliation.sync_intent(
            scene.ports, booking_id, scene.ports.policy.processor_timeout
        )


async def _onboard_companion(companion: SimulatedScenario) -> None:
    """Complete the onboarding; a visit can fail because of a concurrent one or a stored error."""
    for _ in range(MAX_ONBOARDING_VISITS - 1):
        with suppress(ProcessorUnavailable):
            await companion.onboard_payee()
            return
        companion.pass_time(MINUTE)
    await companion.onboard_payee()


async def _drain_until_finished(scene: SimulatedScenario) -> list[str]:
    """Run due work until none is left; returns the operations that never end."""
    await scene.drain()
    for wait in SETTLE_INTERVALS:
        if not await scene.unfinished():
            return []
        scene.pass_time(wait)
        await scene.drain()
    return [f"still unfinished: {operation}" for operation in await scene.unfinished()]


async def _time_after_open_bookings(scene: SimulatedScenario) -> datetime | None:
    """A time at which all open bookings are over and due: four days after the last of their ends.
    None if no booking is open."""
    now = await scene.now()
    under_way = [
        one.booking for one in await scene.audited_bookings() if _is_under_way(one.booking)
    ]
    if not under_way:
        return None
    return max(now, *(booking.ends_at for booking in under_way)) + 4 * DAY


def _is_under_way(booking: Booking) -> bool:
    """Whether the booking or its payout has no final status yet."""
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
        # The service finds a verdict whose event the processor has forgotten at its next sync.
        is_bank_deciding = booking.chargeback_status is ChargebackStatus.OPEN
        if booking.status is BookingStatus.DISPUTED and not is_bank_deciding:
            await scene.resolve(booking, ResolutionOutcome.RELEASE)
        for decide in (payouts.release_payout, payouts.retry_payout, refunds.retry_refunds):
            with suppress(RuleBroken):  # No such case is open.
                await decide(scene.ports, booking.code)


async def _statement_differences(scene: SimulatedScenario) -> list[str]:
    found = [one async for one in statement.reconcile_statement(scene.ports)]
    differences = [f"{one}" for one in found if isinstance(one, StatementDifference)]
    in_flight = sum(one.in_flight for one in found[-1:] if not isinstance(one, StatementDifference))
    return [*differences, *([f"{in_flight} entries are in flight"] if in_flight else [])]


def _booking_faults(one: AuditedBooking, by_hand: bool) -> Iterator[str]:
    booking, owed = one.booking, account_balances(one.postings)
    if booking.status not in FINAL_BOOKING_STATUSES:
        yield f"booking {booking.id}: ends {booking.status}"
    if by_hand:
        return
    if left := [account for account in LIABILITY_ACCOUNTS if owed[account]]:
        yield f"booking {booking.id}: something is left on {left}"
    if booking.payout_status not in (PayoutStatus.NONE, PayoutStatus.PAID, PayoutStatus.REVERSED):
        yield f"booking {booking.id}: the payout ends {booking.payout_status}"
    refused = {op.kind for op in one.operations if op.status is OperationStatus.REFUSED}
    irrecoverable = OperationKind.REVERSE_PAYOUT in refused or booking.netted > 0
    if booking.owed_by_staff and not irrecoverable:
        yield f"booking {booking.id}: {booking.owed_by_staff} of the staff member is not recovered"
