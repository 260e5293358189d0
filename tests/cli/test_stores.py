"""The commands on real databases, SQLite and PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from staffbooking_adapters import wiring
from staffbooking_adapters.settings import load_settings
from staffbooking_core.domain.accounts.api_keys import is_well_formed_api_key
from staffbooking_core.ports import Ports
from tests.cli import deployment as commands
from tests.cli.import_files import MIA, person
from tests.cli.test_reviews import reviewed
from tests.contract.stores import RESET_SQL
from tests.support.migrated_databases import MigratedDatabase

T = TypeVar("T")


class OnDatabase(commands.CliDeployment):
    """The deployment that the environment selects."""

    def __init__(self) -> None:
        """Opens nothing before the first command."""

    def run(self, work: Callable[[Ports], Awaitable[T]]) -> T:
        async def opened() -> T:
            async with wiring.open_ports(load_settings(os.environ)) as ports:
                return await work(ports)

        return anyio.run(opened)


def deployment_on(url: str, monkeypatch: pytest.MonkeyPatch) -> OnDatabase:
    for name in [name for name in os.environ if name.startswith("STAFFBOOKING_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STAFFBOOKING_DATABASE_URL", url)
    return OnDatabase()


@pytest.fixture(params=["sqlite", "postgresql"])
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OnDatabase:
    """An empty deployment with the schema."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "store.db")
        return deployment_on(f"sqlite+aiosqlite:///{tmp_path}/store.db", monkeypatch)
    migrated: MigratedDatabase = request.getfixturevalue("migrated_database")
    migrated.execute(RESET_SQL)
    return deployment_on(migrated.url, monkeypatch)


def test_the_schema_is_made(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database without the schema is refused until `db upgrade` makes it; then all checks of
    `doctor` pass."""
    made = deployment_on(database_url, monkeypatch)
    assert "staffbooking db upgrade" in made.run_refused("db", "check")
    assert made.run_json("db", "upgrade") == {"schema": "current"}
    assert all(check["ok"] for check in made.run_json("doctor")["checks"])


@pytest.mark.parametrize("command", ["users list", "db upgrade", "db check", "worker --drain"])
def test_a_database_out_of_reach_is_one_line(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """An unreachable database server gives one line that names no unexpected error."""
    nowhere = "postgresql+asyncpg://nobody@127.0.0.1:9/none"
    line = deployment_on(nowhere, monkeypatch).run_refused(*command.split())
    assert "unexpected" not in line


def test_accounts_and_keys(deployment: OnDatabase) -> None:
    """An account is created, subscribed, disabled, and has keys."""
    email = "agency@example.com"
    names = ("--first-name", "Grand", "--last-name", "Events")
    user = deployment.run_json("users", "create", email, *names, "--password", "long enough")[
        "user"
    ]
    assert deployment.run_refused("users", "create", email.upper(), *names)
    deployment.run_json("users", "subscribe", email, "enterprise")
    made = deployment.run_json("keys", "create", email, "--name", "Shop", "--permission", "read")
    assert is_well_formed_api_key(made["key"])
    assert deployment.run_json("keys", "list", email)["keys"] == [made["api_key"]]
    deployment.run_json("keys", "revoke", made["api_key"]["id"])
    deployment.run_json("users", "set-password", email, "--password", "still longer")
    deployment.run_json("users", "disable", email)
    listed = deployment.run_json("users", "list")["users"]
    assert [(one["id"], one["subscription"]) for one in listed] == [(user["id"], "enterprise")]
    assert listed[0]["disabled_at"] is not None


def test_companions(deployment: OnDatabase, tmp_path: Path) -> None:
    """Companions are imported, updated, approved and suspended."""
    path = tmp_path / "companions.json"
    path.write_text(json.dumps([MIA, person(1), person(1, hourly_rate=70), person(2, tier="x")]))
    result = deployment.run_command("companions", "import", path, "--json")
    outcome = json.loads(result.stdout)
    assert (outcome["imported"], outcome["updated"], len(outcome["skipped"])) == (2, 1, 1)
    first, second = deployment.run_json("companions", "list")["companions"]
    assert (first["bio"], first["hourly_rate"]) == (MIA["bio"], MIA["hourly_rate"])
    assert (second["hourly_rate"], second["status"]) == (70, "pending")
    changed = deployment.run_json("companions", "approve", second["id"])["companion"]
    assert changed == {**second, "status": "approved"}


def test_a_dispute(deployment: OnDatabase) -> None:
    """A dispute is listed, shown and split; its payout is held, released and paid; the ledger check
    and the reconciliation pass."""
    code = deployment.run(commands.add_disputed_booking).booking.code
    assert deployment.run_json("disputes", "list")["disputes"][0]["booking_code"] == code
    assert deployment.run_json("disputes", "show", code)["dispute"]["operations"]
    deployment.run_json("disputes", "resolve", code, "--split", "100.50")
    assert deployment.run_json("payouts", "list")["payouts"][0]["payout_amount"] == 254.57
    assert deployment.run_json("payouts", "hold", code)["payout"]["payout_status"] == "frozen"
    assert deployment.run_json("payouts", "release", code)["payout"]["payout_status"] == "scheduled"
    deployment.run_json("sandbox", "clock", "advance", "25h")
    assert deployment.run_json("worker", "--drain")["done"] > 0
    booking = deployment.run_json("bookings", "show", code)["booking"]
    assert (booking["payout_status"], booking["payment_status"]) == ("paid", "partially_refunded")
    assert len(deployment.run_json("bookings", "list", "--status", "completed")["bookings"]) == 1
    assert deployment.run_json("ledger", "check") == {"faults": [], "checked": 1}
    assert deployment.run_json("payments", "reconcile")["differences"] == []
    assert deployment.run_json("refunds", "list") == {"refunds": []}
    assert "staff_payable" in deployment.run_table("ledger", "show", code)


def test_reviews(deployment: OnDatabase) -> None:
    """Reviews are listed, also by user; one is hidden and shown again."""
    party, one, two = deployment.run(reviewed)
    listed = deployment.run_json("reviews", "list")["reviews"]
    assert [review["id"] for review in listed] == [one.id, two.id]
    assert (
        deployment.run_json("reviews", "list", "--user", party.customer.email)["reviews"] == listed
    )
    hidden = {**listed[0], "hidden": True}
    for command, shown, total in (("hide", hidden, 0), ("show", listed[0], 1)):
        assert deployment.run_json("reviews", command, one.id)["review"] == shown
        assert deployment.run_json("reviews", "list")["reviews"] == [shown, listed[1]]
        [companion] = deployment.run_json("companions", "list")["companions"]
        assert companion["total_reviews"] == total
