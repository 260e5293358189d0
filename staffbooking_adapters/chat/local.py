"""Word that stays in the process: all that a deployment of one process needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from staffbooking_core.ports import Ears
from staffbooking_core.representations.channel import Tell


class LocalChat:
    """The Chat of one process: whoever listens is told at once."""

    def __init__(self) -> None:
        self._ears: list[Ears] = []

    def stored(self) -> None:
        for ears in tuple(self._ears):
            ears.stored()

    def tell(self, tell: Tell) -> None:
        for ears in tuple(self._ears):
            ears.told(tell)

    @asynccontextmanager
    async def listen(self, ears: Ears) -> AsyncIterator[None]:
        self._ears.append(ears)
        try:
            yield
        finally:
            self._ears.remove(ears)

    async def close(self) -> None:
        """Nothing is open here."""
