"""The worker: runs all lanes until it is told to stop. Any number of workers may run."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Ports
from staffbooking_worker.lanes import LANES, Lane

logger = logging.getLogger("staffbooking.worker")

PAUSE = 1.0
"""Seconds to wait after a fault: of the store, or of ours."""


async def work(ports: Ports, stop: anyio.Event, lanes: Sequence[Lane] = LANES) -> None:
    """Do due work until `stop` is set; what is in flight then is finished first."""
    async with anyio.create_task_group() as group:
        for lane in lanes:
            for _ in range(lane.width):
                group.start_soon(_run, ports, lane, stop)


async def _run(ports: Ports, lane: Lane, stop: anyio.Event) -> None:
    """A fault is logged and waited out: what was not done is still due."""
    while not stop.is_set():
        try:
            wait = 0.0 if await lane.run(ports) else lane.idle
        except Unavailable as error:
            logger.warning("%s: the store is out of reach: %s", lane.name, error.reason)
            wait = PAUSE
        except Exception:
            logger.exception("%s: an unexpected fault", lane.name)
            wait = PAUSE
        if wait:
            with anyio.move_on_after(wait):
                await stop.wait()
