"""An operator decides a dispute on pages, from the sign-in until both sides read the outcome."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from tests.journeys import booking_steps as steps
from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import Marketplace

pytestmark = pytest.mark.journeys

REASON = "The photos show that the bar closed early."


def test_an_operator_decides_a_dispute(market: Marketplace, person: OpenPerson) -> None:
    """The operator finds the dispute, reads both sides, sees what each gets, decides with a reason;
    both sides read the outcome, the audit has it, and the payout can be held."""
    booking = market.paid_booking()
    market.move_clock(datetime.fromisoformat(booking["ends_at"]))
    customer, staff, operator = person("customer"), person("staff"), person("admin")
    steps.open_booking(customer, booking["id"])
    steps.dispute(customer, "They closed the bar at nine.")
    given = {"text": "The host asked us to."}
    answer = market.client("staff").post(
        f"/bookings/{booking['id']}/dispute/statements", json=given
    )
    assert answer.status_code == 201
    operator.open("/admin")
    operator.main.get_by_role("link", name=re.compile("Open disputes")).click()
    link = operator.main.get_by_role("link", name=re.compile(booking["booking_code"]))
    link.click()
    operator.reads("They closed the bar at nine", "The host asked us to", "Payment arrived")
    operator.main.get_by_role("radio", name=re.compile("^Share the money")).check()
    operator.fill(re.compile("^Part of"), "50")
    operator.press("See what each side gets")
    operator.reads("Who gets what of", "50.00")
    operator.fill("Your reason", REASON)
    operator.press("Share the money")
    operator.reads("The dispute is decided", REASON)
    for side in (customer, staff):
        steps.open_booking(side, booking["id"])
        side.reads("We shared the money", "50.00", REASON)
    operator.open(f"/admin/audit?code={booking['booking_code']}")
    operator.reads("Dispute · Decided", REASON)
    operator.follow(booking["booking_code"])
    operator.follow("Hold the payout")
    operator.fill("Your reason", "The account changed yesterday.")
    operator.press("Hold the payout")
    operator.reads("The payout is on hold", "Both sides agree|The processor's side")
