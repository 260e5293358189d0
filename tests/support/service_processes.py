"""Processes of the service: started as people start them, or as copies of a process that has loaded
the service.

Nearly all of the time until a server or a worker is ready goes into loading modules. A test that
kills and restarts them, and is not about their start, takes copies; tests/cli starts commands.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

_MODULES = (
    "aiosqlite",
    "asyncpg",
    "litestar.plugins.pydantic",
    "structlog",
    "uvicorn.lifespan.off",
    "uvloop",
    "staffbooking_adapters.chat.local",
    "staffbooking_adapters.content.filter",
    "staffbooking_adapters.fake.processor",
    "staffbooking_adapters.fake.sandbox",
    "staffbooking_adapters.ics.parsing",
    "staffbooking_adapters.images.reencoding",
    "staffbooking_adapters.logs",
    "staffbooking_adapters.sql.sandbox.fake_documents",
    "staffbooking_adapters.sql.store",
    "staffbooking_adapters.wiring",
    "staffbooking_cli.app",
    "staffbooking_cli.main",
    "staffbooking_cli.running",
    "staffbooking_http.api.access_log",
    "staffbooking_http.server.server",
    "staffbooking_worker.main",
)
"""What servers and workers load; the rest is loaded by each copy."""

_copies = multiprocessing.get_context("forkserver")
_copies.set_forkserver_preload([*_MODULES])


class ServiceProcess(Protocol):
    """What a test does to a process."""

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float, /) -> int:
        """Wait for the end and return the exit code, which is negative after a signal."""


Start: TypeAlias = Callable[[Sequence[str], Mapping[str, str], Path, Path], ServiceProcess]
"""Starts `staffbooking` with arguments, an environment, a working folder and a file that its output
is added to."""


def start_command(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Start a process of its own."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "staffbooking_cli.main", *arguments],
            env=environ,
            cwd=folder,
            stdout=output,
            stderr=output,
        )


def run_staffbooking() -> None:
    """Run the command `staffbooking` with the arguments of this process."""
    from staffbooking_cli.main import main

    main()


def start_copy(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    log: Path,
    main: Callable[[], None] = run_staffbooking,
) -> ServiceProcess:
    """Start a copy of the process that has loaded the service. It runs `main`, which finds the
    arguments in `sys.argv`."""
    return _Copy(main, arguments, environ, folder, log)


class _Copy:
    def __init__(self, *given: object) -> None:
        self._process = _copies.Process(target=_run, args=given, daemon=True)
        self._process.start()

    def send_signal(self, number: int) -> None:
        """Like `Popen`, this does nothing to a process that has ended."""
        if self._process.is_alive():
            assert self._process.pid is not None
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        assert self._process.exitcode is not None, "the process runs on"
        return self._process.exitcode


def _run(
    main: Callable[[], None],
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    log: Path,
) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    with log.open("ab") as output:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), stream.fileno())
    sys.argv = ["staffbooking", *arguments]
    main()
