"""All of one booking as one side sees it, and the booking as a calendar file."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.cancellation import RefundTier, refund_tiers
from staffbooking_core.domain.bookings.disputes import DisputeFile
from staffbooking_core.domain.bookings.guidance import Guidance, find_situation, guide
from staffbooking_core.domain.bookings.lifecycle import CANCELLABLE_STATUSES, Party, Trigger
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings.actions import (
    RebookingOffer,
    available_triggers,
    find_rebooking_offer,
)
from staffbooking_core.usecases.bookings.disputes import DisputeConversation, find_conversation
from staffbooking_core.usecases.bookings.parties import require_party
from staffbooking_core.validation import validated

__all__ = ["BookingDetails", "get_details", "get_stamp", "render_calendar"]


@frozen
class BookingDetails:
    """A booking with all that belongs to it, as one side sees it at a moment."""

    booking: Booking
    party: Party
    now: datetime
    """Business time."""
    guidance: Guidance
    triggers: tuple[Trigger, ...]
    """What the side may do now."""
    terms: tuple[RefundTier, ...]
    """What the customer gets back by a cancellation from now on; empty if none is possible."""
    companion: Companion | None
    rebooking: RebookingOffer | None
    dispute: DisputeConversation | None
    files: tuple[DisputeFile, ...]
    """The files of all disputes."""
    own_review: Review | None
    stamp: str
    """An opaque value that changes whenever the booking, its situation or the statements of its
    dispute change."""


@validated
async def get_details(ports: Ports, actor: Actor, booking_id: int) -> BookingDetails:
    """A booking as the actor sees it. Raises NotFound, also for a stranger."""
    now, policy = await ports.clock.business(), ports.policy
    async with ports.store.read_view() as view:
        booking, party = require_party(actor, await view.bookings.booking(booking_id))
        dispute = await find_conversation(view.disputes, booking)
        files = () if dispute is None else await view.disputes.files_of(booking.id)
        companion = await view.companions.companion(booking.companion_id)
        rebooking = await find_rebooking_offer(ports, view, booking, party, now)
        own_review = None
        if booking.status not in CANCELLABLE_STATUSES:
            own_review = await view.reviews.review_by(booking.id, actor.user_id)
    guidance = guide(
        booking,
        party,
        now,
        policy,
        has_reviewed=own_review is not None,
        speakers=[] if dispute is None else [each.party for each in dispute.statements],
    )
    triggers = available_triggers(booking, party, now, policy)
    terms: tuple[RefundTier, ...] = ()
    if Trigger.CANCEL in triggers:
        terms = refund_tiers(
            price=booking.price,
            premium=booking.insurance_premium,
            is_insured=booking.cancellation_insurance,
            starts_at=booking.starts_at,
            now=now,
            policy=policy,
        )
    return BookingDetails(
        booking,
        party,
        now,
        guidance,
        triggers,
        terms,
        companion,
        rebooking,
        dispute,
        tuple(files),
        own_review,
        _stamp(booking, 0 if dispute is None else len(dispute.statements), now, policy),
    )


@validated
async def get_stamp(ports: Ports, actor: Actor, booking_id: int) -> str:
    """The stamp of the details of a booking. Raises NotFound, also for a stranger."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        booking, _ = require_party(actor, await view.bookings.booking(booking_id))
        dispute = await find_conversation(view.disputes, booking)
    statements = 0 if dispute is None else len(dispute.statements)
    return _stamp(booking, statements, now, ports.policy)


def _stamp(booking: Booking, statements: int, now: datetime, policy: Policy) -> str:
    return f"{booking.revision}-{statements}-{find_situation(booking, now, policy)}"


@validated
async def render_calendar(ports: Ports, actor: Actor, booking_id: int) -> tuple[Booking, bytes]:
    """A booking, and an iCalendar file of it as the actor's side sees it. Raises NotFound, also for
    a stranger."""
    async with ports.store.read_view() as view:
        booking, party = require_party(actor, await view.bookings.booking(booking_id))
    return booking, await ports.calendars.format_booking(booking, party)
