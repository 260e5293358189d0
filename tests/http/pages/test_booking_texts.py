"""Tests of the texts of bookings: what each side is told of a deadline."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, make_booking
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.guidance import DeadlineKind
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_http.pages.booking_texts import format_deadline
from staffbooking_http.pages.locales import find_locale

ANSWER_BY, PAY_BY, RESPOND_BY = (
    DeadlineKind.ANSWER_BY,
    DeadlineKind.PAY_BY,
    DeadlineKind.RESPOND_BY,
)
OTHERS = (Party.API, Party.ADMIN)


def booking(disputed_by: Party | None = None) -> Booking:
    named = evolve(make_booking(), customer_name="Ada Lund", companion_name="Mia Reis")
    return evolve(named, disputed_by=disputed_by, disputed_at=NOW if disputed_by else None)


def told(kind: DeadlineKind, party: Party, of: Booking, language: str = "en") -> str:
    return format_deadline(find_locale(language), kind, of, party)


@pytest.mark.parametrize(
    ("kind", "party", "text"),
    [(ANSWER_BY, Party.STAFF, "Answer by"), (PAY_BY, Party.CUSTOMER, "Pay by")],
)
def test_who_has_to_act_is_told_to(kind: DeadlineKind, party: Party, text: str) -> None:
    """The side that has to act by a deadline is told to."""
    assert told(kind, party, booking()) == text


@pytest.mark.parametrize(
    ("kind", "party", "text"),
    [
        (ANSWER_BY, Party.CUSTOMER, "Mia answers by"),
        (PAY_BY, Party.STAFF, "Ada pays by"),
        *((ANSWER_BY, party, "Mia answers by") for party in OTHERS),
        *((PAY_BY, party, "Ada pays by") for party in OTHERS),
    ],
)
def test_who_waits_is_told_for_whom(kind: DeadlineKind, party: Party, text: str) -> None:
    """Everybody else is told who has to act."""
    assert told(kind, party, booking()) == text


@pytest.mark.parametrize(
    ("opener", "customer", "staff"),
    [
        (Party.CUSTOMER, "Mia answers the dispute by", "Answer the dispute by"),
        (Party.STAFF, "Answer the dispute by", "Ada answers the dispute by"),
        (Party.PROCESSOR, "Mia answers the dispute by", "Answer the dispute by"),
    ],
)
def test_a_dispute_is_answered_by_the_other_side(opener: Party, customer: str, staff: str) -> None:
    """Whoever opened a dispute waits for the other side; a bank acts for the customer."""
    disputed = booking(opener)
    assert told(RESPOND_BY, Party.CUSTOMER, disputed) == customer
    assert told(RESPOND_BY, Party.STAFF, disputed) == staff


def test_deadlines_of_others_are_told_in_the_language() -> None:
    """The name stands in the sentence of the language."""
    assert told(PAY_BY, Party.STAFF, booking(), "de") == "Ada zahlt bis"


@pytest.mark.parametrize("party", [Party.CUSTOMER, Party.STAFF, *OTHERS])
@pytest.mark.parametrize("kind", list(DeadlineKind))
def test_every_deadline_has_a_text_for_every_side(kind: DeadlineKind, party: Party) -> None:
    """No side meets a deadline without a text."""
    assert told(kind, party, booking(Party.CUSTOMER))
