"""Bookings that exist when a history begins, so that histories also reach the late stages."""

from __future__ import annotations

from datetime import date
from typing import Any

from staffbooking_adapters.testing.builders import DAY, HOUR
from staffbooking_core.domain.bookings.booking import Booking
from tests.simulation.deployment import SimulatedScenario

INITIAL_STAGES = (
    *("accepted", "paid", "soon", "disputed", "charged back", "cancelled"),
    *("completed", "due", "paid out", "paid out and charged back", "owing"),
)
"""Stages of a booking at the start of a history."""


async def make_initial_booking(scene: SimulatedScenario, number: int, stage: str) -> Booking:
    """Request a booking on a day of its own, and bring it to its stage without faults."""
    day = date.fromordinal((await scene.now()).date().toordinal() + 4 + 9 * number)
    given: dict[str, Any] = {"event_date": day, "cancellation_insurance": number == 1}
    match stage:
        case "accepted":
            return await scene.accepted(**given)
        case "paid" | "soon" | "disputed" | "charged back" | "cancelled":
            booking = await scene.paid(**given)
        case "completed" | "due":
            booking = await scene.completed(**given)
        case _:
            booking = await scene.paid_out(**given)
    match stage:
        case "soon":
            await scene.jump_to(booking.starts_at - 30 * HOUR)
        case "disputed":
            await scene.jump_to(booking.starts_at)
            await scene.dispute(booking)
        case "cancelled":
            await scene.cancel(booking)
        case "due":
            await scene.jump_to(booking.ends_at + DAY)
        case "charged back" | "paid out and charged back":
            await scene.fake.sandbox.chargeback(booking.id, "open")
        case "owing":
            await scene.fault("reverse_payout", "refuse")
            await scene.charge_back(booking, "lost")
            await scene.drain()
    return booking
