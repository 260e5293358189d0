"""Catching up: connections get the messages they missed, before they get new ones."""

import math
from datetime import timedelta

from anyio.abc import TaskGroup

from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import (
    CloseCode,
    ConnectionPhase,
    new_message_frame,
)
from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel.connection import ChannelConnection, log_failure
from staffbooking_http.channel.frames import EncodedFrame

TICK_INTERVAL = timedelta(milliseconds=250)
"""The interval between checks for expired resume, typing and presence periods."""


class CatchUp:
    """Sends connections the stored messages they missed, one task for each, and makes them live.

    A connection that has sent nothing within the policy's `resume_grace` does not resume: it
    gets the messages since it was opened.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._silent_connections: list[tuple[ChannelConnection, int]] = []
        """Connections that have sent nothing yet, with the ticks left in their grace period."""
        self._tasks: TaskGroup | None = None

    def open(self, tasks: TaskGroup) -> None:
        """Use this task group for catch-ups until `close`."""
        self._tasks = tasks

    def close(self) -> None:
        """Start no more catch-ups."""
        self._tasks = None

    def await_resume(self, connection: ChannelConnection) -> None:
        """Start when the connection sends something, or when its grace period has ended."""
        ticks = math.ceil(self._ports.policy.resume_grace / TICK_INTERVAL)
        self._silent_connections.append((connection, ticks))

    def start(self, connection: ChannelConnection) -> None:
        """Make a connection live, after it got what it missed, if anything."""
        if connection.newest_known_id <= connection.cursor:
            connection.mark_caught_up(connection.cursor)
        elif not connection.is_catching_up and self._tasks is not None:
            connection.phase = ConnectionPhase.CATCHING_UP
            connection.is_catching_up = True
            self._tasks.start_soon(self._run, connection)

    async def tick(self) -> None:
        """Start for connections whose grace period has ended; call it every `TICK_INTERVAL`.

        The period is counted in ticks, not by the clock: after the process has stalled, what
        clients sent meanwhile is read first."""
        silent, self._silent_connections = self._silent_connections, []
        for connection, ticks in silent:
            if connection.phase is not ConnectionPhase.QUIET:
                continue
            if ticks > 0 and connection.outbound.is_open:
                self._silent_connections.append((connection, ticks - 1))
            else:
                self.start(connection)

    async def _run(self, connection: ChannelConnection) -> None:
        """Send from the store as fast as the client reads. If the client resumes from another
        message meanwhile, continue from there."""
        try:
            while connection.phase is not ConnectionPhase.LIVE and connection.outbound.is_open:
                await self._send_missed_page(connection)
        except Exception as error:
            log_failure(f"user {connection.user_id} could not catch up on missed messages", error)
            connection.outbound.close(CloseCode.SLOW, "reconnect")
        finally:
            connection.is_catching_up = False

    async def _send_missed_page(self, connection: ChannelConnection) -> None:
        start, up_to = connection.cursor, connection.newest_known_id
        found, has_more = await channel.missed_messages(self._ports, connection.user_id, start)
        for message in found:
            await connection.outbound.wait_until_drained()
            if connection.cursor != start:
                return
            start = connection.cursor = message.id
            connection.send(EncodedFrame(new_message_frame(message)))
        if not has_more and connection.cursor == start:
            connection.mark_caught_up(up_to)
