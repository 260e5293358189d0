"""Payout accounts after their opening: syncs until they are ready, and payouts to them."""

from __future__ import annotations

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, SECOND, add_companion
from staffbooking_core.domain.payments.payees import PAYEE_POLL_MIN_INTERVAL, OpenPayee, PayeeStatus
from staffbooking_core.domain.payments.processor import OperationKey, OperationKind, OutcomeUnknown
from staffbooking_core.errors import Conflict, ProcessorUnavailable
from staffbooking_core.usecases.payments import payees, reconciliation
from tests.support.memory_deployment import actor_of

pytestmark = pytest.mark.anyio


# Until it is ready ----------------------------------------------------------------------


async def test_an_event_makes_it_ready(desk):
    """An event causes a sync, which finds the account complete."""
    await desk.open_onboarding()
    await desk.complete()
    assert await desk.status() == PayeeStatus.INCOMPLETE
    await reconciliation.deliver_sandbox_events(desk.ports)
    assert await desk.status() == PayeeStatus.READY


async def test_without_an_event_the_worker_finds_it_ready(desk):
    """The worker syncs at growing intervals until the account is ready."""
    await desk.open_onboarding()
    await desk.run_payees()
    assert desk.processor.calls_of("payee") == []
    await desk.complete()
    desk.scene.pass_time(PAYEE_POLL_MIN_INTERVAL)
    await desk.run_payees()
    payee = await desk.payee()
    assert (payee.status, payee.needs, payee.next_at) == (PayeeStatus.READY, (), None)
    desk.scene.pass_time(10 * DAY)
    assert await payees.run_due_payee(desk.ports) == 0


async def test_looks_grow_rare(desk):
    """An account that is never completed is synced about once a day."""
    await desk.open_onboarding()
    for _ in range(30 * 24):
        desk.scene.pass_time(HOUR)
        await desk.run_payees()
    assert 30 <= len(desk.processor.calls_of("payee")) <= 40


async def test_the_way_back_looks_at_once(desk):
    """A user who returns from the page sees the processor's current state."""
    await desk.open_onboarding()
    await desk.complete()
    first = await payees.get_payee_on_return(desk.ports, desk.staff)
    assert first is not None
    assert first.ready
    assert await payees.get_payee_on_return(desk.ports, desk.staff) == first
    assert len(desk.processor.calls_of("payee")) == 1


async def test_the_way_back_needs_no_processor(desk):
    """While the processor is unavailable the last known state is shown."""
    assert await payees.get_payee_on_return(desk.ports, desk.staff) is None
    await desk.open_onboarding()
    desk.processor.errors["payee"] = OutcomeUnknown("away")
    found = await payees.get_payee_on_return(desk.ports, desk.staff)
    assert found is not None
    assert found.status is PayeeStatus.INCOMPLETE


async def test_an_account_that_is_no_longer_ready_is_looked_at_again(desk):
    """An account that needs more information is not ready and is synced again."""
    await desk.open_onboarding()
    await desk.complete()
    await reconciliation.deliver_sandbox_events(desk.ports)
    await desk.processor.inner.dashboard.set_payee_ready(desk.staff.user_id, False)
    await reconciliation.deliver_sandbox_events(desk.ports)
    payee = await desk.payee()
    assert payee.status is PayeeStatus.INCOMPLETE
    assert payee.next_at is not None


async def test_a_look_at_an_unknown_account_is_nothing(desk):
    """Syncing an unknown reference does nothing."""
    await payees.sync_payee(desk.ports, "acct_of_others", 5 * SECOND)
    assert desk.processor.calls == []


async def test_a_look_that_fails_is_told_to_who_asked(desk):
    """A failed sync raises, and the account stays as it is."""
    payee, _ = await desk.open_onboarding()
    desk.processor.errors["payee"] = OutcomeUnknown("away")
    with pytest.raises(OutcomeUnknown):
        await payees.sync_payee(desk.ports, payee.ref, 5 * SECOND)
    assert await desk.status() == PayeeStatus.INCOMPLETE


async def test_a_look_waits_for_another(desk):
    """A sync of a claimed payee raises Conflict, so that the event is retried."""
    payee, _ = await desk.open_onboarding()
    raised = []

    async def look():
        try:
            await payees.sync_payee(desk.ports, payee.ref, 5 * SECOND)
        except Conflict:
            raised.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        tasks.start_soon(look)
    assert raised == [True]


async def test_who_has_lost_the_claim_writes_nothing(desk):
    """A worker that lost its claim saves nothing."""
    await desk.open_onboarding()
    desk.scene.pass_time(PAYEE_POLL_MIN_INTERVAL)
    real = desk.processor.inner.payee

    async def overslept(ref, within):
        state = await real(ref, within)
        desk.processor.inner.payee = real
        desk.scene.pass_time(desk.ports.policy.lease_duration)
        await desk.complete()
        assert await payees.run_due_payee(desk.ports) == 1
        return state

    desk.processor.inner.payee = overslept
    assert await payees.run_due_payee(desk.ports) == 1
    assert await desk.status() == PayeeStatus.READY


# Payouts --------------------------------------------------------------------------------


