"""Sample bookings in dispute, open or resolved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from staffbooking_cli.sample.art import scenes
from staffbooking_cli.sample.cast import ADMIN_NAME
from staffbooking_cli.sample.stage import Person, StaffMember
from staffbooking_cli.sample.telling import Telling, place_of
from staffbooking_cli.sample.walk import Story
from staffbooking_core.domain.accounts.audit import AuditSubject, Operator
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases.accounts import audit
from staffbooking_core.usecases.bookings import disputes


async def tell_open_dispute(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """Opened by the customer with a photo; both sides have spoken, and an operator will decide."""
    stage = telling.stage
    yield telling.ago(days=15)
    event = await telling.find_past(staff, 5, 1.8)
    if event is None:
        return
    booking = await stage.request(customer, event, place_of(event))
    yield telling.ago(days=14)
    await stage.accept(event.staff, booking)
    yield telling.ago(days=13.8)
    await stage.pay(customer, booking)
    yield event.starts_at + timedelta(minutes=55)
    await stage.act(event.staff, booking, Trigger.CHECK_IN)
    yield telling.ago(days=1.6)
    photo = scenes.draw_scene("evidence of the customer", "Waiter", "Gala dinner for 120")
    await stage.dispute(
        customer,
        booking,
        "We had agreed on seven o'clock. It was almost eight when the work began, and the first "
        "guests had left. I would like a part of the price back. The photo shows the tables.",
        [photo],
    )
    yield telling.ago(days=1.2)
    answer = scenes.draw_scene("evidence of the staff", "Bartender", "Roof terrace opening")
    await stage.state(
        event.staff,
        booking,
        "I was at the gate at half past six. Nobody could let me in: the guard had no list. "
        "I stayed an hour longer at the end, without charging for it.",
        [answer],
    )
    yield telling.ago(hours=20)
    await stage.state(customer, booking, "That is true, but the speeches were over by then.")


async def tell_overdue_dispute(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """Opened by the staff member; the other side has not answered in time."""
    stage = telling.stage
    yield telling.ago(days=20)
    event = await telling.find_past(staff, 9, 5)
    if event is None:
        return
    booking = await stage.request(customer, event, place_of(event))
    yield telling.ago(days=19)
    await stage.accept(event.staff, booking)
    yield telling.ago(days=18.7)
    await stage.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=10)
    await stage.act(event.staff, booking, Trigger.CHECK_IN)
    yield event.ends_at + timedelta(hours=9)
    reason = "The party went on for two more hours, and I was asked to stay. I should be paid them."
    await stage.dispute(event.staff, booking, reason)


async def tell_no_show(telling: Telling, customer: Person, staff: Sequence[StaffMember]) -> Story:
    """The staff member did not come."""
    yield telling.ago(days=10.5)
    event = await telling.find_past(staff, 3.4, 0.2, 3)
    if event is None:
        return
    booking = await telling.stage.request(customer, event, place_of(event))
    yield telling.ago(days=9.5)
    await telling.stage.accept(event.staff, booking)
    yield telling.ago(days=9.3)
    await telling.stage.pay(customer, booking)
    yield event.starts_at + timedelta(minutes=50)
    await telling.stage.report_no_show(customer, booking)


async def tell_resolved_dispute(
    telling: Telling, customer: Person, staff: Sequence[StaffMember], outcome: ResolutionOutcome
) -> Story:
    """Resolved by an operator: a refund, or a split of the money."""
    stage = telling.stage
    yield telling.ago(days=40)
    event = await telling.find_past(staff, 28, 14)
    if event is None:
        return
    booking = await stage.request(customer, event, place_of(event))
    yield telling.ago(days=38)
    await stage.accept(event.staff, booking)
    yield telling.ago(days=37.3)
    await stage.pay(customer, booking)
    yield event.starts_at
    await stage.act(event.staff, booking, Trigger.CHECK_IN)
    yield event.ends_at + timedelta(hours=10)
    await stage.dispute(customer, booking, "Two of the four hours were missing.")
    yield event.ends_at + timedelta(hours=30)
    await stage.state(event.staff, booking, "I fell ill, and told the hosts when I left.")
    yield event.ends_at + timedelta(hours=50)
    note = "Both sides agree on the facts; the missing hours are the customer's."
    act = audit.OperatorAct(
        operator=Operator(None, " ".join(ADMIN_NAME), "cli"),
        act="resolve",
        subject=AuditSubject.DISPUTE,
        subject_id=booking.code,
        reason=note,
    )
    ports = audit.audited_ports(stage.ports, act)
    amount = booking.price // 2 if outcome is ResolutionOutcome.SPLIT else 0
    await disputes.resolve_dispute(ports, booking.code, outcome, amount, note)
