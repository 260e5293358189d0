"""Disabling an account: its requests, accepted and paid bookings, and payouts (CONTRACT 10)."""

from __future__ import annotations

from datetime import date

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.booking import PaymentStatus, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.operator_inputs import BookingsOfDisabled, ResolutionOutcome
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import actions, disabling, disputes
from staffbooking_core.usecases.bookings.disabling import BookingsAhead
from staffbooking_core.usecases.payments import payouts
from tests.support.memory_deployment import (
    with_another_companion,
    with_another_customer,
)

pytestmark = pytest.mark.anyio

CANCEL, KEEP = BookingsOfDisabled.CANCEL, BookingsOfDisabled.KEEP
SIDES = pytest.mark.parametrize("side", ["customer", "staff"])


async def email_of(scene, side):
    async with scene.ports.store.read_view() as view:
        return (await view.accounts.user(getattr(scene, side).user_id)).email


async def disable(scene, side, decision=None, **given):
    email = await email_of(scene, side)
    return await disabling.disable_user(scene.ports, email, decision, **given)


async def is_disabled(scene, side):
    async with scene.ports.store.read_view() as view:
        return (await view.accounts.user(getattr(scene, side).user_id)).disabled_at is not None


async def credit_of(scene, booking):
    async with scene.ports.store.read_view() as view:
        return await view.bookings.rebooking_credit(booking.id)


# Requests ---------------------------------------------------------------------------------


@SIDES
async def test_requests_end(scene, side):
    """The requests of a disabled account are cancelled by the system, without a decision."""
    booking = await scene.request()
    disabled = await disable(scene, side)
    found = await scene.booking(booking)
    assert (found.status, found.cancelled_by, found.cancel_reason) == (
        BookingStatus.CANCELLED,
        Party.SYSTEM,
        "party_disabled",
    )
    assert disabled.cancelled == (found,)


async def test_requests_of_others_stay(scene):
    """Requests between other accounts stay."""
    other = await with_another_customer(await with_another_companion(scene))
    booking = await other.request()
    await disable(scene, "customer")
    assert await scene.booking(booking) == booking


async def test_a_request_of_a_disabled_customer_is_not_accepted(scene, monkeypatch):
    """A request that is accepted while its customer is being disabled is refused."""
    booking = await scene.request()
    monkeypatch.setattr(disabling._FollowUp, "_transition_for", lambda *_: None)
    await disable(scene, "customer")
    with pytest.raises(RuleBroken) as caught:
        await scene.accept(booking)
    assert caught.value.code == "party_disabled"


# Accepted and paid bookings ---------------------------------------------------------------


@SIDES
@pytest.mark.parametrize("reach", ["accepted", "paid"])
async def test_a_decision_is_needed(scene, side, reach):
    """With an accepted or paid booking ahead nothing is changed without a decision; the error
    lists what hangs on the account."""
    request = await scene.request(event_date=date(2027, 3, 9))
    booking = await getattr(scene, reach)()
    with pytest.raises(BookingsAhead) as caught:
        await disable(scene, side)
    assert caught.value.code == "bookings_ahead"
    assert caught.value.obligations.bookings == (request, booking)
    assert [await scene.booking(one) for one in (request, booking)] == [request, booking]
    assert not await is_disabled(scene, side)


async def test_a_past_booking_needs_no_decision(scene):
    """A paid booking that has ended is not ahead: it goes on, even where bookings are cancelled."""
    booking = await scene.paid()
    await scene.jump_to(booking.ends_at)
    await disable(scene, "staff", CANCEL)
    assert (await scene.booking(booking)).status is BookingStatus.PAID
    assert (await disable(scene, "staff")).cancelled == ()


@SIDES
async def test_paid_bookings_are_cancelled_with_a_full_refund(scene, side):
    """With `cancel` a paid booking ends by the admin, and everything is refunded, also shortly
    before the start."""
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at - HOUR)
    await disable(scene, side, CANCEL, actor_id=scene.admin.user_id)
    await scene.drain()
    found = await scene.booking(booking)
    assert (found.status, found.cancelled_by, found.cancel_reason, found.cancel_rule) == (
        BookingStatus.CANCELLED,
        Party.ADMIN,
        "party_disabled",
        "cancelled_by_the_service",
    )
    assert (found.refunded_amount, found.payout_status) == (booking.total_amount, PayoutStatus.NONE)
    assert found.payment_status is PaymentStatus.REFUNDED
    assert found.timeline[-1].actor_id == scene.admin.user_id
    assert await scene.faults() == []


@SIDES
async def test_accepted_bookings_can_not_be_paid(scene, side):
    """With `cancel` an accepted booking ends, and its payment page is closed."""
    booking = await scene.accepted()
    await scene.drain()
    await disable(scene, side, CANCEL)
    found = await scene.booking(booking)
    assert (found.status, found.payment_status) == (BookingStatus.CANCELLED, PaymentStatus.VOID)


