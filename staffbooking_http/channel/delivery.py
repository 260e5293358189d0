"""Delivers stored messages and broadcasts to the connections of this process.

Messages are always read from the store: the process reads those of all conversations in the order
of ids, from its cursor on, and sends each to the connections of its recipients. The pub/sub only
wakes it; it also polls.
"""

from datetime import timedelta

import anyio
import anyio.lowlevel

from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import Broadcast, Frame, Hub, new_message_frame
from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel.connection import ChannelConnection, log_failure
from staffbooking_http.channel.frames import EncodedFrame

TAIL_POLL_INTERVAL = timedelta(seconds=1)
"""The interval between polls for messages that the pub/sub did not announce."""

MESSAGES_PER_WRITE = 16
"""Messages of one read that the event loop may write to a socket together. One write for each
costs the system's call each time; many at once delay the first and all other work."""


class ChannelDelivery:
    """Implements `Subscriber`: sends messages and broadcasts to the connections they are for."""

    def __init__(self, ports: Ports, connections: Hub[ChannelConnection]) -> None:
        self._ports = ports
        self._connections = connections
        self._new_messages = anyio.Event()

    def on_messages_stored(self) -> None:
        self._new_messages.set()

    async def run(self, cursor: int) -> None:
        """Send every message after `cursor`, in the order of ids, until cancelled."""
        while True:
            self._new_messages = anyio.Event()
            try:
                while found := await channel.messages_after(self._ports, cursor):
                    for number, message in enumerate(found, 1):
                        self._send_message(message)
                        cursor = message.id
                        if number % MESSAGES_PER_WRITE == 0:
                            await anyio.lowlevel.checkpoint()  # Lets the sockets be written to.
            except Exception as error:
                log_failure("messages can't be read", error)
                await anyio.sleep(TAIL_POLL_INTERVAL.total_seconds())
            with anyio.move_on_after(TAIL_POLL_INTERVAL.total_seconds()):
                await self._new_messages.wait()

    def _send_message(self, message: Message) -> None:
        frame = EncodedFrame(new_message_frame(message))
        for connection in self._connections.connections_of(message.recipients):
            if connection.should_deliver(message.id):
                connection.send(frame)

    def on_broadcast(self, broadcast: Broadcast) -> None:
        self._connections.track_typing(broadcast, self._ports.clock.wall())
        self._send_broadcast(broadcast)

    async def expire_typing(self) -> None:
        """Broadcast that users have stopped typing if their last typing event has expired."""
        for broadcast in self._connections.expire_typing(self._ports.clock.wall()):
            self._send_broadcast(broadcast)

    def _send_broadcast(self, broadcast: Broadcast) -> None:
        frame = EncodedFrame(Frame(broadcast.event, broadcast.data))
        for connection in self._connections.connections_of(broadcast.to):
            if connection.is_ready:
                connection.send(frame)
