"""What a user's home page shows of their bookings: what needs them, what is ahead, what is past."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import filterfalse

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.guidance import Guidance, NextAction, guide
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.reviews import REVIEWING_PARTIES
from staffbooking_core.ports import BookingQuery, Ports, ReadView
from staffbooking_core.usecases.bookings.actions import party_of
from staffbooking_core.validation import validated

_OPEN_STATUSES = (
    BookingStatus.PENDING,
    BookingStatus.ACCEPTED,
    BookingStatus.PAID,
    BookingStatus.DISPUTED,
)
_MAX_OPEN_OF_A_STATUS = 50
_MAX_PAST = 8
_WITHOUT_HURRY = frozenset({NextAction.REVIEW, NextAction.FIND_OTHERS, NextAction.REBOOK})
"""Next actions of bookings that are over."""


@frozen
class GuidedBooking:
    """A booking with the side that its reader has, and what that side is told."""

    booking: Booking
    party: Party
    guidance: Guidance
    conflicts: int = 0
    """For a staff member's open request: how many other open bookings overlap it."""


@frozen
class BookingsOverview:
    """The bookings of a home page. `needs_you` has those with a next action, the one with the
    nearest deadline first; `ahead` the other open ones by their start; `past` the newest others,
    those that can still be reviewed first."""

    needs_you: tuple[GuidedBooking, ...]
    ahead: tuple[GuidedBooking, ...]
    past: tuple[GuidedBooking, ...]


@validated
async def get_overview(ports: Ports, actor: Actor) -> BookingsOverview:
    """The overview of the actor's bookings, of at most 50 of each open status."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        open_bookings = [
            booking
            for status in _OPEN_STATUSES
            for booking in await _bookings_of(view, actor, status, _MAX_OPEN_OF_A_STATUS)
        ]
        past = [
            booking
            for status in (BookingStatus.COMPLETED, BookingStatus.CANCELLED)
            for booking in await _bookings_of(view, actor, status, _MAX_PAST)
        ]
        past.sort(key=lambda booking: booking.starts_at, reverse=True)
        reviewed = {
            booking.id
            for booking in past[:_MAX_PAST]
            if booking.status is BookingStatus.COMPLETED
            and party_of(actor, booking) in REVIEWING_PARTIES
            and await view.reviews.review_by(booking.id, actor.user_id) is not None
        }
    guided = [_guide(ports, actor, booking, now, open_bookings) for booking in open_bookings]
    return BookingsOverview(
        tuple(sorted(filter(_needs, guided), key=_urgency)),
        tuple(sorted(filterfalse(_needs, guided), key=lambda each: each.booking.starts_at)),
        tuple(
            _without_review(each) if each.booking.id in reviewed else each
            for each in (_guide(ports, actor, booking, now, ()) for booking in past[:_MAX_PAST])
        ),
    )


async def _bookings_of(
    view: ReadView, actor: Actor, status: BookingStatus, limit: int
) -> Sequence[Booking]:
    query = BookingQuery(
        actor.user_id,
        status=status,
        limit=limit,
        priority_first=actor.role is Role.STAFF,
    )
    return (await view.bookings.bookings(query))[:limit]


def _guide(
    ports: Ports, actor: Actor, booking: Booking, now: datetime, others: Iterable[Booking]
) -> GuidedBooking:
    party = booking.party_of(actor.user_id) or Party.ADMIN
    conflicts = 0
    if booking.status is BookingStatus.PENDING and party is Party.STAFF:
        conflicts = sum(_overlaps(booking, other) for other in others)
    return GuidedBooking(booking, party, guide(booking, party, now, ports.policy), conflicts)


def _overlaps(booking: Booking, other: Booking) -> bool:
    """Whether another open booking of the same staff member is at the same time."""
    return (
        other.id != booking.id
        and other.companion_id == booking.companion_id
        and other.starts_at < booking.ends_at
        and booking.starts_at < other.ends_at
    )


def _needs(guided: GuidedBooking) -> bool:
    action = guided.guidance.action
    return action is not None and action not in _WITHOUT_HURRY


def _urgency(guided: GuidedBooking) -> tuple[bool, datetime]:
    """Priority requests first, then by the nearest deadline, else by the start."""
    deadlines = guided.guidance.deadlines
    at = deadlines[0].at if deadlines else guided.booking.starts_at
    return not guided.booking.is_urgent, at


def _without_review(guided: GuidedBooking) -> GuidedBooking:
    """A reviewed booking has nothing next."""
    return evolve(guided, guidance=evolve(guided.guidance, action=None))
