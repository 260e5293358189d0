"""`staffbooking payouts` and `refunds`: lists, holds and retries."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.inputs import CancelBooking
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import actions
from tests.cli.deployment import CliDeployment, add_completed_booking, add_paid_booking


@pytest.fixture
def code(deployment: CliDeployment) -> str:
    """The code of a completed booking whose payout of 340.00 is scheduled."""
    return deployment.run_on_ports(add_completed_booking).booking.code


def misbehave(deployment: CliDeployment, op: str, kind: str) -> None:
    async def add(ports):
        await ports.sandbox.add_fault(op, kind, 1)

    deployment.run_on_ports(add)


def a_day_passes(deployment: CliDeployment) -> None:
    deployment.run_json("sandbox", "clock", "advance", "25h")
    deployment.run_json("worker", "--drain")


def only_payout(deployment: CliDeployment) -> dict[str, Any]:
    [payout] = deployment.run_json("payouts", "list")["payouts"]
    assert isinstance(payout, dict)
    return payout


def test_payouts_are_listed_until_they_are_made(deployment: CliDeployment, code: str) -> None:
    """A scheduled payout is listed with its due time until it is paid."""
    payout = only_payout(deployment)
    assert payout["booking_code"] == code
    assert (payout["payout_status"], payout["payout_amount"]) == ("scheduled", 340)
    assert payout["completed_at"] < payout["payout_due_at"] < payout["promised_by"]
    assert (payout["released_at"], payout["attempts"], payout["last_error"]) == (None, 0, None)
    assert "340.00" in deployment.run_table("payouts", "list")
    a_day_passes(deployment)
    assert deployment.run_json("payouts", "list") == {"payouts": []}


def test_a_payout_on_hold_is_not_made(deployment: CliDeployment, code: str) -> None:
    """A payout on hold is not sent when due, only after its release."""
    held = deployment.run_json("payouts", "hold", code, "--note", "Asked the police")["payout"]
    assert (held["booking_code"], held["payout_status"]) == (code, "frozen")
    a_day_passes(deployment)
    assert only_payout(deployment)["payout_status"] == "frozen"
    released = deployment.run_json("payouts", "release", code)["payout"]
    assert released["payout_status"] == "scheduled"
    deployment.run_json("worker", "--drain")
    assert deployment.run_json("payouts", "show", code)["payout"]["payout_status"] == "paid"


def test_a_refused_payout_says_why(deployment: CliDeployment, code: str) -> None:
    """The list and the payout's record contain the reason of the last failure."""
    misbehave(deployment, "pay_out", "refuse")
    a_day_passes(deployment)
    payout = only_payout(deployment)
    assert (payout["payout_status"], payout["attempts"]) == ("failed", 1)
    assert payout["last_error"]
    assert payout["last_error"] in deployment.run_table("payouts", "list")
    assert payout["last_error"] in deployment.run_table("payouts", "show", code)
    [operation] = deployment.run_json("payouts", "show", code)["payout"]["operations"]
    assert (operation["kind"], operation["status"]) == ("pay_out", "refused")


def test_a_failed_payout_is_tried_again(deployment: CliDeployment, code: str) -> None:
    """Retrying sends the payout again, and the ledger check passes."""
    misbehave(deployment, "pay_out", "refuse")
    a_day_passes(deployment)
    retried = deployment.run_json("payouts", "retry", code)["payout"]
    assert (retried["payout_status"], retried["left"]) == ("paid", 0)
    assert deployment.run_json("ledger", "check")["faults"] == []


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("hold", "--note", "x" * 301), "reason: must have 1 to 300 characters"),
        (("release",), "The payout is not on hold"),
        (("retry",), "The payout has not failed"),
    ],
)
def test_a_forbidden_action_on_a_payout_is_refused(
    deployment: CliDeployment, code: str, command: tuple[str, ...], line: str
) -> None:
    """One line names the rule that forbids the action."""
    name, *rest = command
    assert deployment.run_refused("payouts", name, code, *rest) == f"staffbooking: {line}"


def test_a_payout_that_was_made_is_not_held(deployment: CliDeployment, code: str) -> None:
    """A payout that was sent can't be held."""
    a_day_passes(deployment)
    line = deployment.run_refused("payouts", "hold", code)
    assert line == "staffbooking: No payout is waiting to be made"


@pytest.mark.parametrize("command", ["payouts show", "payouts retry", "refunds retry"])
def test_an_unknown_booking_is_refused(deployment: CliDeployment, command: str) -> None:
    """Every command refuses an unknown booking code."""
    line = deployment.run_refused(*command.split(), "BK000000000000")
    assert line == "staffbooking: Booking not found"


# Refunds --------------------------------------------------------------------------------


@pytest.fixture
def owed(deployment: CliDeployment) -> str:
    """The code of a cancelled booking whose refund of 400.00 was refused."""

    async def cancelled(ports: Ports) -> str:
        party = await add_paid_booking(ports)
        assert ports.sandbox is not None
        await ports.sandbox.add_fault("refund", "refuse", 1)
        customer = Actor(party.customer.id, Role.CUSTOMER)
        await actions.cancel(ports, customer, party.booking.id, CancelBooking())
        return party.booking.code

    code = deployment.run_on_ports(cancelled)
    deployment.run_json("worker", "--drain")
    return code


def test_failed_refunds_are_listed(deployment: CliDeployment, owed: str) -> None:
    """The list contains the customer, the amount and the reason."""
    [refund] = deployment.run_json("refunds", "list")["refunds"]
    assert (refund["booking_code"], refund["amount"], refund["currency"]) == (owed, 400, "usd")
    assert (refund["kind"], refund["status"]) == ("refund", "refused")
    assert refund["last_error"]
    assert "400.00 usd" in deployment.run_table("refunds", "list")


def test_a_failed_refund_is_tried_again(deployment: CliDeployment, owed: str) -> None:
    """Retrying sends the refund again; it succeeds and leaves the list."""
    booking = deployment.run_json("refunds", "retry", owed)["booking"]
    assert (booking["booking_code"], booking["payment_status"]) == (owed, "refunded")
    assert deployment.run_json("refunds", "list") == {"refunds": []}
    assert deployment.run_json("ledger", "check")["faults"] == []


def test_without_a_failed_refund_nothing_is_tried(deployment: CliDeployment, code: str) -> None:
    """Retrying is refused for a booking without failed refunds."""
    line = deployment.run_refused("refunds", "retry", code)
    assert line == "staffbooking: No refund of this booking has failed"
