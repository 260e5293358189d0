"""File storage in a folder."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TypeVar

import anyio.to_thread
from attrs import frozen

from staffbooking_core.errors import FilesUnavailable
from staffbooking_core.ports.files import check_file_name

T = TypeVar("T")

log = logging.getLogger("staffbooking.files")

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


class LocalFiles:
    """Implements `FileStorage`: each file is stored in the folder under its name.

    Writes are atomic: after a crash of the process or the machine a file is complete or absent.
    The folder is created with the first file. Raises FilesUnavailable for an I/O error.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        await self._run_in_thread(lambda: _write_atomically(path, content))

    async def get(self, name: str) -> bytes | None:
        path = self._path(name)
        return await self._run_in_thread(lambda: _read_file(path))

    async def remove(self, name: str) -> None:
        path = self._path(name)
        await self._run_in_thread(lambda: path.unlink(missing_ok=True))

    def _path(self, name: str) -> Path:
        return self._folder / check_file_name(name)

    async def _run_in_thread(self, operation: Callable[[], T]) -> T:
        """Run blocking I/O in a thread. Raises FilesUnavailable for an OSError."""
        try:
            return await anyio.to_thread.run_sync(operation)
        except OSError as error:
            log.error("files folder: %s", error)
            raise FilesUnavailable(str(error)) from error


@frozen
class WriteProblem:
    """Why files can't be written to a folder."""

    text: str
    """One line."""
    is_disk_fault: bool
    """Whether the disk is full, read-only or broken, which may pass."""


def find_write_problem(folder: Path) -> WriteProblem | None:
    """Why files can't be written to a folder; None if they can. The folder need not exist and is
    not created."""
    existing = folder
    try:
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        # Try to write, since permissions are no proof: root has all of them, a disk may be full.
        with TemporaryDirectory(dir=existing, prefix=".new-") as probe:
            (Path(probe) / "file").write_bytes(b"tried")
    except OSError as error:
        text = f"nothing can be written to {existing}: {error.strerror}"
        return WriteProblem(text, error.errno in _DISK_ERRORS)
    return None


def _write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file, flush it to the disk and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
