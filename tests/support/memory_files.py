"""Temporary files in memory, where the system has a folder for them.

SQLite waits for the disk at each commit, and no test needs its files after the machine stops.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY_FOLDER = Path("/dev/shm")
MIN_FREE_BYTES = 4 * 1024**3


def is_suitable(folder: Path, min_free_bytes: int = MIN_FREE_BYTES) -> bool:
    """Whether the folder exists, has enough free space, and allows the execution of programs,
    which Docker's does not."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(folder)
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= min_free_bytes


def keep_temporary_files_in_memory() -> None:
    """Use the folder in memory for this process and those that it starts, unless TMPDIR is set."""
    if "TMPDIR" not in os.environ and is_suitable(MEMORY_FOLDER):
        os.environ["TMPDIR"] = str(MEMORY_FOLDER)
        tempfile.tempdir = None  # The module looks it up again.


def short_temporary_folder(prefix: str) -> Path:
    """A new folder for a socket, whose path may have at most 107 bytes: under /tmp if TMPDIR is
    long."""
    folder = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder if len(folder) < 20 else "/tmp"))
