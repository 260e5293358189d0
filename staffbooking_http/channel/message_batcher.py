"""Messages on their way to the store: those that wait at the same time go together."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft, ScreenedMessage

PendingMessages: TypeAlias = list[tuple[ScreenedMessage, asyncio.Future[Message]]]

MESSAGE_BATCH_SIZE = 64
"""Letters in one unit of work."""


class MessageBatcher:
    """Sends what comes while a unit of work runs with the next one: under load the commit,
    and the turn to give ids, are shared."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._pending: PendingMessages = []
        self._send_task: asyncio.Task[None] | None = None

    async def send(self, draft: MessageDraft) -> Message:
        """As `usecases.messages.send`. Cancelled, it may be sent all the same."""
        screened = await messages.screen_message(self._ports, draft)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending.append((screened, answer))
        if self._send_task is None:
            self._send_task = asyncio.create_task(self._send_pending())
        return await answer

    async def _send_pending(self) -> None:
        try:
            while self._pending:
                batch, self._pending = (
                    self._pending[:MESSAGE_BATCH_SIZE],
                    self._pending[MESSAGE_BATCH_SIZE:],
                )
                try:
                    await self._send_batch(batch)
                finally:
                    for _, answer in batch:
                        answer.cancel()  # Nothing happens where it is there.
        finally:
            self._send_task = None
            for _, answer in self._pending:
                answer.cancel()

    async def _send_batch(self, batch: PendingMessages) -> bool:
        """Whether the store could be reached."""
        waiting = len(self._pending)
        results: Sequence[Message | Exception]
        try:
            results = await messages.send_messages(self._ports, [letter for letter, _ in batch])
        except StoreUnavailable as error:
            # Who waited as long is told as well, not after one more deadline each.
            batch, self._pending = batch + self._pending[:waiting], self._pending[waiting:]
            _resolve_futures(batch, [error] * len(batch))
            return False
        except Exception as error:
            if len(batch) > 1:
                return await self._send_one_by_one(batch)
            results = [error]
        _resolve_futures(batch, results)
        return True

    async def _send_one_by_one(self, batch: PendingMessages) -> bool:
        """One by one: one of them can't be kept, and that is its fault alone."""
        for place, each in enumerate(batch, start=1):
            if not await self._send_batch([each]):
                _resolve_futures(batch[place:], [StoreUnavailable()] * (len(batch) - place))
                return False
        return True


def _resolve_futures(batch: PendingMessages, results: Sequence[Message | Exception]) -> None:
    for (_, answer), result in zip(batch, results, strict=True):
        if answer.done():
            continue  # Who sent it has gone.
        if isinstance(result, Message):
            answer.set_result(result)
        else:
            answer.set_exception(result)
