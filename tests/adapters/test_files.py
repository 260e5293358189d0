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

import pytest

from staffbooking_adapters.files import local
from staffbooking_adapters.files.local import LocalFiles, WriteProblem, find_write_problem
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.testing.file_storage import FileStorageContract
from staffbooking_core.errors import FilesUnavailable
from staffbooking_core.ports import FileStorage

pytestmark = pytest.mark.anyio

NAME = "Abc_-09.jpg"


class TestMemoryFiles(FileStorageContract):
    @pytest.fixture
    def files(self) -> FileStorage:
        return MemoryFiles()


class TestLocalFiles(FileStorageContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> FileStorage:
        return LocalFiles(tmp_path / "files")


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
    """A full disk raises FilesUnavailable and leaves no partial file."""
    files = LocalFiles(tmp_path)
    await files.put(NAME, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FilesUnavailable, match="temporarily unavailable"):
        await files.put(NAME, b"new")
    assert names(tmp_path) == [NAME]
    assert await files.get(NAME) == b"old"


async def test_an_unavailable_folder_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason of an unavailable folder is logged for operators and not shown to the caller."""
    (tmp_path / "file").write_text("in the way")
    files = LocalFiles(tmp_path / "file" / "files")
    with pytest.raises(FilesUnavailable) as caught:
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
    """A file in place of the folder, an invalid name and a full disk are reported. Only the last
    is the disk's fault."""
    (tmp_path / "file").write_text("in the way")
    prefix, long = f"nothing can be written to {tmp_path}", "n" * 300
    for folder, text in (
        (tmp_path / "file" / "files", f"{prefix}/file: Not a directory"),
        (tmp_path / long, f"{prefix}/{long}: File name too long"),
    ):
        assert find_write_problem(folder) == WriteProblem(text, is_disk_fault=False)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    text = f"{prefix}: No space left on device"
    assert find_write_problem(tmp_path / "new") == WriteProblem(text, is_disk_fault=True)
    assert names(tmp_path) == ["file"]


def test_a_folder_that_root_cannot_create_is_reported() -> None:
    """A folder that not even root can create is reported."""
    problem = find_write_problem(Path("/proc/nope"))
    assert problem is not None
    assert problem.text.startswith("nothing can be written to /proc")
