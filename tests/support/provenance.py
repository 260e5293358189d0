"""The origin of a measured figure: commit, day and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def provenance() -> dict[str, str]:
    """`date`, `commit` (with a + if files differ from it) and `machine`."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "--short=12", "HEAD") + ("+" if _git("status", "-s") else ""),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores,"
        f" Python {platform.python_version()}",
    }


def _git(*words: str) -> str:
    """The output of a command of git; empty outside of a clone."""
    done = subprocess.run(
        ["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
