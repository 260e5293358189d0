"""The worker: runs all lanes and sends deliveries until it is told to stop. Any number of
workers may run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio

from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.notifications.notifications import NotificationsGivenUp
from staffbooking_worker import webhook_dispatcher
from staffbooking_worker.jobs import JOBS, Job
from staffbooking_worker.race import wait_for_first

logger = logging.getLogger("staffbooking.worker")

ERROR_DELAY_SECONDS = 1.0
"""Seconds to wait after a fault: of the store, or of ours."""


async def run_worker(ports: Ports, stop: anyio.Event) -> None:
    """Do due work of every kind until `stop` is set; what is in flight is finished first."""
    async with anyio.create_task_group() as group:
        group.start_soon(webhook_dispatcher.run_dispatcher, ports, stop)
        group.start_soon(run_jobs, ports, stop, JOBS)


async def drain(ports: Ports) -> int:
    """Do all that is due, until nothing new is; how much there was. What deliveries may have
    to wait for is not waited for. Notices that are given up are logged, and raised as GivenUp
    once the rest is done."""
    total = 0
    abandoned: list[Exception] = []
    while count := await _drain_once(ports, abandoned):
        total += count
    if abandoned:
        raise NotificationsGivenUp(abandoned)
    return total


async def _drain_once(ports: Ports, abandoned: list[Exception]) -> int:
    try:
        return await timers.run_all_due_work(ports) + await webhook_dispatcher.drain(ports)
    except NotificationsGivenUp as error:
        for fault in error.faults:
            logger.error("a notice was given up", exc_info=fault)
        abandoned += error.faults
        return len(error.faults)


async def run_jobs(ports: Ports, stop: anyio.Event, jobs: Sequence[Job]) -> None:
    """Do due work of these kinds until `stop` is set; what is in flight is finished first."""
    async with anyio.create_task_group() as group:
        for job in jobs:
            for _ in range(job.concurrency):
                group.start_soon(_run_job, ports, job, stop)


async def _run_job(ports: Ports, job: Job, stop: anyio.Event) -> None:
    """A fault is logged and waited out: what was not done is still due."""
    while not stop.is_set():
        hint_count = 0 if job.hint is None else ports.hints.count(job.hint)
        try:
            wait = 0.0 if await job.run(ports) else job.idle_seconds
        except StoreUnavailable as error:
            logger.warning("%s: the store is out of reach: %s", job.name, error.reason)
            wait = ERROR_DELAY_SECONDS
        except Exception:
            logger.exception("%s: an unexpected fault", job.name)
            wait = ERROR_DELAY_SECONDS
        if wait:
            waits: list[Callable[[], Awaitable[object]]] = [stop.wait]
            if job.hint is not None:
                waits.append(partial(ports.hints.wait, job.hint, hint_count, wait))
            await wait_for_first(wait, *waits)
