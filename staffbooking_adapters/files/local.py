"""Files in a folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TypeVar

import anyio.to_thread

from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports.files import check_file_name

T = TypeVar("T")

log = logging.getLogger("staffbooking.files")


class LocalFiles:
    """Each file in the folder under its name. It is there whole or not at all, whenever the
    process or the machine ends; the folder is made with the first file."""

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
        """Do the work in a thread: a disk may take its time."""
        try:
            return await anyio.to_thread.run_sync(operation)
        except OSError as error:
            log.error("the folder of files: %s", error)
            raise StoreUnavailable(f"the folder of files: {error}") from error


def find_write_problem(folder: Path) -> str | None:
    """What keeps files from being written to a folder, in one line; None where nothing does. The
    folder need not be there yet, and is not made by this."""
    existing = folder
    try:
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        # Tried, for permissions don't tell: root has all of them, and some disks take nothing.
        with TemporaryDirectory(dir=existing, prefix=".new-") as probe:
            (Path(probe) / "file").write_bytes(b"tried")
    except OSError as error:
        return f"nothing can be written to {existing}: {error.strerror}"
    return None


def _write_atomically(path: Path, content: bytes) -> None:
    """Beside its place first: a name is only ever given to what is on the disk."""
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
    """Bring the names in a folder to the disk."""
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
