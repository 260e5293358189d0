"""Actions of people in the sample's scenarios: each one runs use-cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from attrs import evolve, frozen

from staffbooking_cli.sample import texts
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.availability import (
    NonexistentLocalTime,
    local_date,
    local_time_to_utc,
    parse_hhmm,
)
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.inputs import (
    AddDisputeStatement,
    CancelBooking,
    DisputeBooking,
    RequestBooking,
    RequestBookingFor,
    RespondToReview,
    SubmitReview,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.bookings import actions, dispute_files, disputes, requests
from staffbooking_core.usecases.companions import reviews, search
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.payments import operations

_EVENING_MINUTES = 19 * 60
"""Events begin at this time of the day where the hours allow it."""
_CONVERSATION_PAGE_SIZE = 50


@frozen
class Person:
    """A user who acts in a scenario."""

    id: int
    role: Role
    email: str

    @property
    def actor(self) -> Actor:
        return Actor(self.id, self.role)


@frozen
class StaffMember(Person):
    """A staff member with what a booking needs."""

    city: str
    timezone: str
    services: tuple[str, ...]


@frozen
class Event:
    """A time for which a staff member can be booked."""

    staff: StaffMember
    starts_at: datetime
    hours: int

    @property
    def ends_at(self) -> datetime:
        return self.starts_at + timedelta(hours=self.hours)


@frozen
class SampleActions:
    """Runs use-cases as people of the sample. Actions identify a booking by the record that its
    request returned, even if it changed since."""

    ports: Ports

    async def find_event(
        self, candidates: Iterable[StaffMember], earliest: datetime, latest: datetime, hours: int
    ) -> Event | None:
        """The first event between two instants for which one of the staff members is free; the
        candidates are tried in order."""
        for staff in candidates:
            first = local_date(staff.timezone, earliest)
            last = min(local_date(staff.timezone, latest), first + timedelta(days=60))
            found = await search.get_availability(self.ports, staff.id, first, last)
            for day in found["availability"]:
                for slot in day["slots"]:
                    event = _event_within(staff, day["date"], slot["start"], slot["end"], hours)
                    if event and earliest <= event.starts_at and event.ends_at <= latest:
                        return event
        return None

    async def is_free(self, event: Event) -> bool:
        """Whether the staff member is free for all of an event that ends on the day it begins."""
        zone = ZoneInfo(event.staff.timezone)
        begin, end = event.starts_at.astimezone(zone), event.ends_at.astimezone(zone)
        found = await search.get_availability(
            self.ports, event.staff.id, begin.date(), begin.date()
        )
        return any(
            slot["start"] <= f"{begin:%H:%M}" and f"{end:%H:%M}" <= slot["end"]
            for slot in found["availability"][0]["slots"]
        )

    # Bookings -----------------------------------------------------------------------------

    async def request(
        self, customer: Person, event: Event, location: str, **others: object
    ) -> Booking:
        """Request a booking as its customer, with a first message if the two have no conversation
        yet; `others` are further fields of the input."""
        command = evolve(_request_command(event, location), **others)  # type: ignore[arg-type]
        booking = await requests.request_booking(self.ports, customer.actor, command)
        if not await self._read(customer, event.staff.id):
            await self._write(customer, event.staff.id, _pick(texts.GREETINGS, booking))
        return booking

    async def request_for(
        self, caller: Person, customer: Person, event: Event, location: str
    ) -> Booking:
        """Request a booking for a customer, as the platform of `caller` does."""
        command = _request_command(event, location)
        return await requests.request_booking(
            self.ports,
            caller.actor,
            RequestBookingFor(
                companion_id=command.companion_id,
                event_date=command.event_date,
                start_time=command.start_time,
                duration_hours=command.duration_hours,
                service_type=command.service_type,
                location=command.location,
                customer_email=customer.email,
            ),
        )

    async def accept(self, staff: Person, booking: Booking) -> None:
        """Accept, and answer the customer's first message. The due payment operations are run, as a
        worker does at once."""
        await actions.accept(self.ports, staff.actor, booking.id)
        await operations.run_booking_operations(self.ports, booking.id)
        if len(await self._read(staff, booking.customer_id)) == 1:
            await self._write(staff, booking.customer_id, _pick(texts.ANSWERS, booking))

    async def pay(self, customer: Person, booking: Booking) -> None:
        """Pay on the processor's page, after a look at the messages."""
        await self._read(customer, booking.companion_id)
        _, url, _ = await actions.open_checkout(self.ports, customer.actor, booking.id)
        await sandbox.simulate_checkout(self.ports, url.rpartition("/")[2], "succeed")

    async def apply_trigger(self, person: Person, booking: Booking, trigger: Trigger) -> None:
        """Decline, check in or confirm."""
        await actions.apply_trigger(self.ports, person.actor, booking.id, trigger)

    async def cancel(self, person: Person, booking: Booking, reason: str) -> None:
        await actions.cancel(self.ports, person.actor, booking.id, CancelBooking(reason=reason))

    # Disputes -----------------------------------------------------------------------------

    async def dispute(
        self, person: Person, booking: Booking, reason: str, pictures: Sequence[bytes] = ()
    ) -> None:
        files = await self._upload(person, booking, pictures)
        command = DisputeBooking(reason=reason, files=files)
        await disputes.open_dispute(self.ports, person.actor, booking.id, command)

    async def add_statement(
        self, person: Person, booking: Booking, text: str, pictures: Sequence[bytes] = ()
    ) -> None:
        """Add a statement to the open dispute."""
        files = await self._upload(person, booking, pictures)
        command = AddDisputeStatement(text=text, files=files)
        await disputes.add_statement(self.ports, person.actor, booking.id, command)

    async def _upload(
        self, person: Person, booking: Booking, pictures: Sequence[bytes]
    ) -> tuple[str, ...]:
        uploaded = [
            await dispute_files.upload_file(self.ports, person.actor, booking.id, picture)
            for picture in pictures
        ]
        return tuple(file.id for file in uploaded)

    async def report_no_show(self, customer: Person, booking: Booking) -> None:
        await disputes.report_no_show(self.ports, customer.actor, booking.id)

    # Reviews and messages -----------------------------------------------------------------

    async def review(self, author: Person, booking: Booking, rating: int, comment: str) -> int:
        """Review the other party; returns the review's id."""
        command = SubmitReview(
            rating=rating,
            comment=comment,
            punctuality=min(5, rating + booking.id % 2),
            professionalism=rating,
            communication=min(5, rating + (booking.id + 1) % 2),
            appearance=min(5, rating + 1),
        )
        review = await reviews.submit_review(self.ports, author.actor, booking.id, command)
        return review.id

    async def respond(self, staff: Person, review_id: int, text: str) -> None:
        command = RespondToReview(response=text)
        await reviews.respond_to_review(self.ports, staff.actor, review_id, command)

    async def write(self, author: Person, to: Person, text: str) -> None:
        """Read the direct conversation with somebody, and write in it."""
        await self._read(author, to.id)
        await self._write(author, to.id, text)

    async def _write(self, author: Person, user_id: int, text: str) -> None:
        await messages.send_to_user(self.ports, author.actor, user_id, text)

    async def write_to_group(self, author: Person, booking: Booking, text: str) -> None:
        """Read the group conversation of a booking's event, and write in it. Does nothing if there
        is no group."""
        group_id = await messages.find_event_group(self.ports, author.actor, booking)
        if group_id is not None:
            await self._read_conversation(author, group_id)
            await messages.send_message(
                self.ports, messages.MessageDraft(author.id, group_id, text)
            )

    async def _read(self, reader: Person, user_id: int) -> Sequence[Message]:
        """The messages of the direct conversation with a user; marks them as read."""
        conversation_id = await messages.direct_conversation_with(self.ports, reader.actor, user_id)
        if conversation_id is None:
            return ()
        return await self._read_conversation(reader, conversation_id)

    async def _read_conversation(self, reader: Person, conversation_id: int) -> Sequence[Message]:
        _, page, _ = await messages.open_conversation(
            self.ports,
            reader.actor,
            conversation_id,
            before=None,
            after=None,
            limit=_CONVERSATION_PAGE_SIZE,
        )
        return page


