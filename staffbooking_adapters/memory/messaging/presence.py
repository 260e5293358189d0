"""Channel connections in memory: counts by user and node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.messaging.conversations import acquaintances_of
from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.ports import UserPresence


@frozen
class PresenceReader:
    """Reads connections."""

    tx: MemoryTransaction

    async def presence(self, user_ids: Sequence[int], now: datetime) -> Sequence[UserPresence]:
        state = self.tx.state
        online = online_users(state, user_ids, now)
        return [
            UserPresence(user_id, user_id in online, _last_seen(state, user_id, now))
            for user_id in user_ids
        ]

    async def online_conversation_partners(self, user_id: int, now: datetime) -> Sequence[int]:
        others = acquaintances_of(self.tx.state, user_id) - {user_id}
        return sorted(online_users(self.tx.state, others, now))


@frozen
class PresenceWriter(PresenceReader):
    """Reads and writes connections."""

    async def renew_node_lease(self, node: str, expires_at: datetime) -> bool:
        nodes = self.tx.state.node_expiries
        is_known = node in nodes
        nodes[node] = expires_at
        return is_known

    async def add_connection(
        self, user_id: int, node: str, now: datetime, max_connections: int
    ) -> bool:
        state = self.tx.state
        if sum(_connection_counts(state, user_id, now)) >= max_connections:
            return False
        state.connection_counts[user_id, node] = (
            state.connection_counts.get((user_id, node)) or 0
        ) + 1
        return True

    async def remove_connection(self, user_id: int, node: str, now: datetime) -> None:
        connections = self.tx.state.connection_counts
        if not (count := connections.get((user_id, node))):
            return
        if count == 1:
            connections.discard((user_id, node))
        else:
            connections[user_id, node] = count - 1
        _set_last_seen(self.tx.state, user_id, now)

    async def set_connections(
        self, node: str, connections: Mapping[int, int], now: datetime
    ) -> None:
        state = self.tx.state
        for user_id in _drop_connections(state, node):
            if user_id not in connections:
                _set_last_seen(state, user_id, now)
        for user_id, count in connections.items():
            state.connection_counts[user_id, node] = count

    async def delete_expired_nodes(self, now: datetime, limit: int) -> Sequence[int]:
        state, gone = self.tx.state, set[int]()
        dead = sorted((until, node) for node, until in state.node_expiries.items() if until <= now)
        for until, node in dead[:limit]:
            users = _drop_connections(state, node)
            for user_id in users:
                _set_last_seen(state, user_id, until)
            state.node_expiries.discard(node)
            gone.update(users)
        return sorted(gone)

    async def claim_departed_users(self, seen_before: datetime, limit: int) -> Sequence[int]:
        state = self.tx.state
        departed = ((state.last_seen[each], each) for each in state.unclaimed_departures)
        due = sorted(departure for departure in departed if departure[0] <= seen_before)
        claimed = sorted(user_id for _, user_id in due[:limit])
        for user_id in claimed:
            state.unclaimed_departures.discard(user_id)
        return claimed


def online_users(state: MemoryState, user_ids: Iterable[int], now: datetime) -> frozenset[int]:
    """The users among `user_ids` with a connection at a live node."""
    return frozenset(user_id for user_id in user_ids if [*_connection_counts(state, user_id, now)])


def _connection_counts(state: MemoryState, user_id: int, now: datetime) -> Iterator[int]:
    """A user's connection count at each live node."""
    living = (node for node, until in state.node_expiries.items() if now < until)
    found = (state.connection_counts.get((user_id, node)) for node in living)
    return (count for count in found if count is not None)


def _last_seen(state: MemoryState, user_id: int, now: datetime) -> datetime | None:
    """The end of a user's last connection, including those at expired nodes not yet deleted."""
    ended = (
        until
        for node, until in state.node_expiries.items()
        if until <= now and (user_id, node) in state.connection_counts
    )
    seen_at = state.last_seen.get(user_id)
    return max(ended if seen_at is None else (seen_at, *ended), default=None)


def _drop_connections(state: MemoryState, node: str) -> list[int]:
    """Delete the connections of a node; returns their users."""
    users = [user_id for user_id, at in state.connection_counts if at == node]
    for user_id in users:
        state.connection_counts.discard((user_id, node))
    return users


def _set_last_seen(state: MemoryState, user_id: int, at: datetime) -> None:
    """Set when a user was last seen, unless a later time is stored or the user is erased."""
    user, seen_at = state.users.get(user_id), state.last_seen.get(user_id)
    is_erased = user is not None and user.erased_at is not None
    if not is_erased and (seen_at is None or seen_at < at):
        state.last_seen[user_id] = at
        state.unclaimed_departures[user_id] = None
