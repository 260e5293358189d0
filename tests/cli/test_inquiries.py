"""`staffbooking inquiries`: what people ask by the contact form."""

from __future__ import annotations

from staffbooking_core.inputs import Contact
from staffbooking_core.usecases.notifications import inquiries
from tests.cli.deployment import Deployment


def ask(deployment: Deployment, subject: str | None) -> None:
    given = Contact(name="Sam", email="sam@example.com", message="How much?", subject=subject)
    deployment.run(lambda ports: inquiries.ask(ports, given))


def test_questions_are_listed(deployment: Deployment) -> None:
    """All of them, in their order, by JSON as by table."""
    for subject in ("A party", None):
        ask(deployment, subject)
    listed = deployment.json("inquiries", "list")["inquiries"]
    assert [(each["id"], each["subject"]) for each in listed] == [(1, "A party"), (2, "")]
    assert (listed[0]["email"], listed[0]["message"]) == ("sam@example.com", "How much?")
    assert "A party" in deployment.table("inquiries", "list")
