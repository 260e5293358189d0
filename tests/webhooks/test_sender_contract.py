"""The webhook sender keeps the contract of senders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from staffbooking_adapters.testing.receivers import FakeResolver
from staffbooking_adapters.testing.webhook_sender import WebhookSenderContract
from staffbooking_adapters.webhook.sender import HttpSender
from staffbooking_core.ports import WebhookSender


class TestHttpSender(WebhookSenderContract):
    @asynccontextmanager
    async def open_sender(
        self, names: FakeResolver, *, allow_loopback: bool
    ) -> AsyncIterator[WebhookSender]:
        sender = HttpSender(insecure=allow_loopback, resolver=names)
        try:
            yield sender
        finally:
            await sender.close()
