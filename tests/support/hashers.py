"""Password hashers that count or delay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import frozen

from staffbooking_adapters.memory.doubles import PlainHasher


class CountingHasher(PlainHasher):
    """Counts the calls to hash."""

    def __init__(self) -> None:
        self.hashed = 0

    async def hash(self, password: str) -> str:
        self.hashed += 1
        return await super().hash(password)


@frozen
class SlowHasher(PlainHasher):
    """Runs a callback while it verifies a password."""

    meanwhile: Callable[[], Awaitable[object]]

    async def verify(self, password: str, hashed: str | None) -> bool:
        await self.meanwhile()
        return await super().verify(password, hashed)
