"""Helpers of webhook tests over HTTP: registering endpoints, creating events, delivering them."""

from __future__ import annotations

from typing import Any

import httpx

from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.webhooks import deliveries
from tests.http.deployment import HttpDeployment, json_body

WEBHOOKS_PATH = "/api/webhooks"
RECEIVER_URL = "https://hooks.example.com/in"


async def register_endpoint(client: httpx.AsyncClient, **given: Any) -> tuple[dict[str, Any], str]:
    """Register an endpoint, for all events unless fields say otherwise; returns its record and its
    secret."""
    made = json_body(await client.post(WEBHOOKS_PATH, json={"url": RECEIVER_URL, **given}), 201)
    return made["webhook"], made["secret"]


async def add_endpoint_path(client: httpx.AsyncClient, **given: Any) -> str:
    """Register an endpoint; returns its path."""
    return f"{WEBHOOKS_PATH}/{(await register_endpoint(client, **given))[0]['id']}"


def set_receiver_status(world: HttpDeployment, status: int = 200, url: str = RECEIVER_URL) -> None:
    """Make the receiver at a URL answer with this status from now on."""
    world.sender.receivers[url] = lambda headers, body: status


async def request_booking(world: HttpDeployment) -> str:
    """Request a booking by the subscriber's key and publish its event; returns the booking's
    code."""
    made = json_body(
        await world.client_with_key().post("/api/v1/bookings", json=world.request_body()), 201
    )
    await deliveries.publish_events(world.ports)
    code: str = made["booking"]["booking_code"]
    return code


async def deliver_due_events(world: HttpDeployment) -> None:
    """Run all due work, then deliver all due events."""
    await due_work.run_all_due(world.ports)
    while await deliveries.deliver_all_due(world.ports):
        pass


async def list_deliveries(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """The listed deliveries of an endpoint."""
    listed: list[dict[str, Any]] = json_body(await client.get(f"{path}/deliveries"))["deliveries"]
    return listed
