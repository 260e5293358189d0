"""The sandbox: moves the service's clock and injects faults into the fake processor (CONTRACT 9).
Available only where payments are simulated."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from staffbooking_core.domain.payments.processor import ProcessorError
from staffbooking_core.errors import Conflict, NotFound, RuleBroken, invalid_field
from staffbooking_core.ports import (
    CheckoutPage,
    PayeePage,
    Ports,
    SandboxProcessor,
    Transaction,
)
from staffbooking_core.usecases import health
from staffbooking_core.usecases.payments import payees, reconciliation
from staffbooking_core.validation import validated, validated_lookup

_MAX_CLOCK_OFFSET = timedelta(days=3660)
"""Limit of the sandbox clock's offset: calendars and certificates have a last date."""


@validated
async def advance_clock(ports: Ports, step: timedelta) -> datetime:
    """Move business time ahead by `step`; returns the new business time.

    Raises NotFound without a sandbox, RuleBroken `clock_backwards`, and InvalidField on
    `advance_seconds` beyond _MAX_CLOCK_OFFSET.
    """
    return await _move_clock(ports, "advance_seconds", lambda now: now + step)


@validated
async def set_clock(ports: Ports, to: datetime) -> datetime:
    """Set business time to an instant that is not in its past; returns the new business time.

    Raises NotFound without a sandbox, RuleBroken `clock_backwards`, and InvalidField on `set_to`
    beyond _MAX_CLOCK_OFFSET.
    """
    return await _move_clock(ports, "set_to", lambda _: to)


async def _move_clock(ports: Ports, field: str, target: Callable[[datetime], datetime]) -> datetime:
    require_sandbox(ports)

    async def unit(tx: Transaction) -> datetime:
        wall = ports.clock.wall()
        now = wall + await tx.sandbox.lock_clock()
        try:
            moved = target(now)
        except OverflowError:
            raise invalid_field(field, "is too far ahead") from None
        if moved < now:
            raise RuleBroken("clock_backwards", "The sandbox's clock only runs forward")
        if moved - wall > _MAX_CLOCK_OFFSET:
            raise invalid_field(field, "is too far ahead")
        await tx.sandbox.set_clock_offset(moved - wall)
        return moved

    return await ports.store.run_transaction(unit)


def get_processor(ports: Ports) -> SandboxProcessor:
    """The fake processor with its hosted pages. Raises NotFound where payments are real."""
    if ports.sandbox is None:
        raise NotFound("Sandbox")
    return ports.sandbox


def require_sandbox(ports: Ports) -> SandboxProcessor:
    """The fake processor with its fault controls. Raises NotFound where the policy has no
    sandbox, and ClockWrong."""
    if not ports.policy.sandbox:
        raise NotFound("Sandbox")
    health.check_clock(ports)
    return get_processor(ports)


@validated_lookup("Checkout")
async def simulate_checkout(ports: Ports, ref: str, outcome: str) -> CheckoutPage:
    """Act on a checkout page as a customer would. A payment is applied to the booking when this
    returns, unless a fault delays the event.

    Raises NotFound, and InvalidField on `outcome`.
    """
    health.check_clock(ports)
    since = await ports.clock.business()
    page = await get_processor(ports).simulate_checkout(ref, outcome)
    if page is None:
        raise NotFound("Checkout")
    await _sync_subject(ports, page.intent_id, since)
    return page


@validated_lookup("Payout account")
async def complete_payee(ports: Ports, ref: str) -> PayeePage:
    """Complete an onboarding page as a staff member would. The payee is ready when this returns,
    unless a fault delays the event. Raises NotFound."""
    health.check_clock(ports)
    since = await ports.clock.business()
    page = await get_processor(ports).complete_payee(ref)
    if page is None:
        raise NotFound("Payout account")
    await _sync_subject(ports, page.ref, since)
    return page


async def _sync_subject(ports: Ports, subject: int | str, since: datetime) -> None:
    """Apply the processor's state of an intent (by id) or a payee (by reference). Another process
    may have taken the event and not processed it yet, so the subject is synced here as well, unless
    a fault holds the event back."""
    await reconciliation.deliver_sandbox_events(ports)
    if not await get_processor(ports).is_event_taken(subject, since):
        return
    timeout = ports.policy.processor_timeout
    with suppress(ProcessorError, Conflict):  # The process that took the event retries it.
        if isinstance(subject, int):
            await reconciliation.sync_intent(ports, subject, timeout)
        else:
            await payees.sync_payee(ports, subject, timeout)


@validated
async def simulate_chargeback(ports: Ports, code: str, outcome: str) -> None:
    """Open, win or lose a chargeback of a booking's payment, and apply it to the booking.

    Raises NotFound, and InvalidField on `outcome`.
    """
    simulated = require_sandbox(ports)
    async with ports.store.read_view() as view:
        booking = await view.bookings.booking_by_code(code)
    if booking is None:
        raise NotFound("Booking")
    since = await ports.clock.business()
    await simulated.chargeback(booking.id, outcome)
    await _sync_subject(ports, booking.id, since)
