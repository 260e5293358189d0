"""The service's processes by name: `server1`, `worker1` and so on."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from tests.support.service_processes import ServiceProcess, Start, start_command

SECRET_KEY = "a-secret-for-runs-with-kills-only"
CONTACT_LIMIT, CONTACT_WINDOW_SECONDS = 20, 5
LIMITS = ",".join(
    [
        *(f"{name}=1000000000/1h" for name in ("general", "bookings", "webhooks")),
        *(f"{name}=1000000000/1m" for name in ("channel", "channel_user")),
        f"contact={CONTACT_LIMIT}/{CONTACT_WINDOW_SECONDS}s",
    ]
)
_SOURCES = Path(__file__).parents[2]


class ServiceProcesses:
    """Processes that share a database; servers listen at their own ports."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        ports: list[int],
        workers: int,
        start: Start = start_command,
    ) -> None:
        self.server_urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.commands: dict[str, list[str]] = {
            **{f"server{n}": ["serve", "--port", str(port)] for n, port in enumerate(ports, 1)},
            **{f"worker{n}": ["worker"] for n in range(1, workers + 1)},
        }
        self.environ = service_environ(database_url, self.server_urls[0])
        self._folder = folder
        self._start = start
        self._running: dict[str, ServiceProcess] = {}

    @property
    def servers(self) -> list[str]:
        return [name for name in self.commands if name.startswith("server")]

    @property
    def workers(self) -> list[str]:
        return [name for name in self.commands if name.startswith("worker")]

    def start(self, name: str, environ: Mapping[str, str] | None = None) -> None:
        own = {**_clean_environ(), **self.environ, **(environ or {})}
        # A library that gives a wrong clock is loaded with the program alone.
        start = start_command if environ else self._start
        log = self._folder / f"{name}.log"
        self._running[name] = start(self.commands[name], own, self._folder, log)

    def start_all(self) -> None:
        for name in self.commands:
            self.start(name)

    def send_signal(self, name: str, number: int) -> None:
        self._running[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Send SIGKILL, which also ends a paused process."""
        process = self._running.pop(name)
        process.kill()
        process.wait(10)

    def terminate_all(self) -> dict[str, int]:
        """Send SIGTERM to all processes; returns their exit codes, within 20 seconds each."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        codes = {name: process.wait(20) for name, process in self._running.items()}
        self._running.clear()
        return codes

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)


def service_environ(database_url: str, base_url: str) -> dict[str, str]:
    return {
        "STAFFBOOKING_DATABASE_URL": database_url,
        "STAFFBOOKING_BASE_URL": base_url,
        "STAFFBOOKING_SECRET_KEY": SECRET_KEY,
        "STAFFBOOKING_LIMITS": LIMITS,
        "STAFFBOOKING_WEBHOOK_ALLOW_INSECURE": "1",
        "STAFFBOOKING_LOG_LEVEL": "warning",
        # The processes run these sources, whichever ones are installed.
        "PYTHONPATH": str(_SOURCES),
    }


def _clean_environ() -> dict[str, str]:
    """This program's environment without settings. Bytecode is always stored, so that a restarted
    process need not compile its sources."""
    left_out = "PYTHONDONTWRITEBYTECODE"
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("STAFFBOOKING_") and name != left_out
    }
