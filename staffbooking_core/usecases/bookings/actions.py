"""Reading bookings, and the actions of their parties (SPECIFICATION 3, 4.6; CONTRACT 4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking, TransitionInput
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.booking_limits import NO_LIMITS, date_bounds
from staffbooking_core.domain.companions.companion import (
    Companion,
    CompanionQuery,
    normalize_place,
)
from staffbooking_core.domain.companions.unavailability import unavailability_reason
from staffbooking_core.errors import (
    CompanionUnavailable,
    ConstraintViolated,
    Forbidden,
    ProcessorUnavailable,
    RuleBroken,
    invalid_field,
)
from staffbooking_core.inputs import CancelBooking
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    BOOKING_OVERLAP,
    BookingQuery,
    Ports,
    ReadView,
    SearchCandidate,
    Transaction,
)
from staffbooking_core.usecases.booking_writes import (
    LOCAL_DAY_MARGIN,
    Versions,
    advance_booking,
    require_by_code,
)
from staffbooking_core.usecases.bookings.cancellation_quotes import parse_quote
from staffbooking_core.usecases.bookings.parties import require_party
from staffbooking_core.usecases.candidates import find_candidates
from staffbooking_core.usecases.payments import operations
from staffbooking_core.validation import validated, validated_lookup

__all__ = [
    "RebookingOffer",
    "accept",
    "apply_trigger",
    "available_triggers",
    "cancel",
    "find_rebooking_offer",
    "get_by_code",
    "get_by_id",
    "list_bookings",
    "open_checkout",
]


# Reading --------------------------------------------------------------------------------


@validated_lookup("Booking")
async def get_by_code(ports: Ports, code: str) -> Booking:
    """A booking by its public code (SPECIFICATION 4.6). Raises NotFound.

    The booking is returned in full: the caller chooses its representation by the actor's party.
    """
    async with ports.store.read_view() as view:
        return await require_by_code(view.bookings, code)


@frozen
class RebookingOffer:
    """An unused priority rebooking: when it expires, and companions who are free for it in the same
    city, else in the same country."""

    expires_at: datetime
    companions: tuple[bytes, ...]
    """Encoded summaries."""


@validated
async def get_by_id(
    ports: Ports, actor: Actor, booking_id: int
) -> tuple[Booking, Party, RebookingOffer | None]:
    """A booking, the actor's party, and the customer's rebooking offer if there is one.

    Raises NotFound without a booking, and for a stranger.
    """
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        booking, party = require_party(actor, await view.bookings.booking(booking_id))
        return booking, party, await find_rebooking_offer(ports, view, booking, party, now)


async def find_rebooking_offer(
    ports: Ports, view: ReadView, booking: Booking, party: Party, now: datetime
) -> RebookingOffer | None:
    """The customer's unused priority rebooking of a booking; None for others, and without one."""
    may_rebook = booking.status is BookingStatus.CANCELLED or booking.was_no_show
    if party is not Party.CUSTOMER or not may_rebook:
        return None
    credit = await view.bookings.rebooking_credit(booking.id)
    if credit is None or credit.used_by is not None or now >= credit.expires_at:
        return None
    if booking.starts_at <= now:
        return RebookingOffer(credit.expires_at, ())
    cancelled = await view.companions.companion(booking.companion_id)
    for place in (("location_city", "location_country"), ("location_country",)):
        if cancelled is not None and (
            free := await _free_candidates(ports, view, booking, cancelled, place, now)
        ):
            return RebookingOffer(credit.expires_at, tuple(free))
    return RebookingOffer(credit.expires_at, ())


async def _free_candidates(
    ports: Ports,
    view: ReadView,
    booking: Booking,
    cancelled: Companion,
    place: tuple[str, ...],
    now: datetime,
) -> Sequence[bytes]:
    """Encoded summaries of other companions at the same place as the cancelled one (equal in these
    fields) who can be booked at the time of the booking: up to `policy.rebooking_suggestions`."""
    query = CompanionQuery(
        location=getattr(cancelled, place[0]),
        service=booking.service_type,
        date=booking.event_date,
    )
    busy_within = (booking.starts_at - LOCAL_DAY_MARGIN, booking.ends_at + LOCAL_DAY_MARGIN)
    bounds = date_bounds(booking.event_date, now)
    booked_interval = Interval(booking.starts_at, booking.ends_at)

    def is_wanted(candidate: SearchCandidate) -> bool:
        agenda = candidate.availability
        return (
            agenda.companion_id != booking.companion_id
            and all(
                normalize_place(getattr(candidate, field))
                == normalize_place(getattr(cancelled, field))
                for field in place
            )
            and not unavailability_reason(agenda.calendar, agenda.busy, booked_interval, now)
        )

    count = ports.policy.rebooking_suggestions
    return await find_candidates(view, query, busy_within, bounds, is_wanted, count)


