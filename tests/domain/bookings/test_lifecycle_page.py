"""The page docs/lifecycle.md shows all rows of the three tables."""

from __future__ import annotations

import re

import pytest

from staffbooking_core.domain.bookings.lifecycle import REFUSAL_CODES, TIMER_TRIGGERS, TRANSITIONS
from staffbooking_core.domain.bookings.lifecycle_page import render_lifecycle_page
from staffbooking_core.domain.bookings.payment_lifecycle import PAYMENT_TRANSITIONS
from staffbooking_core.domain.bookings.payout_lifecycle import PAYOUT_TRANSITIONS

BOOKING_CHANGES = {
    (was, trigger, to)
    for was, rows in TRANSITIONS.items()
    for trigger, row in rows.items()
    for to in (row.to_status, row.returns_to)
    if to is not None
}
PAYMENT_CHANGES = {
    (was, trigger, to) for was, rows in PAYMENT_TRANSITIONS.items() for trigger, to in rows.items()
}
PAYOUT_CHANGES = {
    (was, trigger, to) for was, rows in PAYOUT_TRANSITIONS.items() for trigger, to in rows.items()
}


def parts():
    """The lines of the page about the booking, its payment and its payout."""
    return [part.splitlines() for part in re.split("## Its pay.*", render_lifecycle_page())]


def cells_of(lines, columns):
    """The rows of a part's table with this number of columns, without the heading."""
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [row for row in rows if len(row) == columns][1:]


def test_the_page_shows_every_row_of_a_booking():
    """The page has status, trigger and next status of each transition, including the request."""
    booking, _, _ = parts()
    rows = {(row[0], row[1], to) for row in cells_of(booking, 9) for to in row[4].split(" or ")}
    assert rows == BOOKING_CHANGES | {("(none)", "request", "pending")}


def test_the_page_shows_what_a_row_brings_about():
    """Each row shows parties, guards, effects, event, notifications and timer."""
    booking, _, _ = parts()
    assert (
        "| accepted | expire | system | - | cancelled "
        "| void the payment intent, close the checkout | booking.cancelled "
        "| cancellation to the customer (if not by them), "
        "cancellation to the staff member (if not by them) | expire |"
    ) in booking


def test_the_page_shows_every_refusal_and_every_timer():
    """The page shows the refusal code of each trigger, and the timers of each status."""
    booking, _, _ = parts()
    for trigger, code in REFUSAL_CODES.items():
        assert f"| {trigger} | `{code}` |" in booking
    for status, timers in TIMER_TRIGGERS.items():
        assert f"| {status} | {', '.join(timers) or '-'} |" in booking


@pytest.mark.parametrize("part, changes", [(1, PAYMENT_CHANGES), (2, PAYOUT_CHANGES)])
def test_the_page_shows_every_row_of_the_money(part, changes):
    """The page has status, trigger and next status of each payment and payout transition."""
    assert {(was, trigger, to) for was, trigger, to in cells_of(parts()[part], 3)} == changes


@pytest.mark.parametrize(
    "part, changes, begins",
    [
        (0, BOOKING_CHANGES, "[*] --> pending: request"),
        (1, PAYMENT_CHANGES, "[*] --> none"),
        (2, PAYOUT_CHANGES, "[*] --> none"),
    ],
)
def test_the_page_draws_every_change_of_status(part, changes, begins):
    """Each diagram has an arrow for each transition to another status."""
    arrows = {line.strip() for line in parts()[part] if "-->" in line}
    drawn = {f"{was} --> {to}: {trigger}" for was, trigger, to in changes if was != to}
    assert arrows == drawn | {begins}
