"""Webhook receivers in the same process, without a network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from attrs import field, frozen

from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

MemoryReceiver: TypeAlias = Callable[[Mapping[str, str], bytes], int | DeliveryFailure]
"""Takes the headers and body of a webhook; returns an HTTP status or a `DeliveryFailure`."""


@frozen
class SentWebhook:
    """A webhook as it was sent."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class MemorySender:
    """A WebhookSender whose receivers are functions, by URL.

        sender = MemorySender({"https://crm.example/hooks": receive})

    `receivers` may change at any time; without a receiver the connection fails. A receiver that
    raises counts as status 500. `sent` records the webhooks, the oldest first. Hosts in
    `unsafe_hosts` count as unsafe addresses, which are refused.
    """

    def __init__(
        self,
        receivers: Mapping[str, MemoryReceiver] | None = None,
        unsafe_hosts: Collection[str] = (),
    ) -> None:
        self.receivers = dict(receivers or {})
        self.unsafe_hosts = set(unsafe_hosts)
        self.sent: list[SentWebhook] = []

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        if urlsplit(url).hostname in self.unsafe_hosts:
            return DeliveryFailure.UNSAFE_ADDRESS
        self.sent.append(SentWebhook(url, headers, body))
        if url not in self.receivers:
            return DeliveryFailure.CONNECTION_FAILED
        try:
            return self.receivers[url](headers, body)
        except Exception:
            return 500

    async def resolves_to_unsafe(self, host: str) -> bool:
        return host in self.unsafe_hosts
