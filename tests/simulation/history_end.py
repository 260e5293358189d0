"""The end of a history: open cases are decided, and business time passes. Then no work is left,
and the ledger equals the processor's book line by line.
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
from tests.simulation.deployment import Scenes, SimulatedScenario

SETTLE_INTERVALS = (6 * MINUTE, 15 * MINUTE, 40 * MINUTE, 40 * MINUTE, HOUR)
"""Waits within whose sum all due work is done without faults. Lost events are recovered within
the first."""

MAX_ONBOARDING_VISITS = 4
MAX_ROUNDS = 8
FINAL_BOOKING_STATUSES = (BookingStatus.COMPLETED, BookingStatus.CANCELLED)


async def mend_processor(scenes: Scenes) -> None:
    """End the processor's faults, and let it pay all companions."""
    await scenes.scene.clear_faults()
    for companion in scenes.companions:
        await companion.fake.dashboard.set_payee_ready(companion.staff.user_id, True)
        await _onboard_companion(companion)


async def finish_bookings(scenes: Scenes, verdict: str, by_hand: set[int]) -> list[str]:
    """Bring all bookings to their ends; returns what is wrong then. Chargebacks end by `verdict`.
    `by_hand` has the bookings whose money was moved manually at the processor, so that operations
    on it can be refused for good."""
    scene = scenes.scene
    for _ in range(MAX_ROUNDS):
        await _decide_open_cases(scene, verdict)
        if left := await _drain_until_finished(scene):
            return left
        if not (waits := await _next_due_time(scene)):
            break
        await scene.jump_to(waits)
        if left := await _drain_until_finished(scene):
            return left
    everything = await scene.audited_bookings()
    found = [*await scene.faults(), *await _statement_differences(scene)]
    for one in everything:
        found += _booking_faults(one, one.booking.id in by_hand)
    return [
        *found,
        *await scenes.webhooks.finish_deliveries([one.booking.id for one in everything]),
    ]


async def sync_bookings(scene: SimulatedScenario, booking_ids: Iterable[int]) -> None:
    """Sync bookings as `payments reconcile --apply` does: where the event of a change by hand was
    lost, nothing but the daily statement tells of it."""
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
