"""The yardstick: bare ASGI and asyncpg, as fast as they go, with the service's answers.

    python -m benchmarks.yardstick PORT  # STAFFBOOKING_DATABASE_URL says where

It checks keys and counts windows as exactly as the service does, on the same schema and,
where plans matter, by the same SQL; it answers with the same bytes. What it spares itself is
everything else: layers, other paths, refusals in the right words, waiting for a lost
database. Nobody should write a service like this.
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

from benchmarks.yardstick_access import Gate, Refused, Verdict
from benchmarks.yardstick_operations import Pool, create, detail, search, status
from tests.support.postgres import driver_url

Message: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

HEADERS = [
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


class Application:
    def __init__(self, pool: Pool, gate: Gate) -> None:
        self._pool, self._gate = pool, gate

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/readyz":
            await _respond(send, 200, b"{}", HEADERS)
            return
        code, headers, body = 200, HEADERS, b""
        try:
            shown = next(value for name, value in scope["headers"] if name == b"authorization")
            is_new = scope["method"] == "POST"
            user_id, verdict = await self._gate.admit(shown, "book" if is_new else "read")
            headers = [*HEADERS, *verdict_headers(verdict)]
            code, body = await self._answer(scope, receive, path, user_id)
        except Refused:
            code, body = 400, b'{"error":"Refused"}'
        await _respond(send, code, body, headers)

    async def _answer(
        self, scope: Message, receive: Receive, path: str, user_id: int
    ) -> tuple[int, bytes]:
        if path == "/api/v1/companions":
            return 200, await search(self._pool, scope["query_string"])
        if path.startswith("/api/v1/companions/"):
            return 200, await detail(self._pool, path[19:])
        if scope["method"] == "GET":
            return 200, await status(self._pool, path[17:], user_id)
        return 201, await create(self._pool, await _body(receive), user_id)


def verdict_headers(verdict: Verdict) -> list[tuple[bytes, bytes]]:
    limit, remaining, reset = verdict
    return [
        (b"x-ratelimit-limit", b"%d" % limit),
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % reset),
    ]


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    return body


async def _respond(send: Send, code: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": code, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Application, Callable[[], int]]]:
    """The application on a database, and how many round trips it has made so far."""
    pool, gate = Pool(), Gate()
    await pool.open(driver_url(url))
    await gate.open(driver_url(url))
    try:
        yield Application(pool, gate), lambda: pool.round_trips + gate.round_trips
    finally:
        await gate.close()
        await pool.close()


async def serve(url: str, port: int) -> None:
    async with opened(url) as (application, _):
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
        runner.run(serve(os.environ["STAFFBOOKING_DATABASE_URL"], int(sys.argv[1])))
