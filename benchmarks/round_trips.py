"""Counts the database round trips of each target, in this process and without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from benchmarks import yardstick
from benchmarks.load_generator import LoadRequest
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_http.app import create_app

COUNTED_REQUESTS = 960
"""Number of requests per operation."""

AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
RoundTripCounts: TypeAlias = Callable[[], int]


async def count_service_round_trips(
    environ: Mapping[str, str], requests: Mapping[str, Sequence[LoadRequest]], at_once: int
) -> dict[str, float]:
    """Round trips per request of each operation with `at_once` concurrent requests."""
    settings = load_settings(environ)
    async with open_ports(settings) as ports:
        guarded: Any = ports.store
        store = guarded.store
        databases = (store.database, store.admission.counter_database)
        application = create_app(ports, trusted_proxies=settings.trusted_proxies)
        return await _count_round_trips(
            application,
            lambda: sum(database.round_trips for database in databases),
            requests,
            at_once,
        )


async def count_yardstick_round_trips(
    environ: Mapping[str, str], requests: Mapping[str, Sequence[LoadRequest]], at_once: int
) -> dict[str, float]:
    """Round trips per request of the yardstick."""
    async with yardstick.open_application(environ["STAFFBOOKING_DATABASE_URL"]) as (
        application,
        trips,
    ):
        return await _count_round_trips(application, trips, requests, at_once)


async def _count_round_trips(
    application: AsgiApp,
    trips: RoundTripCounts,
    requests: Mapping[str, Sequence[LoadRequest]],
    at_once: int,
) -> dict[str, float]:
    found = {}
    for name, variants in requests.items():
        chosen = variants[:COUNTED_REQUESTS]
        before, left = trips(), iter(chosen)
        await asyncio.gather(*(_send_requests(application, left) for _ in range(at_once)))
        found[name] = (trips() - before) / len(chosen)
    return found


async def _send_requests(application: AsgiApp, requests: Iterator[LoadRequest]) -> None:
    for request in requests:
        head, _, body = request.text.partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split()
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [_header(line) for line in lines],
            "client": ("127.0.0.1", 1),
        }
        await application(scope, _receiver(body.encode()), _status_checker(request))


def _header(line: str) -> tuple[bytes, bytes]:
    name, _, value = line.partition(": ")
    return name.lower().encode(), value.encode()


def _receiver(body: bytes) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _status_checker(request: LoadRequest) -> Callable[[dict[str, Any]], Awaitable[None]]:
    async def send(message: dict[str, Any]) -> None:
        if message.get("status", request.status) != request.status:
            raise AssertionError(f"{message['status']} for {request.text!r}")

    return send
