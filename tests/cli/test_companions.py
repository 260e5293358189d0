"""`staffbooking companions`: list, approval and suspension."""

from __future__ import annotations

from staffbooking_adapters.testing.builders import add_companion
from staffbooking_core.domain.companions.companion import Approval
from tests.cli.deployment import CliDeployment


def test_companions_are_listed(deployment: CliDeployment) -> None:
    """The list contains every published profile, hidden ones too, with amounts as numbers."""
    deployment.run_on_ports(lambda ports: add_companion(ports.store, approval=Approval.PENDING))
    [found] = deployment.run_json("companions", "list")["companions"]
    assert (found["status"], found["active"]) == ("pending", True)
    assert (found["first_name"], found["last_name"]) == ("Mia", "Lindqvist")
    assert (found["hourly_rate"], found["daily_rate"]) == (100, 700)
    assert "reviews" not in found


def test_a_table_has_money_with_its_decimals(deployment: CliDeployment) -> None:
    """The table shows rates with the currency's decimals."""
    deployment.run_on_ports(lambda ports: add_companion(ports.store))
    assert "100.00" in deployment.run_table("companions", "list")


def test_a_companion_is_approved_and_suspended(deployment: CliDeployment) -> None:
    """Approval and suspension change only the status."""
    companion = deployment.run_on_ports(
        lambda ports: add_companion(ports.store, approval=Approval.PENDING)
    )
    before = deployment.run_json("companions", "list")["companions"][0]
    for command, status in (("approve", "approved"), ("suspend", "suspended")):
        changed = deployment.run_json("companions", command, companion.id)["companion"]
        assert changed == {**before, "status": status}


def test_an_unknown_companion_is_refused(deployment: CliDeployment) -> None:
    """Approving an unknown companion is refused."""
    assert deployment.run_refused("companions", "approve", 7) == "staffbooking: Companion not found"


def test_an_id_is_a_positive_integer(deployment: CliDeployment) -> None:
    """An id outside the store's range is a usage error."""
    for wrong in ("0", str(2**63), "x"):
        assert deployment.run_command("companions", "approve", wrong).exit_code == 2
