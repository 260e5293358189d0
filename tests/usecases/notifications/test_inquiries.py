"""Inquiries from the contact form."""

from __future__ import annotations

import pytest

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.testing.builders import NOW, POLICY
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.inputs import SubmitInquiry
from staffbooking_core.usecases.notifications import inquiries, notifications
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio


async def test_a_question_is_kept_and_told() -> None:
    """An inquiry is stored and e-mailed to the operators with the reply address."""
    ports = memory_ports()
    given = SubmitInquiry(
        name="Sam", email="sam@example.com", message="How much?\n\nFor ten people."
    )
    asked = await inquiries.submit_inquiry(ports, given)
    expected = Inquiry("Sam", "sam@example.com", "", "How much?\n\nFor ten people.", NOW, id=1)
    assert asked == expected
    assert await inquiries.list_inquiries(ports) == [asked]
    await notifications.send_notifications(ports)
    assert isinstance(ports.notifier, RecordingNotifier)
    [letter] = ports.notifier.emails
    assert (letter.to, letter.reply_to) == (POLICY.contact_email, "sam@example.com")
    assert letter.subject == "Inquiry 1: no subject"
    assert letter.text == "Sam (sam@example.com) asks:\n\nHow much?\n\nFor ten people."


async def test_questions_are_listed_by_pages() -> None:
    """Inquiries are listed by id, with their subjects."""
    ports = memory_ports()
    for subject in ("one", "two", "three"):
        given = SubmitInquiry(name="Sam", email="sam@example.com", message="Hello", subject=subject)
        await inquiries.submit_inquiry(ports, given)
    page = await inquiries.list_inquiries(ports, limit=2)
    assert [each.subject for each in page] == ["one", "two"]
    assert [each.subject for each in await inquiries.list_inquiries(ports, page[-1].id)] == [
        "three"
    ]
