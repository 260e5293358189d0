"""The calls of the web examples: each takes ports, who acts, and plain values.

Nothing here knows a framework.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from staffbooking_adapters.inputs import structure
from staffbooking_core import Actor, Booking, Ports, inputs
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.bookings import actions, requests


async def request(ports: Ports, actor: Actor, body: Mapping[str, Any]) -> dict[str, Any]:
    wanted = structure(inputs.RequestBooking, body)
    return _show(await requests.request_booking(ports, actor, wanted))


async def read(ports: Ports, actor: Actor, booking_id: int) -> dict[str, Any]:
    booking, _, _ = await actions.get_by_id(ports, actor, booking_id)
    return _show(booking)


async def accept(ports: Ports, actor: Actor, booking_id: int) -> dict[str, Any]:
    return _show(await actions.accept(ports, actor, booking_id))


async def pay(ports: Ports, actor: Actor, booking_id: int) -> dict[str, Any]:
    """Pay on the simulated page of the processor; with Stripe, send people to `url` instead."""
    _, url, _ = await actions.open_checkout(ports, actor, booking_id)
    await sandbox.simulate_checkout(ports, url.rpartition("/")[2], "succeed")
    return {"url": url}


async def move_clock(ports: Ports, _: Actor, days: int) -> dict[str, Any]:
    """Move the sandbox's clock, so that the event takes place and the worker completes it."""
    now = await ports.clock.business() + timedelta(days=days)
    return {"now": (await sandbox.set_clock(ports, now)).isoformat()}


def _show(booking: Booking) -> dict[str, Any]:
    return {"id": booking.id, "status": booking.status, "payout": booking.payout_status}
