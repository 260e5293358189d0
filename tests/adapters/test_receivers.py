"""Receivers of webhooks in the same process."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from staffbooking_adapters.memory.webhooks.receivers import MemorySender, SentWebhook
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

pytestmark = pytest.mark.anyio

URL = "https://crm.example/hooks"
HEADERS = {"X-Webhook-Id": "evt_1"}


async def test_a_receiver_gets_headers_and_body() -> None:
    """The function that listens at an address is called with what was sent there."""
    got: list[tuple[Mapping[str, str], bytes]] = []

    def receive(headers: Mapping[str, str], body: bytes) -> int:
        got.append((headers, body))
        return 204

    assert await MemorySender({URL: receive}).send(URL, HEADERS, b"{}", 10) == 204
    assert got == [(HEADERS, b"{}")]


@pytest.mark.parametrize("answer", [200, 302, 503, DeliveryFailure.TIMEOUT])
async def test_the_answer_is_the_receivers(answer: int | DeliveryFailure) -> None:
    """A status, or why there is none, comes back as the receiver gives it."""
    assert await MemorySender({URL: lambda *_: answer}).send(URL, HEADERS, b"{}", 10) == answer


async def test_where_nobody_listens_the_connection_fails() -> None:
    """An address that is not known is one without a server; what was sent is kept still."""
    sender = MemorySender()

    assert await sender.send(URL, HEADERS, b"{}", 10) is DeliveryFailure.CONNECTION_FAILED
    assert sender.sent == [SentWebhook(URL, HEADERS, b"{}")]


async def test_a_receiver_that_raises_has_answered_500() -> None:
    """Nothing that a receiver does reaches the sender's caller but as an outcome."""

    def receive(_headers: Mapping[str, str], _body: bytes) -> int:
        raise LookupError("no such customer")

    assert await MemorySender({URL: receive}).send(URL, HEADERS, b"{}", 10) == 500


async def test_what_was_sent_is_kept_in_order() -> None:
    """Each webhook once for each time it was sent."""
    sender = MemorySender({URL: lambda *_: 500})
    for body in (b"1", b"2", b"1"):
        await sender.send(URL, HEADERS, body, 10)

    assert [each.body for each in sender.sent] == [b"1", b"2", b"1"]


async def test_an_unsafe_host_is_never_sent_to() -> None:
    """A host that stands for a refused address says so, before and at the connection."""
    sender = MemorySender({URL: lambda *_: 200}, unsafe_hosts=["crm.example"])

    assert await sender.resolves_to_unsafe("crm.example")
    assert not await sender.resolves_to_unsafe("other.example")
    assert await sender.send(URL, HEADERS, b"{}", 10) is DeliveryFailure.UNSAFE_ADDRESS
    assert sender.sent == []
