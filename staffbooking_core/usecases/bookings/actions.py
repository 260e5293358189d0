"""What the parties do with a booking, and how they read it (CONTRACT 4)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking, Occurrence
from staffbooking_core.domain.bookings.cancellation import Refund
from staffbooking_core.domain.bookings.effects import cancellation_refund
from staffbooking_core.domain.bookings.lifecycle import Party, Status, Trigger
from staffbooking_core.domain.bookings.transitions import advance, check_side
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import (
    ConstraintViolated,
    Forbidden,
    NotFound,
    ProcessorUnavailable,
    RuleBroken,
)
from staffbooking_core.inputs import CancelBooking, DisputeBooking
from staffbooking_core.ports import OVERLAP, BookingQuery, Ports, Reading, Writing
from staffbooking_core.representations.records import Record, instant
from staffbooking_core.usecases.booking_writes import NEAR, apply
from staffbooking_core.usecases.payments import operations

QUOTE = "cancellation-quote"
"""The purpose under which quotes are signed."""


def side(actor: Actor, booking: Booking) -> Party | None:
    """On which side of a booking the actor is; None for a stranger."""
    return Party.ADMIN if actor.is_admin else booking.party_of(actor.user_id)


def side_or_404(actor: Actor, booking: Booking | None) -> tuple[Booking, Party]:
    """The booking with the side that the actor is on; NotFound for a stranger too."""
    party = None if booking is None else side(actor, booking)
    if booking is None or party is None:
        raise NotFound("Booking")
    return booking, party


# Reading --------------------------------------------------------------------------------


async def by_code(ports: Ports, code: str) -> Booking:
    """The booking of a public code; how much the caller may see of it, `side` tells."""
    async with ports.store.reading() as view:
        booking = await view.bookings.booking_by_code(code)
    if booking is None:
        raise NotFound("Booking")
    return booking


@frozen
class Rebooking:
    """A priority rebooking that waits to be used: until when, and who could stand in."""

    expires_at: datetime
    companions: tuple[bytes, ...]
    """Ready-made summaries."""


async def by_id(
    ports: Ports, actor: Actor, booking_id: int
) -> tuple[Booking, Party, Rebooking | None]:
    """A booking, the side that the actor is on, and the customer's credit if there is one."""
    now = await ports.clock.business()
    async with ports.store.reading() as view:
        booking, party = side_or_404(actor, await view.bookings.booking(booking_id))
        rebooking = None
        if party is Party.CUSTOMER and booking.status is Status.CANCELLED:
            rebooking = await _rebooking(ports, view, booking, now)
    return booking, party, rebooking


async def _rebooking(
    ports: Ports, view: Reading, booking: Booking, now: datetime
) -> Rebooking | None:
    credit = await view.bookings.credit(booking.id)
    if credit is None or credit.used_by is not None or now >= credit.expires_at:
        return None
    wanted = Interval(booking.starts_at, booking.ends_at)
    candidates = await view.companions.candidates(
        booking.service_type,
        booking.event_date,
        booking.starts_at - NEAR,
        booking.ends_at + NEAR,
        limit=50,
    )
    free = [
        candidate.summary
        for candidate in candidates
        if candidate.agenda.companion_id != booking.companion_id
        and booking.starts_at > now
        and availability.fits(candidate.agenda.calendar, candidate.agenda.busy, wanted)
    ]
    return Rebooking(credit.expires_at, tuple(free[: ports.policy.rebooking_suggestions]))


_SIDES = {
    None: frozenset({Party.CUSTOMER, Party.STAFF, Party.API}),
    "customer": frozenset({Party.CUSTOMER}),
    "staff": frozenset({Party.STAFF}),
}


async def listing(
    ports: Ports,
    actor: Actor,
    *,
    role: str | None,
    status: Status | None,
    page: int,
    limit: int,
) -> Sequence[Booking]:
    """A page of the actor's bookings, up to `limit + 1`; an admin in a browser sees all.

    `role` (customer, staff) keeps those in which the actor is on that side.
    """
    everything = actor.is_admin and actor.key_id is None and role is None
    query = BookingQuery(
        user_id=None if everything else actor.user_id,
        sides=_SIDES[role],
        status=status,
        page=page,
        limit=limit,
        priority_first=actor.role is Role.STAFF,
    )
    async with ports.store.reading() as view:
        return await view.bookings.bookings(query)


