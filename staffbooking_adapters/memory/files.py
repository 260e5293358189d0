"""Files in memory."""

from __future__ import annotations

from staffbooking_core.ports.files import check_name


class MemoryFiles:
    """By name; as many as there is room for."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, name: str, content: bytes) -> None:
        self.kept[check_name(name)] = content

    async def get(self, name: str) -> bytes | None:
        return self.kept.get(check_name(name))

    async def remove(self, name: str) -> None:
        self.kept.pop(check_name(name), None)
