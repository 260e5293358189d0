"""File storages: the contract of every storage, and crash safety of a folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from staffbooking_adapters.files import local
from staffbooking_adapters.files.local import LocalFiles, find_write_problem
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import FileStorage

pytestmark = pytest.mark.anyio

NAME = "Abc_-09.jpg"
INVALID_NAMES = [
    "",
    ".jpg",
    "..",
    "../a.jpg",
    "/etc/passwd",
    "a/b.jpg",
    "a\\b.jpg",
    "a.jpg/",
    "a.jpg\x00",
    "a.jpg\n",
    "%2e%2e.jpg",
    "a",
    "a.JPG",
    ".new-x.jpg",
    "é.jpg",
    "a" * 101 + ".jpg",
    "a.tar.gz",
]

STORAGES: dict[str, Callable[[Path], FileStorage]] = {
    "memory": lambda _: MemoryFiles(),
    "local": lambda folder: LocalFiles(folder / "files"),
}


@pytest.fixture(params=STORAGES.values(), ids=list(STORAGES))
def files(request: pytest.FixtureRequest, tmp_path: Path) -> FileStorage:
    made: FileStorage = request.param(tmp_path)
    return made


# Every storage --------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\x00\xff\r\n", bytes(3_000_000)], ids=len)
async def test_a_file_comes_back_as_it_was_put(files: FileStorage, content: bytes) -> None:
    """A stored file is returned byte for byte, also an empty one."""
    await files.put(NAME, content)
    assert await files.get(NAME) == content


async def test_a_missing_file_is_none(files: FileStorage) -> None:
    """A missing file is None, in an empty storage and in one with another file."""
    assert await files.get(NAME) is None
    await files.put(NAME, b"some")
    assert await files.get("other.jpg") is None


async def test_a_file_is_replaced(files: FileStorage) -> None:
    """The last content replaces earlier ones, also if it is shorter."""
    await files.put(NAME, b"a longer one")
    await files.put(NAME, b"short")
    assert await files.get(NAME) == b"short"


async def test_only_the_removed_file_is_deleted(files: FileStorage) -> None:
    """Only the removed file is gone, and removing it again does nothing."""
    await files.put(NAME, b"some")
    await files.put("other.jpg", b"other")
    for _ in range(2):
        await files.remove(NAME)
    assert await files.get(NAME) is None
    assert await files.get("other.jpg") == b"other"


async def test_removing_a_missing_file_is_no_error(files: FileStorage) -> None:
    """Removing a missing file from an empty storage is no error."""
    await files.remove(NAME)


@pytest.mark.parametrize("name", INVALID_NAMES)
async def test_an_invalid_name_is_refused(files: FileStorage, name: str) -> None:
    """An invalid name raises ValueError."""
    for call in (files.put(name, b"some"), files.get(name), files.remove(name)):
        with pytest.raises(ValueError, match="no name of a file of ours"):
            await call


async def test_concurrent_writes_keep_each_file(files: FileStorage) -> None:
    """Concurrent writes keep each file's content; for one name one whole content remains."""
    several = [f"{number}.png" for number in range(20)]
    async with anyio.create_task_group() as tasks:
        for name in several:
            tasks.start_soon(files.put, name, name.encode())
            tasks.start_soon(files.put, NAME, name.encode() * 1000)
    assert [await files.get(name) for name in several] == [name.encode() for name in several]
    assert await files.get(NAME) in [name.encode() * 1000 for name in several]


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


# Folders --------------------------------------------------------------------------------


async def test_a_folder_is_read_by_another_instance(tmp_path: Path) -> None:
    """Another instance reads a stored file, and the folder has no other file."""
    await LocalFiles(tmp_path / "deep" / "files").put(NAME, b"some")
    assert await LocalFiles(tmp_path / "deep" / "files").get(NAME) == b"some"
    assert names(tmp_path / "deep" / "files") == [NAME]


async def test_files_are_synced_before_they_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced, renamed, then the folder is synced, so a power loss leaves all or
    nothing."""
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        done.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    await LocalFiles(tmp_path).put(NAME, b"some")
    assert done == ["file", "name", "folder"]


KILLED = """
import os, signal, sys
from pathlib import Path
import anyio
from staffbooking_adapters.files.local import LocalFiles

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

folder, where = sys.argv[1:]
setattr(*{"write": (os, "fsync", die), "name": (Path, "replace", die)}[where])
anyio.run(LocalFiles(Path(folder)).put, "a.jpg", b"new" * 100_000)
"""


@pytest.mark.parametrize("where", ["write", "name"])
@pytest.mark.parametrize("before", [None, b"old"])
async def test_a_killed_process_leaves_whole_files(
    tmp_path: Path, where: str, before: bytes | None
) -> None:
    """A process killed while writing or before the rename leaves the earlier file intact."""
    files = LocalFiles(tmp_path)
    if before is not None:
        await files.put("a.jpg", before)
    command = [sys.executable, "-c", KILLED, str(tmp_path), where]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert killed.returncode == -9
    assert await files.get("a.jpg") == before
    await files.put("a.jpg", b"next")
    assert await files.get("a.jpg") == b"next"


async def test_a_failed_write_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk raises StoreUnavailable and leaves no partial file."""
    files = LocalFiles(tmp_path)
    await files.put(NAME, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="temporarily unavailable"):
        await files.put(NAME, b"new")
    assert names(tmp_path) == [NAME]
    assert await files.get(NAME) == b"old"


async def test_an_unavailable_folder_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason of an unavailable folder is logged for operators and not shown to the caller."""
    (tmp_path / "file").write_text("in the way")
    files = LocalFiles(tmp_path / "file" / "files")
    with pytest.raises(StoreUnavailable) as caught:
        await files.put(NAME, b"some")
    assert str(tmp_path) not in str(caught.value)
    assert str(tmp_path) in caplog.text


async def test_files_are_accessed_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and writes run in threads."""
    threads: set[int] = set()

    def recording(work: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any, **more: Any) -> Any:
            threads.add(threading.get_ident())
            return work(*given, **more)

        return recorded

    monkeypatch.setattr(local, "_write_atomically", recording(local._write_atomically))
    monkeypatch.setattr(local, "_read_file", recording(local._read_file))
    monkeypatch.setattr(Path, "unlink", recording(Path.unlink))
    files = LocalFiles(tmp_path)
    await files.put(NAME, b"some")
    await files.get(NAME)
    await files.remove(NAME)
    assert threads
    assert threading.get_ident() not in threads


def test_a_folder_that_can_be_created_has_no_problem(tmp_path: Path) -> None:
    """A folder that can be created has no problem, and the check does not create it."""
    assert find_write_problem(tmp_path) is None
    assert find_write_problem(tmp_path / "new" / "deeper") is None
    assert find_write_problem(Path("relative")) is None
    assert names(tmp_path) == []


def test_write_problems_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in place of the folder, an invalid name and a full disk are reported."""
    (tmp_path / "file").write_text("in the way")
    prefix = f"nothing can be written to {tmp_path}"
    assert find_write_problem(tmp_path / "file" / "files") == f"{prefix}/file: Not a directory"
    assert find_write_problem(tmp_path / ("n" * 300)) == f"{prefix}/{'n' * 300}: File name too long"

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert find_write_problem(tmp_path / "new") == f"{prefix}: No space left on device"
    assert names(tmp_path) == ["file"]


def test_a_folder_that_root_cannot_create_is_reported() -> None:
    """A folder that not even root can create is reported."""
    assert str(find_write_problem(Path("/proc/nope"))).startswith("nothing can be written to /proc")
