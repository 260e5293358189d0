"""Broadcasts within one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from staffbooking_core.ports import Subscriber
from staffbooking_core.representations.channel import Broadcast


class LocalChat:
    """Implements `PubSub` for one process: subscribers are called synchronously."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def publish_messages_stored(self) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber.on_messages_stored()

    def publish(self, broadcast: Broadcast) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber.on_broadcast(broadcast)

    @asynccontextmanager
    async def subscribe(self, subscriber: Subscriber) -> AsyncIterator[None]:
        self._subscribers.append(subscriber)
        try:
            yield
        finally:
            self._subscribers.remove(subscriber)

    async def close(self) -> None:
        """Do nothing: no resources are held."""
