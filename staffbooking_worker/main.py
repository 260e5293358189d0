"""The worker process: runs all jobs and the webhook dispatcher until it is stopped. Any number
of workers may run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import anyio

from staffbooking_core.errors import (
    ClockWrong,
    Conflict,
    NotificationsGivenUp,
    StoreUnavailable,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.payments import event_polling
from staffbooking_worker import webhook_dispatcher
from staffbooking_worker.jobs import JOBS, TIMERS_JOB, Job
from staffbooking_worker.waits import Waits

logger = logging.getLogger("staffbooking.worker")

ERROR_DELAY_SECONDS = 1.0
"""Seconds to wait after an error before the next run."""


async def run_worker(ports: Ports, stop: anyio.Event) -> None:
    """Run all jobs and send deliveries until `stop` is set; work in flight is finished first."""
    async with anyio.create_task_group() as group:
        group.start_soon(webhook_dispatcher.run_dispatcher, ports, stop)
        group.start_soon(run_jobs, ports, stop, [job for job in JOBS if job is not TIMERS_JOB])
        group.start_soon(_run_timers, ports, stop)


async def _run_timers(ports: Ports, stop: anyio.Event) -> None:
    """Run the timers, after a poll of the processor's event list: a booking must not expire that
    was paid while neither the web nor a worker ran. A list out of reach is waited for no longer
    than for any answer of the processor."""
    with anyio.move_on_after(ports.policy.processor_timeout.total_seconds()) as first_poll:

        async def poll(ports: Ports) -> int:
            await event_polling.poll_event_list(ports)
            first_poll.cancel()
            return 0

        await run_jobs(ports, stop, [Job("first-poll", poll, idle_seconds=1)])
    await run_jobs(ports, stop, [TIMERS_JOB])


async def drain(ports: Ports) -> int:
    """Do all due work until none is left, and return the number of items done. Deliveries that
    wait for a retry are not waited for.

    Raises NotificationsGivenUp, after all other work, if notifications exhausted their retries;
    each is logged.
    """
    total = 0
    abandoned: list[Exception] = []
    while count := await _drain_once(ports, abandoned):
        total += count
    if abandoned:
        raise NotificationsGivenUp(abandoned)
    return total


async def _drain_once(ports: Ports, abandoned: list[Exception]) -> int:
    try:
        return await due_work.run_all_due(ports, webhook_dispatcher.drain)
    except NotificationsGivenUp as error:
        for fault in error.faults:
            logger.error("notification given up", exc_info=fault)
        abandoned += error.faults
        return len(error.faults)


async def run_jobs(ports: Ports, stop: anyio.Event, jobs: Sequence[Job]) -> None:
    """Run these jobs until `stop` is set; work in flight is finished first."""
    waits = Waits()
    async with anyio.create_task_group() as group:
        group.start_soon(waits.end_all_after, stop)
        for job in jobs:
            for _ in range(job.concurrency):
                group.start_soon(_run_job, ports, job, stop, waits)


async def _run_job(ports: Ports, job: Job, stop: anyio.Event, waits: Waits) -> None:
    """Run a job in a loop. An error is logged and followed by a delay: the work stays due."""
    run = partial(job.run, should_stop=stop.is_set) if job.checks_stop else job.run
    while not stop.is_set():
        end_count = waits.end_count
        hint_count = 0 if job.hint is None else ports.hints.count(job.hint)
        try:
            wait = 0.0 if await run(ports) else job.idle_seconds
        except ClockWrong:  # The clock logs it.
            wait = ERROR_DELAY_SECONDS
        except StoreUnavailable as error:
            logger.warning("%s: store unavailable: %s", job.name, error.reason)
            wait = ERROR_DELAY_SECONDS
        except Conflict as error:  # A slow call outlasted its lease: another worker took over.
            logger.warning("%s: lease lost: %s", job.name, error)
            wait = ERROR_DELAY_SECONDS
        except Exception:
            logger.exception("%s: unexpected error", job.name)
            wait = ERROR_DELAY_SECONDS
        if not wait:
            continue
        if job.hint is None:
            await waits.wait(wait, end_count)
        else:
            hinted = partial(ports.hints.wait, job.hint, hint_count, wait)
            await waits.wait(wait, end_count, hinted)