_PARTIES_BY_ROLE = {
    None: frozenset({Party.CUSTOMER, Party.STAFF, Party.API}),
    "customer": frozenset({Party.CUSTOMER}),
    "staff": frozenset({Party.STAFF}),
}


@validated
async def list_bookings(
    ports: Ports,
    actor: Actor,
    *,
    role: str | None,
    status: BookingStatus | None,
    page: int,
    limit: int,
) -> Sequence[Booking]:
    """A page of the actor's bookings, up to `limit + 1`; an admin with a session sees all.

    `role` (customer, staff) keeps the bookings in which the actor is that party.
    """
    if role not in _PARTIES_BY_ROLE:
        raise invalid_field("role", "must be customer or staff")
    sees_all = actor.is_admin and actor.key_id is None and role is None
    query = BookingQuery(
        user_id=None if sees_all else actor.user_id,
        parties=_PARTIES_BY_ROLE[role],
        status=status,
        page=page,
        limit=limit,
        priority_first=actor.role is Role.STAFF,
    )
    async with ports.store.read_view() as view:
        return await view.bookings.bookings(query)


# Acting ---------------------------------------------------------------------------------


_USER_TRIGGERS = (
    Trigger.ACCEPT,
    Trigger.DECLINE,
    Trigger.CHECKOUT,
    Trigger.CHECK_IN,
    Trigger.CONFIRM,
    Trigger.NO_SHOW,
    Trigger.DISPUTE,
    Trigger.WITHDRAW,
    Trigger.CANCEL,
)
"""Triggers that users start themselves."""


def available_triggers(
    booking: Booking, party: Party, now: datetime, policy: Policy
) -> tuple[Trigger, ...]:
    """The triggers that a party may use on a booking at `now` (business time). Checks the rules
    only: nothing is saved.

    DECLINE, CHECK_IN and CONFIRM are served by `apply_trigger`; ACCEPT by `accept`, CHECKOUT by
    `open_checkout`, CANCEL by `cancel`; NO_SHOW, DISPUTE and WITHDRAW by `report_no_show`,
    `open_dispute` and `withdraw_dispute` of `disputes`.
    """

    def is_available(trigger: Trigger) -> bool:
        try:
            apply_transition(booking, TransitionInput(trigger, party, now), policy)
        except (Forbidden, RuleBroken):
            return False
        return trigger is not Trigger.CHECK_IN or booking.checked_in_at is None

    return tuple(filter(is_available, _USER_TRIGGERS))


@validated
async def accept(
    ports: Ports, actor: Actor, booking_id: int, allowed_versions: Versions = None
) -> Booking:
    """Accept a pending booking as its staff member (SPECIFICATION 3): holds the slot, orders the
    payment intent, and cancels the pending bookings that overlap it or its buffers.

    Locks the staff member's row against new requests, then the booking and its competitors in the
    order of ids. Raises NotFound, Forbidden `wrong_party`, VersionMismatch, and RuleBroken
    `booking_not_pending`, `event_started`, `party_disabled` where the customer's account is
    disabled, or `companion_unavailable`.
    """
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Booking:
        await tx.bookings.count_acceptance(actor.user_id)
        own = await tx.companions.companion(actor.user_id)  # Others are refused below.
        buffer = (NO_LIMITS if own is None else own.calendar.limits).buffer
        contenders = await tx.bookings.lock_competing_bookings(booking_id, buffer)
        own_booking = next((booking for booking in contenders if booking.id == booking_id), None)
        booking, party = require_party(actor, own_booking)
        customer = await tx.accounts.user(booking.customer_id)
        transition_input = TransitionInput(
            Trigger.ACCEPT,
            party,
            now,
            customer_email="" if customer is None else customer.email,
            actor_id=actor.user_id,
            allowed_versions=allowed_versions,
        )
        apply_transition(booking, transition_input, ports.policy)
        if customer is None or customer.disabled_at is not None:
            raise RuleBroken("party_disabled", "The account of the customer is disabled")
        if await tx.companions.busy_intervals(
            booking.companion_id, booking.starts_at - buffer, booking.ends_at + buffer
        ):
            raise _slot_taken()
        for rival in contenders:
            if rival.id != booking_id and rival.status is BookingStatus.PENDING:
                await advance_booking(
                    tx, ports, rival, TransitionInput(Trigger.LOSE_SLOT, Party.SYSTEM, now)
                )
        return await advance_booking(tx, ports, booking, transition_input)

    try:
        return await ports.store.run_transaction(unit)
    except ConstraintViolated as error:
        if error.constraint != BOOKING_OVERLAP:
            raise
        raise _slot_taken() from None


