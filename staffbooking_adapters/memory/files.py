"""Files in memory."""

from __future__ import annotations

from staffbooking_core.ports.files import check_file_name


class MemoryFiles:
    """Files by name, without a size limit."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    async def put(self, name: str, content: bytes) -> None:
        self.contents[check_file_name(name)] = content

    async def get(self, name: str) -> bytes | None:
        return self.contents.get(check_file_name(name))

    async def remove(self, name: str) -> None:
        self.contents.pop(check_file_name(name), None)
