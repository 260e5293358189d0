"""Real processes of the command line, which end with the test."""

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
"""Seconds within which a process stops after a signal (CONTRACT 9)."""


def make_environment(**settings: str) -> dict[str, str]:
    """The test's environment, without STAFFBOOKING settings of the shell."""
    own = {name: value for name, value in os.environ.items() if "STAFFBOOKING_" not in name}
    return {**own, **{f"STAFFBOOKING_{name}": value for name, value in settings.items()}}


@contextmanager
def run_in_background(*arguments: object, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run `staffbooking ...` in the background; it is killed at the end of the test."""
    command = [sys.executable, "-m", "staffbooking_cli.main", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def run_to_end(*arguments: object, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `staffbooking ...` to its end."""
    command = [sys.executable, "-m", "staffbooking_cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def stop_process(process: subprocess.Popen[str], signal: int) -> int:
    """Send a signal and return the exit code."""
    process.send_signal(signal)
    return process.wait(STOP_TIMEOUT_SECONDS)


def read_until(stream: IO[str] | None, wanted: str) -> str:
    """All lines up to the one that contains a text, or all lines if none does."""
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line)
        if wanted in line:
            return "".join(lines)
    raise AssertionError(f"{wanted!r} never came, but: {''.join(lines)}")
