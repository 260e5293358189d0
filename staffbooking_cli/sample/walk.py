"""Runs the stories of the sample in the past: the sandbox's clock is set back while the database
is empty, walks from one moment of a story to the next, and ends at the present.

Everything happens through use-cases, so the sample obeys every rule of the service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, date, datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.availability import local_date, parse_hhmm
from staffbooking_core.inputs import CancelBooking, RequestBooking, RespondToReview, SubmitReview
from staffbooking_core.ports import Email, Ports, Transaction
from staffbooking_core.usecases import due_work, sandbox
from staffbooking_core.usecases.bookings import actions, requests, timers
from staffbooking_core.usecases.companions import reviews, search
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.payments import operations, reconciliation

Story = AsyncIterator[datetime]
"""Acts, then waits until the moment that it yields, and so on."""

_SLOT_SEARCH_DAYS = 28


class _SilentNotifier:
    """Sends nothing: nobody waits for the mails of the past."""

    async def alert_operators(self, booking_id: int, text: str) -> None:
        pass

    async def send_email(self, email: Email) -> None:
        pass


async def set_clock_back(ports: Ports, to: datetime) -> None:
    """Set business time to the past. Only for a database in which nothing has happened."""

    async def unit(tx: Transaction) -> None:
        await tx.sandbox.lock_clock()
        await tx.sandbox.set_clock_offset(to - ports.clock.wall())

    await ports.store.run_transaction(unit)


async def return_to_present(ports: Ports) -> None:
    """Set business time to real time if it is behind, and do what came due."""
    quiet_ports = evolve(ports, notifier=_SilentNotifier())

    async def unit(tx: Transaction) -> None:
        await tx.sandbox.set_clock_offset(max(await tx.sandbox.lock_clock(), timedelta()))

    await ports.store.run_transaction(unit)
    await due_work.run_all_due(quiet_ports)


async def run_stories(ports: Ports, stories: Iterable[Story]) -> None:
    """Run all stories until they end, each of their moments in the order of time. The clock moves
    on from where it stands, and what comes due is done before a story goes on."""
    quiet_ports = evolve(ports, notifier=_SilentNotifier())
    order = count()
    waiting = [(datetime.min.replace(tzinfo=UTC), next(order), story) for story in stories]
    heapify(waiting)
    reached = waiting[0][0] if waiting else None
    while waiting:
        moment, _, story = heappop(waiting)
        if moment != reached and moment > await ports.clock.business():
            await sandbox.set_clock(ports, moment)
            await _settle(quiet_ports)
            reached = moment
        following = await anext(story, None)
        if following is not None:
            heappush(waiting, (following, next(order), story))


async def _settle(ports: Ports) -> None:
    """Do the due work that changes bookings. Events and mails are left to the end: nobody waits."""
    while (
        await timers.fire_due_timers(ports)
        or await operations.run_due_operation(ports)
        or await reconciliation.deliver_sandbox_events(ports)
        or await reconciliation.process_event(ports)
    ):
        pass


@frozen
class Person:
    """A customer or staff member of a story."""

    id: int
    role: Role

    @property
    def actor(self) -> Actor:
        return Actor(self.id, self.role)


@frozen
class Slot:
    """A local start that a staff member is free at."""

    day: date
    start: str


@frozen
class Stage:
    """What people do in stories. Bookings are given by id, since their state changes."""

    ports: Ports

    async def find_slot(self, staff: Person, earliest: date, hours: int) -> Slot | None:
        """The last start of that many free hours on the first day that has them."""
        last = earliest + timedelta(days=_SLOT_SEARCH_DAYS - 1)
        found = await search.get_availability(self.ports, staff.id, earliest, last)
        for day in found["availability"]:
            for slot in reversed(day["slots"]):
                end = parse_hhmm(slot["end"], ending=True)
                start = max(parse_hhmm(slot["start"]), min(end - hours * 60, 19 * 60))
                if start + hours * 60 <= end:
                    return Slot(
                        date.fromisoformat(day["date"]), f"{start // 60:02d}:{start % 60:02d}"
                    )
        return None

    async def request(self, customer: Person, command: RequestBooking) -> Booking:
        return await requests.request_booking(self.ports, customer.actor, command)

    async def accept(self, staff: Person, booking: Booking) -> None:
        await actions.accept(self.ports, staff.actor, booking.id)

    async def pay(self, customer: Person, booking: Booking) -> None:
        """Pay on the hosted page."""
        _, url, _ = await actions.open_checkout(self.ports, customer.actor, booking.id)
        await sandbox.simulate_checkout(self.ports, url.rpartition("/")[2], "succeed")

    async def act(self, person: Person, booking: Booking, trigger: Trigger) -> None:
        """Decline, check in or confirm."""
        await actions.apply_trigger(self.ports, person.actor, booking.id, trigger)

    async def cancel(self, person: Person, booking: Booking, reason: str) -> None:
        await actions.cancel(self.ports, person.actor, booking.id, CancelBooking(reason=reason))

    async def review(
        self, author: Person, booking: Booking, rating: int, comment: str, response: str = ""
    ) -> int:
        """Review the other party; returns the review's id."""
        command = SubmitReview(
            rating=rating,
            comment=comment,
            punctuality=min(5, rating + 1),
            professionalism=rating,
            communication=rating,
            appearance=min(5, rating + 1),
        )
        return (await reviews.submit_review(self.ports, author.actor, booking.id, command)).id

    async def respond(self, staff: Person, review_id: int, response: str) -> None:
        command = RespondToReview(response=response)
        await reviews.respond_to_review(self.ports, staff.actor, review_id, command)

    async def write(self, author: Person, to: Person, text: str) -> None:
        """Send a direct message."""
        await messages.send_to_user(self.ports, author.actor, to.id, text)


def at_local_noon(timezone: str, now: datetime) -> date:
    return local_date(timezone, now)
