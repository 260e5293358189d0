"""Sample bookings that are over: completed or cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from staffbooking_cli.sample import texts
from staffbooking_cli.sample.actions import Person, StaffMember
from staffbooking_cli.sample.scenario_context import DAY, ScenarioContext, venue_of
from staffbooking_cli.sample.scenario_runner import Scenario
from staffbooking_core.domain.bookings.lifecycle import Trigger

# Completed ------------------------------------------------------------------------------


async def awaiting_payout_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Confirmed this day: the payout is due tomorrow."""
    actions = context.actions
    yield context.ago(days=12.3)
    event = await context.find_past(staff, 2.9, 0.15)
    if event is None:
        return
    booking = await actions.request(customer, event, venue_of(event))
    yield context.ago(days=11.8)
    await actions.accept(event.staff, booking)
    yield context.ago(days=11.1)
    await actions.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=30)
    await actions.apply_trigger(event.staff, booking, Trigger.CHECK_IN)
    yield context.ago(hours=2.5)
    await actions.apply_trigger(customer, booking, Trigger.CONFIRM)


async def unreviewed_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Completed by itself and paid out; nobody has reviewed it yet."""
    actions = context.actions
    yield context.ago(days=24.2)
    event = await context.find_past(staff, 11, 5)
    if event is None:
        return
    booking = await actions.request(customer, event, venue_of(event))
    yield context.ago(days=23.7)
    await actions.accept(event.staff, booking)
    yield context.ago(days=23.5)
    await actions.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=45)
    await actions.apply_trigger(event.staff, booking, Trigger.CHECK_IN)


async def reviewed_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Paid out; both sides have reviewed each other, and had a few words after it."""
    actions = context.actions
    yield context.ago(days=44)
    event = await context.find_past(staff, 30, 20)
    if event is None:
        return
    booking = await actions.request(customer, event, venue_of(event))
    yield context.ago(days=43.4)
    await actions.accept(event.staff, booking)
    yield context.ago(days=43.2)
    await actions.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=15)
    await actions.apply_trigger(event.staff, booking, Trigger.CHECK_IN)
    yield event.ends_at + timedelta(hours=11)
    await actions.apply_trigger(customer, booking, Trigger.CONFIRM)
    comment = "Everything that we had hoped for. Our guests still talk about it."
    review_id = await actions.review(customer, booking, 5, comment)
    await actions.write(customer, event.staff, "Thank you for yesterday, it was wonderful!")
    yield event.ends_at + timedelta(hours=13)
    await actions.respond(event.staff, review_id, texts.RESPONSES[5][0])
    await actions.review(event.staff, booking, 5, texts.CUSTOMER_COMMENTS[booking.id % 3])
    await actions.write(event.staff, customer, "It was a pleasure. Come back any time!")


# Never paid -----------------------------------------------------------------------------


async def declined_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Declined by the staff member."""
    yield context.ago(days=4)
    event = await context.find_ahead(staff, 6, 3)
    if event is not None:
        booking = await context.actions.request(customer, event, venue_of(event))
        yield context.ago(days=3)
        await context.actions.apply_trigger(event.staff, booking, Trigger.DECLINE)
        answer = "I am sorry: my sister gets married that weekend."
        await context.actions.write(event.staff, customer, answer)


async def unanswered_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """A request that nobody answered before the event."""
    yield context.ago(days=25)
    event = await context.find_past(staff, 15, 11)
    if event is not None:
        await context.actions.request(customer, event, venue_of(event))


async def unpaid_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Accepted, and not paid before the event."""
    yield context.ago(days=17)
    event = await context.find_past(staff, 10, 4)
    if event is not None:
        booking = await context.actions.request(customer, event, venue_of(event))
        yield context.ago(days=16)
        await context.actions.accept(event.staff, booking)


async def withdrawn_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """A request that the customer took back."""
    yield context.ago(days=6)
    event = await context.find_ahead(staff, 18, 3)
    if event is not None:
        booking = await context.actions.request(customer, event, venue_of(event))
        yield context.ago(days=5)
        await context.actions.cancel(customer, booking, "We moved the party to the summer.")


# Cancelled after the payment ------------------------------------------------------------


async def early_cancellation_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Cancelled by the customer weeks before: all is refunded."""
    yield context.ago(days=9)
    event = await context.find_ahead(staff, 19)
    if event is None:
        return
    booking = await context.actions.request(customer, event, venue_of(event))
    yield context.ago(days=8)
    await context.actions.accept(event.staff, booking)
    yield context.ago(days=7.9)
    await context.actions.pay(customer, booking)
    yield context.ago(days=3)
    await context.actions.cancel(customer, booking, "The venue had a water damage.")


async def late_cancellation_scenario(
    context: ScenarioContext,
    customer: Person,
    staff: Sequence[StaffMember],
    *,
    notice: timedelta,
    days_ago: int,
) -> Scenario:
    """Cancelled by the customer shortly before: half or nothing is refunded."""
    yield context.ago(days=days_ago + 20)
    event = await context.find_past(staff, days_ago, days_ago - 7)
    if event is None:
        return
    booking = await context.actions.request(customer, event, venue_of(event))
    yield context.ago(days=days_ago + 18)
    await context.actions.accept(event.staff, booking)
    yield context.ago(days=days_ago + 17.5)
    await context.actions.pay(customer, booking)
    yield event.starts_at - notice
    await context.actions.cancel(customer, booking, "Half of the guests have the flu.")


async def staff_cancellation_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Cancelled by the staff member: all is refunded, and the customer may rebook with priority."""
    yield context.ago(days=7)
    event = await context.find_ahead(staff, 10)
    if event is None:
        return
    booking = await context.actions.request(customer, event, venue_of(event))
    yield context.ago(days=6.5)
    await context.actions.accept(event.staff, booking)
    yield context.ago(days=6.2)
    await context.actions.pay(customer, booking)
    yield context.now - DAY
    await context.actions.cancel(event.staff, booking, "I broke my wrist, I am so sorry.")