@pytest.mark.parametrize("reach", ["accepted", "paid"])
async def test_the_customer_of_disabled_staff_gets_a_credit(scene, reach):
    """Where the staff member was disabled, the customer may rebook with priority."""
    booking = await getattr(scene, reach)()
    await disable(scene, "staff", CANCEL)
    assert (await credit_of(scene, booking)).customer_id == scene.customer.user_id


async def test_a_disabled_customer_gets_no_credit(scene):
    """Where the customer was disabled, there is no credit."""
    booking = await scene.paid()
    await disable(scene, "customer", CANCEL)
    assert await credit_of(scene, booking) is None


async def test_kept_bookings_go_on(scene):
    """With `keep` an accepted booking can still be paid, and completes."""
    booking = await scene.accepted()
    disabled = await disable(scene, "staff", KEEP)
    assert disabled.obligations.bookings == (booking,)
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(booking.ends_at)
    done = await scene.apply_trigger(booking, Trigger.CONFIRM, scene.customer)
    assert done.status is BookingStatus.COMPLETED


async def test_kept_bookings_can_be_cancelled_later(scene):
    """A repeated call with `cancel` ends what the first one kept."""
    booking = await scene.paid()
    await disable(scene, "staff", KEEP)
    await disable(scene, "staff", CANCEL)
    assert (await scene.booking(booking)).status is BookingStatus.CANCELLED


async def test_an_interrupted_call_is_finished_by_the_next(scene, monkeypatch):
    """A call that was interrupted after the account was disabled is completed by a repetition."""
    booking = await scene.request()

    async def interrupted(*_):
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(disabling._FollowUp, "apply", interrupted)
        with pytest.raises(ConnectionError):
            await disable(scene, "customer")
    assert await is_disabled(scene, "customer")
    assert (await disable(scene, "customer")).cancelled == (await scene.booking(booking),)


async def test_a_request_accepted_meanwhile_ends_too(scene, monkeypatch):
    """A request that is accepted after the account was disabled ends, since nobody kept it."""
    booking = await scene.request()
    apply = disabling._FollowUp.apply

    async def accept_first(self, booking_id):
        accepted = await actions.accept(scene.ports, scene.staff, booking_id)
        assert accepted.status is BookingStatus.ACCEPTED
        return await apply(self, booking_id)

    monkeypatch.setattr(disabling._FollowUp, "apply", accept_first)
    await disable(scene, "staff")
    assert (await scene.booking(booking)).cancelled_by is Party.ADMIN


async def test_the_parties_are_notified(scene):
    """The other party is told of the cancellation and its cause."""
    booking = await scene.request()
    await disable(scene, "staff")
    await scene.drain()
    texts = [
        email.text
        for email in scene.ports.notifier.emails
        if email.user_id == scene.customer.user_id
    ]
    assert any(booking.code in text and "account" in text for text in texts)


async def test_an_unknown_account_is_not_found(scene):
    """An unknown e-mail raises NotFound."""
    with pytest.raises(NotFound):
        await disabling.disable_user(scene.ports, "nobody@example.com", CANCEL)


async def test_an_admin_has_no_obligations(scene):
    """An account without bookings is disabled at once."""
    admin = await add_user(scene.ports.store, role=Role.ADMIN)
    disabled = await disabling.disable_user(scene.ports, admin.email)
    assert (disabled.obligations.bookings, disabled.obligations.payouts) == ((), ())


async def test_an_admin_does_not_disable_themselves(scene):
    """Disabling one's own account raises `own_account`, and changes nothing."""
    admin = await add_user(scene.ports.store, role=Role.ADMIN)
    with pytest.raises(RuleBroken, match="their own account") as refused:
        await disabling.disable_user(scene.ports, admin.email, actor_id=admin.id)
    assert refused.value.code == "own_account"
    assert (await administration.get_user_by_id(scene.ports, admin.id)).disabled_at is None


# Payouts ----------------------------------------------------------------------------------


async def alerts_of(scene, booking):
    async with scene.ports.store.read_view() as view:
        alerts = await view.alerts.alerts(100)
    return [alert.text for alert in alerts if alert.booking_id == booking.id]


async def test_payouts_are_held(scene):
    """The payouts that a disabled staff member expects are frozen, with an alert that says why."""
    booking = await scene.completed()
    disabled = await disable(scene, "staff", reason="forged papers")
    found = await scene.booking(booking)
    assert found.payout_status is PayoutStatus.FROZEN
    assert disabled.obligations.payouts == (found,)
    assert any("forged papers" in text for text in await alerts_of(scene, booking))
    await scene.jump_to(booking.ends_at + 9 * DAY)
    await scene.drain()
    assert await scene.booking(booking) == found


async def test_payouts_of_a_disabled_customers_bookings_are_made(scene):
    """The staff member of a disabled customer is paid out."""
    booking = await scene.completed()
    await disable(scene, "customer")
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID


