"""In-process receivers of webhooks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from staffbooking_adapters.memory.webhooks.receivers import MemorySender, SentWebhook
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

pytestmark = pytest.mark.anyio

URL = "https://crm.example/hooks"
HEADERS = {"X-Webhook-Id": "evt_1"}


async def test_a_receiver_gets_headers_and_body() -> None:
    """The function registered at an address is called with the request."""
    received: list[tuple[Mapping[str, str], bytes]] = []

    def receive(headers: Mapping[str, str], body: bytes) -> int:
        received.append((headers, body))
        return 204

    assert await MemorySender({URL: receive}).send(URL, HEADERS, b"{}", 10) == 204
    assert received == [(HEADERS, b"{}")]


@pytest.mark.parametrize("answer", [200, 302, 503, DeliveryFailure.TIMEOUT])
async def test_the_answer_is_the_receivers(answer: int | DeliveryFailure) -> None:
    """The receiver's status or failure is returned."""
    assert await MemorySender({URL: lambda *_: answer}).send(URL, HEADERS, b"{}", 10) == answer


async def test_an_unknown_address_is_a_failed_connection() -> None:
    """An unknown address is a failed connection, and the request is still recorded."""
    sender = MemorySender()

    assert await sender.send(URL, HEADERS, b"{}", 10) is DeliveryFailure.CONNECTION_FAILED
    assert sender.sent == [SentWebhook(URL, HEADERS, b"{}")]


async def test_a_receiver_that_raises_counts_as_500() -> None:
    """A receiver that raises an error counts as status 500."""

    def receive(_headers: Mapping[str, str], _body: bytes) -> int:
        raise LookupError("no such customer")

    assert await MemorySender({URL: receive}).send(URL, HEADERS, b"{}", 10) == 500


async def test_requests_are_recorded_in_order() -> None:
    """Each request is recorded, in order."""
    sender = MemorySender({URL: lambda *_: 500})
    for body in (b"1", b"2", b"1"):
        await sender.send(URL, HEADERS, body, 10)

    assert [each.body for each in sender.sent] == [b"1", b"2", b"1"]


async def test_an_unsafe_host_is_never_sent_to() -> None:
    """A host with an unsafe address is reported as unsafe and never sent to."""
    sender = MemorySender({URL: lambda *_: 200}, unsafe_hosts=["crm.example"])

    assert await sender.resolves_to_unsafe("crm.example")
    assert not await sender.resolves_to_unsafe("other.example")
    assert await sender.send(URL, HEADERS, b"{}", 10) is DeliveryFailure.UNSAFE_ADDRESS
    assert sender.sent == []