def _pick(choices: Sequence[str], booking: Booking) -> str:
    return choices[(booking.id + booking.customer_id) % len(choices)]


def _request_command(event: Event, location: str) -> RequestBooking:
    local = event.starts_at.astimezone(ZoneInfo(event.staff.timezone))
    return RequestBooking(
        companion_id=event.staff.id,
        event_date=local.date(),
        start_time=f"{local:%H:%M}",
        duration_hours=event.hours,
        service_type=event.staff.services[0],
        location=location,
    )


def _find_start(start: int, end: int, hours: int) -> int | None:
    """The minute of the day, on a half hour, at which an event within a free slot begins: in the
    evening if possible; None if the slot is too short."""
    latest = min(_EVENING_MINUTES, end - hours * 60)
    begin = max(math.ceil(start / 30), latest // 30) * 30
    return begin if begin + hours * 60 <= end else None


def _event_within(
    staff: StaffMember, day: str, slot_start: str, slot_end: str, hours: int
) -> Event | None:
    minutes = _find_start(parse_hhmm(slot_start), parse_hhmm(slot_end, ending=True), hours)
    if minutes is None:
        return None
    try:
        starts_at = local_time_to_utc(staff.timezone, date.fromisoformat(day), minutes)
    except NonexistentLocalTime:
        return None
    return Event(staff, starts_at, hours)