# Acting ---------------------------------------------------------------------------------


_STEPS = (
    Trigger.ACCEPT,
    Trigger.DECLINE,
    Trigger.CHECKOUT,
    Trigger.CHECK_IN,
    Trigger.CONFIRM,
    Trigger.DISPUTE,
    Trigger.CANCEL,
)
"""What people do with a booking by themselves."""


async def steps(ports: Ports, booking: Booking, party: Party) -> tuple[Trigger, ...]:
    """What a side could do with a booking now."""
    now = await ports.clock.business()

    def is_open(trigger: Trigger) -> bool:
        try:
            advance(booking, Occurrence(trigger, party, now), ports.policy)
        except (Forbidden, RuleBroken):
            return False
        return trigger is not Trigger.CHECK_IN or booking.checked_in_at is None

    return tuple(filter(is_open, _STEPS))


async def authorize(ports: Ports, actor: Actor, booking_id: int, trigger: Trigger) -> None:
    """Raise NotFound for a stranger and Forbidden for the wrong side, before anything else
    of a call is looked at (CONTRACT 1)."""
    async with ports.store.reading() as view:
        booking, party = side_or_404(actor, await view.bookings.booking(booking_id))
    check_side(booking.status, trigger, party)


async def accept(ports: Ports, actor: Actor, booking_id: int) -> Booking:
    """The staff member accepts: the slot is taken, the intent made, rivals are cancelled."""
    now = await ports.clock.business()

    async def unit(tx: Writing) -> Booking:
        contenders = await tx.bookings.lock_contenders(booking_id)
        mine = next((booking for booking in contenders if booking.id == booking_id), None)
        booking, party = side_or_404(actor, mine)
        customer = await tx.accounts.user(booking.customer_id)
        email = "" if customer is None else customer.email
        what = Occurrence(Trigger.ACCEPT, party, now, customer_email=email)
        advance(booking, what, ports.policy)
        if await tx.companions.busy(booking.companion_id, booking.starts_at, booking.ends_at):
            raise _taken()
        for rival in contenders:
            if rival.id != booking_id and rival.status is Status.PENDING:
                await apply(tx, ports, rival, Occurrence(Trigger.LOSE_SLOT, Party.SYSTEM, now))
        return await apply(tx, ports, booking, what)

    try:
        return await ports.store.write(unit)
    except ConstraintViolated as error:
        if error.constraint != OVERLAP:
            raise
        raise _taken() from None


def _taken() -> RuleBroken:
    return RuleBroken("companion_unavailable", "The slot is taken by another booking")


async def move(
    ports: Ports, actor: Actor, booking_id: int, trigger: Trigger, reason: str | None = None
) -> Booking:
    """Decline, check in, confirm: whatever needs no more than who and when."""
    now = await ports.clock.business()

    async def unit(tx: Writing) -> Booking:
        booking, party = side_or_404(actor, await tx.bookings.lock_booking(booking_id))
        return await apply(tx, ports, booking, Occurrence(trigger, party, now, reason=reason))

    return await ports.store.write(unit)


async def dispute(ports: Ports, actor: Actor, booking_id: int, given: DisputeBooking) -> Booking:
    """Open a dispute; the money stays where it is until it is resolved."""
    return await move(ports, actor, booking_id, Trigger.DISPUTE, given.reason)


async def cancel(ports: Ports, actor: Actor, booking_id: int, given: CancelBooking) -> Booking:
    """Cancel by the table of refunds, or exactly as an unexpired quote says."""
    now = await ports.clock.business()
    reason = given.reason or None

    async def unit(tx: Writing) -> Booking:
        booking, party = side_or_404(actor, await tx.bookings.lock_booking(booking_id))
        what = Occurrence(Trigger.CANCEL, party, now, reason=reason)
        advance(booking, what, ports.policy)
        if given.quote is not None:
            quoted = _read_quote(ports, given.quote, booking, actor, now)
            what = Occurrence(Trigger.CANCEL, party, now, reason, quoted)
        return await apply(tx, ports, booking, what)

    return await ports.store.write(unit)


