"""`staffbooking disputes`: the evidence and the three resolutions."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_core.domain.shared.money import Currency
from tests.cli.deployment import CliDeployment, add_disputed_booking, add_paid_booking


@pytest.fixture
def code(deployment: CliDeployment) -> str:
    """The code of a booking of 400.00 under dispute."""
    return deployment.run_on_ports(add_disputed_booking).booking.code


def test_disputes_are_listed(deployment: CliDeployment, code: str) -> None:
    """The list shows the party that disputes each booking and the reason."""
    page = deployment.run_json("disputes", "list")
    assert page["has_more"] is False
    [dispute] = page["disputes"]
    assert (dispute["booking_code"], dispute["disputed_by"]) == (code, "customer")
    assert dispute["dispute_reason"] == "Came two hours late"
    assert "Came two hours late" in deployment.run_table("disputes", "list")


def test_the_evidence_is_shown(deployment: CliDeployment, code: str) -> None:
    """The evidence contains the record, the check-in, the timeline and every payment operation."""
    dispute = deployment.run_json("disputes", "show", code)["dispute"]
    assert dispute["checked_in_at"] is not None
    assert dispute["timeline"][-1]["to"] == "disputed"
    assert dispute["operations"][0]["kind"] == "open_checkout"
    assert dispute["operations"][0]["amount"] == 400
    assert dispute["money"] == {"held": 400, "refunded": 0, "paid_out": 0, "owed_by_staff": 0}
    assert dispute["payment_ref"]
    assert dispute["dispute_status"] == "open"
    [statement] = dispute["statements"]
    assert (statement["by"], statement["text"]) == ("customer", "Came two hours late")
    table = deployment.run_table("disputes", "show", code)
    assert (
        table.index("statements")
        < table.index("timeline")
        < table.index("money")
        < table.index("open_checkout")
    )
    assert "{" not in table


def test_an_undisputed_booking_has_no_evidence(deployment: CliDeployment) -> None:
    """Showing a booking without a dispute is refused."""
    code = deployment.run_on_ports(add_paid_booking).booking.code
    line = deployment.run_refused("disputes", "show", code)
    assert line == f"staffbooking: booking {code} was never under dispute"


@pytest.mark.parametrize(
    ("decision", "status", "refunded", "payout"),
    [
        (("--release",), "completed", 0, 340),
        (("--refund",), "cancelled", 400, 0),
        (("--split", "100.50"), "completed", 100.5, 254.57),
    ],
)
def test_a_dispute_is_resolved(
    deployment: CliDeployment,
    code: str,
    decision: tuple[str, ...],
    status: str,
    refunded: float,
    payout: float,
) -> None:
    """Each resolution splits the money as expected, and the ledger check passes."""
    booking = deployment.run_json("disputes", "resolve", code, *decision, "--note", "Heard both")
    booking = booking["booking"]
    assert (booking["status"], booking["refunded_amount"]) == (status, refunded)
    assert booking["payout_amount"] == payout
    dispute = deployment.run_json("disputes", "show", code)["dispute"]
    assert dispute["dispute_status"] == "resolved"
    assert dispute["resolution"]["note"] == "Heard both"
    table = deployment.run_table("disputes", "show", code)
    assert "Heard both" in table
    assert "{" not in table
    deployment.run_json("worker", "--drain")
    assert deployment.run_json("ledger", "check")["faults"] == []
    assert deployment.run_json("disputes", "list")["disputes"] == []


def test_a_split_is_in_the_currency_of_the_booking(deployment: CliDeployment, code: str) -> None:
    """A split counts in the booking's currency, also once the service has another one."""
    yen = evolve(deployment.ports.policy, currency=Currency("jpy"))
    deployment.ports = evolve(deployment.ports, policy=yen)
    booking = deployment.run_json("disputes", "resolve", code, "--split", "50.50")["booking"]
    assert (booking["currency"], booking["refunded_amount"]) == ("usd", 50.5)


@pytest.mark.parametrize(
    "decision",
    [
        (),
        ("--release", "--refund"),
        ("--refund", "--split", "1"),
        ("--split", "-1"),
        ("--split", "-0"),
        ("--split", "nan"),
        ("--split", "Infinity"),
        ("--split", "1e400"),
        ("--split", "\u0661"),
    ],
)
def test_a_decision_is_exactly_one(
    deployment: CliDeployment, code: str, decision: tuple[str, ...]
) -> None:
    """No option, two options or an invalid amount is a usage error that changes nothing."""
    assert deployment.run_command("disputes", "resolve", code, *decision).exit_code == 2
    assert deployment.run_json("disputes", "list")["disputes"] != []


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (("--split", "0.001"), "split: has more than 2 decimals"),
        (("--release", "--note", "x" * 301), "reason: must have 1 to 300 characters"),
    ],
)
def test_a_decision_out_of_bounds_is_refused(
    deployment: CliDeployment, code: str, decision: tuple[str, ...], reason: str
) -> None:
    """An amount with too many decimals and too long a note are refused by field."""
    line = deployment.run_refused("disputes", "resolve", code, *decision)
    assert line == f"staffbooking: {reason}"


def test_a_split_over_the_paid_amount_is_refused(deployment: CliDeployment, code: str) -> None:
    """A customer can't be refunded more than was paid."""
    assert deployment.run_refused("disputes", "resolve", code, "--split", "400.01")


def test_an_undisputed_booking_is_not_resolved(deployment: CliDeployment) -> None:
    """Resolving a paid booking without a dispute is refused."""
    code = deployment.run_on_ports(add_paid_booking).booking.code
    assert "staffbooking: " in deployment.run_refused("disputes", "resolve", code, "--refund")
