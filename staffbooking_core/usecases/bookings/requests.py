"""Booking requests: how a booking comes into being (SPECIFICATION 4.5, CONTRACT 4)."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import frozen

from staffbooking_core.domain.accounts.users import Actor, Role, User
from staffbooking_core.domain.bookings.booking import (
    Booking,
    Step,
    Terms,
    TimelineEntry,
    quote_price,
)
from staffbooking_core.domain.bookings.lifecycle import REQUESTED, Party, Trigger
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.availability import Interval, SkippedTime
from staffbooking_core.domain.companions.companion import offered
from staffbooking_core.errors import (
    ConstraintViolated,
    Fault,
    Forbidden,
    InvalidField,
    NotFound,
    RuleBroken,
    StaffbookingError,
    Unauthenticated,
)
from staffbooking_core.inputs import RequestBooking, RequestBookingFor
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    PARTY_DISABLED,
    Bookable,
    Change,
    Ports,
    RequestContext,
    Writing,
)
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.booking_writes import to_change
from staffbooking_core.usecases.idempotency import Keep

_NO_CUSTOMER = Fault("customer_email", "is not the address of a registered customer")


async def request(
    ports: Ports, actor: Actor, wanted: RequestBooking, keep: Keep[Booking] | None = None
) -> Booking:
    """Request a booking: in the API for the customer of an e-mail, else for oneself.

    Raises NotFound for a companion that is not listed, InvalidField with every fault of
    meaning, RuleBroken `companion_unavailable`, `amount_too_small` and
    `rebooking_not_available`, Unauthenticated where the actor was disabled or erased meanwhile,
    and AnsweredBefore where the call was made before.
    """
    email = wanted.customer_email if isinstance(wanted, RequestBookingFor) else None
    if email is None and actor.role is not Role.CUSTOMER:
        raise Forbidden("customers_only", "Only customers book for themselves")
    await idempotency.check(ports, keep)
    now = await ports.clock.business()
    # A day beyond every calendar is refused below; until then it must not overflow.
    day = min(max(wanted.event_date, availability.FIRST_DAY), availability.LAST_DAY)
    async with ports.store.reading() as view:
        context = await view.bookings.request_context(
            wanted.companion_id, email, actor.user_id if email is None else None, day
        )
    if email is None and _is_gone(context.customer):
        raise _shut_out(actor)
    booking = _decide(ports, actor, wanted, context, now)
    try:
        return await _save(ports, booking, wanted.rebooking_of, keep, now)
    except ConstraintViolated as error:
        if error.constraint != PARTY_DISABLED:
            raise
        raise await _why_refused(ports, actor, booking) from None


async def _why_refused(ports: Ports, actor: Actor, booking: Booking) -> StaffbookingError:
    """What is told where somebody was disabled or erased while a request was made: the same as
    is told of every later one."""
    async with ports.store.reading() as view:
        caller = await view.accounts.user(actor.user_id)
        customer = await view.accounts.user(booking.customer_id)
    if _is_gone(caller):
        return _shut_out(actor)
    return InvalidField([_NO_CUSTOMER]) if _is_gone(customer) else NotFound("Companion")


def _is_gone(user: User | None) -> bool:
    return user is None or user.disabled_at is not None


def _shut_out(actor: Actor) -> Unauthenticated:
    if actor.key_id is not None:
        return Unauthenticated("invalid_api_key", "The API key is not valid")
    return Unauthenticated("unauthenticated", "The session has ended: sign in again")


@frozen
class _Agreed:
    """A request whose every field can be honoured."""

    companion: Bookable
    customer: User
    service: str
    interval: Interval


def _decide(
    ports: Ports, actor: Actor, wanted: RequestBooking, context: RequestContext, now: datetime
) -> Booking:
    agreed = _agree(wanted, context, now, ports.policy)
    companion = agreed.companion
    if not availability.fits(companion.calendar, companion.busy, agreed.interval):
        raise RuleBroken("companion_unavailable", "The companion is not free at that time")
    booking = _booking(ports, actor, wanted, agreed, context.booking_id, now)
    _check_amount(ports, booking)
    return booking


def _agree(
    wanted: RequestBooking, context: RequestContext, now: datetime, policy: Policy
) -> _Agreed:
    companion, customer = context.companion, context.customer
    if companion is None:
        raise NotFound("Companion")
    starts_at, faults = _start(wanted, companion.calendar.timezone, now, policy.book_ahead_years)
    service = offered(companion.service_types, wanted.service_type)
    if service is None:
        faults.append(Fault("service_type", "is not offered by this companion"))
    if customer is None or customer.role is not Role.CUSTOMER or customer.disabled_at:
        faults.append(_NO_CUSTOMER)
    if faults or starts_at is None or service is None or customer is None:
        raise InvalidField(faults)
    ends_at = starts_at + timedelta(hours=wanted.duration_hours)
    return _Agreed(companion, customer, service, Interval(starts_at, ends_at))


def _start(
    wanted: RequestBooking, timezone: str, now: datetime, years: int
) -> tuple[datetime | None, list[Fault]]:
    """The instant of the start, or what is wrong with its day or its time."""
    day, today = wanted.event_date, availability.local_date(timezone, now)
    if day < today:
        return None, [Fault("event_date", "lies in the past")]
    if day > (last := availability.years_after(today, years)):
        return None, [Fault("event_date", f"must not be after {last}")]
    try:
        minutes = availability.parse_hhmm(wanted.start_time)
        starts_at = availability.resolve_local(timezone, day, minutes)
    except SkippedTime:
        return None, [Fault("start_time", "does not exist: the clock is set forward over it")]
    if starts_at <= now:
        return None, [Fault("start_time", "lies in the past")]
    return starts_at, []


def _booking(
    ports: Ports,
    actor: Actor,
    wanted: RequestBooking,
    agreed: _Agreed,
    booking_id: int,
    now: datetime,
) -> Booking:
    companion, policy = agreed.companion, ports.policy
    by_key = actor.key_id is not None
    terms = Terms(companion.hourly_rate, companion.daily_rate)
    price = quote_price(terms, wanted.duration_hours, wanted.cancellation_insurance, policy)
    requested_by = Party.API if by_key else Party.CUSTOMER
    return Booking(
        id=booking_id,
        code=ports.ids.booking_code(),
        status=REQUESTED.to,
        companion_id=companion.id,
        companion_name=companion.name,
        customer_id=agreed.customer.id,
        customer_name=agreed.customer.name,
        booked_by=actor.user_id if by_key else None,
        service_type=agreed.service,
        location=wanted.location,
        event_date=wanted.event_date,
        start_time=wanted.start_time,
        duration_hours=wanted.duration_hours,
        timezone=companion.calendar.timezone,
        starts_at=agreed.interval.starts_at,
        ends_at=agreed.interval.ends_at,
        currency=policy.currency.code,
        price=price.price,
        insurance_premium=price.insurance_premium,
        fee_ppm=policy.platform_fee,
        platform_fee=price.platform_fee,
        payout_amount=price.payout_amount,
        created_at=now,
        cancellation_insurance=wanted.cancellation_insurance,
        event_ref=wanted.event_ref,
        priority=wanted.rebooking_of is not None,
        timeline=(TimelineEntry(now, None, REQUESTED.to, Trigger.REQUEST, requested_by),),
    )


def _check_amount(ports: Ports, booking: Booking) -> None:
    least = ports.payments.min_amount(booking.currency)
    if booking.total_amount < least:
        amount = ports.policy.currency.to_decimal(least)
        raise RuleBroken("amount_too_small", f"A payment is at least {amount} {booking.currency}")


async def _save(
    ports: Ports,
    booking: Booking,
    rebooking_of: str | None,
    keep: Keep[Booking] | None,
    now: datetime,
) -> Booking:
    answer = None if keep is None else idempotency.made(ports, keep, booking)
    change = to_change(ports, None, Step(booking, event=REQUESTED.event), now, answer)
    async with idempotency.once(ports, keep):
        if rebooking_of is None:
            await ports.store.add_booking(change)
        else:
            await _add_rebooking(ports, change, rebooking_of, now)
    return booking


async def _add_rebooking(ports: Ports, change: Change, code: str, now: datetime) -> None:
    """A priority request uses up the credit that the staff's cancellation granted."""

    async def unit(tx: Writing) -> None:
        await tx.bookings.add(change)  # First, so that a twin of this call is told as such.
        cancelled = await tx.bookings.booking_by_code(code)
        credit = None if cancelled is None else await tx.bookings.credit(cancelled.id)
        mine = credit is not None and credit.customer_id == change.booking.customer_id
        if credit is None or not mine or now >= credit.expires_at:
            raise _no_rebooking()
        if not await tx.bookings.use_credit(credit, change.booking.id):
            raise _no_rebooking()

    await ports.store.write(unit)


def _no_rebooking() -> RuleBroken:
    return RuleBroken("rebooking_not_available", "There is no priority rebooking to use")
