"""The yardstick: plain ASGI and asyncpg with the service's responses, as fast as possible.

    python -m benchmarks.yardstick PORT  # on the database of STAFFBOOKING_DATABASE_URL

It checks API keys and counts rate limits as exactly as the service, on the same schema and, where
query plans matter, with the same SQL; its responses have the same bytes. It omits everything else:
layers, other paths, error messages, reconnecting to the database. It is not a model for a service.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import uvicorn
import uvloop

from benchmarks.yardstick_access import AdmissionGate, AdmissionRefused, RateLimitVerdict
from benchmarks.yardstick_operations import (
    StatementPool,
    booking_status,
    companion_detail,
    create_booking,
    search_companions,
)
from tests.support.postgres import driver_url

AsgiMessage: TypeAlias = dict[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

RESPONSE_HEADERS = [
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


class YardstickApplication:
    def __init__(self, pool: StatementPool, gate: AdmissionGate) -> None:
        self._pool, self._gate = pool, gate

    async def __call__(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        path: str = scope["path"]
        if path == "/readyz":
            await _respond(send, 200, b"{}", RESPONSE_HEADERS)
            return
        code, headers, body = 200, RESPONSE_HEADERS, b""
        try:
            shown = next(value for name, value in scope["headers"] if name == b"authorization")
            is_new = scope["method"] == "POST"
            user_id, verdict = await self._gate.check_request(shown, "book" if is_new else "read")
            headers = [*RESPONSE_HEADERS, *rate_limit_headers(verdict)]
            code, body = await self._answer(scope, receive, path, user_id)
        except AdmissionRefused:
            code, body = 400, b'{"error":"Refused"}'
        await _respond(send, code, body, headers)

    async def _answer(
        self, scope: AsgiMessage, receive: AsgiReceive, path: str, user_id: int
    ) -> tuple[int, bytes]:
        if path == "/api/v1/companions":
            return 200, await search_companions(self._pool, scope["query_string"])
        if path.startswith("/api/v1/companions/"):
            return 200, await companion_detail(self._pool, path[19:])
        if scope["method"] == "GET":
            return 200, await booking_status(self._pool, path[17:], user_id)
        return 201, await create_booking(self._pool, await _body(receive), user_id)


def rate_limit_headers(verdict: RateLimitVerdict) -> list[tuple[bytes, bytes]]:
    limit, remaining, reset = verdict
    return [
        (b"x-ratelimit-limit", b"%d" % limit),
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % reset),
    ]


async def _body(receive: AsgiReceive) -> bytes:
    message = await receive()
    body: bytes = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    return body


async def _respond(
    send: AsgiSend, code: int, body: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": code, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def open_application(
    url: str,
) -> AsyncIterator[tuple[YardstickApplication, Callable[[], int]]]:
    """The application on a database, and a function that returns its number of round trips."""
    pool, gate = StatementPool(), AdmissionGate()
    await pool.open(driver_url(url))
    await gate.open(driver_url(url))
    try:
        yield YardstickApplication(pool, gate), lambda: pool.round_trips + gate.round_trips
    finally:
        await gate.close()
        await pool.close()


async def run_server(url: str, port: int) -> None:
    async with open_application(url) as (application, _):
        config = uvicorn.Config(
            application,
            port=port,
            http="httptools",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_server(os.environ["STAFFBOOKING_DATABASE_URL"], int(sys.argv[1])))
