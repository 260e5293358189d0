"""The worker: runs all lanes and sends deliveries until it is told to stop. Any number of
workers may run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio

from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.notifications.notifications import GivenUp
from staffbooking_worker import webhook_dispatcher
from staffbooking_worker.jobs import LANES, Lane
from staffbooking_worker.race import first_of

logger = logging.getLogger("staffbooking.worker")

PAUSE = 1.0
"""Seconds to wait after a fault: of the store, or of ours."""


async def work(ports: Ports, stop: anyio.Event) -> None:
    """Do due work of every kind until `stop` is set; what is in flight is finished first."""
    async with anyio.create_task_group() as group:
        group.start_soon(webhook_dispatcher.serve, ports, stop)
        group.start_soon(run_lanes, ports, stop, LANES)


async def drain(ports: Ports) -> int:
    """Do all that is due, until nothing new is; how much there was. What deliveries may have
    to wait for is not waited for. Notices that are given up are logged, and raised as GivenUp
    once the rest is done."""
    done = 0
    lost: list[Exception] = []
    while step := await _drain(ports, lost):
        done += step
    if lost:
        raise GivenUp(lost)
    return done


async def _drain(ports: Ports, lost: list[Exception]) -> int:
    try:
        return await timers.drain(ports) + await webhook_dispatcher.drain(ports)
    except GivenUp as error:
        for fault in error.faults:
            logger.error("a notice was given up", exc_info=fault)
        lost += error.faults
        return len(error.faults)


async def run_lanes(ports: Ports, stop: anyio.Event, lanes: Sequence[Lane]) -> None:
    """Do due work of these kinds until `stop` is set; what is in flight is finished first."""
    async with anyio.create_task_group() as group:
        for lane in lanes:
            for _ in range(lane.width):
                group.start_soon(_run, ports, lane, stop)


async def _run(ports: Ports, lane: Lane, stop: anyio.Event) -> None:
    """A fault is logged and waited out: what was not done is still due."""
    while not stop.is_set():
        heard = 0 if lane.hint is None else ports.hints.count(lane.hint)
        try:
            wait = 0.0 if await lane.run(ports) else lane.idle
        except Unavailable as error:
            logger.warning("%s: the store is out of reach: %s", lane.name, error.reason)
            wait = PAUSE
        except Exception:
            logger.exception("%s: an unexpected fault", lane.name)
            wait = PAUSE
        if wait:
            waits: list[Callable[[], Awaitable[object]]] = [stop.wait]
            if lane.hint is not None:
                waits.append(partial(ports.hints.wait, lane.hint, heard, wait))
            await first_of(wait, *waits)
