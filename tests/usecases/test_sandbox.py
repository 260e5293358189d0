"""The sandbox: its clock, and faults of the fake processor."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, SECOND, add_user
from staffbooking_core.domain.accounts.users import hash_session_token
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.errors import InvalidField, NotFound, RuleBroken, StoreUnavailable
from staffbooking_core.inputs import Login
from staffbooking_core.usecases import health, sandbox
from staffbooking_core.usecases.accounts import sessions

pytestmark = pytest.mark.anyio


async def test_the_clock_is_moved_ahead(scene):
    """Advancing moves business time only, and it ticks on from there."""
    assert await sandbox.advance_clock(scene.ports, 72 * HOUR) == NOW + 72 * HOUR
    assert scene.ports.clock.wall() == NOW
    scene.pass_time(HOUR)
    assert await scene.now() == NOW + 73 * HOUR


async def test_moves_add_up(scene):
    """Each advance starts where the last one ended."""
    await sandbox.advance_clock(scene.ports, HOUR)
    assert await sandbox.advance_clock(scene.ports, HOUR) == NOW + 2 * HOUR


async def test_the_clock_is_set(scene):
    """The clock can be set to an instant that is not past."""
    assert await sandbox.set_clock(scene.ports, NOW + DAY) == NOW + DAY
    assert await sandbox.set_clock(scene.ports, NOW + DAY) == NOW + DAY


@pytest.mark.parametrize(
    "move",
    [
        lambda ports: sandbox.advance_clock(ports, -SECOND),
        lambda ports: sandbox.set_clock(ports, NOW - SECOND),
    ],
)
async def test_the_clock_does_not_run_backwards(scene, move):
    """The clock cannot be set back by a second."""
    with pytest.raises(RuleBroken) as caught:
        await move(scene.ports)
    assert caught.value.code == "clock_backwards"


@pytest.mark.parametrize(
    "field, move",
    [
        ("advance_seconds", lambda ports: sandbox.advance_clock(ports, 3661 * DAY)),
        ("advance_seconds", lambda ports: sandbox.advance_clock(ports, timedelta.max)),
        ("set_to", lambda ports: sandbox.set_clock(ports, datetime.max.replace(tzinfo=NOW.tzinfo))),
    ],
)
async def test_the_clock_does_not_run_out_of_the_calendar(scene, field, move):
    """The clock can be ahead by ten years at most."""
    with pytest.raises(InvalidField) as caught:
        await move(scene.ports)
    assert [fault.field for fault in caught.value.field_errors] == [field]


async def test_sessions_keep_to_real_time(scene):
    """A jump of the clock ends no session."""
    await add_user(scene.ports.store, email="a@example.com", password_hash="plain:0123456789")
    given = Login(email="a@example.com", password="0123456789")
    _, token = await sessions.login(scene.ports, given, "127.0.0.1")
    await sandbox.advance_clock(scene.ports, 100 * DAY)
    digest = hash_session_token(token)
    assert (
        await scene.ports.admission.authenticate_session(digest, scene.ports.clock.wall())
        is not None
    )


async def test_without_a_sandbox_there_is_no_test_bench(scene):
    """Without a sandbox every call raises NotFound."""
    ports = evolve(scene.ports, sandbox=None)
    for call in (
        sandbox.advance_clock(ports, HOUR),
        sandbox.set_clock(ports, NOW + HOUR),
        sandbox.simulate_chargeback(ports, "BK000000000000", "open"),
    ):
        with pytest.raises(NotFound):
            await call


def taken_by_another(scene, monkeypatch):
    """Let another process take each event and delay or lose it."""
    processor = type(scene.ports.sandbox)
    take = processor.take_due_events

    async def take_first(self, limit):
        await take(self, limit)
        return []

    monkeypatch.setattr(processor, "take_due_events", take_first)


async def page_of(scene, booking):
    return (await scene.checkout(booking)).rpartition("/")[2]


async def test_paid_means_paid_whoever_takes_the_event(scene, monkeypatch):
    """A payment is applied although another process took its event."""
    booking = await scene.accepted()
    taken_by_another(scene, monkeypatch)
    assert (
        await sandbox.simulate_checkout(scene.ports, await page_of(scene, booking), "succeed")
    ).state == "paid"
    assert (await scene.booking(booking)).status is BookingStatus.PAID


async def test_an_event_that_a_fault_keeps_back_is_not_known(scene):
    """A payment whose event is delayed by a fault is not applied."""
    booking = await scene.accepted()
    page = await page_of(scene, booking)
    await scene.ports.sandbox.add_fault("event", "drop", 9)
    await sandbox.simulate_checkout(scene.ports, page, "succeed")
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED


async def test_a_chargeback_is_taken_note_of_at_once(scene):
    """A simulated chargeback is applied without the worker."""
    booking = await scene.paid()
    await sandbox.simulate_chargeback(scene.ports, booking.code, "open")
    assert (await scene.booking(booking)).status is BookingStatus.DISPUTED


async def test_an_unknown_booking_has_no_chargeback(scene):
    """An unknown booking or outcome is refused."""
    with pytest.raises(NotFound):
        await sandbox.simulate_chargeback(scene.ports, "BK000000000000", "open")
    booking = await scene.paid()
    with pytest.raises(InvalidField):
        await sandbox.simulate_chargeback(scene.ports, booking.code, "maybe")


async def test_the_service_is_ready_while_its_store_takes_changes(scene, monkeypatch):
    """Readiness fails with the store's error when the store takes no changes."""
    await health.check_readiness(scene.ports)

    async def refuse(_):
        raise StoreUnavailable("gone")

    monkeypatch.setattr(scene.ports.store, "check_writable", refuse)
    with pytest.raises(StoreUnavailable, match="unavailable"):
        await health.check_readiness(scene.ports)
