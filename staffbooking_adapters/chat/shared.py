"""Word between processes, whatever wire takes it."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import msgspec
from anyio import CancelScope
from attrs import evolve

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.codec import encode
from staffbooking_adapters.listening import keep_listening
from staffbooking_core.ports import Ears
from staffbooking_core.representations.channel import Tell

ROOM = 7_900
"""Bytes of a payload that tells may have: a notification of PostgreSQL holds 7,999."""
MOST_UNTOLD = 1 << 20
"""Bytes that wait to be told to other processes."""
PACE = 0.005
"""Seconds between one payload and the next. At 200 a second PostgreSQL writes as much as
without any; from 500 on, with four that listen, it writes a tenth less."""
PAUSE = 1.0
"""Seconds before the next try where the wire took nothing."""
PATIENCE = 2.0
"""Seconds that the last word is waited for at the end."""

_decode = msgspec.json.Decoder(tuple[str, bool, tuple[Tell, ...]]).decode


class Wire(Protocol):
    """Takes payloads to every process that hears them, the one that tells included."""

    async def tell(self, payload: bytes) -> None:
        """Raises where it was not taken, or nobody knows."""
        ...

    async def hear(self, heard: Callable[[str | bytes], None], began: Callable[[], None]) -> None:
        """Listen until the connection breaks; `began` is called once it hears."""
        ...

    async def close(self) -> None: ...


class SharedChat(LocalChat):
    """A Chat whose word is heard here at once, and taken to the other processes by a wire.

    What is said while a payload is under way goes into the next ones. Where the wire is out
    of reach, the oldest of what passes is dropped; that messages were stored is told as soon
    as it can be.
    """

    def __init__(self, wire: Wire) -> None:
        """`wire` is closed with this."""
        super().__init__()
        self._wire = wire
        self._name = secrets.token_hex(8)
        self._stored = False
        """Whether there are messages that the others were not told of."""
        self._untold: deque[bytes] = deque()
        self._size = 0
        self._telling: asyncio.Task[None] | None = None
        self._closed = False

    def stored(self) -> None:
        super().stored()
        self._stored = True
        self._begin_telling()

    def tell(self, tell: Tell) -> None:
        super().tell(tell)
        for piece in pieces(tell):
            self._untold.append(piece)
            self._size += len(piece)
        while self._size > MOST_UNTOLD:
            self._size -= len(self._untold.popleft())
        self._begin_telling()

    @asynccontextmanager
    async def listen(self, ears: Ears) -> AsyncIterator[None]:
        hear = partial(self._wire.hear, partial(self._hear, ears))
        async with super().listen(ears):
            hearing = asyncio.create_task(keep_listening(hear, ears.stored))
            try:
                yield
            finally:
                hearing.cancel()
                with CancelScope(shield=True):
                    await asyncio.wait([hearing])

    async def close(self) -> None:
        """Tell what is to be told, but don't wait long, and close the wire."""
        self._closed = True
        if (telling := self._telling) is not None:
            await asyncio.wait([telling], timeout=PATIENCE)
            telling.cancel()
            await asyncio.wait([telling])
        await self._wire.close()

    def _begin_telling(self) -> None:
        if self._telling is None and not self._closed:
            self._telling = asyncio.create_task(self._tell_others())

    async def _tell_others(self) -> None:
        try:
            while self._stored or self._untold:
                stored, self._stored = self._stored, False
                batch = self._batch()
                try:
                    tells = [msgspec.Raw(piece) for piece in batch]
                    await self._wire.tell(encode((self._name, stored, tells)))
                except Exception:
                    if self._closed:
                        return
                    # Told or not, nobody knows: what is told twice harms nobody.
                    self._stored |= stored
                    self._untold.extendleft(reversed(batch))
                    self._size += sum(map(len, batch))
                    await asyncio.sleep(PAUSE)
                else:
                    await asyncio.sleep(PACE)
        finally:
            self._telling = None

    def _batch(self) -> list[bytes]:
        """The oldest of what is untold, as much as a payload holds."""
        batch: list[bytes] = []
        room = ROOM
        while self._untold and len(self._untold[0]) < room:
            piece = self._untold.popleft()
            self._size -= len(piece)
            room -= len(piece) + 1
            batch.append(piece)
        return batch

    def _hear(self, ears: Ears, payload: str | bytes) -> None:
        try:
            name, stored, tells = _decode(payload)
        except (ValueError, RecursionError):
            return  # It is not from one of us, or from another version.
        if name == self._name:
            return
        if stored:
            ears.stored()
        for tell in tells:
            ears.told(tell)


def pieces(tell: Tell) -> list[bytes]:
    """It as JSON, for some of its recipients at a time where it is too long for a payload;
    nothing where even for one it is."""
    whole = encode(tell)
    if len(whole) < ROOM:
        return [whole]
    if len(tell.to) < 2:
        return []
    middle = len(tell.to) // 2
    halves = tell.to[:middle], tell.to[middle:]
    return [piece for half in halves for piece in pieces(evolve(tell, to=half))]
