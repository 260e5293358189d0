"""`staffbooking audit list`: every operator's change is listed with who, what and why."""

from __future__ import annotations

import getpass
from typing import Any

import pytest

from staffbooking_adapters.testing.builders import add_companion
from staffbooking_core.operator_inputs import ApprovalAct
from tests.cli.deployment import (
    CliDeployment,
    add_completed_booking,
)

PERSON = "pat@example.com"


def audit(deployment: CliDeployment) -> list[dict[str, Any]]:
    entries = deployment.run_json("audit", "list")["audit"]
    assert isinstance(entries, list)
    return entries


def add_person(deployment: CliDeployment, *words: str) -> int:
    names = ("--first-name", "Pat", "--last-name", "Poe")
    user = deployment.run_json("users", "create", PERSON, *names, *words)["user"]
    assert isinstance(user["id"], int)
    return user["id"]


def test_a_suspension_has_the_word_of_the_interface(deployment: CliDeployment) -> None:
    """Who refuses a companion at the command line and who does it over HTTP or on a page does the
    same: the audit has one word for it."""
    companion = deployment.run_on_ports(lambda ports: add_companion(ports.store))
    deployment.run_json("companions", "suspend", companion.id)
    [entry] = audit(deployment)
    assert (entry["act"], entry["subject"]) == (ApprovalAct.REJECT, "companion")


def test_a_change_is_listed(deployment: CliDeployment) -> None:
    """A change is listed with its actor, act, subject, reason and origin."""
    user_id = add_person(deployment)
    deployment.run_json("users", "disable", PERSON, "--reason", "Asked for it", "--by", "ana")
    entry = audit(deployment)[0]
    assert entry.pop("at").endswith("Z")
    assert entry == {
        "id": 2,
        "actor_id": None,
        "actor": "ana",
        "act": "disable",
        "subject": "person",
        "subject_id": user_id,
        "reason": "Asked for it",
        "from": "cli",
    }


def test_a_new_account_is_listed_with_its_id(deployment: CliDeployment) -> None:
    """The entry of a new account has the account's id; without a reason it has none."""
    user_id = add_person(deployment)
    [entry] = audit(deployment)
    assert (entry["act"], entry["subject_id"], entry["reason"]) == ("create", user_id, None)


def test_the_actor_is_the_system_user(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `--by` the actor is the system's user name."""
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    add_person(deployment)
    assert audit(deployment)[0]["actor"] == "root"


def test_a_refused_change_leaves_no_entry(deployment: CliDeployment) -> None:
    """A change that is refused is not in the audit."""
    deployment.run_refused("payouts", "hold", "BK000000000000", "--reason", "odd")
    deployment.run_refused("users", "disable", "nobody@example.com")
    assert audit(deployment) == []


def test_faults_of_the_words_are_all_named(deployment: CliDeployment) -> None:
    """A long reason and a blank name are refused together."""
    line = deployment.run_refused("users", "enable", PERSON, "--reason", "x" * 301, "--by", " ")
    assert "reason" in line
    assert "by" in line


def test_a_change_of_several_transactions_is_listed_once(deployment: CliDeployment) -> None:
    """A hold and its release are one entry each, named by the booking's code."""
    code = deployment.run_on_ports(add_completed_booking).booking.code
    deployment.run_json("payouts", "hold", code, "--note", "Police")
    deployment.run_json("payouts", "release", code)
    entries = audit(deployment)
    assert [(each["act"], each["subject"], each["subject_id"]) for each in entries] == [
        ("release", "payout", code),
        ("hold", "payout", code),
    ]
    assert entries[1]["reason"] == "Police"


def test_the_audit_comes_in_pages(deployment: CliDeployment) -> None:
    """A page has its number, and says whether there are more."""
    add_person(deployment)
    deployment.run_json("users", "disable", PERSON)
    page = deployment.run_json("audit", "list", "--limit", 1, "--page", 2)
    assert [each["act"] for each in page["audit"]] == ["create"]
    assert (page["page"], page["limit"], page["has_more"]) == (2, 1, False)
    assert "disable" in deployment.run_table("audit", "list")


def test_companions_are_listed_with_their_addresses(deployment: CliDeployment) -> None:
    """The list of companions shows the e-mail addresses of their accounts."""
    code = deployment.run_on_ports(add_completed_booking).booking.companion_id
    [companion] = deployment.run_json("companions", "list")["companions"]
    assert companion["id"] == code
    assert "@" in companion["email"]
    assert companion["email"] in deployment.run_table("companions", "list")
