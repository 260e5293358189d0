"""Sample bookings that are ahead or under way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from staffbooking_cli.sample.stage import Event, Person, StaffMember
from staffbooking_cli.sample.telling import DAY, HOUR, Telling, place_of
from staffbooking_cli.sample.walk import Story
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.availability import local_date, local_time_to_utc

_QUARTER_SECONDS = 15 * 60
_GROUP_EVENT, _GROUP_START_MINUTES, _TEAM_SIZE = "Anniversary gala", 18 * 60, 4


async def tell_pending(
    telling: Telling,
    customer: Person,
    staff: Sequence[StaffMember],
    days_ahead: int = 9,
    hours: int = 4,
) -> Story:
    """A request that waits for an answer, with an unread message."""
    yield telling.ago(hours=20 - days_ahead)
    event = await telling.find_ahead(staff, days_ahead, hours)
    if event is not None:
        await telling.stage.request(customer, event, place_of(event))
        yield telling.ago(hours=2)
        line = "One more thing: could you also bring something for the children?"
        await telling.stage.write(customer, event.staff, line)


async def tell_accepted(
    telling: Telling, customer: Person, staff: Sequence[StaffMember], rival: Person | None = None
) -> Story:
    """Accepted and not paid yet; a rival's request for the same hours lost."""
    stage = telling.stage
    yield telling.ago(days=2)
    event = await telling.find_ahead(staff, 12, 6)
    if event is None:
        return
    booking = await stage.request(customer, event, place_of(event))
    if rival is not None:
        await stage.request(rival, event, place_of(event))
    yield telling.ago(hours=22)
    await stage.accept(event.staff, booking)
    await stage.write(event.staff, customer, "It is in my calendar. What time can I set up?")
    yield telling.ago(hours=21)
    await stage.write(customer, event.staff, "From five o'clock, through the side door.")
    yield telling.ago(hours=3)
    await stage.write(event.staff, customer, "Perfect. I will bring all that we talked about.")


async def tell_paid(
    telling: Telling,
    customer: Person,
    staff: Sequence[StaffMember],
    days_ahead: int = 11,
    *,
    insurance: bool = False,
) -> Story:
    """Paid, and ahead."""
    stage = telling.stage
    yield telling.ago(days=6)
    event = await telling.find_ahead(staff, days_ahead, 5)
    if event is None:
        return
    booking = await stage.request(
        customer, event, place_of(event), cancellation_insurance=insurance
    )
    yield telling.ago(days=5)
    await stage.accept(event.staff, booking)
    yield telling.ago(days=4.5)
    await stage.pay(customer, booking)
    await stage.write(customer, event.staff, "All paid. We will be about sixty, mostly friends.")
    yield telling.ago(days=4)
    await stage.write(event.staff, customer, "Thank you! Shall I plan something without alcohol?")


async def tell_today(telling: Telling, customer: Person, staff: StaffMember) -> Story:
    """Paid, and so near that the staff member can check in."""
    event = Event(staff, _quarter_before(telling.now + HOUR), 4)
    yield telling.ago(days=9)
    booking = await telling.stage.request(customer, event, place_of(event))
    yield telling.ago(days=8)
    await telling.stage.accept(staff, booking)
    yield telling.ago(days=7.6)
    await telling.stage.pay(customer, booking)


async def tell_under_way(telling: Telling, customer: Person, staff: StaffMember) -> Story:
    """Checked in, and not over."""
    event = Event(staff, _quarter_before(telling.ago(hours=2)), 2 + 1)
    yield telling.ago(days=8.4)
    booking = await telling.stage.request(customer, event, place_of(event))
    yield telling.ago(days=7.4)
    await telling.stage.accept(staff, booking)
    yield telling.ago(days=7.2)
    await telling.stage.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=25)
    await telling.stage.act(staff, booking, Trigger.CHECK_IN)


def _quarter_before(instant: datetime) -> datetime:
    """The last full quarter of an hour."""
    seconds = instant.timestamp() // _QUARTER_SECONDS * _QUARTER_SECONDS
    return datetime.fromtimestamp(seconds, UTC)


async def tell_group(telling: Telling, customer: Person, staff: Sequence[StaffMember]) -> Story:
    """One event with several staff members, who share a conversation with the customer."""
    stage = telling.stage
    yield telling.ago(days=5.2)
    team = await _find_team(telling, staff)
    if not team:
        return
    bookings = [
        await stage.request(customer, event, place_of(team[0]), event_ref=_GROUP_EVENT)
        for event in team
    ]
    for event, booking in zip(team, bookings, strict=True):
        yield telling.ago(days=4.4)
        await stage.accept(event.staff, booking)
    for booking in bookings[:2]:
        yield telling.ago(days=4.1)
        await stage.pay(customer, booking)
    lines = (
        "Welcome, everybody! Doors open at seven, and the speeches are at nine.",
        "Hello all. I can be there from four, to set up with you.",
        "Same here. Is there a place where we can leave our coats and cases?",
        "Yes, the office behind the stage. I will leave the key at the desk.",
        "Great, thank you. See you all there!",
    )
    writers = (customer, team[0].staff, team[-1].staff, customer, team[1].staff)
    for number, (writer, line) in enumerate(zip(writers, lines, strict=True)):
        yield telling.ago(days=3.6 - number * 0.85)
        await stage.write_to_group(writer, bookings[0], line)


async def _find_team(telling: Telling, staff: Sequence[StaffMember]) -> list[Event]:
    """The same evening for staff members of one city who are all free then; none where nobody
    shares an evening."""
    for days_ahead in range(23, 37):
        day = local_date(staff[0].timezone, telling.now + days_ahead * DAY)
        starts_at = local_time_to_utc(staff[0].timezone, day, _GROUP_START_MINUTES)
        events = [Event(member, starts_at, 4) for member in staff]
        team = [event for event in events if await telling.stage.is_free(event)]
        if len(team) >= _TEAM_SIZE:
            return team[:_TEAM_SIZE]
    return []


async def tell_platform_booking(
    telling: Telling, platform: Person, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """Requested for a customer by a subscriber's platform, and paid."""
    yield telling.ago(days=3.2)
    event = await telling.find_ahead(staff[3:], 15, 6)
    if event is None:
        return
    booking = await telling.stage.request_for(platform, customer, event, place_of(event))
    yield telling.ago(days=2.7)
    await telling.stage.accept(event.staff, booking)
    yield telling.ago(days=2.6)
    await telling.stage.pay(customer, booking)
