"""Texts of bookings on pages: the guidance of the domain in the visitor's language."""

from collections.abc import Mapping
from datetime import timedelta

from babel import dates

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.guidance import DeadlineKind, Guidance, NextAction
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
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
"""What happens at each deadline, as a message id."""


def guidance_sentence(guidance: Guidance, booking: Booking, locale: PageLocale) -> str:
    """The sentence of a guidance with the names, amounts and times of its booking."""

    def money(amount: int) -> str:
        decimal = Currency(booking.currency).to_decimal(amount)
        return locale.format_money(decimal, booking.currency)

    return locale.translations.gettext(guidance.sentence) % {
        "staff": first_name(booking.companion_name),
        "customer": first_name(booking.customer_name),
        "total": money(booking.total_amount),
        "payout": money(booking.payout_amount),
        "lead": format_span(guidance.lead or timedelta(), locale),
    }


def first_name(name: str) -> str:
    """The first word of a name, as people address each other."""
    return name.split(" ", 1)[0]


def format_span(span: timedelta, locale: PageLocale) -> str:
    """A span of time in its largest sensible unit, such as `30 hours` or `3 days`."""
    if span >= timedelta(days=3):
        return dates.format_timedelta(span, "day", threshold=100, locale=locale.formats)
    if span >= timedelta(hours=1):
        return dates.format_timedelta(span, "hour", threshold=100, locale=locale.formats)
    return dates.format_timedelta(span, "minute", threshold=100, locale=locale.formats)
