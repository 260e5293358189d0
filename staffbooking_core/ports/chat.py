"""Word between the processes that keep connections of the channel."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from staffbooking_core.domain.messaging.conversations import Findings
from staffbooking_core.representations.channel import Tell


class Ears(Protocol):
    """What a process does with word that comes. Neither may block or raise."""

    def stored(self) -> None:
        """Messages may have been stored that were not read yet."""
        ...

    def told(self, tell: Tell) -> None: ...


class Chat(Protocol):
    """Takes word to every process that listens, the own one included (at once). Giving word
    costs next to nothing and never fails. Word may be lost: of messages the store is the
    truth, and who listens is told of `stored` whenever something may have been missed."""

    def stored(self) -> None:
        """Tell that messages were committed."""
        ...

    def tell(self, tell: Tell) -> None: ...

    def listen(self, ears: Ears) -> AbstractAsyncContextManager[None]:
        """Have word taken to `ears` as long as the context is open."""
        ...


class ContentFilter(Protocol):
    async def find(self, text: str) -> Findings:
        """What is in a text, however it is spelled: in time linear to its length, and without
        keeping others waiting."""
        ...