def _slot_taken() -> RuleBroken:
    return CompanionUnavailable("booked", "The slot is taken by another booking")


_PLAIN_TRIGGERS = (Trigger.DECLINE, Trigger.CHECK_IN, Trigger.CONFIRM)
"""Triggers that have no checks besides those of the lifecycle table."""


@validated
async def apply_trigger(
    ports: Ports,
    actor: Actor,
    booking_id: int,
    trigger: Trigger,
    reason: str | None = None,
    allowed_versions: Versions = None,
) -> Booking:
    """Apply a trigger that needs no input but an optional reason: DECLINE, CHECK_IN or CONFIRM.
    Locks the booking.

    Raises InvalidField on `trigger` for another one, NotFound, Forbidden `wrong_party`,
    VersionMismatch, and RuleBroken with the code of the refused transition or guard.
    """
    if trigger not in _PLAIN_TRIGGERS:
        raise invalid_field("trigger", f"must be one of {', '.join(_PLAIN_TRIGGERS)}")
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Booking:
        booking, party = require_party(actor, await tx.bookings.lock_booking(booking_id))
        transition_input = TransitionInput(
            trigger,
            party,
            now,
            reason=reason,
            actor_id=actor.user_id,
            allowed_versions=allowed_versions,
        )
        return await advance_booking(tx, ports, booking, transition_input)

    return await ports.store.run_transaction(unit)


@validated
async def cancel(
    ports: Ports,
    actor: Actor,
    booking_id: int,
    command: CancelBooking,
    allowed_versions: Versions = None,
) -> Booking:
    """Cancel a booking (SPECIFICATION 3). The refund follows the refund table, or an unexpired
    quote. Locks the booking.

    Raises NotFound, Forbidden `wrong_party`, VersionMismatch, and RuleBroken
    `booking_not_cancellable` or `quote_invalid`.
    """
    now = await ports.clock.business()
    reason = command.reason or None

    async def unit(tx: Transaction) -> Booking:
        booking, party = require_party(actor, await tx.bookings.lock_booking(booking_id))
        transition_input = TransitionInput(
            Trigger.CANCEL,
            party,
            now,
            reason=reason,
            actor_id=actor.user_id,
            allowed_versions=allowed_versions,
        )
        apply_transition(booking, transition_input, ports.policy)
        if command.quote is not None:
            quoted = parse_quote(ports, command.quote, booking, actor, now)
            transition_input = evolve(transition_input, quoted_refund=quoted)
        return await advance_booking(tx, ports, booking, transition_input)

    return await ports.store.run_transaction(unit)


# Paying ---------------------------------------------------------------------------------


@validated
async def open_checkout(
    ports: Ports, actor: Actor, booking_id: int, allowed_versions: Versions = None
) -> tuple[Booking, str, datetime]:
    """The address of the hosted page where the customer pays, and when it expires. Returns the open
    page if there is one; a lapsed page is closed and replaced.

    Locks the booking only to order the page; the processor is called outside of transactions.
    Raises NotFound, Forbidden `wrong_party`, VersionMismatch, RuleBroken `booking_not_accepted` or
    the code of a guard, and ProcessorUnavailable where the processor does not answer in time: the
    operation is kept and finished later, so the call may be repeated.
    """
    now = await ports.clock.business()
    deadline = ports.clock.wall() + ports.policy.processor_inline_timeout

    async def unit(tx: Transaction) -> Booking:
        booking, party = require_party(actor, await tx.bookings.lock_booking(booking_id))
        customer = await tx.accounts.user(booking.customer_id)
        transition_input = TransitionInput(
            Trigger.CHECKOUT,
            party,
            now,
            customer_email="" if customer is None else customer.email,
            actor_id=actor.user_id,
            allowed_versions=allowed_versions,
        )
        return await advance_booking(tx, ports, booking, transition_input)

    for _ in range(2):  # The processor refuses an order that waited too long: order once more.
        booking = await ports.store.run_transaction(unit)
        if booking.intent is None or booking.intent.checkout_url is None:
            booking = await operations.open_checkout_now(ports, booking_id, deadline)
        intent = booking.intent
        if intent is not None and intent.checkout_url and intent.checkout_expires_at:
            return booking, intent.checkout_url, intent.checkout_expires_at
    raise ProcessorUnavailable
