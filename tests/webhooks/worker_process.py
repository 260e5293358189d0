"""The program of a worker with shorter timeouts than a deployment's. Its arguments are the seconds
of an attempt and of a lease."""

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


async def _run_worker(attempt_seconds: float, lease_seconds: float) -> None:
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


def main() -> None:
    configure_logging()
    attempt_seconds, lease_seconds = map(float, sys.argv[1:])
    anyio.run(_run_worker, attempt_seconds, lease_seconds, backend_options={"use_uvloop": True})
