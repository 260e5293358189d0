"""`staffbooking reviews`: list, hide and show."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import add_user
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.inputs import SubmitReview
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import reviews
from tests.cli.deployment import BookedParties, CliDeployment, add_completed_booking


async def reviewed(ports: Ports) -> tuple[BookedParties, Review, Review]:
    """A booking that both sides have reviewed, the customer first."""
    party = await add_completed_booking(ports)
    customer = Actor(party.customer.id, Role.CUSTOMER)
    staff = Actor(party.companion_id, Role.STAFF)
    said = SubmitReview(rating=1, comment="Came\nlate", punctuality=1)
    by_customer = await reviews.submit_review(ports, customer, party.booking.id, said)
    by_staff = await reviews.submit_review(ports, staff, party.booking.id, SubmitReview(rating=5))
    return party, by_customer, by_staff


def ratings(deployment: CliDeployment) -> tuple[float, int]:
    """The ratings of the one companion."""
    [companion] = deployment.run_json("companions", "list")["companions"]
    return companion["rating_avg"], companion["total_reviews"]


def test_reviews_are_listed(deployment: CliDeployment) -> None:
    """The published records are ordered by id, with their hidden flag."""
    assert deployment.run_json("reviews", "list") == {"reviews": []}
    _, one, two = deployment.run_on_ports(reviewed)
    deployment.run_json("reviews", "hide", one.id)
    first, second = deployment.run_json("reviews", "list")["reviews"]
    assert (first["id"], first["comment"], first["punctuality"]) == (one.id, "Came\nlate", 1)
    assert (second["id"], second["reviewer_role"]) == (two.id, "staff")
    assert (first["hidden"], second["hidden"]) == (True, False)


def test_a_table_keeps_a_review_on_its_line(deployment: CliDeployment) -> None:
    """A review takes one line of the table whatever it contains; hidden is a word."""
    deployment.run_on_ports(reviewed)
    table = deployment.run_table("reviews", "list")
    [line] = [line for line in table.splitlines() if "Came" in line]
    assert "Came\\nlate" in line
    assert " no " in line


def test_reviews_are_listed_by_person(deployment: CliDeployment) -> None:
    """The list contains the reviews by and of a user, found by e-mail in any letter case."""
    party, one, two = deployment.run_on_ports(reviewed)
    deployment.run_on_ports(lambda ports: add_user(ports.store, email="bo@example.com"))
    found = deployment.run_json("reviews", "list", "--user", party.customer.email.upper())[
        "reviews"
    ]
    assert [review["id"] for review in found] == [one.id, two.id]
    assert deployment.run_json("reviews", "list", "--user", "bo@example.com") == {"reviews": []}
    line = deployment.run_refused("reviews", "list", "--user", "nobody@example.com")
    assert line == "staffbooking: User not found"


def test_a_review_is_hidden_and_shown_again(deployment: CliDeployment) -> None:
    """The companion's rating follows; repeating changes nothing."""
    _, one, _ = deployment.run_on_ports(reviewed)
    before = deployment.run_json("reviews", "list")["reviews"][0]
    assert ratings(deployment) == (1, 1)
    for _ in "ab":
        assert deployment.run_json("reviews", "hide", one.id)["review"] == {
            **before,
            "hidden": True,
        }
        assert ratings(deployment) == (0, 0)
    for _ in "ab":
        assert deployment.run_json("reviews", "show", one.id)["review"] == before
        assert ratings(deployment) == (1, 1)
    assert "Came\\nlate" in deployment.run_table("reviews", "show", one.id)


@pytest.mark.parametrize("command", ["hide", "show"])
def test_an_unknown_review_is_refused(deployment: CliDeployment, command: str) -> None:
    """An unknown review is refused; an id outside the store's range is a usage error."""
    assert deployment.run_refused("reviews", command, 7) == "staffbooking: Review not found"
    for wrong in ("0", str(2**63), "x"):
        assert deployment.run_command("reviews", command, wrong).exit_code == 2
