"""The end of a history: faults stop, people decide what is open, and time passes. Then all
work has ended, and the ledger is the processor's book, line by line.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import Status, Trigger
from staffbooking_core.domain.payments.ledger import OWED, balances
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    IntentRefs,
    OpKind,
    OpStatus,
)
from staffbooking_core.errors import ProcessorUnavailable, RuleBroken
from staffbooking_core.ports import Audited
from staffbooking_core.usecases.payments import payouts, refunds, statement
from staffbooking_core.usecases.payments.statement import Difference
from tests.simulation.deployment import SimulatedScene, World
from tests.support.builders import DAY, HOUR, MINUTE

WAITS = (6 * MINUTE, 15 * MINUTE, 40 * MINUTE, 40 * MINUTE, HOUR)
"""Once nothing fails any more, all that is due is done within the sum of these. After the
first of them lost events have been caught up with."""

VISITS = 4
ROUNDS = 8
ENDED = (Status.COMPLETED, Status.CANCELLED)
FINAL = frozenset({OpStatus.DONE, OpStatus.VOID, OpStatus.REFUSED})


async def come_to_rest(world: World, verdict: str, by_hand: set[int]) -> None:
    """Play a history to its end and check it. Chargebacks end by `verdict`. `by_hand` has the
    bookings whose money somebody moved at the processor without us, so that what we want of
    it may be refused for good."""
    world.fate.point = ""
    scene = world.scene
    await scene.clear_faults()
    for companion in world.companions:
        await companion.fake.set_payee_ready(companion.staff.user_id, True)
        await _onboard(companion)
    await _settle(scene)
    for _ in range(ROUNDS):
        await _decide_all(scene, verdict)
        await _settle(scene)
        if not (waits := await _next(scene)):
            break
        await scene.jump_to(waits)
        await _settle(scene)
    assert await scene.faults() == []
    await _reconcile(scene)
    for one in await scene.audited():
        _check(one, one.booking.id in by_hand)
    await world.mail.come_to_rest([one.booking.id for one in await scene.audited()])


async def _onboard(companion: SimulatedScene) -> None:
    """A visit may find somebody else at work, or an answer that was stored with an error."""
    for _ in range(VISITS - 1):
        with suppress(ProcessorUnavailable):
            await companion.onboard()
            return
        companion.pass_time(MINUTE)
    await companion.onboard()


async def _settle(scene: SimulatedScene) -> None:
    """Until no work is left."""
    for wait in WAITS:
        scene.pass_time(wait)
        await scene.drain()
        if not await scene.unfinished():
            return
    raise AssertionError(f"still unfinished: {await scene.unfinished()}")


async def _next(scene: SimulatedScene) -> datetime | None:
    """When the last of what is under way will have come due; None where nothing is."""
    now = await scene.now()
    under_way = [one.booking for one in await scene.audited() if _is_under_way(one.booking)]
    if not under_way:
        return None
    return max(now, *(booking.ends_at for booking in under_way)) + 4 * DAY


def _is_under_way(booking: Booking) -> bool:
    return booking.status not in ENDED or booking.payout_status is PayoutStatus.SCHEDULED


async def _decide_all(scene: SimulatedScene, verdict: str) -> None:
    """What waits for people: banks, operators."""
    for one in await scene.audited():
        booking = one.booking
        known = await scene.fake.snapshot(IntentRefs(booking.id), 5.0)
        for chargeback in known.chargebacks:
            if chargeback.status is ChargebackStatus.OPEN:
                await scene.charge_back(booking, verdict)
        booking = await scene.booking(booking)
        if booking.status is Status.DISPUTED:
            await scene.resolve(booking, Trigger.RELEASE)
        for decide in (payouts.release, payouts.retry, refunds.retry):
            with suppress(RuleBroken):  # There is nothing of the kind.
                await decide(scene.ports, booking.code)


async def _reconcile(scene: SimulatedScene) -> None:
    found = [one async for one in statement.reconcile(scene.ports)]
    assert [one for one in found if isinstance(one, Difference)] == []
    [done] = [one for one in found[-1:] if not isinstance(one, Difference)]
    assert done.in_flight == 0


def _check(one: Audited, by_hand: bool) -> None:
    booking, owed = one.booking, balances(one.postings)
    assert booking.status in ENDED
    assert {operation.status for operation in one.operations} <= FINAL
    refused = {op.kind for op in one.operations if op.status is OpStatus.REFUSED}
    if by_hand:
        return
    assert not any(owed[account] for account in OWED)
    assert booking.payout_status in (PayoutStatus.NONE, PayoutStatus.PAID, PayoutStatus.REVERSED)
    irrecoverable = OpKind.REVERSE_PAYOUT in refused or booking.netted > 0
    assert irrecoverable or booking.owed_by_staff == 0
