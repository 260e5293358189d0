"""The seats of a process: whose connections are counted here, and what all are told of it."""

import secrets
from collections import Counter

import anyio

from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import PresenceQueue
from staffbooking_core.usecases.messaging import channel


class Presence:
    """One for each connection, over all processes at most as many as a user may have.

    The store counts them. Where nobody knows whether it has, because it did not answer, the
    next beat counts anew, unless somebody comes or goes meanwhile.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._node_id = secrets.token_hex(8)
        """The name of this process, among those that keep connections."""
        self._connection_counts: Counter[int] = Counter()
        self._departures = PresenceQueue(ports.policy)
        self._is_miscounted = False
        self._doubtful_user_ids: set[int] = set()
        """Users who may be miscounted."""
        self._pending_changes = 0
        """How many are coming or going at the moment."""
        self._change_count = 0
        self._heartbeat_lock = anyio.Lock()
        self._has_left = False

    async def add_connection(self, user_id: int) -> None:
        """Count a connection. Raises LimitExceeded where the user has too many; any other
        error leaves it uncounted. What was taken is given back once."""
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
        """The connection is over, or never came about."""
        self._connection_counts[user_id] -= 1
        if not self._connection_counts[user_id]:
            del self._connection_counts[user_id]
        if self._has_left:
            return  # So have all, with the process.
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
        """Show that the process lives, and see to those whose process doesn't."""
        async with self._heartbeat_lock:
            if self._has_left:
                return
            anew, doubtful = self._is_miscounted, [*self._doubtful_user_ids]
            changes = self._change_count
            beat = await channel.heartbeat(
                self._ports, self._node_id, self._connection_counts, is_recount=anew
            )
            now = self._ports.clock.wall()
            if anew or beat.was_expired:
                self._is_miscounted = self._pending_changes > 0 or changes != self._change_count
                self._departures.mark_uncertain([*self._connection_counts, *doubtful], now)
            if not self._is_miscounted:
                self._doubtful_user_ids.clear()
            self._departures.mark_uncertain(beat.disconnected_user_ids, now)

    async def broadcast_departures(self) -> None:
        """Tell of those who may have left, or come."""
        now = self._ports.clock.wall()
        for user_id in self._departures.due_users(now):
            await channel.broadcast_presence(self._ports, user_id)
            self._departures.mark_broadcast(user_id, now)

    async def leave(self) -> None:
        """The end of the process: its users may sit down elsewhere at once. What is given back
        from the begin of this on is not counted any more."""
        self._has_left, users = True, [*self._connection_counts]
        async with self._heartbeat_lock:
            await channel.stop_node(self._ports, self._node_id, users)

    def _mark_doubtful(self, user_id: int) -> None:
        self._is_miscounted = True
        self._doubtful_user_ids.add(user_id)

    def _note_change(self) -> None:
        self._pending_changes -= 1
        self._change_count += 1
