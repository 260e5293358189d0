"""Quotes: the price of a booking before it is requested (CONTRACT 10)."""

from __future__ import annotations

from datetime import UTC, datetime, time

from staffbooking_core.domain.bookings.booking import CompanionRates, quote_price
from staffbooking_core.domain.bookings.cancellation import refund_tiers
from staffbooking_core.domain.companions.availability import DAY, Interval
from staffbooking_core.domain.companions.unavailability import unavailability_reason
from staffbooking_core.errors import InvalidField, NotFound
from staffbooking_core.inputs import RequestQuote
from staffbooking_core.policy import Policy
from staffbooking_core.ports import BookableCompanion, Ports
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.representations.quotes import QuoteLineRecord, QuoteRecord
from staffbooking_core.usecases.bookings.requests import check_event
from staffbooking_core.validation import validated

__all__ = ["quote_booking"]


@validated
async def quote_booking(ports: Ports, command: RequestQuote) -> QuoteRecord:
    """The price of a booking with its lines, whether the companion is free then, and what a
    cancellation would give back. Stores nothing.

    Raises NotFound for a companion that is not listed, and InvalidField with every invalid field.
    """
    now = await ports.clock.business()
    midnight = datetime.combine(command.event_date, time(), UTC)
    async with ports.store.read_view() as view:
        agenda = await view.companions.availability(
            command.companion_id, midnight - DAY, midnight + 3 * DAY
        )
        companion = await view.companions.companion(command.companion_id)
    if agenda is None or companion is None:
        raise NotFound("Companion")
    bookable = BookableCompanion(
        companion.id,
        companion.name,
        companion.hourly_rate,
        companion.daily_rate,
        companion.service_types,
        agenda.calendar,
        agenda.busy,
    )
    interval, faults = check_event(ports, command, bookable, now)
    if interval is None or faults:
        raise InvalidField(faults)
    return _quote_record(command, bookable, interval, now, ports.policy)


def _quote_record(
    command: RequestQuote,
    companion: BookableCompanion,
    interval: Interval,
    now: datetime,
    policy: Policy,
) -> QuoteRecord:
    rates = CompanionRates(companion.hourly_rate, companion.daily_rate)
    price = quote_price(rates, command.duration_hours, command.cancellation_insurance, policy)
    money = policy.currency.to_decimal
    hours = rates.hourly_rate * command.duration_hours
    lines: list[QuoteLineRecord] = [{"kind": "hours", "amount": money(hours)}]
    if price.price < hours:
        lines.append({"kind": "daily_cap", "amount": money(price.price - hours)})
    if command.cancellation_insurance:
        lines.append({"kind": "insurance", "amount": money(price.insurance_premium)})
    reason = unavailability_reason(companion.calendar, companion.busy, interval, now)
    tiers = refund_tiers(
        price=price.price,
        premium=price.insurance_premium,
        is_insured=command.cancellation_insurance,
        starts_at=interval.starts_at,
        now=now,
        policy=policy,
    )
    record: QuoteRecord = {
        "currency": policy.currency.code,
        "hourly_rate": money(rates.hourly_rate),
        "daily_rate": None if rates.daily_rate is None else money(rates.daily_rate),
        "duration_hours": command.duration_hours,
        "lines": lines,
        "price": money(price.price),
        "insurance_premium": money(price.insurance_premium),
        "total_amount": money(price.price + price.insurance_premium),
        "starts_at": format_instant(interval.starts_at),
        "ends_at": format_instant(interval.ends_at),
        "timezone": companion.calendar.timezone,
        "available": reason is None,
        "cancellation": [
            {
                "until": format_instant(tier.until),
                "refund_percent": tier.percent,
                "refund_amount": money(tier.amount),
            }
            for tier in tiers
        ],
    }
    if reason is not None:
        record["reason"] = reason
    return record
