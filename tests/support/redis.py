"""A real Redis for the tests: the system's `redis-server`, on a socket in a private folder.

It stores nothing on disk. Tests that stop or suspend it start their own server.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.support.memory_files import short_temporary_folder
from tests.support.required_tools import skip_or_fail

SERVER_OPTIONS = ("--port", "0", "--save", "", "--appendonly", "no")
READY_LOG_LINE = "eady to accept connections"


class RedisServer:
    """A server that can be stopped, started, suspended and resumed."""

    def __init__(self, program: str, home: Path) -> None:
        self._program = program
        self._home = home
        self._process: subprocess.Popen[str] | None = None
        self.socket = home / "redis.sock"

    @property
    def url(self) -> str:
        """The server's URL in the form of the settings."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        command = [self._program, *SERVER_OPTIONS, "--unixsocket", str(self.socket)]
        self._process = subprocess.Popen(
            command, cwd=self._home, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self._process.stdout is not None
        lines = iter(self._process.stdout.readline, "")
        assert any(READY_LOG_LINE in line for line in lines), "redis-server did not start"

    def stop(self) -> None:
        """Kill the server, with its connections and data."""
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None

    def suspend(self) -> None:
        """Suspend the server: its connections stay open and get no answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def client(self) -> Redis:
        """A context manager of a client connection."""
        return Redis.from_url(self.url, protocol=2)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


@contextmanager
def run_redis_server() -> Iterator[RedisServer]:
    """A new server; the test is skipped or fails if Redis is missing."""
    program = shutil.which("redis-server")
    if program is None:
        skip_or_fail("redis", "Redis", "there is no redis-server")
    home = short_temporary_folder("redis-")
    server = RedisServer(program, home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The session's Redis."""
    with run_redis_server() as server:
        yield server
