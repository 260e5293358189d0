"""What tests of webhooks over HTTP do: register endpoints, make events, let them be sent."""

from __future__ import annotations

from typing import Any

import httpx

from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.webhooks import deliveries
from tests.http.deployment import World, ok

PATH = "/api/webhooks"
URL = "https://hooks.example.com/in"


async def register(client: httpx.AsyncClient, **given: Any) -> tuple[dict[str, Any], str]:
    """An endpoint for all events unless fields say otherwise: its record and its secret."""
    made = ok(await client.post(PATH, json={"url": URL, **given}), 201)
    return made["webhook"], made["secret"]


async def at_endpoint(client: httpx.AsyncClient, **given: Any) -> str:
    """The path of a new endpoint."""
    return f"{PATH}/{(await register(client, **given))[0]['id']}"


def receive(world: World, status: int = 200, url: str = URL) -> None:
    """Let the receiver at a URL answer with this status from now on."""
    world.sender.receivers[url] = lambda headers, body: status


async def book(world: World) -> str:
    """A request by the subscriber's key, which is an event of theirs: the booking's code. It
    has its place in the feed, and its deliveries are due."""
    made = ok(await world.by_key().post("/api/v1/bookings", json=world.request_body()), 201)
    await deliveries.publish(world.ports)
    code: str = made["booking"]["booking_code"]
    return code


async def deliver(world: World) -> None:
    """Do what is due, and send what is due now."""
    await timers.drain(world.ports)
    while await deliveries.deliver_due(world.ports):
        pass


async def delivered(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """An endpoint's deliveries as they are listed."""
    listed: list[dict[str, Any]] = ok(await client.get(f"{path}/deliveries"))["deliveries"]
    return listed
