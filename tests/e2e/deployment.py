"""A deployment of real processes: the command line, a server and workers, on one database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
from click.testing import CliRunner

from tests.cli.deployment import parsed_app
from tests.support.reserved_ports import port_number, reserve_port
from tests.support.service_processes import ServiceProcess, Start, start_copy

T = TypeVar("T")

WAIT_TIMEOUT_SECONDS, PAUSE_SECONDS = 30.0, 0.1
SECRET_KEY = "a-secret-for-the-end-to-end-tests"
PASSWORD = "a-long-enough-password"
ADMIN_EMAIL, CUSTOMER_EMAIL, AGENCY_EMAIL = (
    "boss@example.test",
    "customer@example.test",
    "agency@example.test",
)


class ProcessDeployment:
    """Processes of the service that share a database; `kill` is SIGKILL."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.start: Start = start_copy
        """How its processes start."""
        self._port_reservation = reserve_port()
        self.port = port_number(self._port_reservation)
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: dict[str, ServiceProcess] = {}
        self.clients: list[httpx.Client] = []
        self.anybody = self._client({})
        """A client that is not signed in."""
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("STAFFBOOKING_")},
            "STAFFBOOKING_DATABASE_URL": database_url,
            "STAFFBOOKING_BASE_URL": self.url,
            "STAFFBOOKING_SECRET_KEY": SECRET_KEY,
            # The processes run these sources, whichever ones are installed.
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }

    def run_command(self, *words: str) -> str:
        """Run a command in this process and return its standard output. It gets a thread, since
        Playwright's loop may run in this one."""
        runner = CliRunner(env={**dict.fromkeys(os.environ), **self.environ})
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(runner.invoke, parsed_app(), words).result()
        assert done.exit_code == 0, (words, done.exit_code, done.output)
        return done.stdout

    def run_json(self, *words: str) -> Any:
        """Run a command with --json in this process and return its document."""
        return json.loads(self.run_command(*words, "--json"))

    def run_process(
        self, *words: str, code: int = 0, environ: Mapping[str, str] | None = None
    ) -> str:
        """Run a command to its end in a process of its own and return its standard output, or its
        standard error if the exit `code` is not 0 and there is no output."""
        done = subprocess.run(
            [sys.executable, "-m", "staffbooking_cli.main", *words],
            env={**self.environ, **(environ or {})},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout or done.stderr

    def start_process(self, name: str, *words: str) -> None:
        log = self.folder / f"{name}.log"
        self.processes[name] = self.start(words, self.environ, self.folder, log)

    def start_server(self) -> None:
        self.start_process("server", "serve", "--host", "127.0.0.1", "--port", str(self.port))
        self.wait_for(self._is_ready, "the server answers")

    def start_worker(self) -> None:
        self.start_process("worker", "worker")

    def kill_process(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(10)

    def stop_process(self, name: str) -> int:
        """Send SIGTERM and return the exit status, within 20 seconds."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(20)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for name in list(self.processes):
            self.kill_process(name)
        self._port_reservation.close()

    def read_log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def wait_for(self, attempt: Callable[[], T | None], description: str) -> T:
        """Repeat an attempt until it returns a result."""
        pause = threading.Event()
        for _ in range(int(WAIT_TIMEOUT_SECONDS / PAUSE_SECONDS)):
            if (found := attempt()) is not None:
                return found
            pause.wait(PAUSE_SECONDS)
        logs = {name: self.read_log(name)[-2000:] for name in self.processes}
        raise AssertionError(f"in vain: {description}\n{logs}")

    def _is_ready(self) -> bool | None:
        try:
            return True if self.anybody.get("/readyz").status_code == 200 else None
        except httpx.TransportError:
            return None

    def sign_in(self, email: str, password: str) -> httpx.Client:
        """A signed-in client with its CSRF token in the headers."""
        client = self._client({})
        answer = client.post("/auth/login", json={"email": email, "password": password})
        assert answer.status_code == 200, answer.text
        client.headers["X-CSRF-Token"] = answer.json()["csrf_token"]
        return client

    def client_with_key(self, key: str) -> httpx.Client:
        return self._client({"Authorization": f"Bearer {key}"})

    def _client(self, headers: dict[str, str]) -> httpx.Client:
        # Without TLS, whose certificates take longer to load than a request.
        client = httpx.Client(base_url=self.url, headers=headers, timeout=20, verify=False)
        self.clients.append(client)
        return client

    def set_clock(self, to: datetime) -> None:
        """Move the service's clock, for all of its processes."""
        instant = to.astimezone(UTC).isoformat().replace("+00:00", "Z")
        answer = self.anybody.post("/sandbox/clock", json={"set_to": instant})
        assert answer.status_code == 200, answer.text


def json_body(answer: httpx.Response, status: int = 200) -> Any:
    """The body of an answer that must have this status."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    return answer.json()