# Quotes ---------------------------------------------------------------------------------


async def quote(ports: Ports, actor: Actor, booking_id: int) -> Record:
    """What cancelling now would give back, signed so that it holds for ten minutes."""
    now = await ports.clock.business()
    async with ports.store.reading() as view:
        booking, party = side_or_404(actor, await view.bookings.booking(booking_id))
    advance(booking, Occurrence(Trigger.CANCEL, party, now), ports.policy)
    refund = cancellation_refund(booking, party, now, ports.policy)
    expires_at = now + ports.policy.quote_lifetime
    return {
        "refund_percent": refund.percent,
        "refund_amount": Currency(booking.currency).to_decimal(refund.amount),
        "rule": refund.rule,
        "quote": _write_quote(ports, refund, booking, actor, expires_at),
        "expires_at": instant(expires_at),
    }


def _write_quote(
    ports: Ports, refund: Refund, booking: Booking, actor: Actor, expires_at: datetime
) -> str:
    said = {
        "booking": booking.id,
        "version": booking.version,
        "user": actor.user_id,
        "percent": refund.percent,
        "amount": refund.amount,
        "rule": refund.rule,
        "until": expires_at.isoformat(),
    }
    message = json.dumps(said).encode()
    return f"{_b64(message)}.{_b64(ports.vault.sign(QUOTE, message))}"


def _read_quote(ports: Ports, text: str, booking: Booking, actor: Actor, now: datetime) -> Refund:
    said = _verified(ports, text)
    mine = (said.get("booking"), said.get("version"), said.get("user")) == (
        booking.id,
        booking.version,
        actor.user_id,
    )
    if not mine or now >= datetime.fromisoformat(said["until"]):
        raise _bad_quote()
    return Refund(said["percent"], said["amount"], said["rule"])


def _verified(ports: Ports, text: str) -> dict[str, Any]:
    message, _, signature = text.partition(".")
    try:
        raw = base64.urlsafe_b64decode(message.encode("ascii"))
        signed = base64.urlsafe_b64decode(signature.encode("ascii"))
    except (UnicodeEncodeError, binascii.Error):
        raise _bad_quote() from None
    if not ports.vault.verify(QUOTE, raw, signed):
        raise _bad_quote()
    said: dict[str, Any] = json.loads(raw)
    return said


def _bad_quote() -> RuleBroken:
    return RuleBroken("quote_invalid", "The quote has lapsed, or is not for this cancellation")


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


# Paying ---------------------------------------------------------------------------------


async def checkout(ports: Ports, actor: Actor, booking_id: int) -> tuple[Booking, str, datetime]:
    """The hosted page where the customer pays: its address, and until when it lives.

    The page that is open is given again; a lapsed one is closed first. Raises
    ProcessorUnavailable where the processor can't be reached in time; the operation stays
    and is finished later, so asking again is safe.
    """
    now = await ports.clock.business()
    deadline = ports.clock.wall() + ports.policy.processor_deadline_inline

    async def unit(tx: Writing) -> Booking:
        booking, party = side_or_404(actor, await tx.bookings.lock_booking(booking_id))
        customer = await tx.accounts.user(booking.customer_id)
        email = "" if customer is None else customer.email
        what = Occurrence(Trigger.CHECKOUT, party, now, customer_email=email)
        if advance(booking, what, ports.policy).orders:
            return await apply(tx, ports, booking, what)
        return booking

    for _ in range(2):  # An order that has waited for too long is refused: then another one.
        booking = await ports.store.write(unit)
        if booking.intent is None or booking.intent.checkout_url is None:
            booking = await operations.open_checkout_now(ports, booking_id, deadline)
        intent = booking.intent
        if intent is not None and intent.checkout_url and intent.checkout_expires_at:
            return booking, intent.checkout_url, intent.checkout_expires_at
    raise ProcessorUnavailable
