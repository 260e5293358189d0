"""Password hashers that count or delay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import frozen

from staffbooking_adapters.memory.doubles import PlainHasher


class CountingHasher(PlainHasher):
    """Counts what it was asked to hash."""

    def __init__(self) -> None:
        self.hashed = 0

    async def hash(self, password: str) -> str:
        self.hashed += 1
        return await super().hash(password)


@frozen
class SlowHasher(PlainHasher):
    """While it verifies a password, something happens."""

    meanwhile: Callable[[], Awaitable[object]]

    async def verify(self, password: str, hashed: str | None) -> bool:
        await self.meanwhile()
        return await super().verify(password, hashed)