@pytest.mark.parametrize("ending", ["confirm", "auto_complete", "resolve"])
async def test_later_payouts_are_held(scene, ending):
    """A payout that follows after the account was disabled is frozen from the start."""
    booking = await scene.paid()
    await disable(scene, "staff", KEEP)
    await scene.jump_to(booking.ends_at)
    if ending == "confirm":
        await scene.apply_trigger(booking, Trigger.CONFIRM, scene.customer)
    elif ending == "resolve":
        await scene.dispute(booking)
        await scene.resolve(booking, ResolutionOutcome.RELEASE)
    else:
        await scene.jump_to(booking.ends_at + 3 * DAY)
        await scene.drain()
    found = await scene.booking(booking)
    assert (found.status, found.payout_status) == (BookingStatus.COMPLETED, PayoutStatus.FROZEN)
    assert any("is disabled" in text for text in await alerts_of(scene, booking))


async def test_a_payout_that_comes_due_is_held(scene, monkeypatch):
    """A payout that was scheduled while the account was being disabled is held at its due time."""
    booking = await scene.completed()
    monkeypatch.setattr(disabling._FollowUp, "_transition_for", lambda *_: None)
    await disable(scene, "staff")
    assert (await scene.booking(booking)).payout_status is PayoutStatus.SCHEDULED
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    found = await scene.booking(booking)
    assert (found.payout_status, found.paid_out) == (PayoutStatus.FROZEN, 0)


async def test_a_released_payout_is_made(scene):
    """After an operator's release the payout is made, though the account is disabled."""
    booking = await scene.completed()
    await disable(scene, "staff")
    await payouts.release_payout(scene.ports, booking.code)
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID


async def test_disabling_again_holds_what_was_released(scene):
    """Disabling the account again holds the payout again."""
    booking = await scene.completed()
    for _ in range(2):
        await disable(scene, "staff")
        held = await scene.booking(booking)
        assert held.payout_status is PayoutStatus.FROZEN
        await payouts.release_payout(scene.ports, booking.code)


async def test_a_withdrawn_dispute_leaves_a_released_payout_released(scene):
    """The payout of a disabled account that an operator released is made after a dispute that was
    withdrawn."""
    booking = await scene.completed()
    await disable(scene, "staff")
    await payouts.release_payout(scene.ports, booking.code)
    await scene.dispute(booking)
    await disputes.withdraw_dispute(scene.ports, scene.customer, booking.id)
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID


async def test_disabling_again_in_a_dispute_holds_what_was_released(scene):
    """A payout that was released before the account was disabled is held where a dispute about it
    is withdrawn after that."""
    booking = await scene.completed()
    await payouts.hold_payout(scene.ports, booking.code)
    await payouts.release_payout(scene.ports, booking.code)
    await scene.dispute(booking)
    await disable(scene, "staff")
    await disputes.withdraw_dispute(scene.ports, scene.customer, booking.id)
    await scene.settle_down()
    assert (await scene.booking(booking)).payout_status is PayoutStatus.FROZEN


async def test_a_payout_on_its_way_is_held(scene):
    """A released payout that the processor has not made yet is not sent again."""
    booking = await scene.completed()
    await scene.fault("pay_out", "rate_limit", 1)
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    await disable(scene, "staff")
    await scene.settle_down()
    found = await scene.booking(booking)
    assert (found.payout_status, found.paid_out) == (PayoutStatus.FROZEN, 0)


async def test_a_released_payout_is_held_after_an_interruption(scene, monkeypatch):
    """A payout that was released before is held when it would be sent, if disabling the account
    was interrupted after its first transaction."""
    booking = await scene.completed()
    await scene.fault("pay_out", "rate_limit", 1)
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    monkeypatch.setattr(disabling._FollowUp, "_transition_for", lambda *_: None)
    await disable(scene, "staff")
    assert (await scene.booking(booking)).payout_released_at is not None
    await scene.settle_down()
    found = await scene.booking(booking)
    assert (found.payout_status, found.paid_out) == (PayoutStatus.FROZEN, 0)
    assert any("is disabled" in text for text in await alerts_of(scene, booking))


async def test_enabling_does_not_release_payouts(scene):
    """Enabling the account leaves the payout on hold until an operator releases it."""
    booking = await scene.completed()
    await disable(scene, "staff")
    await administration.enable_user(scene.ports, await email_of(scene, "staff"))
    assert (await scene.booking(booking)).payout_status is PayoutStatus.FROZEN


async def test_obligations_are_listed_before(scene):
    """The obligations of an account are its open bookings and its payouts, by id."""
    done, open_booking = await scene.completed(), await scene.request(event_date=date(2027, 3, 9))
    staff = await disabling.find_obligations(scene.ports, scene.staff.user_id)
    customer = await disabling.find_obligations(scene.ports, scene.customer.user_id)
    assert (staff.bookings, staff.payouts) == ((open_booking,), (done,))
    assert (customer.bookings, customer.payouts) == ((open_booking,), ())


async def test_many_bookings_are_read_in_batches(scene, monkeypatch):
    """All open bookings are found over several batches."""
    monkeypatch.setattr(disabling, "_BATCH_SIZE", 2)
    made = [await scene.request(event_date=date(2027, 3, day)) for day in range(4, 9)]
    disabled = await disable(scene, "customer")
    assert [one.id for one in disabled.cancelled] == [one.id for one in made]
