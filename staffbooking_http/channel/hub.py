"""The connections of one process, over all transports: opened, counted, closed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import StaffbookingError, StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import (
    CloseCode,
    Frame,
    Hub,
    error_frame,
    ready_frame,
)
from staffbooking_core.usecases.messaging import channel
from staffbooking_core.usecases.messaging.messages import open_missing_conversations
from staffbooking_http.api.metrics import ChannelMetrics
from staffbooking_http.channel.catch_up import TICK_INTERVAL, CatchUp
from staffbooking_http.channel.connection import ChannelConnection, log_failure
from staffbooking_http.channel.delivery import ChannelDelivery
from staffbooking_http.channel.frames import ClientRequest, EncodedFrame
from staffbooking_http.channel.outbound import Outbound
from staffbooking_http.channel.presence import Presence
from staffbooking_http.channel.request_handler import RequestHandler

_LEAVE_TIMEOUT_SECONDS = 2.0
"""Maximum seconds for removing the process's presence."""


class ChannelHub:
    """Opens and closes connections, and receives their frames. Open while `running`.

    1. Each connection is first reserved, which counts it against the user's limit.
    2. It is opened, its frames are received one at a time, and it is closed.
    3. It is released.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._connections: Hub[ChannelConnection] = Hub(ports.policy)
        self.metrics = ChannelMetrics()
        self._presence = Presence(ports)
        self._delivery = ChannelDelivery(ports, self._connections)
        self._catch_up = CatchUp(ports)
        self._request_handler = RequestHandler(ports, self._catch_up)
        self.is_open = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Deliver messages and broadcasts, and watch the connections, until the context ends.
        Then close all connections, so that clients reconnect to another process."""
        async with anyio.create_task_group() as tasks, self._ports.pubsub.subscribe(self._delivery):
            self.is_open = True
            self._catch_up.open(tasks)
            policy, start = self._ports.policy, await channel.last_message_id(self._ports)
            # If it fails, for example because the clock is wrong, the next one makes up for it.
            await _run_logging_errors(self._presence.send_heartbeat)
            tasks.start_soon(self._delivery.run, start)
            for interval, work in (
                (policy.presence_heartbeat_interval, self._presence.send_heartbeat),
                (policy.sessions_judged_every, self._close_ended_sessions),
                (TICK_INTERVAL, self._presence.broadcast_departures),
                (TICK_INTERVAL, self._delivery.expire_typing),
                (TICK_INTERVAL, self._catch_up.tick),
            ):
                tasks.start_soon(_run_periodically, interval, work)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self.retire()

    async def retire(self) -> None:
        """Refuse new connections and close the open ones, before a restart."""
        if not self.is_open:
            return
        self.is_open = False
        self._catch_up.close()
        for connection in list(self._connections):
            connection.outbound.close(CloseCode.RESTART, "restarting")
        with anyio.move_on_after(_LEAVE_TIMEOUT_SECONDS):
            await _run_logging_errors(self._presence.leave)

    async def reserve(self, user: User) -> None:
        """Count a connection that is about to be opened; call `release` exactly once for it.
        Raises RateLimitExceeded if the user has too many, and StoreUnavailable."""
        if not self.is_open:
            raise StoreUnavailable("the channel is closed")
        await self._presence.add_connection(user.id)

    async def release(self, user_id: int) -> None:
        """Stop counting a reserved connection, whether or not it was opened."""
        with DatabaseTime(self._ports.policy.request_database_time.total_seconds()):
            await self._presence.remove_connection(user_id)

    async def open(
        self, session: Session, user: User, outbound: Outbound, after: int | None = None
    ) -> ChannelConnection:
        """Open a reserved connection: send it `ready`, then the stored messages after the id
        `after` if given, then new messages and broadcasts."""
        connection = ChannelConnection(
            user_id=user.id,
            name=user.name,
            session=session,
            outbound=outbound,
            metrics=self.metrics,
        )
        self._connections.add(connection)
        self.metrics.open_connections += 1
        if not self.is_open:  # It was closed after the reservation.
            outbound.close(CloseCode.RESTART, "restarting")
        try:
            with DatabaseTime(self._ports.policy.request_database_time.total_seconds()):
                await open_missing_conversations(self._ports, user.id)
                last_id = await channel.last_message_id(self._ports, user.id)
                connection.mark_ready(last_id)
                connection.send(EncodedFrame(ready_frame(user.id, last_id)))
                await channel.broadcast_presence(self._ports, user.id)
        except BaseException:
            self.close(connection)
            raise
        if after is None:
            self._catch_up.await_resume(connection)
        else:
            connection.resume_after(after)
            self._catch_up.start(connection)
        return connection

    def close(self, connection: ChannelConnection) -> None:
        """Remove an opened connection."""
        self._connections.remove(connection)
        self.metrics.open_connections -= 1

    async def receive(
        self,
        connection: ChannelConnection,
        request: ClientRequest | StaffbookingError,
        ref: Any = None,
    ) -> Frame | None:
        """Handle a client's request, or the error in its frame. Returns the ack or error that
        was sent, if any."""
        policy = self._ports.policy
        refusal = connection.count_frame(
            ref, self._ports.clock.wall(), policy.limits.channel, policy.channel_overrun
        )
        if isinstance(refusal, CloseCode):
            connection.outbound.close(refusal, "too many events")
            return None
        answer = refusal or await self._refuse_over_user_limit(connection, ref)
        if answer is None:
            if isinstance(request, StaffbookingError):
                answer = error_frame(request, ref)
            else:
                answer = await self._request_handler.handle(connection, request, ref)
        if answer is not None:
            connection.send(EncodedFrame(answer))
        return answer

    async def _refuse_over_user_limit(
        self, connection: ChannelConnection, ref: Any
    ) -> Frame | None:
        """Count an event, valid or not, against its user, over all connections and processes.
        Returns the error of one beyond the limit, or of one that could not be counted in time."""
        rule, now = self._ports.policy.limits.channel_user, self._ports.clock.wall()
        window_key = f"{rule.name}:user:{connection.user_id}"
        try:
            with DatabaseTime(self._ports.policy.request_database_time.total_seconds()):
                verdict = await self._ports.admission.count_hit(window_key, rule, now)
        except StoreUnavailable as error:
            return error_frame(error, ref)
        return None if verdict.allowed else error_frame(RateLimitExceeded(verdict), ref)

    async def _close_ended_sessions(self) -> None:
        digests = {connection.session.digest for connection in self._connections}
        if not digests:
            return
        ended = await channel.ended_sessions(self._ports, [*digests])
        for connection in [each for each in self._connections if each.session.digest in ended]:
            connection.outbound.close(CloseCode.FORBIDDEN, "the session has ended")


async def _run_periodically(interval: timedelta, work: Callable[[], Awaitable[None]]) -> None:
    """Repeat `work`, waiting for `interval` before each run; errors are logged."""
    while True:
        await anyio.sleep(interval.total_seconds())
        await _run_logging_errors(work)


async def _run_logging_errors(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception as error:
        log_failure("channel maintenance failed", error)
