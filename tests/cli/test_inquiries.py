"""`staffbooking inquiries`: messages of the contact form."""

from __future__ import annotations

from staffbooking_core.inputs import SubmitInquiry
from staffbooking_core.usecases.notifications import inquiries
from tests.cli.deployment import CliDeployment


def ask(deployment: CliDeployment, subject: str | None) -> None:
    given = SubmitInquiry(name="Sam", email="sam@example.com", message="How much?", subject=subject)
    deployment.run_on_ports(lambda ports: inquiries.submit_inquiry(ports, given))


def test_questions_are_listed(deployment: CliDeployment) -> None:
    """All inquiries are listed in order, as JSON and as a table."""
    for subject in ("A party", None):
        ask(deployment, subject)
    listed = deployment.run_json("inquiries", "list")["inquiries"]
    assert [(each["id"], each["subject"]) for each in listed] == [(1, "A party"), (2, "")]
    assert (listed[0]["email"], listed[0]["message"]) == ("sam@example.com", "How much?")
    assert "A party" in deployment.run_table("inquiries", "list")
