"""The channel's broadcasts between processes, and the content filter of messages."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from staffbooking_core.domain.messaging.conversations import ContentFindings
from staffbooking_core.representations.channel import Broadcast

__all__ = ["ContentFilter", "PubSub", "Subscriber"]


class Subscriber(Protocol):
    """Receives broadcasts in one process. No method may block or raise."""

    def on_messages_stored(self) -> None:
        """Messages may have been stored that this process has not read yet."""
        ...

    def on_broadcast(self, broadcast: Broadcast) -> None:
        """A broadcast was published, by any process."""
        ...


class PubSub(Protocol):
    """Delivers broadcasts to the subscribers of every process, the publishing one included (there
    at once). Publishing is cheap and never fails. Broadcasts may be lost: for messages the store is
    the truth, and subscribers get `on_messages_stored` whenever they may have missed something."""

    def publish_messages_stored(self) -> None:
        """Announce that messages were committed."""
        ...

    def publish(self, broadcast: Broadcast) -> None:
        """Send a broadcast to every process."""
        ...

    def subscribe(self, subscriber: Subscriber) -> AbstractAsyncContextManager[None]:
        """Deliver broadcasts to `subscriber` as long as the context is open."""
        ...


class ContentFilter(Protocol):
    """Finds contact details and blocked words in messages."""

    async def scan(self, text: str) -> ContentFindings:
        """The findings in a text, however it is spelled. Takes time linear to its length, and does
        not block the event loop."""
        ...
