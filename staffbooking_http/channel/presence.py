"""Presence: the connection counts of this process, and the broadcasts that follow from them."""

import secrets
from collections import Counter

import anyio

from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import PresenceQueue
from staffbooking_core.usecases.messaging import channel


class Presence:
    """Counts the connections of users in the store, which bounds them over all processes.

    1. Each connection is added to the store's count, and removed when it ends.
    2. If the store fails to answer a change, the user's count is doubtful.
    3. The next heartbeat then recounts all users of the process, and stores as departed whom it
       does not count any more. If connections change during the recount, the heartbeat after it
       recounts again.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._node_id = secrets.token_hex(8)
        """The id of this process among those that hold connections."""
        self._connection_counts: Counter[int] = Counter()
        self._departures = PresenceQueue(ports.policy)
        self._is_miscounted = False
        self._doubtful_user_ids: set[int] = set()
        """Users who may be miscounted."""
        self._pending_changes = 0
        """The number of connection changes in progress."""
        self._change_count = 0
        self._heartbeat_lock = anyio.Lock()
        self._has_left = False

    async def add_connection(self, user_id: int) -> None:
        """Count a connection; call `remove_connection` once for it. Raises RateLimitExceeded if
        the user has too many; after any error it is not counted."""
        self._pending_changes += 1
        try:
            await channel.connect(self._ports, user_id, self._node_id)
        except RateLimitExceeded:
            raise
        except BaseException:
            self._mark_doubtful(user_id)
            raise
        else:
            self._connection_counts[user_id] += 1
            self._departures.mark_returned(user_id)
        finally:
            self._note_change()

    async def remove_connection(self, user_id: int) -> None:
        """Remove the count of a connection that has ended or was never opened."""
        self._connection_counts[user_id] -= 1
        if not self._connection_counts[user_id]:
            del self._connection_counts[user_id]
        if self._has_left:
            return  # `leave` has removed all counts of the process.
        self._pending_changes += 1
        try:
            with anyio.CancelScope(shield=True):
                await channel.disconnect(self._ports, user_id, self._node_id)
        except StaffbookingError:
            self._mark_doubtful(user_id)
        except BaseException:
            self._mark_doubtful(user_id)
            raise
        finally:
            self._note_change()
            if user_id not in self._connection_counts:
                self._departures.mark_left(user_id, self._ports.clock.wall())

    async def send_heartbeat(self) -> None:
        """Renew the process's presence, recount if needed, queue users of dead processes."""
        async with self._heartbeat_lock:
            if self._has_left:
                return
            is_recount, doubtful_user_ids = self._is_miscounted, [*self._doubtful_user_ids]
            change_count = self._change_count
            heartbeat = await channel.heartbeat(
                self._ports, self._node_id, self._connection_counts, is_recount=is_recount
            )
            now = self._ports.clock.wall()
            if is_recount or heartbeat.was_expired:
                has_changed = self._pending_changes > 0 or change_count != self._change_count
                self._is_miscounted = has_changed
                self._departures.mark_uncertain([*self._connection_counts, *doubtful_user_ids], now)
            if not self._is_miscounted:
                self._doubtful_user_ids.clear()
            self._departures.mark_uncertain(heartbeat.disconnected_user_ids, now)

    async def broadcast_departures(self) -> None:
        """Broadcast the presence of users that may have changed."""
        now = self._ports.clock.wall()
        for user_id in self._departures.due_users(now):
            await channel.broadcast_presence(self._ports, user_id)
            self._departures.mark_broadcast(user_id, now)

    async def leave(self) -> None:
        """Remove all counts of the process, so that its users can reconnect elsewhere at once.
        Connections removed after this starts change no count."""
        self._has_left, users = True, [*self._connection_counts]
        async with self._heartbeat_lock:
            await channel.stop_node(self._ports, self._node_id, users)

    def _mark_doubtful(self, user_id: int) -> None:
        self._is_miscounted = True
        self._doubtful_user_ids.add(user_id)

    def _note_change(self) -> None:
        self._pending_changes -= 1
        self._change_count += 1
