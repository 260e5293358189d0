"""A client of one server, which repeats a call until it has a definite response, and writes the
response into the book before it continues."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
from attrs import define

from tests.kills.book import Book
from tests.support.channel_deployment import plain_http_client

RETRY_DELAY_SECONDS = 0.05
CALL_TIMEOUT_SECONDS = 10.0
"""Seconds after which a client repeats a call without a response."""

OPEN_CODES = frozenset({"unavailable", "overloaded", "processor_unavailable", "rate_limited"})
"""Codes of refusals after which the call is repeated; another 5xx is a fault of the service."""


@define(eq=False)
class Client:
    """`server` is the name of the server process that is called."""

    http: httpx.AsyncClient
    server: str
    book: Book

    async def post(
        self,
        op: str,
        path: str,
        headers: Mapping[str, str],
        body: Any = None,
        key: str | None = None,
        **facts: Any,
    ) -> Any:
        """The response's body for any status below 500, once it is in the book."""
        sent = {**headers, "Idempotency-Key": key} if key else headers
        status, answer, started = await self._call("POST", path, sent, body)
        if (booking := answer.get("booking")) is not None:
            facts |= {"booking": booking["id"], "code": booking["booking_code"]}
        # The state of a checkout page, and the time of the service's clock.
        facts |= {name: answer[name] for name in ("state", "now") if name in answer}
        if (message := answer.get("message")) is not None:
            facts |= message_facts(message)
        await self.book.write(
            "ack", op=op, key=key, server=self.server, status=status, started=started, **facts
        )
        return answer

    async def read_status(self, headers: Mapping[str, str], booking_id: int) -> str:
        """A booking's status, once it is in the book."""
        _, answer, started = await self._call("GET", f"/bookings/{booking_id}", headers)
        status: str = answer["booking"]["status"]
        await self.book.write(
            "ack",
            op="read",
            server=self.server,
            status=200,
            started=started,
            booking=booking_id,
            seen=status,
        )
        return status

    async def send_once(self, path: str, body: Any) -> httpx.Response | None:
        """The response to one try; None if it was lost or the call must be repeated."""
        try:
            response = await self.http.post(path, json=body)
        except httpx.TransportError:
            return None
        return None if await self._is_open(response, path) else response

    async def _call(
        self, method: str, path: str, headers: Mapping[str, str], body: Any = None
    ) -> tuple[int, Any, float]:
        started = time.time()
        while True:
            try:
                response = await self.http.request(method, path, headers=headers, json=body)
            except httpx.TransportError:
                await anyio.sleep(RETRY_DELAY_SECONDS)
                continue
            if not await self._is_open(response, path):
                return response.status_code, response.json(), started
            await anyio.sleep(RETRY_DELAY_SECONDS)

    async def _is_open(self, response: httpx.Response, path: str) -> bool:
        """Whether the call must be repeated. Writes unexpected responses into the book."""
        if response.status_code < 500 and response.status_code != 429:
            return False
        code = response.json().get("code")
        if code not in OPEN_CODES:
            await self.book.write(
                "wrong", path=path, status=response.status_code, text=response.text
            )
        return True


def message_facts(message: Any) -> dict[str, Any]:
    """The fields of a stored message that the book has."""
    return {
        "id": message["id"],
        "conversation": message["conversation_id"],
        "sender": message["sender_id"],
        "text": message["content"],
    }


def open_http_client(url: str) -> httpx.AsyncClient:
    return plain_http_client(base_url=url, timeout=CALL_TIMEOUT_SECONDS)
