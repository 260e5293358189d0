"""Batching of messages: those waiting at the same time are stored in one transaction."""

from collections.abc import Sequence

from staffbooking_adapters.batcher import Batcher
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft, ScreenedMessage

MESSAGE_BATCH_SIZE = 64
"""The maximum number of messages in one transaction."""


class MessageBatcher:
    """Stores what arrives while a transaction runs in the next one: under load the commit, and
    the lock under which ids are allocated, are shared."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._batcher = Batcher(self._store_batch, max_batch_size=MESSAGE_BATCH_SIZE)

    async def send(self, draft: MessageDraft) -> Message:
        """As `usecases.messages.send_message`. A message whose sender is cancelled may be
        stored all the same."""
        return await self._batcher.submit(await messages.screen_message(self._ports, draft))

    async def _store_batch(
        self, batch: Sequence[ScreenedMessage]
    ) -> Sequence[Message | StaffbookingError]:
        return await messages.send_messages(self._ports, batch)
