"""Messages on their way to the store: those that wait at the same time go together."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import Letter, Screened

Batch: TypeAlias = list[tuple[Screened, asyncio.Future[Message]]]

MOST = 64
"""Letters in one unit of work."""


class Post:
    """Sends what comes while a unit of work runs with the next one: under load the commit,
    and the turn to give ids, are shared."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._waiting: Batch = []
        self._sending: asyncio.Task[None] | None = None

    async def send(self, letter: Letter) -> Message:
        """As `usecases.messages.send`. Cancelled, it may be sent all the same."""
        screened = await messages.screen(self._ports, letter)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting.append((screened, answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_waiting())
        return await answer

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                try:
                    await self._send(batch)
                finally:
                    for _, answer in batch:
                        answer.cancel()  # Nothing happens where it is there.
        finally:
            self._sending = None
            for _, answer in self._waiting:
                answer.cancel()

    async def _send(self, batch: Batch) -> bool:
        """Whether the store could be reached."""
        waiting = len(self._waiting)
        results: Sequence[Message | Exception]
        try:
            results = await messages.send_all(self._ports, [letter for letter, _ in batch])
        except Unavailable as error:
            # Who waited as long is told as well, not after one more deadline each.
            batch, self._waiting = batch + self._waiting[:waiting], self._waiting[waiting:]
            _answer(batch, [error] * len(batch))
            return False
        except Exception as error:
            if len(batch) > 1:
                return await self._send_alone(batch)
            results = [error]
        _answer(batch, results)
        return True

    async def _send_alone(self, batch: Batch) -> bool:
        """One by one: one of them can't be kept, and that is its fault alone."""
        for place, each in enumerate(batch, start=1):
            if not await self._send([each]):
                _answer(batch[place:], [Unavailable()] * (len(batch) - place))
                return False
        return True


def _answer(batch: Batch, results: Sequence[Message | Exception]) -> None:
    for (_, answer), result in zip(batch, results, strict=True):
        if answer.done():
            continue  # Who sent it has gone.
        if isinstance(result, Message):
            answer.set_result(result)
        else:
            answer.set_exception(result)
