"""`staffbooking sandbox` and `worker --drain`: the clock, and the due work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve

from staffbooking_core.policy import Policy
from tests.cli.deployment import CliDeployment, add_paid_booking


def now(deployment: CliDeployment, *arguments: str) -> datetime:
    return datetime.fromisoformat(deployment.run_json("sandbox", "clock", *arguments)["now"])


def test_the_clock_is_shown(deployment: CliDeployment) -> None:
    """Business time initially equals wall time."""
    assert abs(now(deployment, "show") - datetime.now(UTC)) < timedelta(minutes=1)


def test_the_clock_is_advanced(deployment: CliDeployment) -> None:
    """Advancing prints the new time, and the time is kept."""
    before = now(deployment, "show")
    moved = now(deployment, "advance", "72h")
    assert timedelta(hours=72) <= moved - before < timedelta(hours=72, minutes=1)
    assert now(deployment, "show") >= moved


def test_the_clock_is_set(deployment: CliDeployment) -> None:
    """An instant with any offset is accepted."""
    year = datetime.now(UTC).year + 1
    moved = now(deployment, "set", f"{year}-03-01T18:00:00+01:00")
    assert moved == datetime(year, 3, 1, 17, tzinfo=UTC)


def test_a_table_is_the_time_alone(deployment: CliDeployment) -> None:
    """Without --json the output is one line."""
    printed = deployment.run_table("sandbox", "clock", "show")
    assert datetime.fromisoformat(printed.strip()).tzinfo is UTC


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("set", "2020-01-01T00:00:00Z"), "The sandbox's clock only runs forward"),
        (("set", "2999-12-31T23:59:59Z"), "set_to: is too far ahead"),
    ],
)
def test_a_bad_move_is_refused(
    deployment: CliDeployment, arguments: tuple[str, ...], reason: str
) -> None:
    """The clock can't be set back or beyond the calendar's range."""
    assert deployment.run_refused("sandbox", "clock", *arguments) == f"staffbooking: {reason}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("advance", "3d"),
        ("advance", "72"),
        ("set", "tomorrow"),
        ("set", "2027-03-01T18:00"),
        ("set", "2027-02-30T18:00Z"),
        ("set", "0001-01-01T00:00+23:00"),
    ],
)
def test_an_invalid_time_is_a_usage_error(
    deployment: CliDeployment, arguments: tuple[str, ...]
) -> None:
    """A duration without a unit or an instant without an offset is a usage error."""
    assert deployment.run_command("sandbox", "clock", *arguments).exit_code == 2


@pytest.mark.parametrize("given", [{"sandbox": None}, {"policy": Policy(sandbox=False)}])
def test_without_a_sandbox_no_clock_moves(deployment: CliDeployment, given: dict[str, Any]) -> None:
    """The commands are refused with real payments or with the sandbox off."""
    deployment.ports = evolve(deployment.ports, **given)
    for arguments in (("show",), ("advance", "1h")):
        assert "Sandbox" in deployment.run_refused("sandbox", "clock", *arguments)


def test_a_drain_does_what_came_due(deployment: CliDeployment) -> None:
    """After the clock passed completion and payout, one drain does both."""
    code = deployment.run_on_ports(add_paid_booking).booking.code
    deployment.run_json("sandbox", "clock", "advance", "600h")
    assert deployment.run_json("worker", "--drain")["done"] > 0
    booking = deployment.run_json("bookings", "show", code)["booking"]
    assert (booking["status"], booking["payout_status"]) == ("completed", "paid")
    assert deployment.run_table("worker", "--drain") == "0 pieces of work done, nothing is due.\n"
