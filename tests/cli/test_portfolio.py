"""`staffbooking portfolio`: lists and moderates portfolio items."""

from __future__ import annotations

import json

from staffbooking_adapters.testing.builders import add_companion
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItem, PortfolioItemStatus
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import approvals
from tests.cli.deployment import CliDeployment


async def add(ports: Ports) -> PortfolioItem:
    return await add_portfolio_item(ports.store, (await add_companion(ports.store)).id)


async def shown(ports: Ports) -> list[str]:
    """The titles of the first companion's items that others see."""
    async with ports.store.read_view() as view:
        body = await view.companions.detail(1)
    assert body is not None
    return [item["title"] for item in json.loads(body)["companion"]["portfolio"]]


def test_items_are_listed(deployment: CliDeployment) -> None:
    """All items are listed with their companion's id, optionally by status."""
    items = [deployment.run_on_ports(add) for _ in range(3)]
    found = deployment.run_json("portfolio", "list")["portfolio"]
    assert [(one["id"], one["companion_id"]) for one in found] == [
        (item.id, item.companion_id) for item in items
    ]
    assert found[0] == {
        "id": items[0].id,
        "companion_id": items[0].companion_id,
        "status": "pending",
        "title": "The spring ball",
        "image": "photos/ball.jpg",
        "description": "Two bars, 300 guests.",
        "created_at": "2027-03-01T12:00:00Z",
    }
    deployment.run_json("portfolio", "approve", items[1].id)
    for status, ids in (("approved", [items[1].id]), ("rejected", [])):
        found = deployment.run_json("portfolio", "list", "--status", status)["portfolio"]
        assert [one["id"] for one in found] == ids
    assert "The spring ball" in deployment.run_table("portfolio", "list")


def test_a_long_list_is_whole(deployment: CliDeployment) -> None:
    """A list of several pages is complete."""

    async def fill(ports: Ports) -> None:
        companion = await add_companion(ports.store)
        for _ in range(501):
            await add_portfolio_item(ports.store, companion.id)

    deployment.run_on_ports(fill)
    assert len(deployment.run_json("portfolio", "list", "--status", "pending")["portfolio"]) == 501


def test_an_item_is_approved_and_rejected(deployment: CliDeployment) -> None:
    """Only the status and its visibility to others change; repeating has no effect."""
    item = deployment.run_on_ports(add)
    before = deployment.run_json("portfolio", "list")["portfolio"][0]
    for command, status, seen in (
        ("approve", PortfolioItemStatus.APPROVED, [item.title]),
        ("approve", PortfolioItemStatus.APPROVED, [item.title]),
        ("reject", PortfolioItemStatus.REJECTED, []),
    ):
        changed = deployment.run_json("portfolio", command, item.id)["item"]
        assert changed == {**before, "status": status}
        assert deployment.run_on_ports(shown) == seen
    assert "rejected" in deployment.run_table("portfolio", "reject", item.id)


def test_the_owner_of_a_rejected_item_gets_the_reason(deployment: CliDeployment) -> None:
    """The reason of the command is stored for the item's owner."""
    item = deployment.run_on_ports(add)
    deployment.run_json("portfolio", "reject", item.id, "--reason", "Blurred")
    kept = deployment.run_on_ports(lambda ports: approvals.get_portfolio_item(ports, item.id))
    assert kept.rejection == "Blurred"


def test_an_unknown_item_is_refused(deployment: CliDeployment) -> None:
    """Moderating an unknown item is refused."""
    for command in ("approve", "reject"):
        line = deployment.run_refused("portfolio", command, 7)
        assert line == "staffbooking: Portfolio item not found"


def test_an_unfinished_profile_is_not_approved(deployment: CliDeployment) -> None:
    """One line names what the profile lacks."""
    companion = deployment.run_on_ports(
        lambda ports: add_companion(
            ports.store, approval=Approval.PENDING, hourly_rate=0, service_types=()
        )
    )
    line = deployment.run_refused("companions", "approve", companion.id)
    assert line == "staffbooking: The profile has no hourly_rate, service_types yet"
    assert deployment.run_json("companions", "suspend", companion.id)["companion"]["status"]
