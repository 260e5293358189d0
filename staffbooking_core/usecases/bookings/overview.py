"""What a user's home page shows of their bookings: what needs them, what is ahead, what is past.
Operators list all bookings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import filterfalse

from attrs import frozen

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.guidance import Guidance, NextAction, guide
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.reviews import REVIEWING_PARTIES
from staffbooking_core.ports import BookingQuery, Ports, ReadView
from staffbooking_core.usecases.bookings.parties import party_of
from staffbooking_core.validation import validated

__all__ = ["BookingsOverview", "GuidedBooking", "get_overview", "list_all_bookings"]

_OPEN_STATUSES = (
    BookingStatus.PENDING,
    BookingStatus.ACCEPTED,
    BookingStatus.PAID,
    BookingStatus.DISPUTED,
)
_MAX_OPEN_OF_A_STATUS = 50
_MAX_PAST = 8
_WITHOUT_HURRY = frozenset(
    {NextAction.REVIEW, NextAction.FIND_OTHERS, NextAction.REBOOK, NextAction.READ_ANSWER}
)
"""Next actions that may be left: those of bookings that are over, and that of a side which has told
its part in a dispute."""


@frozen
class GuidedBooking:
    """A booking with the side that its reader has, and what that side is told."""

    booking: Booking
    party: Party
    guidance: Guidance
    conflicts: tuple[Booking, ...] = ()
    """For a staff member's open request: the other open bookings that overlap it, by their
    start."""


@frozen
class BookingsOverview:
    """The bookings of a home page. `needs_you` has those with a next action that may not be left,
    the one with the nearest deadline first; `ahead` the other open ones by their start; `past` the
    newest others. `has_more` says that there are further open ones, which start later."""

    needs_you: tuple[GuidedBooking, ...]
    ahead: tuple[GuidedBooking, ...]
    past: tuple[GuidedBooking, ...]
    has_more: bool = False


@validated
async def get_overview(ports: Ports, actor: Actor) -> BookingsOverview:
    """The overview of the actor's bookings, of at most 50 of each open status: those that start
    first."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        found = [
            await _bookings_of(view, actor, status, _MAX_OPEN_OF_A_STATUS, earliest_first=True)
            for status in _OPEN_STATUSES
        ]
        open_bookings = [booking for each in found for booking in each[:_MAX_OPEN_OF_A_STATUS]]
        disputes = {
            booking.id: booking.dispute_number
            for booking in open_bookings
            if booking.status is BookingStatus.DISPUTED
        }
        speakers = await view.disputes.speakers_of(disputes) if disputes else {}
        past = [
            booking
            for status in (BookingStatus.COMPLETED, BookingStatus.CANCELLED)
            for booking in await _bookings_of(view, actor, status, _MAX_PAST, earliest_first=False)
        ]
        past.sort(key=lambda booking: booking.starts_at, reverse=True)
        reviewed = {
            booking.id
            for booking in past[:_MAX_PAST]
            if booking.status is BookingStatus.COMPLETED
            and party_of(actor, booking) in REVIEWING_PARTIES
            and await view.reviews.review_by(booking.id, actor.user_id) is not None
        }
    guided = [
        _guide(
            ports,
            actor,
            booking,
            now,
            others=open_bookings,
            speakers=speakers.get(booking.id, ()),
        )
        for booking in open_bookings
    ]
    return BookingsOverview(
        tuple(sorted(filter(_needs, guided), key=_urgency)),
        tuple(sorted(filterfalse(_needs, guided), key=lambda each: each.booking.starts_at)),
        tuple(
            _guide(ports, actor, booking, now, has_reviewed=booking.id in reviewed)
            for booking in past[:_MAX_PAST]
        ),
        has_more=any(len(each) > _MAX_OPEN_OF_A_STATUS for each in found),
    )


async def _bookings_of(
    view: ReadView, actor: Actor, status: BookingStatus, limit: int, *, earliest_first: bool
) -> Sequence[Booking]:
    """Up to `limit + 1` bookings of a status."""
    query = BookingQuery(
        actor.user_id,
        status=status,
        limit=limit,
        priority_first=actor.role is Role.STAFF,
        earliest_first=earliest_first,
    )
    return await view.bookings.bookings(query)


def _guide(
    ports: Ports,
    actor: Actor,
    booking: Booking,
    now: datetime,
    *,
    others: Iterable[Booking] = (),
    has_reviewed: bool = False,
    speakers: Sequence[Party] = (),
) -> GuidedBooking:
    party = booking.party_of(actor.user_id) or Party.ADMIN
    conflicts: list[Booking] = []
    if booking.status is BookingStatus.PENDING and party is Party.STAFF:
        conflicts = [other for other in others if _overlaps(booking, other)]
        conflicts.sort(key=lambda other: (other.starts_at, other.id))
    guidance = guide(
        booking, party, now, ports.policy, has_reviewed=has_reviewed, speakers=speakers
    )
    return GuidedBooking(booking, party, guidance, tuple(conflicts))


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


def _urgency(guided: GuidedBooking) -> tuple[bool, bool, datetime]:
    """Priority requests first, then a staff member's other requests, then by the nearest deadline,
    else by the start."""
    deadlines = guided.guidance.deadlines
    at = deadlines[0].at if deadlines else guided.booking.starts_at
    is_request = guided.party is Party.STAFF and guided.booking.status is BookingStatus.PENDING
    return not guided.booking.is_urgent, not is_request, at


@validated
async def list_all_bookings(
    ports: Ports, status: BookingStatus | None = None, page: int = 1, limit: int = 50
) -> Sequence[Booking]:
    """A page of all bookings, the newest event first, up to `limit + 1`."""
    query = BookingQuery(user_id=None, status=status, page=page, limit=limit)
    async with ports.store.read_view() as view:
        return await view.bookings.bookings(query)
