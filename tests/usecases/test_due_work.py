"""All due work in one call does what the worker's jobs do."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, add_session
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.usecases import due_work
from staffbooking_worker.jobs import JOBS

pytestmark = pytest.mark.anyio


async def test_nothing_is_left_for_the_jobs_of_a_worker(scene):
    """After `run_all_due` no job of the worker finds due work, at any stage of a booking."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await due_work.run_all_due(scene.ports)
    assert [job.name for job in JOBS if await job.run(scene.ports)] == []
    await scene.jump_to(booking.ends_at + 5 * DAY)
    await scene.charge_back(booking)
    await due_work.run_all_due(scene.ports)
    assert [job.name for job in JOBS if await job.run(scene.ports)] == []
    assert (await scene.booking(booking)).status is BookingStatus.DISPUTED


async def test_expired_sessions_are_deleted(scene):
    """`run_all_due` deletes what has expired, as the worker's sweep does."""
    await add_session(scene.ports.store, scene.customer.user_id)
    scene.pass_time(8 * DAY)
    await due_work.run_all_due(scene.ports)
    async with scene.ports.store.read_view() as view:
        assert not await view.accounts.sessions_of(scene.customer.user_id)
