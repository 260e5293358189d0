"""A worker process with shorter timeouts than a deployment's.

`python -m tests.webhooks.worker_process ATTEMPT_SECONDS LEASE_SECONDS`
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import anyio
from attrs import evolve

from staffbooking_adapters.logs import configure_logging
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_cli.running import stop_on_signal
from staffbooking_worker.main import run_worker


async def main(attempt_seconds: float, lease_seconds: float) -> None:
    settings = load_settings(os.environ)
    policy = evolve(
        settings.policy,
        webhook_attempt_timeout=timedelta(seconds=attempt_seconds),
        lease_duration=timedelta(seconds=lease_seconds),
    )
    settings_with_policy = evolve(settings, policy=policy)
    async with (
        stop_on_signal() as stop,
        open_ports(settings_with_policy, is_long_running=True) as ports,
    ):
        await run_worker(ports, stop)


if __name__ == "__main__":
    configure_logging()
    anyio.run(main, float(sys.argv[1]), float(sys.argv[2]), backend_options={"use_uvloop": True})
