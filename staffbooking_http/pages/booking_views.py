"""What the pages of a booking show: the template context of a booking as one side sees it.

Texts are message ids of gettext; templates fill their placeholders: `%(staff)s`, `%(customer)s`
(names), `%(total)s`, `%(payout)s`, `%(share)s` (amounts), `%(full)s`, `%(half)s` (durations).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking, TimelineEntry
from staffbooking_core.domain.bookings.disputes import DISPUTE_PARTIES, DisputeFile
from staffbooking_core.domain.bookings.guidance import NextAction
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.refunds import Refund, RefundReason
from staffbooking_core.domain.payments.operations import SettlementStatus
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.policy import Policy
from staffbooking_core.representations.bookings import booking_record
from staffbooking_core.representations.companions import review_record
from staffbooking_core.representations.disputes import dispute_record
from staffbooking_core.usecases.bookings.details import BookingDetails
from staffbooking_http.api import request_body
from staffbooking_http.pages.booking_texts import deadline_label

_STEP_TITLES: Mapping[Trigger, str] = {
    Trigger.REQUEST: "Requested",
    Trigger.ACCEPT: "Accepted",
    Trigger.DECLINE: "Declined",
    Trigger.LOSE_SLOT: "Ended: the time went to another booking",
    Trigger.PARTY_DISABLED: "Ended: an account was closed",
    Trigger.EXPIRE: "Lapsed",
    Trigger.PAYMENT: "Paid",
    Trigger.CANCEL: "Cancelled",
    Trigger.CONFIRM: "Confirmed: it took place",
    Trigger.AUTO_COMPLETE: "Went through by itself",
    Trigger.DISPUTE: "Dispute opened",
    Trigger.NO_SHOW: "Absence reported",
    Trigger.WITHDRAW: "Dispute withdrawn",
    Trigger.RESOLVE_RELEASE: "Dispute decided for %(staff)s",
    Trigger.RESOLVE_REFUND: "Dispute decided for %(customer)s",
    Trigger.RESOLVE_SPLIT: "Dispute decided: the money was shared",
    Trigger.CHARGEBACK: "The bank took the payment back",
    Trigger.CHARGEBACK_WON: "The bank decided for %(staff)s",
    Trigger.CHARGEBACK_LOST: "The bank decided for %(customer)s",
}

_RULE_TEXTS: Mapping[str, tuple[str, str]] = {
    "48_hours_or_more": (
        "It was cancelled at least %(full)s ahead, so everything goes back.",
        "It is more than %(full)s until the start, so everything comes back.",
    ),
    "24_to_48_hours": (
        "It was cancelled %(half)s to %(full)s ahead, so half the price goes back.",
        "It is %(half)s to %(full)s until the start, so half of the price comes back.",
    ),
    "under_24_hours_insured": (
        "It was cancelled less than %(half)s ahead; by the insurance, half the price goes back.",
        "It is less than %(half)s until the start; by your insurance, half of the price comes "
        "back.",
    ),
    "under_24_hours": (
        "It was cancelled less than %(half)s ahead, so nothing goes back.",
        "It is less than %(half)s until the start, so nothing comes back.",
    ),
    "cancelled_by_staff": (
        "When the staff member cancels, everything goes back.",
        "When you cancel, %(customer)s gets everything back, and may book somebody else first. You "
        "are not paid.",
    ),
    "cancelled_by_the_service": (
        "When we cancel, everything goes back.",
        "When we cancel, everything goes back.",
    ),
}
"""Each rule of refunds, told of a cancelled booking, and to who is asked before it is cancelled."""

_MONEY_TO_CUSTOMER_TEXTS: Mapping[SettlementStatus, str] = {
    SettlementStatus.PENDING: "%(share)s is on its way back to you.",
    SettlementStatus.SETTLED: "%(share)s has gone back to you.",
    SettlementStatus.FAILED: "%(share)s is owed to you: the refund failed, and we try it again.",
}
_MONEY_TO_OTHERS_TEXTS: Mapping[SettlementStatus, str] = {
    SettlementStatus.PENDING: "%(share)s is on its way back to %(customer)s.",
    SettlementStatus.SETTLED: "%(share)s has gone back to %(customer)s.",
    SettlementStatus.FAILED: "%(share)s is owed to %(customer)s: the refund failed.",
}


@frozen
class _Step:
    """A step of a booking's timeline: what happened or will happen, by whom, and when."""

    title: str
    at: datetime
    by: str = ""
    """The name of who did it, `you`, or empty."""
    note: str = ""
    is_ahead: bool = False


