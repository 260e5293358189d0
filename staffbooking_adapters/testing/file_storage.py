"""The contract of `FileStorage`."""

from __future__ import annotations

import anyio
import pytest

from staffbooking_core.ports import FileStorage

__all__ = ["FileStorageContract"]

_NAME = "Abc_-09.jpg"
_INVALID_NAMES = [
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


class FileStorageContract:
    """What every file storage promises. Subclass it with a fixture `files`: an empty storage.

    class TestMyFiles(FileStorageContract):
        @pytest.fixture
        def files(self, tmp_path: Path) -> FileStorage:
            return MyFiles(tmp_path)
    """

    pytestmark = pytest.mark.anyio

    @pytest.mark.parametrize("content", [b"", b"\x00\xff\r\n", bytes(3_000_000)], ids=len)
    async def test_a_file_comes_back_as_it_was_put(
        self, files: FileStorage, content: bytes
    ) -> None:
        """A stored file is returned byte for byte, also an empty one."""
        await files.put(_NAME, content)
        assert await files.get(_NAME) == content

    async def test_a_missing_file_is_none(self, files: FileStorage) -> None:
        """A missing file is None, in an empty storage and in one with another file."""
        assert await files.get(_NAME) is None
        await files.put(_NAME, b"some")
        assert await files.get("other.jpg") is None

    async def test_a_file_is_replaced(self, files: FileStorage) -> None:
        """The last content replaces earlier ones, also if it is shorter."""
        await files.put(_NAME, b"a longer one")
        await files.put(_NAME, b"short")
        assert await files.get(_NAME) == b"short"

    async def test_only_the_removed_file_is_deleted(self, files: FileStorage) -> None:
        """Only the removed file is gone, and removing it again does nothing."""
        await files.put(_NAME, b"some")
        await files.put("other.jpg", b"other")
        for _ in range(2):
            await files.remove(_NAME)
        assert await files.get(_NAME) is None
        assert await files.get("other.jpg") == b"other"

    async def test_removing_a_missing_file_is_no_error(self, files: FileStorage) -> None:
        """Removing a missing file from an empty storage is no error."""
        await files.remove(_NAME)

    @pytest.mark.parametrize("name", _INVALID_NAMES)
    async def test_an_invalid_name_is_refused(self, files: FileStorage, name: str) -> None:
        """An invalid name raises ValueError: `check_file_name` says which are."""
        for call in (files.put(name, b"some"), files.get(name), files.remove(name)):
            with pytest.raises(ValueError, match="no name of a file of ours"):
                await call

    async def test_concurrent_writes_keep_each_file(self, files: FileStorage) -> None:
        """Concurrent writes keep each file's content; for one name one whole content remains."""
        several = [f"{number}.png" for number in range(20)]
        async with anyio.create_task_group() as tasks:
            for name in several:
                tasks.start_soon(files.put, name, name.encode())
                tasks.start_soon(files.put, _NAME, name.encode() * 1000)
        assert [await files.get(name) for name in several] == [name.encode() for name in several]
        assert await files.get(_NAME) in [name.encode() * 1000 for name in several]
