"""Each of our chats keeps the contract of `PubSub`: in one process, over PostgreSQL, over Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.testing.pubsub import PubSubContract
from staffbooking_core.ports import PubSub
from tests.channel.chat_links import PostgresTransport, RedisTransport, open_shared_chats


class TestLocalChat(PubSubContract):
    @asynccontextmanager
    async def open_processes(self, _: pytest.FixtureRequest) -> AsyncIterator[Sequence[PubSub]]:
        yield [LocalChat()]


class TestChatOverPostgresql(PubSubContract):
    def open_processes(
        self, request: pytest.FixtureRequest
    ) -> AbstractAsyncContextManager[Sequence[PubSub]]:
        database = request.getfixturevalue("migrated_database")
        return open_shared_chats(PostgresTransport(database.url))


@pytest.mark.usefixtures("redis_server")  # It can't be started within an event loop.
class TestChatOverRedis(PubSubContract):
    def open_processes(
        self, request: pytest.FixtureRequest
    ) -> AbstractAsyncContextManager[Sequence[PubSub]]:
        return open_shared_chats(RedisTransport(request.getfixturevalue("redis_server")))
