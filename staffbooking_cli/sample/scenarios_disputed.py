"""Sample bookings in dispute, open or resolved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from staffbooking_cli.sample.actions import Person, StaffMember
from staffbooking_cli.sample.art import scenes
from staffbooking_cli.sample.participants import ADMIN_NAME
from staffbooking_cli.sample.scenario_context import ScenarioContext, venue_of
from staffbooking_cli.sample.scenario_runner import Scenario
from staffbooking_core.domain.accounts.audit import AuditSubject, Operator
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases.accounts import audit
from staffbooking_core.usecases.bookings import disputes


async def open_dispute_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Opened by the customer with a photo; both sides have spoken, and an operator will decide."""
    actions = context.actions
    yield context.ago(days=15)
    event = await context.find_past(staff, 5, 1.8)
    if event is None:
        return
    booking = await actions.request(customer, event, venue_of(event))
    yield context.ago(days=14)
    await actions.accept(event.staff, booking)
    yield context.ago(days=13.8)
    await actions.pay(customer, booking)
    yield event.starts_at + timedelta(minutes=55)
    await actions.apply_trigger(event.staff, booking, Trigger.CHECK_IN)
    yield context.ago(days=1.6)
    photo = scenes.draw_scene("evidence of the customer", "Waiter", "Gala dinner for 120")
    await actions.dispute(
        customer,
        booking,
        "We had agreed on seven o'clock. It was almost eight when the work began, and the first "
        "guests had left. I would like a part of the price back. The photo shows the tables.",
        [photo],
    )
    yield context.ago(days=1.2)
    answer = scenes.draw_scene("evidence of the staff", "Bartender", "Roof terrace opening")
    await actions.add_statement(
        event.staff,
        booking,
        "I was at the gate at half past six. Nobody could let me in: the guard had no list. "
        "I stayed an hour longer at the end, without charging for it.",
        [answer],
    )
    yield context.ago(hours=20)
    await actions.add_statement(
        customer, booking, "That is true, but the speeches were over by then."
    )


async def overdue_dispute_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Opened by the staff member; the other side has not answered in time."""
    actions = context.actions
    yield context.ago(days=20)
    event = await context.find_past(staff, 9, 5)
    if event is None:
        return
    booking = await actions.request(customer, event, venue_of(event))
    yield context.ago(days=19)
    await actions.accept(event.staff, booking)
    yield context.ago(days=18.7)
    await actions.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=10)
    await actions.apply_trigger(event.staff, booking, Trigger.CHECK_IN)
    yield event.ends_at + timedelta(hours=9)
    reason = "The party went on for two more hours, and I was asked to stay. I should be paid them."
    await actions.dispute(event.staff, booking, reason)


async def no_show_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """The staff member did not come."""
    yield context.ago(days=10.5)
    event = await context.find_past(staff, 3.4, 0.2, 3)
    if event is None:
        return
    booking = await context.actions.request(customer, event, venue_of(event))
    yield context.ago(days=9.5)
    await context.actions.accept(event.staff, booking)
    yield context.ago(days=9.3)
    await context.actions.pay(customer, booking)
    yield event.starts_at + timedelta(minutes=50)
    await context.actions.report_no_show(customer, booking)


async def resolved_dispute_scenario(
    context: ScenarioContext,
    customer: Person,
    staff: Sequence[StaffMember],
    outcome: ResolutionOutcome,
) -> Scenario:
    """Resolved by an operator: a refund, or a split of the money."""
    actions = context.actions
    yield context.ago(days=40)
    event = await context.find_past(staff, 28, 14)
    if event is None:
        return
    booking = await actions.request(customer, event, venue_of(event))
    yield context.ago(days=38)
    await actions.accept(event.staff, booking)
    yield context.ago(days=37.3)
    await actions.pay(customer, booking)
    yield event.starts_at
    await actions.apply_trigger(event.staff, booking, Trigger.CHECK_IN)
    yield event.ends_at + timedelta(hours=10)
    await actions.dispute(customer, booking, "Two of the four hours were missing.")
    yield event.ends_at + timedelta(hours=30)
    await actions.add_statement(event.staff, booking, "I fell ill, and told the hosts when I left.")
    yield event.ends_at + timedelta(hours=50)
    note = "Both sides agree on the facts; the missing hours are the customer's."
    act = audit.OperatorAct(
        operator=Operator(None, " ".join(ADMIN_NAME), "cli"),
        act="resolve",
        subject=AuditSubject.DISPUTE,
        subject_id=booking.code,
        reason=note,
    )
    ports = audit.audited_ports(actions.ports, act)
    amount = booking.price // 2 if outcome is ResolutionOutcome.SPLIT else 0
    await disputes.resolve_dispute(ports, booking.code, outcome, amount, note)
