"""Word between the processes that keep connections of the channel."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from staffbooking_core.domain.messaging.conversations import ContentFindings
from staffbooking_core.representations.channel import Broadcast


class Subscriber(Protocol):
    """What a process does with word that comes. Neither may block or raise."""

    def on_messages_stored(self) -> None:
        """Messages may have been stored that were not read yet."""
        ...

    def on_broadcast(self, broadcast: Broadcast) -> None: ...


class PubSub(Protocol):
    """Takes word to every process that listens, the own one included (at once). Giving word
    costs next to nothing and never fails. Word may be lost: of messages the store is the
    truth, and who listens is told of `stored` whenever something may have been missed."""

    def publish_messages_stored(self) -> None:
        """Tell that messages were committed."""
        ...

    def publish(self, broadcast: Broadcast) -> None: ...

    def subscribe(self, subscriber: Subscriber) -> AbstractAsyncContextManager[None]:
        """Have word taken to `ears` as long as the context is open."""
        ...


class ContentFilter(Protocol):
    async def scan(self, text: str) -> ContentFindings:
        """What is in a text, however it is spelled: in time linear to its length, and without
        keeping others waiting."""
        ...
