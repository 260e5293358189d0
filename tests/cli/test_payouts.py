"""`staffbooking payouts` and `refunds`: what is stuck, and getting it to move."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.inputs import CancelBooking
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import actions
from tests.cli.deployment import Deployment, completed, paid


@pytest.fixture
def code(deployment: Deployment) -> str:
    """Of a completed booking whose payout of 340.00 is scheduled."""
    return deployment.run(completed).booking.code


def misbehave(deployment: Deployment, op: str, kind: str) -> None:
    async def add(ports):
        await ports.sandbox.add_fault(op, kind, 1)

    deployment.run(add)


def a_day_passes(deployment: Deployment) -> None:
    deployment.json("sandbox", "clock", "advance", "25h")
    deployment.json("worker", "--drain")


def only_payout(deployment: Deployment) -> dict[str, Any]:
    [payout] = deployment.json("payouts", "list")["payouts"]
    assert isinstance(payout, dict)
    return payout


def test_payouts_are_listed_until_they_are_made(deployment: Deployment, code: str) -> None:
    """A completed booking's payout waits with its due time; once made it is gone."""
    payout = only_payout(deployment)
    assert payout["booking_code"] == code
    assert (payout["payout_status"], payout["payout_amount"]) == ("scheduled", 340)
    assert payout["completed_at"] < payout["payout_due_at"] < payout["promised_by"]
    assert (payout["released_at"], payout["attempts"], payout["last_error"]) == (None, 0, None)
    assert "340.00" in deployment.table("payouts", "list")
    a_day_passes(deployment)
    assert deployment.json("payouts", "list") == {"payouts": []}


def test_a_payout_on_hold_is_not_made(deployment: Deployment, code: str) -> None:
    """It waits past its due time, until it is released; then it is made."""
    held = deployment.json("payouts", "hold", code, "--note", "Asked the police")["payout"]
    assert (held["booking_code"], held["payout_status"]) == (code, "frozen")
    a_day_passes(deployment)
    assert only_payout(deployment)["payout_status"] == "frozen"
    released = deployment.json("payouts", "release", code)["payout"]
    assert released["payout_status"] == "scheduled"
    deployment.json("worker", "--drain")
    assert deployment.json("payouts", "show", code)["payout"]["payout_status"] == "paid"


def test_a_refused_payout_says_why(deployment: Deployment, code: str) -> None:
    """The list and the payout's own page have the reason of the last try."""
    misbehave(deployment, "pay_out", "refuse")
    a_day_passes(deployment)
    payout = only_payout(deployment)
    assert (payout["payout_status"], payout["attempts"]) == ("failed", 1)
    assert payout["last_error"]
    assert payout["last_error"] in deployment.table("payouts", "list")
    assert payout["last_error"] in deployment.table("payouts", "show", code)
    [operation] = deployment.json("payouts", "show", code)["payout"]["operations"]
    assert (operation["kind"], operation["status"]) == ("pay_out", "refused")


def test_a_failed_payout_is_tried_again(deployment: Deployment, code: str) -> None:
    """One command sends it anew, and the ledger is clean."""
    misbehave(deployment, "pay_out", "refuse")
    a_day_passes(deployment)
    retried = deployment.json("payouts", "retry", code)["payout"]
    assert (retried["payout_status"], retried["left"]) == ("paid", 0)
    assert deployment.json("ledger", "check")["faults"] == []


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("hold", "--note", "x" * 301), "note: must have 1 to 300 characters"),
        (("release",), "The payout is not on hold"),
        (("retry",), "The payout has not failed"),
    ],
)
def test_what_can_not_be_done_to_a_payout_is_refused(
    deployment: Deployment, code: str, command: tuple[str, ...], line: str
) -> None:
    """One line says which rule stands in the way."""
    name, *rest = command
    assert deployment.refusal("payouts", name, code, *rest) == f"staffbooking: {line}"


def test_a_payout_that_was_made_is_not_held(deployment: Deployment, code: str) -> None:
    """What has gone out can't be held back."""
    a_day_passes(deployment)
    line = deployment.refusal("payouts", "hold", code)
    assert line == "staffbooking: No payout is waiting to be made"


@pytest.mark.parametrize("command", ["payouts show", "payouts retry", "refunds retry"])
def test_an_unknown_booking_is_refused(deployment: Deployment, command: str) -> None:
    """No command knows a code that was never given."""
    line = deployment.refusal(*command.split(), "BK000000000000")
    assert line == "staffbooking: Booking not found"


# Refunds --------------------------------------------------------------------------------


@pytest.fixture
def owed(deployment: Deployment) -> str:
    """The code of a cancelled booking whose refund of 400.00 was refused."""

    async def cancelled(ports: Ports) -> str:
        party = await paid(ports)
        assert ports.sandbox is not None
        await ports.sandbox.add_fault("refund", "refuse", 1)
        customer = Actor(party.customer.id, Role.CUSTOMER)
        await actions.cancel(ports, customer, party.booking.id, CancelBooking())
        return party.booking.code

    code = deployment.run(cancelled)
    deployment.json("worker", "--drain")
    return code


def test_failed_refunds_are_listed(deployment: Deployment, owed: str) -> None:
    """The list says to whom how much is owed, and why."""
    [refund] = deployment.json("refunds", "list")["refunds"]
    assert (refund["booking_code"], refund["amount"], refund["currency"]) == (owed, 400, "usd")
    assert (refund["kind"], refund["status"]) == ("refund", "refused")
    assert refund["last_error"]
    assert "400.00 usd" in deployment.table("refunds", "list")


def test_a_failed_refund_is_tried_again(deployment: Deployment, owed: str) -> None:
    """One command sends it anew: the client has the money, and nobody is owed any more."""
    booking = deployment.json("refunds", "retry", owed)["booking"]
    assert (booking["booking_code"], booking["payment_status"]) == (owed, "refunded")
    assert deployment.json("refunds", "list") == {"refunds": []}
    assert deployment.json("ledger", "check")["faults"] == []


def test_without_a_failed_refund_nothing_is_tried(deployment: Deployment, code: str) -> None:
    """A booking whose refunds are in order is refused."""
    line = deployment.refusal("refunds", "retry", code)
    assert line == "staffbooking: No refund of this booking has failed"
