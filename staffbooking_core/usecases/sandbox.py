"""The test bench: moving the service's clock, and making the fake processor misbehave
(CONTRACT 9). Only there where payments are pretended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from staffbooking_core.errors import NotFound, RuleBroken, invalid
from staffbooking_core.ports import Ports, SandboxProcessor, Writing
from staffbooking_core.usecases import payments

FARTHEST = timedelta(days=3660)
"""How far the sandbox's clock may run ahead: calendars and certificates end somewhere."""


async def advance_clock(ports: Ports, by: timedelta) -> datetime:
    """Move business time ahead; the new now. Raises RuleBroken `clock_backwards`."""
    return await _move(ports, "advance_seconds", lambda now: now + by)


async def set_clock(ports: Ports, to: datetime) -> datetime:
    """Set business time to an instant that is not in its past; the new now."""
    return await _move(ports, "set_to", lambda _: to)


async def _move(ports: Ports, field: str, target: Callable[[datetime], datetime]) -> datetime:
    bench(ports)

    async def unit(tx: Writing) -> datetime:
        wall = ports.clock.wall()
        now = wall + await tx.sandbox.lock_clock()
        try:
            moved = target(now)
        except OverflowError:
            raise invalid(field, "is too far ahead") from None
        if moved < now:
            raise RuleBroken("clock_backwards", "The sandbox's clock only runs forward")
        if moved - wall > FARTHEST:
            raise invalid(field, "is too far ahead")
        await tx.sandbox.set_clock_offset(moved - wall)
        return moved

    return await ports.store.write(unit)


def processor(ports: Ports) -> SandboxProcessor:
    """The pretended processor and its hosted page; NotFound where payments are real."""
    if ports.sandbox is None:
        raise NotFound("Sandbox")
    return ports.sandbox


def bench(ports: Ports) -> SandboxProcessor:
    """The pretended processor, to be tampered with; NotFound where no sandbox is wanted."""
    if not ports.policy.sandbox:
        raise NotFound("Sandbox")
    return processor(ports)


async def charge_back(ports: Ports, code: str, outcome: str) -> None:
    """Open, win or lose a chargeback of a booking's payment, and take note of it at once."""
    pretended = bench(ports)
    async with ports.store.reading() as view:
        booking = await view.bookings.booking_by_code(code)
    if booking is None:
        raise NotFound("Booking")
    await pretended.chargeback(booking.id, outcome)
    await payments.deliver_sandbox_events(ports)
