"""Stores messages in batches: those waiting at the same time share one transaction."""

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
    """Stores messages that arrive during a transaction together in the next one. Under load they
    share the commit and the lock that serializes the allocation of ids."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._batcher = Batcher(self._store_batch, max_batch_size=MESSAGE_BATCH_SIZE)

    async def send(self, draft: MessageDraft) -> Message:
        """Store a message as `messages.send_message` does, with its errors. If the caller is
        cancelled, the message may still be stored."""
        return await self._batcher.submit(await messages.screen_message(self._ports, draft))

    async def _store_batch(
        self, batch: Sequence[ScreenedMessage]
    ) -> Sequence[Message | StaffbookingError]:
        return await messages.send_messages(self._ports, batch)
