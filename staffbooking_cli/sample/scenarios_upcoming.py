"""Sample bookings that are ahead or under way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from staffbooking_cli.sample.actions import Event, Person, StaffMember
from staffbooking_cli.sample.scenario_context import DAY, HOUR, ScenarioContext, venue_of
from staffbooking_cli.sample.scenario_runner import Scenario
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.availability import local_date, local_time_to_utc

_QUARTER_SECONDS = 15 * 60
_GROUP_EVENT, _GROUP_START_MINUTES, _TEAM_SIZE = "Anniversary gala", 18 * 60, 4


async def pending_scenario(
    context: ScenarioContext,
    customer: Person,
    staff: Sequence[StaffMember],
    days_ahead: int = 9,
    hours: int = 4,
) -> Scenario:
    """A request that waits for an answer, with an unread message."""
    yield context.ago(hours=20 - days_ahead)
    event = await context.find_ahead(staff, days_ahead, hours)
    if event is not None:
        await context.actions.request(customer, event, venue_of(event))
        yield context.ago(hours=2)
        line = "One more thing: could you also bring something for the children?"
        await context.actions.write(customer, event.staff, line)


async def accepted_scenario(
    context: ScenarioContext,
    customer: Person,
    staff: Sequence[StaffMember],
    rival: Person | None = None,
) -> Scenario:
    """Accepted and not paid yet; a rival's request for the same hours lost."""
    actions = context.actions
    yield context.ago(days=2)
    event = await context.find_ahead(staff, 12, 6)
    if event is None:
        return
    booking = await actions.request(customer, event, venue_of(event))
    if rival is not None:
        await actions.request(rival, event, venue_of(event))
    yield context.ago(hours=22)
    await actions.accept(event.staff, booking)
    await actions.write(event.staff, customer, "It is in my calendar. What time can I set up?")
    yield context.ago(hours=21)
    await actions.write(customer, event.staff, "From five o'clock, through the side door.")
    yield context.ago(hours=3)
    await actions.write(event.staff, customer, "Perfect. I will bring all that we talked about.")


async def paid_scenario(
    context: ScenarioContext,
    customer: Person,
    staff: Sequence[StaffMember],
    days_ahead: int = 11,
    *,
    insurance: bool = False,
) -> Scenario:
    """Paid, and ahead."""
    actions = context.actions
    yield context.ago(days=6)
    event = await context.find_ahead(staff, days_ahead, 5)
    if event is None:
        return
    booking = await actions.request(
        customer, event, venue_of(event), cancellation_insurance=insurance
    )
    yield context.ago(days=5)
    await actions.accept(event.staff, booking)
    yield context.ago(days=4.5)
    await actions.pay(customer, booking)
    await actions.write(customer, event.staff, "All paid. We will be about sixty, mostly friends.")
    yield context.ago(days=4)
    await actions.write(event.staff, customer, "Thank you! Shall I plan something without alcohol?")


async def today_scenario(
    context: ScenarioContext, customer: Person, staff: StaffMember
) -> Scenario:
    """Paid, and so near that the staff member can check in."""
    event = Event(staff, _floor_to_quarter_hour(context.now + HOUR), 4)
    yield context.ago(days=9)
    booking = await context.actions.request(customer, event, venue_of(event))
    yield context.ago(days=8)
    await context.actions.accept(staff, booking)
    yield context.ago(days=7.6)
    await context.actions.pay(customer, booking)


async def under_way_scenario(
    context: ScenarioContext, customer: Person, staff: StaffMember
) -> Scenario:
    """Checked in, and not over."""
    event = Event(staff, _floor_to_quarter_hour(context.ago(hours=2)), 3)
    yield context.ago(days=8.4)
    booking = await context.actions.request(customer, event, venue_of(event))
    yield context.ago(days=7.4)
    await context.actions.accept(staff, booking)
    yield context.ago(days=7.2)
    await context.actions.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=25)
    await context.actions.apply_trigger(staff, booking, Trigger.CHECK_IN)


def _floor_to_quarter_hour(instant: datetime) -> datetime:
    """The last full quarter of an hour at or before an instant."""
    seconds = instant.timestamp() // _QUARTER_SECONDS * _QUARTER_SECONDS
    return datetime.fromtimestamp(seconds, UTC)


async def group_scenario(
    context: ScenarioContext, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """One event with several staff members, who share a conversation with the customer."""
    actions = context.actions
    yield context.ago(days=5.2)
    team = await _find_team(context, staff)
    if not team:
        return
    bookings = [
        await actions.request(customer, event, venue_of(team[0]), event_ref=_GROUP_EVENT)
        for event in team
    ]
    for event, booking in zip(team, bookings, strict=True):
        yield context.ago(days=4.4)
        await actions.accept(event.staff, booking)
    for booking in bookings[:2]:
        yield context.ago(days=4.1)
        await actions.pay(customer, booking)
    lines = (
        "Welcome, everybody! Doors open at seven, and the speeches are at nine.",
        "Hello all. I can be there from four, to set up with you.",
        "Same here. Is there a place where we can leave our coats and cases?",
        "Yes, the office behind the stage. I will leave the key at the desk.",
        "Great, thank you. See you all there!",
    )
    writers = (customer, team[0].staff, team[-1].staff, customer, team[1].staff)
    for number, (writer, line) in enumerate(zip(writers, lines, strict=True)):
        yield context.ago(days=3.6 - number * 0.85)
        await actions.write_to_group(writer, bookings[0], line)


async def _find_team(context: ScenarioContext, staff: Sequence[StaffMember]) -> list[Event]:
    """The same evening for staff members of one city who are all free then; none where nobody
    shares an evening."""
    for days_ahead in range(23, 37):
        day = local_date(staff[0].timezone, context.now + days_ahead * DAY)
        starts_at = local_time_to_utc(staff[0].timezone, day, _GROUP_START_MINUTES)
        events = [Event(member, starts_at, 4) for member in staff]
        team = [event for event in events if await context.actions.is_free(event)]
        if len(team) >= _TEAM_SIZE:
            return team[:_TEAM_SIZE]
    return []


async def platform_booking_scenario(
    context: ScenarioContext, platform: Person, customer: Person, staff: Sequence[StaffMember]
) -> Scenario:
    """Requested for a customer by a subscriber's platform, and paid."""
    yield context.ago(days=3.2)
    event = await context.find_ahead(staff[3:], 15, 6)
    if event is None:
        return
    booking = await context.actions.request_for(platform, customer, event, venue_of(event))
    yield context.ago(days=2.7)
    await context.actions.accept(event.staff, booking)
    yield context.ago(days=2.6)
    await context.actions.pay(customer, booking)