async def test_becoming_ready_wakes_the_payouts(desk):
    """Payouts that were refused for lack of an account are sent to it at once."""
    await desk.open_onboarding()
    booking = await desk.scene.completed()
    await desk.scene.jump_to(booking.ends_at + DAY)
    await desk.scene.drain()
    assert (await desk.scene.booking(booking)).payout_status == "failed"
    desk.scene.pass_time(HOUR)
    await desk.scene.drain()
    await desk.complete()
    await reconciliation.deliver_sandbox_events(desk.ports)
    await desk.scene.drain()
    assert (await desk.scene.booking(booking)).payout_status == "paid"
    assert await desk.scene.faults() == []


async def test_a_refused_payout_casts_doubt_on_the_account(desk):
    """A refused payout causes a sync of the account, and is sent once it is ready."""
    await desk.open_onboarding()
    await desk.complete()
    await reconciliation.deliver_sandbox_events(desk.ports)
    booking = await desk.scene.completed()
    await lose_events(desk, ready=False)
    await desk.scene.jump_to(booking.ends_at + DAY)
    await desk.scene.drain()
    assert await desk.status() == PayeeStatus.INCOMPLETE
    await lose_events(desk, ready=True)
    desk.scene.pass_time(HOUR)
    await desk.scene.drain()
    assert (await desk.scene.booking(booking)).payout_status == "paid"


async def test_a_payout_that_is_refused_again_waits_longer(desk):
    """A payout that is refused although the account reads as ready is retried after the waits of
    its schedule, not in a loop with the syncs."""
    await desk.open_onboarding()
    await desk.complete()
    await reconciliation.deliver_sandbox_events(desk.ports)
    booking = await desk.scene.completed()
    await desk.scene.fault("pay_out", "refuse:payee_not_ready", 1000)
    await desk.scene.jump_to(booking.ends_at + DAY)
    for _ in range(10):
        await desk.scene.drain()
    *_, payout = await desk.scene.operations(booking)
    assert payout.attempts == 1
    assert await desk.status() == PayeeStatus.READY


async def lose_events(desk, ready):
    fake = desk.processor.inner
    await fake.sandbox.add_fault("event", "drop", 1)
    await fake.dashboard.set_payee_ready(desk.staff.user_id, ready)
    assert await fake.sandbox.take_due_events(1) == []


async def payout_ref(desk, companion_id):
    async with desk.ports.store.read_view() as view:
        return await payees.payout_ref_of(
            view.payees, view.companions, desk.ports.payments.name, companion_id
        )


async def test_a_payout_goes_to_the_account(desk):
    """A payout goes to the opened account, else to the imported one, else nowhere."""
    assert await payout_ref(desk, desk.staff.user_id) == ""
    assert await payout_ref(desk, 999) == ""
    imported = await add_companion(desk.ports.store, payout_account="acct_7")
    payee, _ = await desk.open_onboarding()
    copied = await add_companion(desk.ports.store, payout_account=payee.ref)
    assert await payout_ref(desk, imported.id) == "acct_7"
    assert await payout_ref(desk, desk.staff.user_id) == payee.ref
    assert await payout_ref(desk, copied.id) == ""


# Imported accounts ----------------------------------------------------------------------


async def imported(desk, ref=None):
    """A staff member with an imported account, known to the processor unless a reference is
    given."""
    if ref is None:
        command = OpenPayee(999, "mia@example.com", "Mia Lindqvist", "SE", "usd")
        key = OperationKey(0, 999, OperationKind.OPEN_PAYEE, 1)
        ref = (await desk.processor.inner.open_payee(command, key, 5.0)).ref
    return evolve(desk, staff=actor_of(await add_companion(desk.ports.store, payout_account=ref)))


async def test_an_imported_account_is_taken_over(desk):
    """An imported account is shown, stored on request, and no other one is opened."""
    desk = await imported(desk)
    before = await desk.payee()
    assert before.status is PayeeStatus.INCOMPLETE
    payee, link = await desk.open_onboarding()
    assert payee.ref == before.ref
    assert link.url.endswith(payee.ref)
    assert desk.processor.calls_of("open_payee") == []
    await desk.complete()
    await reconciliation.deliver_sandbox_events(desk.ports)
    assert await desk.status() == PayeeStatus.READY


async def test_an_imported_account_that_nobody_knows_is_not_taken_over(desk):
    """An imported account that the processor does not know is replaced by a new one."""
    desk = await imported(desk, "acct_typo")
    payee, _ = await desk.open_onboarding()
    assert payee.ref != "acct_typo"
    assert await payout_ref(desk, desk.staff.user_id) == payee.ref


async def test_an_imported_account_has_one_owner(desk):
    """A second staff member imported with the same account gets a new one."""
    first = await imported(desk)
    ref = (await first.open_onboarding())[0].ref
    second = await imported(desk, ref)
    assert await second.payee() is None
    assert (await second.open_onboarding())[0].ref != ref


async def test_an_imported_account_waits_for_the_processor(desk):
    """While the processor is unavailable nothing is stored and no second account is opened."""
    desk = await imported(desk)
    desk.processor.errors["payee"] = OutcomeUnknown("away")
    with pytest.raises(ProcessorUnavailable):
        await desk.open_onboarding()
    assert desk.processor.calls_of("open_payee") == []
    async with desk.ports.store.read_view() as view:
        assert await view.payees.payee("fake", desk.staff.user_id) is None
