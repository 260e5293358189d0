"""Booking requests: validation, pricing and creation of bookings (SPECIFICATION 4.5, CONTRACT
4)."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import frozen

from staffbooking_core.domain.accounts.users import Actor, Role, User
from staffbooking_core.domain.bookings.booking import (
    Booking,
    CompanionRates,
    TimelineEntry,
    TransitionResult,
    quote_price,
)
from staffbooking_core.domain.bookings.lifecycle import (
    REQUEST_TRANSITION,
    BookingStatus,
    Party,
    Trigger,
)
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.availability import Interval, NonexistentLocalTime
from staffbooking_core.domain.companions.booking_limits import NO_LIMITS
from staffbooking_core.domain.companions.companion import find_offered_service
from staffbooking_core.domain.companions.unavailability import unavailability_reason
from staffbooking_core.errors import (
    CompanionUnavailable,
    Conflict,
    ConstraintViolated,
    FieldError,
    Forbidden,
    InvalidField,
    NotFound,
    RuleBroken,
    StaffbookingError,
    Unauthenticated,
)
from staffbooking_core.inputs import RequestBooking, RequestBookingFor, RequestQuote
from staffbooking_core.ports import (
    CALENDAR_CHANGED,
    PARTY_DISABLED,
    BookableCompanion,
    BookingQuery,
    BookingRequestContext,
    BookingWrite,
    Ports,
    Transaction,
)
from staffbooking_core.usecases.booking_writes import to_booking_write
from staffbooking_core.validation import validated

__all__ = ["check_event", "find_same_request", "request_booking"]

SAME_REQUEST_SEARCH_SIZE = 100
_COMPARED_FIELDS = (
    *("companion_id", "event_date", "start_time", "duration_hours", "location"),
    *("cancellation_insurance", "event_ref"),
)
MAX_REQUEST_ATTEMPTS = 5
"""How often a request is decided if its companion accepts other bookings meanwhile."""
_UNKNOWN_CUSTOMER = FieldError("customer_email", "is not the address of a registered customer")


@validated
async def request_booking(ports: Ports, actor: Actor, command: RequestBooking) -> Booking:
    """Create a pending booking: for the customer of an e-mail address (API), else for the actor.

    Reads the request's context in one round trip and saves the booking in another; if the companion
    has accepted a booking in between, the request is decided again. Raises NotFound for a companion
    that is not listed; InvalidField with every invalid field; Forbidden `customers_only`;
    RuleBroken `companion_unavailable`, `amount_too_small` or `rebooking_not_available`;
    Unauthenticated where the actor is unknown, disabled or erased.
    """
    email = command.customer_email if isinstance(command, RequestBookingFor) else None
    if email is None:
        _check_is_customer(actor.role)
    for _ in range(MAX_REQUEST_ATTEMPTS):
        try:
            return await _decide_and_save(ports, actor, command, email)
        except ConstraintViolated as error:
            if error.constraint != CALENDAR_CHANGED:
                raise
    raise Conflict("calendar")


async def _decide_and_save(
    ports: Ports, actor: Actor, command: RequestBooking, email: str | None
) -> Booking:
    # Validation refuses a day beyond every calendar; the query needs one that does not overflow.
    day = min(
        max(command.event_date, availability.MIN_CALENDAR_DATE), availability.MAX_CALENDAR_DATE
    )
    async with ports.store.read_view() as view:
        context = await view.bookings.request_context(
            command.companion_id, email, actor.user_id if email is None else None, day
        )
    now = ports.clock.business_at(context.clock_offset)
    if email is None:
        if (customer := context.customer) is None or customer.disabled_at is not None:
            raise _unauthenticated(actor)
        _check_is_customer(customer.role)
    booking, seen_acceptances = _price_booking(ports, actor, command, context, now)
    try:
        return await _save_booking(
            ports, actor, booking, seen_acceptances, command.rebooking_of, now
        )
    except ConstraintViolated as error:
        if error.constraint != PARTY_DISABLED:
            raise
        raise await _refusal_error(ports, actor, booking, email) from None


@validated
async def find_same_request(ports: Ports, actor: Actor, command: RequestBooking) -> Booking | None:
    """A pending booking that the actor requested with the same input; None without one. Looks at
    SAME_REQUEST_SEARCH_SIZE pending bookings at most. A priority rebooking is never the same as
    another request: its credit is used once."""
    if command.rebooking_of is not None:
        return None
    query = BookingQuery(
        user_id=actor.user_id,
        parties=frozenset({Party.CUSTOMER}),
        status=BookingStatus.PENDING,
        limit=SAME_REQUEST_SEARCH_SIZE,
    )
    async with ports.store.read_view() as view:
        pending = await view.bookings.bookings(query)
    return next((each for each in pending if _is_same_request(each, command)), None)


def _is_same_request(booking: Booking, command: RequestBooking) -> bool:
    return (
        all(getattr(booking, name) == getattr(command, name) for name in _COMPARED_FIELDS)
        and find_offered_service([booking.service_type], command.service_type) is not None
        and not booking.priority
    )


async def _refusal_error(
    ports: Ports, actor: Actor, booking: Booking, email: str | None
) -> StaffbookingError:
    """The error where a party was disabled or erased during the request, or the customer got
    another role: the same that every later request gets."""
    async with ports.store.read_view() as view:
        caller = await view.accounts.user(actor.user_id)
        customer = await view.accounts.user(booking.customer_id)
    if caller is None or caller.disabled_at is not None:
        return _unauthenticated(actor)
    if _is_customer(customer):
        return NotFound("Companion")
    return _customers_only() if email is None else InvalidField([_UNKNOWN_CUSTOMER])


def _is_customer(user: User | None) -> bool:
    return user is not None and user.disabled_at is None and user.role is Role.CUSTOMER


def _check_is_customer(role: Role) -> None:
    if role is not Role.CUSTOMER:
        raise _customers_only()


def _customers_only() -> Forbidden:
    return Forbidden("customers_only", "Only customers book for themselves")


def _unauthenticated(actor: Actor) -> Unauthenticated:
    if actor.key_id is not None:
        return Unauthenticated("invalid_api_key", "The API key is not valid")
    return Unauthenticated("unauthenticated", "The account is unknown or disabled")


@frozen
class _AcceptedRequest:
    """A valid request."""

    companion: BookableCompanion
    customer: User
    service: str
    interval: Interval


def _price_booking(
    ports: Ports,
    actor: Actor,
    command: RequestBooking,
    context: BookingRequestContext,
    now: datetime,
) -> tuple[Booking, int]:
    """The booking, and how many others its companion had accepted when it was decided."""
    accepted = _validate_request(ports, command, context, now)
    companion = accepted.companion
    reason = unavailability_reason(companion.calendar, companion.busy, accepted.interval, now)
    if reason is not None:
        raise CompanionUnavailable(reason, "The companion is not free at that time")
    booking = _build_booking(ports, actor, command, accepted, context.booking_id, now)
    _check_amount(ports, booking)
    return booking, companion.acceptances


def _validate_request(
    ports: Ports, command: RequestBooking, context: BookingRequestContext, now: datetime
) -> _AcceptedRequest:
    companion, customer = context.companion, context.customer
    if companion is None:
        raise NotFound("Companion")
    interval, faults = check_event(ports, command, companion, now)
    service = find_offered_service(companion.service_types, command.service_type)
    if not _is_customer(customer):
        faults.append(_UNKNOWN_CUSTOMER)
    if faults or interval is None or service is None or customer is None:
        raise InvalidField(faults)
    return _AcceptedRequest(companion, customer, service, interval)


def check_event(
    ports: Ports,
    command: RequestBooking | RequestQuote,
    companion: BookableCompanion,
    now: datetime,
) -> tuple[Interval | None, list[FieldError]]:
    """The time of the event, None where it has none, and the faults of the event, the service and
    the price."""
    starts_at, faults = _parse_start(command, companion.calendar.timezone, now)
    if find_offered_service(companion.service_types, command.service_type) is None:
        faults.append(FieldError("service_type", "is not offered by this companion"))
    rates = CompanionRates(companion.hourly_rate, companion.daily_rate)
    price = quote_price(rates, command.duration_hours, command.cancellation_insurance, ports.policy)
    currency = ports.policy.currency
    max_amount = ports.payments.max_amount(currency.code)
    if price.price + price.insurance_premium > max_amount:
        text = f"must cost at most {currency.to_decimal(max_amount)} {currency.code}"
        faults.append(FieldError("duration_hours", text))
    if starts_at is None:
        return None, faults
    return Interval(starts_at, starts_at + timedelta(hours=command.duration_hours)), faults


def _parse_start(
    command: RequestBooking | RequestQuote, timezone: str, now: datetime
) -> tuple[datetime | None, list[FieldError]]:
    """The start of the event, or the faults of its date or time."""
    day, today = command.event_date, availability.local_date(timezone, now)
    if day < today:
        return None, [FieldError("event_date", "lies in the past")]
    if day > (last := NO_LIMITS.last_day(today)):
        return None, [FieldError("event_date", f"must not be after {last}")]
    try:
        minutes = availability.parse_hhmm(command.start_time)
        starts_at = availability.local_time_to_utc(timezone, day, minutes)
    except NonexistentLocalTime:
        return None, [FieldError("start_time", "does not exist: the clock is set forward over it")]
    if starts_at <= now:
        return None, [FieldError("start_time", "lies in the past")]
    return starts_at, []


def _build_booking(
    ports: Ports,
    actor: Actor,
    command: RequestBooking,
    accepted: _AcceptedRequest,
    booking_id: int,
    now: datetime,
) -> Booking:
    companion, policy = accepted.companion, ports.policy
    is_by_api_key = actor.key_id is not None
    terms = CompanionRates(companion.hourly_rate, companion.daily_rate)
    price = quote_price(terms, command.duration_hours, command.cancellation_insurance, policy)
    requested_by = Party.API if is_by_api_key else Party.CUSTOMER
    return Booking(
        id=booking_id,
        code=ports.ids.booking_code(),
        status=REQUEST_TRANSITION.to_status,
        companion_id=companion.id,
        companion_name=companion.name,
        customer_id=accepted.customer.id,
        customer_name=accepted.customer.name,
        booked_by=actor.user_id if is_by_api_key else None,
        service_type=accepted.service,
        location=command.location,
        event_date=command.event_date,
        start_time=command.start_time,
        duration_hours=command.duration_hours,
        timezone=companion.calendar.timezone,
        starts_at=accepted.interval.starts_at,
        ends_at=accepted.interval.ends_at,
        currency=policy.currency.code,
        price=price.price,
        insurance_premium=price.insurance_premium,
        fee_ppm=policy.platform_fee_ppm,
        platform_fee=price.platform_fee,
        payout_amount=price.payout_amount,
        created_at=now,
        cancellation_insurance=command.cancellation_insurance,
        event_ref=command.event_ref,
        priority=command.rebooking_of is not None,
        timeline=(
            TimelineEntry(
                *(now, None, REQUEST_TRANSITION.to_status, Trigger.REQUEST, requested_by),
                actor_id=actor.user_id,
            ),
        ),
    )


def _check_amount(ports: Ports, booking: Booking) -> None:
    min_amount = ports.payments.min_amount(booking.currency)
    if booking.total_amount < min_amount:
        amount = ports.policy.currency.to_decimal(min_amount)
        raise RuleBroken("amount_too_small", f"A payment is at least {amount} {booking.currency}")


async def _save_booking(
    ports: Ports,
    actor: Actor,
    booking: Booking,
    seen_acceptances: int,
    rebooking_of: str | None,
    now: datetime,
) -> Booking:
    result = TransitionResult(
        booking, REQUEST_TRANSITION.event, notifications=REQUEST_TRANSITION.notifications
    )
    booking_write = to_booking_write(ports, None, result, now, seen_acceptances)
    if rebooking_of is None:
        await ports.store.add_booking(booking_write)
    else:
        await _add_rebooking(ports, actor, booking_write, rebooking_of, now)
    return booking


async def _add_rebooking(
    ports: Ports, actor: Actor, booking_write: BookingWrite, code: str, now: datetime
) -> None:
    """Add a priority request and use up the credit that the staff's cancellation granted. With an
    API key, only whoever booked the cancelled booking may use it."""

    async def unit(tx: Transaction) -> None:
        await tx.bookings.add_booking(booking_write)
        cancelled = await tx.bookings.booking_by_code(code)
        credit = None if cancelled is None else await tx.bookings.rebooking_credit(cancelled.id)
        if cancelled is None or credit is None or now >= credit.expires_at:
            raise _rebooking_not_available()
        was_booked_by = cancelled.booked_by or cancelled.customer_id
        is_booker = actor.key_id is None or actor.user_id == was_booked_by
        if credit.customer_id != booking_write.booking.customer_id or not is_booker:
            raise _rebooking_not_available()
        if not await tx.bookings.use_rebooking_credit(credit, booking_write.booking.id):
            raise _rebooking_not_available()

    await ports.store.run_transaction(unit)


def _rebooking_not_available() -> RuleBroken:
    return RuleBroken("rebooking_not_available", "There is no priority rebooking to use")
