"""Real processes of the command line, ended when a test ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
STOP_TIMEOUT_SECONDS = 20
"""Seconds in which a process stops once it is told to (CONTRACT 9)."""


def make_environment(**settings: str) -> dict[str, str]:
    """The test's own, without settings that somebody has in the shell."""
    own = {name: value for name, value in os.environ.items() if "STAFFBOOKING_" not in name}
    return {**own, **{f"STAFFBOOKING_{name}": value for name, value in settings.items()}}


@contextmanager
def run_in_background(*arguments: object, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """`staffbooking ...` in the background; killed at the end if it still runs."""
    command = [sys.executable, "-m", "staffbooking_cli.main", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def run_to_end(*arguments: object, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`staffbooking ...` to its end."""
    command = [sys.executable, "-m", "staffbooking_cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def stop_process(process: subprocess.Popen[str], signal: int) -> int:
    """The exit code after a signal."""
    process.send_signal(signal)
    return process.wait(STOP_TIMEOUT_SECONDS)


def read_until(stream: IO[str] | None, wanted: str) -> str:
    """All lines up to and with the one that has a text; what came, if it never does."""
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line)
        if wanted in line:
            return "".join(lines)
    raise AssertionError(f"{wanted!r} never came, but: {''.join(lines)}")
