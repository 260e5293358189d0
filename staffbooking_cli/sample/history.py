"""Past bookings of the sample's best-known people, with their reviews."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random

from attrs import frozen

from staffbooking_cli.sample import texts
from staffbooking_cli.sample.actions import Person, SampleActions, StaffMember
from staffbooking_cli.sample.scenario_runner import Scenario
from staffbooking_core.domain.bookings.lifecycle import Trigger

_SEED = 20270302
DAYS = 250
"""How long ago the first of these bookings was requested."""
_RATINGS = (5, 5, 5, 5, 5, 5, 4, 4, 5, 3, 5, 4)
_RESPONSE_SHARE = 0.45
_LATEST_DAYS_AGO, _WAVES, _WAVE_DAYS = 34, 8, 24


@frozen
class PastBooking:
    """A booking that was completed and reviewed."""

    staff: StaffMember
    customer: Person
    days_ago: int
    rating: int
    comment: str
    response: str


def plan_past_bookings(
    staff: Sequence[tuple[StaffMember, int]], customers: Sequence[Person]
) -> Iterator[PastBooking]:
    """The past bookings of staff members, each with the number of theirs."""
    random = Random(_SEED)
    for member, count in staff:
        for wave in sorted(random.sample(range(_WAVES), count)):
            rating = random.choice(_RATINGS)
            responds = rating < 4 or random.random() < _RESPONSE_SHARE
            yield PastBooking(
                staff=member,
                customer=random.choice(customers),
                days_ago=_LATEST_DAYS_AGO + wave * _WAVE_DAYS,
                rating=rating,
                comment=texts.make_comment(random, member.services[0], rating),
                response=random.choice(texts.RESPONSES[rating]) if responds else "",
            )


async def past_booking_scenario(
    actions: SampleActions, now: datetime, plan: PastBooking
) -> Scenario:
    """From the request to the review and the answer to it."""
    day = now - timedelta(days=plan.days_ago)
    yield day - timedelta(days=14)
    event = await actions.find_event([plan.staff], day, day + timedelta(days=21), 4)
    if event is None:
        return
    place = texts.VENUES[plan.staff.city][plan.days_ago % len(texts.VENUES[plan.staff.city])]
    booking = await actions.request(plan.customer, event, place)
    yield day - timedelta(days=13)
    await actions.accept(plan.staff, booking)
    await actions.pay(plan.customer, booking)
    yield event.starts_at - timedelta(minutes=20)
    await actions.apply_trigger(plan.staff, booking, Trigger.CHECK_IN)
    yield (event.ends_at + timedelta(hours=30)).replace(hour=10, minute=20)
    await actions.apply_trigger(plan.customer, booking, Trigger.CONFIRM)
    review_id = await actions.review(plan.customer, booking, plan.rating, plan.comment)
    if plan.response:
        yield (event.ends_at + timedelta(hours=54)).replace(hour=8, minute=5)
        await actions.respond(plan.staff, review_id, plan.response)
