"""The party that somebody is in a booking, and what it may do (CONTRACT 1)."""

from __future__ import annotations

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.bookings.transitions import check_party
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import Ports
from staffbooking_core.validation import validated

__all__ = ["authorize", "party_of", "require_party"]


def party_of(actor: Actor, booking: Booking) -> Party | None:
    """The party that the actor is in a booking; None for a stranger. Every admin is Party.ADMIN."""
    return Party.ADMIN if actor.is_admin else booking.party_of(actor.user_id)


def require_party(actor: Actor, booking: Booking | None) -> tuple[Booking, Party]:
    """The booking, and the party that the actor is in it.

    Raises NotFound without a booking, and for a stranger.
    """
    party = None if booking is None else party_of(actor, booking)
    if booking is None or party is None:
        raise NotFound("Booking")
    return booking, party


@validated
async def authorize(ports: Ports, actor: Actor, booking_id: int, trigger: Trigger) -> None:
    """Check that the actor may use a trigger on a booking, before the rest of the call is validated
    (CONTRACT 1).

    Raises NotFound for a stranger, and Forbidden `wrong_party`.
    """
    async with ports.store.read_view() as view:
        booking, party = require_party(actor, await view.bookings.booking(booking_id))
    check_party(booking.status, trigger, party)