def booking_context(details: BookingDetails, policy: Policy) -> dict[str, Any]:
    """The template context of a booking's pages."""
    booking, party = details.booking, details.party
    record = booking_record(booking, party, policy)
    return {
        "booking": record,
        "party": party,
        "details": details,
        "action": _available_action(details),
        "triggers": details.triggers,
        "timeline": [*_past_steps(booking, party), *_steps_ahead(details)],
        "ends": booking.ends_at.astimezone(ZoneInfo(booking.timezone)),
        "person": _other_person(details),
        "is_day_rate": _is_day_rate(details, policy),
        "hourly_rate": _hourly_rate(booking),
        "money": _money_sentence(booking, party),
        "rule": _rule_text(booking.cancel_rule or "")[0],
        "full_before": policy.full_refund_before,
        "half_before": policy.half_refund_before,
        "terms": _terms(details),
        "dispute": _dispute_context(details),
        "can_state": _can_state(details),
        "no_show_from": booking.starts_at + policy.no_show_after,
        "no_show_until": booking.ends_at + policy.no_show_until,
        "rebooking": _rebooking_context(details),
        "review": None if details.own_review is None else review_record(details.own_review),
        "max_megabytes": policy.max_image_bytes // 2**20,
        "has_receipt": booking.paid_at is not None,
    }


def _rule_text(rule: str) -> tuple[str, str]:
    """Both texts of a rule of refunds; empty ones where there is nothing to tell of it."""
    return _RULE_TEXTS.get(rule, ("", ""))


def cancellation_question(rule: str) -> str:
    """What is told of a rule of refunds before a paid booking is cancelled by it."""
    return _rule_text(rule)[1]


def _available_action(details: BookingDetails) -> NextAction | None:
    """The next action. Without an unused rebooking, whoever is to rebook finds others."""
    action = details.guidance.action
    if action is NextAction.REBOOK and details.rebooking is None:
        return NextAction.FIND_OTHERS
    return action


def _can_state(details: BookingDetails) -> bool:
    is_open = details.booking.status is BookingStatus.DISPUTED
    return is_open and details.party in DISPUTE_PARTIES


def _other_person(details: BookingDetails) -> dict[str, Any]:
    """The person on the other side: for the customer and for others, the staff member."""
    booking, companion = details.booking, details.companion
    if details.party is Party.STAFF:
        return {"id": booking.customer_id, "name": booking.customer_name, "photo": ""}
    photo = "" if companion is None else companion.profile_photo
    return {"id": booking.companion_id, "name": booking.companion_name, "photo": photo}


def _is_day_rate(details: BookingDetails, policy: Policy) -> bool:
    """Whether the price is the staff member's day rate, as far as that is still the same."""
    booking, companion = details.booking, details.companion
    is_long = booking.duration_hours >= policy.day_rate_from_hours
    return is_long and companion is not None and companion.daily_rate == booking.price


def _hourly_rate(booking: Booking) -> Decimal | None:
    """The price of an hour; None where the price is no whole multiple."""
    rate, rest = divmod(booking.price, booking.duration_hours)
    return None if rest else Currency(booking.currency).to_decimal(rate)


# Timeline -------------------------------------------------------------------------------


def _past_steps(booking: Booking, party: Party) -> list[_Step]:
    steps = [_step(entry, booking, party) for entry in booking.timeline]
    if booking.checked_in_at is not None:
        by = _name_of(Party.STAFF, booking, party)
        steps.append(_Step("Checked in", booking.checked_in_at, by))
    steps += [
        _Step("Refund arrived", refund.settled_at)
        for refund in booking.refunds
        if refund.settled_at is not None
    ]
    return sorted(steps, key=lambda step: step.at)


def _step(entry: TimelineEntry, booking: Booking, party: Party) -> _Step:
    # Reasons of disputes stand in their conversation.
    shows_reason = entry.trigger in (Trigger.CANCEL, Trigger.DECLINE)
    note = (entry.reason or "") if shows_reason else ""
    title = _STEP_TITLES.get(entry.trigger, str(entry.to))
    return _Step(title, entry.at, _name_of(entry.actor, booking, party), note)


