"""A worker of its own process, with shorter deadlines than a deployment has.

`python -m tests.webhooks.worker_process ATTEMPT_SECONDS LEASE_SECONDS`
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import anyio
from attrs import evolve

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_cli.running import log_to_stderr, stopping
from staffbooking_worker.main import work


async def main(attempt_seconds: float, lease_seconds: float) -> None:
    settings = load_settings(os.environ)
    policy = evolve(
        settings.policy,
        webhook_deadline=timedelta(seconds=attempt_seconds),
        lease=timedelta(seconds=lease_seconds),
    )
    staying = evolve(settings, policy=policy)
    async with stopping() as stop, open_ports(staying, stays=True) as ports:
        await work(ports, stop)


if __name__ == "__main__":
    log_to_stderr()
    anyio.run(main, float(sys.argv[1]), float(sys.argv[2]), backend_options={"use_uvloop": True})
