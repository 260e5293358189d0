"""Sample bookings that are over: completed or cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from staffbooking_cli.sample import texts
from staffbooking_cli.sample.stage import Person, StaffMember
from staffbooking_cli.sample.telling import DAY, Telling, place_of
from staffbooking_cli.sample.walk import Story
from staffbooking_core.domain.bookings.lifecycle import Trigger

# Completed ------------------------------------------------------------------------------


async def tell_awaiting_payout(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """Confirmed this day: the payout is due tomorrow."""
    stage = telling.stage
    yield telling.ago(days=12.3)
    event = await telling.find_past(staff, 2.9, 0.15)
    if event is None:
        return
    booking = await stage.request(customer, event, place_of(event))
    yield telling.ago(days=11.8)
    await stage.accept(event.staff, booking)
    yield telling.ago(days=11.1)
    await stage.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=30)
    await stage.act(event.staff, booking, Trigger.CHECK_IN)
    yield telling.ago(hours=2.5)
    await stage.act(customer, booking, Trigger.CONFIRM)


async def tell_unreviewed(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """Completed by itself and paid out; nobody has reviewed it yet."""
    stage = telling.stage
    yield telling.ago(days=24.2)
    event = await telling.find_past(staff, 11, 5)
    if event is None:
        return
    booking = await stage.request(customer, event, place_of(event))
    yield telling.ago(days=23.7)
    await stage.accept(event.staff, booking)
    yield telling.ago(days=23.5)
    await stage.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=45)
    await stage.act(event.staff, booking, Trigger.CHECK_IN)


async def tell_reviewed(telling: Telling, customer: Person, staff: Sequence[StaffMember]) -> Story:
    """Paid out; both sides have reviewed each other, and had a few words after it."""
    stage = telling.stage
    yield telling.ago(days=44)
    event = await telling.find_past(staff, 30, 20)
    if event is None:
        return
    booking = await stage.request(customer, event, place_of(event))
    yield telling.ago(days=43.4)
    await stage.accept(event.staff, booking)
    yield telling.ago(days=43.2)
    await stage.pay(customer, booking)
    yield event.starts_at - timedelta(minutes=15)
    await stage.act(event.staff, booking, Trigger.CHECK_IN)
    yield event.ends_at + timedelta(hours=11)
    await stage.act(customer, booking, Trigger.CONFIRM)
    comment = "Everything that we had hoped for. Our guests still talk about it."
    review_id = await stage.review(customer, booking, 5, comment)
    await stage.write(customer, event.staff, "Thank you for yesterday, it was wonderful!")
    yield event.ends_at + timedelta(hours=13)
    await stage.respond(event.staff, review_id, texts.RESPONSES[5][0])
    await stage.review(event.staff, booking, 5, texts.CUSTOMER_COMMENTS[booking.id % 3])
    await stage.write(event.staff, customer, "It was a pleasure. Come back any time!")


# Never paid -----------------------------------------------------------------------------


async def tell_declined(telling: Telling, customer: Person, staff: Sequence[StaffMember]) -> Story:
    """Declined by the staff member."""
    yield telling.ago(days=4)
    event = await telling.find_ahead(staff, 6, 3)
    if event is not None:
        booking = await telling.stage.request(customer, event, place_of(event))
        yield telling.ago(days=3)
        await telling.stage.act(event.staff, booking, Trigger.DECLINE)
        answer = "I am sorry: my sister gets married that weekend."
        await telling.stage.write(event.staff, customer, answer)


async def tell_unanswered(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """A request that nobody answered before the event."""
    yield telling.ago(days=25)
    event = await telling.find_past(staff, 15, 11)
    if event is not None:
        await telling.stage.request(customer, event, place_of(event))


async def tell_unpaid(telling: Telling, customer: Person, staff: Sequence[StaffMember]) -> Story:
    """Accepted, and not paid before the event."""
    yield telling.ago(days=17)
    event = await telling.find_past(staff, 10, 4)
    if event is not None:
        booking = await telling.stage.request(customer, event, place_of(event))
        yield telling.ago(days=16)
        await telling.stage.accept(event.staff, booking)


async def tell_withdrawn(telling: Telling, customer: Person, staff: Sequence[StaffMember]) -> Story:
    """A request that the customer took back."""
    yield telling.ago(days=6)
    event = await telling.find_ahead(staff, 18, 3)
    if event is not None:
        booking = await telling.stage.request(customer, event, place_of(event))
        yield telling.ago(days=5)
        await telling.stage.cancel(customer, booking, "We moved the party to the summer.")


# Cancelled after the payment ------------------------------------------------------------


async def tell_early_cancellation(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """Cancelled by the customer weeks before: all is refunded."""
    yield telling.ago(days=9)
    event = await telling.find_ahead(staff, 19)
    if event is None:
        return
    booking = await telling.stage.request(customer, event, place_of(event))
    yield telling.ago(days=8)
    await telling.stage.accept(event.staff, booking)
    yield telling.ago(days=7.9)
    await telling.stage.pay(customer, booking)
    yield telling.ago(days=3)
    await telling.stage.cancel(customer, booking, "The venue had a water damage.")


async def tell_late_cancellation(
    telling: Telling,
    customer: Person,
    staff: Sequence[StaffMember],
    *,
    notice: timedelta,
    days_ago: int,
) -> Story:
    """Cancelled by the customer shortly before: half or nothing is refunded."""
    yield telling.ago(days=days_ago + 20)
    event = await telling.find_past(staff, days_ago, days_ago - 7)
    if event is None:
        return
    booking = await telling.stage.request(customer, event, place_of(event))
    yield telling.ago(days=days_ago + 18)
    await telling.stage.accept(event.staff, booking)
    yield telling.ago(days=days_ago + 17.5)
    await telling.stage.pay(customer, booking)
    yield event.starts_at - notice
    await telling.stage.cancel(customer, booking, "Half of the guests have the flu.")


async def tell_staff_cancellation(
    telling: Telling, customer: Person, staff: Sequence[StaffMember]
) -> Story:
    """Cancelled by the staff member: all is refunded, and the customer may rebook with priority."""
    yield telling.ago(days=7)
    event = await telling.find_ahead(staff, 10)
    if event is None:
        return
    booking = await telling.stage.request(customer, event, place_of(event))
    yield telling.ago(days=6.5)
    await telling.stage.accept(event.staff, booking)
    yield telling.ago(days=6.2)
    await telling.stage.pay(customer, booking)
    yield telling.now - DAY
    await telling.stage.cancel(event.staff, booking, "I broke my wrist, I am so sorry.")