def _name_of(actor: Party, booking: Booking, party: Party) -> str:
    if actor is party and actor is not Party.ADMIN:
        return "you"
    names = {
        Party.CUSTOMER: booking.customer_name,
        Party.STAFF: booking.companion_name,
        Party.ADMIN: "Staffbooking",
    }
    return names.get(actor, "")


def _steps_ahead(details: BookingDetails) -> Iterator[_Step]:
    booking, now = details.booking, details.now
    steps = [
        _Step(deadline_label(deadline.kind, booking, details.party), deadline.at, is_ahead=True)
        for deadline in details.guidance.deadlines
    ]
    if booking.status in (BookingStatus.ACCEPTED, BookingStatus.PAID, BookingStatus.PENDING):
        if booking.starts_at > now:
            steps.append(_Step("The event begins", booking.starts_at, is_ahead=True))
        if booking.status is BookingStatus.PAID and booking.ends_at > now:
            steps.append(_Step("The event ends", booking.ends_at, is_ahead=True))
    yield from sorted(steps, key=lambda step: step.at)


# Money ----------------------------------------------------------------------------------


@frozen
class _MoneySentence:
    """What becomes of the money of a cancelled booking; amounts in units of the currency."""

    text: str
    amount: Decimal | None = None
    is_all: bool = False


def _money_sentence(booking: Booking, party: Party) -> _MoneySentence | None:
    """What goes back of a cancelled booking's money, and whether it has; None for others."""
    if booking.status is not BookingStatus.CANCELLED:
        return None
    refunds = _refunds_of_payment(booking)
    if not refunds:
        if booking.paid_at is None:
            return _MoneySentence("Nothing was paid, so nothing has to go back.")
        if booking.chargeback_ref is not None:
            return None
        return _MoneySentence("Nothing goes back.")
    owed = sum(refund.amount for refund in refunds)
    is_own = party is Party.CUSTOMER
    texts = _MONEY_TO_CUSTOMER_TEXTS if is_own else _MONEY_TO_OTHERS_TEXTS
    text = texts[_refund_state(refunds)]
    amount = Currency(booking.currency).to_decimal(owed)
    return _MoneySentence(text, amount, owed >= booking.total_amount)


def _refunds_of_payment(booking: Booking) -> Sequence[Refund]:
    """The refunds of a booking's money: of a paid one without those of further payments, which go
    back whole and are none of its price."""
    if booking.paid_at is None:
        return booking.refunds
    return [each for each in booking.refunds if each.reason is not RefundReason.LATE_PAYMENT]


def _refund_state(refunds: Sequence[Refund]) -> SettlementStatus:
    """Of several refunds, the state of the one that is furthest from its end."""
    states = {refund.status for refund in refunds}
    for state in (SettlementStatus.FAILED, SettlementStatus.PENDING):
        if state in states:
            return state
    return SettlementStatus.SETTLED


def _terms(details: BookingDetails) -> list[dict[str, Any]]:
    money = Currency(details.booking.currency).to_decimal
    return [
        {"until": tier.until, "percent": tier.percent, "amount": money(tier.amount)}
        for tier in details.terms
    ]


# Disputes and rebooking -----------------------------------------------------------------


def _dispute_context(details: BookingDetails) -> dict[str, Any] | None:
    found = details.dispute
    if found is None:
        return None
    currency = Currency(details.booking.currency)
    kinds = {file.id: file for file in details.files}
    record: dict[str, Any] = {**dispute_record(found.dispute, found.statements, currency)}
    record["number"] = details.booking.dispute_number
    record["statements"] = [
        {**statement, "files": _file_views(statement["files"], kinds)}
        for statement in record["statements"]
    ]
    return record


def _file_views(ids: Sequence[str], files: Mapping[str, DisputeFile]) -> list[dict[str, Any]]:
    return [
        {"id": each, "is_image": files[each].kind.startswith("image/")}
        for each in ids
        if each in files
    ]


def _rebooking_context(details: BookingDetails) -> dict[str, Any] | None:
    """The expiry of the rebooking offer, the place, and the companions who are free."""
    offer = details.rebooking
    if offer is None:
        return None
    city = "" if details.companion is None else details.companion.location_city
    free = [request_body.parse_object(summary) for summary in offer.companions]
    return {"until": offer.expires_at, "companions": free, "city": city}
