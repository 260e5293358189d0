"""Receivers of webhooks in the same process: no network is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from attrs import field, frozen

from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

MemoryReceiver: TypeAlias = Callable[[Mapping[str, str], bytes], int | DeliveryFailure]
"""Takes the headers and the body of a webhook, and answers with a status of HTTP, or with
why there is none."""


@frozen
class SentWebhook:
    """A webhook as it was sent."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class MemorySender:
    """A WebhookSender whose receivers are functions, by their address.

        sender = MemorySender({"https://crm.example/hooks": receive})

    `receivers` may change at any time; where nobody listens the connection fails. One that
    raises has answered 500, as a server would. `sent` keeps what was sent, the oldest first.
    Hosts in `unsafe` stand for addresses that are refused.
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
