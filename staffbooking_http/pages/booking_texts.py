"""Texts of bookings on pages: the guidance of the domain in the visitor's language."""

from collections.abc import Mapping
from datetime import timedelta
from math import inf
from typing import Literal

from babel import dates

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.disputes import dispute_respondent
from staffbooking_core.domain.bookings.guidance import DeadlineKind, Guidance, NextAction
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.shared.money import Currency
from staffbooking_http.pages.locales import PageLocale

STATUS_LABELS: Mapping[BookingStatus, str] = {
    BookingStatus.PENDING: "Waits for an answer",
    BookingStatus.ACCEPTED: "To be paid",
    BookingStatus.PAID: "Paid",
    BookingStatus.COMPLETED: "Completed",
    BookingStatus.CANCELLED: "Cancelled",
    BookingStatus.DISPUTED: "Disputed",
}
"""The label of each status, as a message id."""

ACTION_LABELS: Mapping[NextAction, str] = {
    NextAction.ACCEPT: "Answer",
    NextAction.PAY: "Pay",
    NextAction.CHECK_IN: "Check in",
    NextAction.CONFIRM: "Confirm",
    NextAction.REVIEW: "Write a review",
    NextAction.REBOOK: "Book somebody else",
    NextAction.REPORT_NO_SHOW: "Nobody came",
    NextAction.ANSWER_DISPUTE: "Tell your side",
    NextAction.READ_ANSWER: "Read the answer",
    NextAction.RESOLVE_DISPUTE: "Resolve",
    NextAction.FIND_OTHERS: "Find somebody else",
}
"""The label of each next action, as a message id."""

DEADLINE_LABELS: Mapping[DeadlineKind, str] = {
    DeadlineKind.ANSWER_BY: "Answer by",
    DeadlineKind.PAY_BY: "Pay by",
    DeadlineKind.CHECK_IN_FROM: "Check-in opens",
    DeadlineKind.COMPLETES_AT: "Goes through by itself",
    DeadlineKind.PAYOUT_AT: "Payout",
    DeadlineKind.RESPOND_BY: "Answer the dispute by",
    DeadlineKind.HEARD_UNTIL: "Both sides are heard until",
}
"""What happens at each deadline, as a message id. Where a side has to act, it is told to."""

_OTHERS_DEADLINE_LABELS: Mapping[tuple[DeadlineKind, Party], str] = {
    (DeadlineKind.ANSWER_BY, Party.STAFF): "%(staff)s answers by",
    (DeadlineKind.PAY_BY, Party.CUSTOMER): "%(customer)s pays by",
    (DeadlineKind.RESPOND_BY, Party.STAFF): "%(staff)s answers the dispute by",
    (DeadlineKind.RESPOND_BY, Party.CUSTOMER): "%(customer)s answers the dispute by",
}
"""What the others are told of a deadline at which a side has to act."""


def deadline_label(kind: DeadlineKind, booking: Booking, party: Party) -> str:
    """What happens at a deadline, as a message id for one side of a booking."""
    acting = _acting_party(kind, booking)
    if acting is None or acting is party:
        return DEADLINE_LABELS[kind]
    return _OTHERS_DEADLINE_LABELS[kind, acting]


def _acting_party(kind: DeadlineKind, booking: Booking) -> Party | None:
    """The side that has to act by a deadline; None where nobody has to."""
    if kind is DeadlineKind.RESPOND_BY:
        return dispute_respondent(booking)
    return {DeadlineKind.ANSWER_BY: Party.STAFF, DeadlineKind.PAY_BY: Party.CUSTOMER}.get(kind)


def format_deadline(locale: PageLocale, kind: DeadlineKind, booking: Booking, party: Party) -> str:
    """What happens at a deadline, for one side of a booking, with the names of both."""
    return locale.translations.gettext(deadline_label(kind, booking, party)) % _names(booking)


def _names(booking: Booking) -> dict[str, str]:
    return {
        "staff": first_name(booking.companion_name),
        "customer": first_name(booking.customer_name),
    }


def guidance_sentence(guidance: Guidance, booking: Booking, locale: PageLocale) -> str:
    """The sentence of a guidance with the names, amounts and times of its booking."""

    def money(amount: int) -> str:
        decimal = Currency(booking.currency).to_decimal(amount)
        return locale.format_money(decimal, booking.currency)

    return locale.translations.gettext(guidance.sentence) % {
        **_names(booking),
        "total": money(booking.total_amount),
        "payout": money(booking.payout_amount),
        "lead": format_passing_span(guidance.lead or timedelta(), locale),
    }


def first_name(name: str) -> str:
    """The first word of a name, as people address each other."""
    return name.split(" ", 1)[0]


def format_span(span: timedelta, locale: PageLocale) -> str:
    """A span of time in the largest unit that divides it, such as `10 seconds`, `90 minutes`,
    `30 hours` or `3 days`. Days are the unit from three on."""
    dividing = (name for name, unit, least in _SPAN_UNITS if span >= least and not span % unit)
    name: Literal["day", "hour", "minute", "second"] = next(dividing, "second")
    # No unit above the named one: 120 days aren't told in weeks.
    return dates.format_timedelta(span, name, threshold=inf, locale=locale.formats)


def format_passing_span(span: timedelta, locale: PageLocale) -> str:
    """A span that changes as time passes, rounded down to whole days, hours or minutes by its
    size; at least a minute."""
    span = max(span, _MINUTE)
    unit = next(unit for _, unit, least in _SPAN_UNITS if span >= least)
    return format_span(span // unit * unit, locale)


_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_SPAN_UNITS: tuple[tuple[Literal["day", "hour", "minute"], timedelta, timedelta], ...] = (
    ("day", _DAY, 3 * _DAY),
    ("hour", _HOUR, _HOUR),
    ("minute", _MINUTE, timedelta()),
)
"""The name of each unit above the second, and the shortest span that is told in it."""
